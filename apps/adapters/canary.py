"""An adapter on trial: a share of a worker's new tasks, beside what serves the rest."""

from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.adapters import permitted
from apps.adapters.models import Adapter, Deployment
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError, ConflictError
from tentalis.core.field_limits import MAX_TRIED_PERCENT


def require_triable(adapter: Adapter, *, percent: int) -> None:
    """Raises BadInputError or IllegalMoveError where an adapter cannot be tried on that share of the tasks."""
    require_share(percent)
    permitted.require(adapter, "tried")


def look_again(adapter: Adapter) -> Adapter:
    """The adapter as it is now, locked in the running transaction: it may have been barred or suspected while it was
    loaded.
    """
    return Adapter.objects.select_for_update(no_key=True).get(pk=adapter.pk)


def require_share(percent: int) -> None:
    """Raises BadInputError where no trial can have this share."""
    if not 1 <= percent <= MAX_TRIED_PERCENT:
        raise BadInputError.at("percent", f"wanted a whole number from 1 to {MAX_TRIED_PERCENT}, found {percent}")


def open_canary(adapter: Adapter, *, percent: int, after_task: int, by: str) -> Deployment:
    """Give an adapter, which the server has loaded, its share of the tasks above `after_task`.

    Raises:
        BadInputError, IllegalMoveError: see `require_triable`.
        ConflictError: another one is being tried.
    """
    with transaction.atomic():
        deployment = Deployment.lock(adapter.worker, end_user=adapter.end_user)
        require_triable(look_again(adapter), percent=percent)
        if deployment.canary_id is not None:
            raise ConflictError(f"{adapter.worker.name} has a canary already: end that one first")
        Deployment.objects.filter(pk=deployment.pk).update(
            canary=adapter,
            canary_percent=percent,
            canary_after_task=after_task,
            canary_started_at=Now(),
            canary_words="",
        )
        payload = {"adapter": adapter.name, "percent": percent}
        record(Kind.CANARY_STARTED, subject=adapter, by=by, payload=payload)
    deployment.refresh_from_db()
    return deployment


def change_share(deployment: Deployment, *, percent: int, after_task: int, by: str) -> Deployment:
    """Give a running trial another share of the tasks above `after_task`; what was seen before counts no more.

    A task's side follows from the share, so sides of older tasks cannot be told any more.

    Raises:
        BadInputError: the share cannot be.
        ConflictError: the trial is over.
    """
    with transaction.atomic():
        locked = Deployment.objects.select_for_update().get(pk=deployment.pk)
        if locked.canary is None or locked.canary_id != deployment.canary_id:
            raise ConflictError(f"{locked.worker.name} has no such canary any more")
        require_share(percent)
        if locked.canary_percent != percent:
            payload = {"adapter": locked.canary.name, "before": locked.canary_percent, "percent": percent}
            Deployment.objects.filter(pk=locked.pk).update(
                canary_percent=percent, canary_after_task=after_task, canary_words=""
            )
            record(Kind.CANARY_CHANGED, subject=locked.canary, by=by, payload=payload)
    deployment.refresh_from_db()
    return deployment


def stop_canary(*, deployment: Deployment, by: User) -> Deployment:
    """End the trial by a person's decision; everything goes to what serves.

    Raises:
        ConflictError: nothing is being tried.
    """
    require_right(by, deployment.worker.project, Right.ADAPTERS_WRITE)
    return end_canary(deployment, outcome="stopped", reason="", by=by.handle)


def end_canary(deployment: Deployment, *, outcome: str, reason: str, by: str) -> Deployment:
    """End the trial of exactly the adapter that `deployment` names."""
    with transaction.atomic():
        locked = Deployment.objects.select_for_update().get(pk=deployment.pk)
        if locked.canary is None or locked.canary_id != deployment.canary_id:
            raise ConflictError(f"{locked.worker.name} has no such canary any more")
        clear_canary(locked, outcome=outcome, reason=reason, by=by)
    return locked


def clear_canary(
    deployment: Deployment, *, outcome: str, reason: str, by: str, replaced_by: Adapter | None = None
) -> None:
    """Take the canary off a locked deployment, in the running transaction; the audit keeps what its trial found.

    Args:
        outcome: stopped, harm, promoted or replaced.
        reason: why; what the last look at it found stands behind them.
        replaced_by: what was put into service meanwhile, where that is the reason; None: the base model.
    """
    if outcome == "replaced":
        reason = f"{replaced_by.name if replaced_by else 'the base model'} was put into service meanwhile"
    if deployment.canary_words and deployment.canary_words not in reason:
        reason = f"{reason}; until then: {deployment.canary_words}" if reason else deployment.canary_words
    adapter, percent = deployment.canary, deployment.canary_percent
    deployment.canary = None
    deployment.canary_percent = 0
    deployment.canary_words = ""
    deployment.save(update_fields=["canary", "canary_percent", "canary_words"])
    payload: dict[str, Any] = {"adapter": adapter.name if adapter else "", "percent": percent}
    payload |= {"outcome": outcome, "words": reason}
    if deployment.canary_started_at is not None:
        payload["started_at"] = deployment.canary_started_at.isoformat()
    record(Kind.CANARY_ENDED, subject=adapter, by=by, payload=payload, project_id=deployment.worker.project_id)


def end_trial_of(adapter: Adapter, *, outcome: str, reason: str, by: str) -> None:
    """End the trial of an adapter that is about to be refused or suspected, in the running transaction; of any other,
    nothing. Its line's deployment is locked before the adapter, as who deploys one does.
    """
    rows = Deployment.objects.select_for_update().filter(worker=adapter.worker_id, end_user=adapter.end_user)
    deployment = rows.first()  # looked at when it is locked: a trial may be beginning
    if deployment is not None and deployment.canary_id == adapter.pk:
        clear_canary(deployment, outcome=outcome, reason=reason[:300], by=by)


def note_reading(deployment: Deployment, reading: str) -> None:
    """Keep what the last look found, for the pages."""
    still = Deployment.objects.filter(pk=deployment.pk, canary=deployment.canary)
    still.exclude(canary_words=reading[:300]).update(canary_words=reading[:300])
