"""Tasks of own repositories, taken out of the installation."""

from django.db import transaction

from apps.accounts.models import User
from apps.accounts.services import require_admin
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import NotFoundError
from apps.worlds.repos.testing import open_store
from tentalis.core.swe.repo_tasks import RepoTaskError


def remove_task(*, name: str, by: User) -> None:
    """What was learnt from it stays; it cannot be played or verified again.

    Raises:
        NotAllowedError: `by` is no admin of the installation, all of whose projects have its tasks.
        NotFoundError: there is none of that name.
    """
    require_admin(by)
    store = open_store()
    try:
        store.find(name)
        with transaction.atomic():
            record(Kind.WORLD_TASK_REMOVED, by=by.handle, payload={"world": "repos", "task": name})
            store.remove(name)
    except RepoTaskError as error:
        raise NotFoundError(str(error)) from None
