"""An adapter in the shadow of what serves: a share of a worker's new tasks, answered once more and shown to nobody."""

from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.adapters.canary import look_again, require_triable
from apps.adapters.models import Adapter, Shadow
from apps.audit.kinds import Kind
from apps.audit.services import move, record
from apps.base.errors import ConflictError
from tentalis.core.learning.canary import is_canary


def open_shadow(adapter: Adapter, *, percent: int, after_task: int, by: str) -> Shadow:
    """Give an adapter, which the server has loaded, its share of the tasks above `after_task` to do unseen.

    Raises:
        BadInputError, IllegalMoveError: see `require_triable`.
        ConflictError: another one is in the worker's shadow.
    """
    try:
        with transaction.atomic():
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
    close_shadow(shadow, outcome=Shadow.Outcome.STOPPED, words=shadow.words, by=by.handle)
    return shadow


def close_shadow(shadow: Shadow, *, outcome: Shadow.Outcome, words: str, by: str) -> None:
    """End it with what was found."""
    payload = {"adapter": shadow.adapter.name, "outcome": outcome.value, "words": words[:300]}
    move(
        shadow,
        Shadow.State.ENDED,
        by=by,
        payload=payload,
        outcome=outcome.value,
        words=words[:300],
        ended_at=Now(),
    )


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
