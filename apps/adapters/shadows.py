"""An adapter in the shadow of what serves: a share of a worker's new tasks, answered once more and shown to nobody."""

from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.adapters.canary import look_again, require_triable
from apps.adapters.models import Adapter, Deployment, Shadow
from apps.adapters.selectors import BASE
from apps.audit.kinds import Kind
from apps.audit.services import move, record
from apps.base.errors import ConflictError
from apps.workers.models import Worker
from tentalis.core.learning.canary_routing import is_canary


def open_shadow(adapter: Adapter, *, percent: int, after_task: int, by: str) -> Shadow:
    """Give an adapter, which the server has loaded, its share of the tasks above `after_task` to do unseen.

    Raises:
        BadInputError, IllegalMoveError: see `require_triable`.
        ConflictError: another one is in the worker's shadow.
    """
    try:
        with transaction.atomic():
            Deployment.lock(adapter.worker, end_user="")  # what serves stays what it is
            require_triable(look_again(adapter), percent=percent)
            shadow = Shadow.objects.create(
                worker=adapter.worker, adapter=adapter, percent=percent, after_task=after_task
            )
            record(Kind.SHADOW_STARTED, subject=adapter, by=by, payload={"adapter": adapter.name, "percent": percent})
    except IntegrityError:
        raise ConflictError(f"{adapter.worker.name} has a shadow already: end that one first") from None
    return shadow


def stop_shadow(*, shadow: Shadow, by: User) -> Shadow:
    """End it by a person's decision.

    Raises:
        IllegalMoveError: it has ended.
    """
    require_right(by, shadow.worker.project, Right.ADAPTERS_WRITE)
    close_shadow(shadow, outcome=Shadow.Outcome.STOPPED, reason=shadow.words, by=by.handle)
    return shadow


def close_shadow(shadow: Shadow, *, outcome: Shadow.Outcome, reason: str, by: str) -> None:
    """End it with what was found."""
    payload = {"adapter": shadow.adapter.name, "outcome": outcome.value, "words": reason[:300]}
    move(
        shadow,
        Shadow.State.ENDED,
        by=by,
        payload=payload,
        outcome=outcome.value,
        words=reason[:300],
        ended_at=Now(),
    )


def end_overtaken(worker: Worker, *, serves: Adapter | None, by: str) -> None:
    """End a worker's shadow before another adapter serves, in the running transaction that has its deployment locked.

    What it was compared with serves no longer. What it had found until then stays, behind the reason.

    Args:
        serves: what is to serve; None for the base model.
    """
    running = Shadow.objects.filter(worker=worker, state=Shadow.State.RUNNING).select_related("adapter")
    for shadow in running.select_for_update(of=("self",)):
        if serves is not None and shadow.adapter_id == serves.pk:
            reason = "it serves now, and is compared with itself no longer"
        else:
            reason = f"{serves.name if serves else BASE} serves now, and it was compared with what served before"
        words = f"{reason}; until then: {shadow.words}" if shadow.words else reason
        close_shadow(shadow, outcome=Shadow.Outcome.STOPPED, reason=words, by=by)


def find_running(worker_id: int) -> Shadow | None:
    """The shadow of a worker's line, with its adapter."""
    running = Shadow.objects.filter(worker=worker_id, state=Shadow.State.RUNNING)
    return running.select_related("adapter").first()


def find_shadow(worker_id: int, *, task_id: int) -> Shadow | None:
    """The shadow that a task falls to; None for most. Asked again it says the same while that one runs.

    Args:
        worker_id: whose line it is: `Worker.line_id` of who does the task.
    """
    running = Shadow.objects.filter(worker=worker_id, state=Shadow.State.RUNNING, after_task__lt=task_id)
    shadow = running.first()
    if shadow is None or not is_canary(f"shadow:{shadow.pk}:{task_id}", percent=shadow.percent):
        return None
    return shadow
