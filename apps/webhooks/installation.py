"""The one webhook that belongs to no project: where the installation's settings send its alarms."""

from django.db import transaction

from apps.audit.kinds import Kind
from apps.audit.models import find_horizon
from apps.audit.services import record
from apps.base.sealing import SealedKeyError, seal
from apps.webhooks.models import Webhook
from apps.webhooks.secrets import read_secrets
from apps.webhooks.services import find_origin

NAME = "alarms"
KINDS = [Kind.ALARM_CLOSED.value, Kind.ALARM_OPENED.value]
BY = "settings"


def keep_alarm_webhook(*, url: str, secret: str) -> None:
    """Let the row be what the settings say: told from now on, somewhere else, or no more.

    Whoever sets the environment is the installation's admin, so a private address is allowed; messages carry the words.

    Args:
        url: "": there is none.
        secret: `whsec_…` that messages are signed with; "": they are not signed.
    """
    with transaction.atomic():
        row = Webhook.objects.select_for_update().filter(project=None, name=NAME).first()
        if not url:
            if row is not None:
                record(Kind.WEBHOOK_DELETED, subject=row, by=BY, payload={"origin": find_origin(row.url)})
                row.delete()
            return
        if row is not None and row.url == url and _has_secret(row, secret):
            return
        kind = Kind.WEBHOOK_CREATED if row is None else Kind.WEBHOOK_CHANGED
        if row is None:
            row = Webhook.objects.create(
                name=NAME, url=url, kinds=KINDS, include_details=True, allow_private=True, secret_sealed=b""
            )
            row.cursor = find_horizon()
        row.url, row.secret_sealed = url, seal(secret, bound_to=row.sealed_for())
        row.fence = row.lease_until = None  # what is on its way to an old address is not counted
        row.save()
        record(kind, subject=row, by=BY, payload={"origin": find_origin(url), "kinds": KINDS})


def _has_secret(row: Webhook, secret: str) -> bool:
    try:
        return read_secrets(row) == ([secret] if secret else [])
    except SealedKeyError:
        return False
