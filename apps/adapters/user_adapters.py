"""Erase a person's own adapters (GDPR): they are deleted, and what they taught serves nobody any more."""

import logging

from django.db import transaction

from apps.accounts.models import Project
from apps.adapters.models import Adapter, Deployment
from apps.audit.services import move
from apps.base.errors import TentalisError
from apps.inference.services import open_client

logger = logging.getLogger(__name__)
WORDS = "refused: the person it was taught by was forgotten"


def end_line(*, project: Project, end_user: str, stand_in: str, by: str) -> list[str]:
    """Take a person's adapters out of service for good, in the running transaction.

    What they learnt stays on disk until it is deleted there; the rows stay as evidence, without the person's name.

    Args:
        stand_in: put where the person's name stood; nobody may go by it.
    Returns:
        Names of the adapters.
    """
    Deployment.objects.filter(worker__project=project, end_user=end_user).delete()
    adapters = list(
        Adapter.objects.select_for_update(of=("self",))
        .select_related("worker__provider")
        .filter(project=project, end_user=end_user)
        .order_by("pk")
    )
    for adapter in adapters:
        if adapter.state == Adapter.State.DEPLOYED:
            move(adapter, Adapter.State.RETIRED, by=by)
        if adapter.state != Adapter.State.REFUSED:
            move(adapter, Adapter.State.REFUSED, by=by, payload={"words": WORDS})
    Adapter.objects.filter(pk__in=[one.pk for one in adapters]).update(end_user=stand_in, is_anchor=False)
    transaction.on_commit(lambda: _unload(adapters), robust=True)
    return [adapter.name for adapter in adapters]


def _unload(adapters: list[Adapter]) -> None:
    """Free their servers at once; where that fails, the worker's next adoption does it."""
    for adapter in adapters:
        try:
            client = open_client(adapter.worker.provider)
            if adapter.name in client.list_models():
                client.unload_adapter(adapter.name)
        except TentalisError as error:
            logger.warning("%s is still loaded: %s", adapter.name, error)
