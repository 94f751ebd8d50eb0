"""A shadow from start to end: begun by a person, watched by the canary's test on pairs, ended when enough was seen.

It never goes into service by itself: what was found of it is told, and a person decides.
"""

import logging

from django.db import transaction
from django.db.models import Avg, Case, Count, F, Max, Value, When
from django.db.models.functions import Coalesce

from apps.accounts.models import User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.adapters import shadows
from apps.adapters.canary import end_trial_of, look_again, require_triable
from apps.adapters.models import Adapter, Deployment, Shadow
from apps.adapters.serving import serve
from apps.audit.services import move
from apps.base.errors import IllegalMoveError
from apps.tasks.models import Attempt, ShadowAttempt, Task
from tentalis.core.learning.canary_verdict import CanaryOutcome, CanaryReading, judge_shadow
from tentalis.core.learning.gate import GatePolicy

logger = logging.getLogger(__name__)

BY = "shadow"
MOST_TASKS = 5_000


def start_shadow(*, adapter: Adapter, percent: int, by: User) -> Shadow:
    """Have an adapter answer a share of its worker's new tasks once more, unseen.

    Args:
        percent: of the tasks, from 1 to 50.
    Raises:
        BadInputError, IllegalMoveError, ConflictError: it cannot be, or another one is in the worker's shadow.
        WrongAdapterServedError: the server does not answer with it.
    """
    require_right(by, adapter.project, Right.ADAPTERS_WRITE)
    require_triable(adapter, percent=percent)
    serve(adapter)
    last = Task.objects.filter(project_id=adapter.project_id).aggregate(last=Max("pk"))["last"] or 0
    return shadows.open_shadow(adapter, percent=percent, after_task=last, by=by.handle)


def read_shadow(shadow: Shadow) -> CanaryReading:
    """How it did against what serves, on the same tasks: those that both have a score for, the latest `MOST_TASKS`."""
    mine = {
        one.task_id: one.worth
        for one in ShadowAttempt.objects.filter(shadow=shadow).order_by("-pk").defer("answer", "details")[:MOST_TASKS]
    }
    worth = Case(When(state=Attempt.State.FAILED, then=Value(0.0)), default=Coalesce("outcome", "score"))
    by_task = Attempt.objects.filter(task__in=list(mine)).order_by().values_list("task_id")
    served = by_task.annotate(worth=Avg(worth), known=Count(worth), all=Count("pk")).filter(known=F("all"))
    pairs = [(value, found) for task, value, *_ in served if (found := mine[task]) is not None and value is not None]
    margin = GatePolicy.from_json(shadow.worker.project.gate_policy).margin
    return judge_shadow([before for before, _ in pairs], [unseen for _, unseen in pairs], margin=margin)


def watch_shadows() -> int:
    """End every shadow of which enough was seen. Returns how many ended."""
    ended = 0
    for shadow in Shadow.objects.filter(state=Shadow.State.RUNNING).select_related("adapter", "worker__project"):
        reading = read_shadow(shadow)
        try:
            ended += _end_when_clear(shadow, reading)
        except IllegalMoveError:
            logger.info("the shadow of %s was ended by somebody else", shadow.worker.name)
    return ended


def _end_when_clear(shadow: Shadow, reading: CanaryReading) -> bool:
    adapter = shadow.adapter
    if reading.outcome is CanaryOutcome.WATCHING:
        Shadow.objects.filter(pk=shadow.pk).exclude(words=reading.words[:300]).update(words=reading.words[:300])
        return False
    is_harm = reading.outcome is CanaryOutcome.HARM
    outcome = Shadow.Outcome.HARM if is_harm else Shadow.Outcome.SAFE
    with transaction.atomic():
        Deployment.hold(adapter)  # before the shadow, as who deploys one does
        shadows.close_shadow(shadow, outcome=outcome, reason=reading.words, by=BY)
        if is_harm and look_again(adapter).state == Adapter.State.VERIFIED:
            end_trial_of(adapter, outcome="harm", reason=reading.words, by=BY)
            move(adapter, Adapter.State.REFUSED, by=BY, payload={"words": reading.words})
    return True
