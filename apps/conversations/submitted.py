"""Turns that were work on a task somebody submitted: what is said of them is said of that task's attempt."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Q

from apps.conversations.models import TurnSignal
from apps.conversations.reading import ReadTurn
from apps.feedback.judgement import JudgementFields, StepRating
from apps.feedback.submit import note_signal
from apps.inference.models import Exchange
from apps.tasks.models import Attempt, Task


def find_submitted(read: ReadTurn) -> Task | None:
    """The task that all of a turn's calls say they were made for; None where they do not say one and the same."""
    first, *others = {call.exchange.task_id for call in read.calls} or {None}
    if first is None or others:
        return None
    return Task.objects.filter(project=read.turn.project_id, pk=first).first()


def find_attempt(task: Task, exchanges: Sequence[Exchange]) -> Attempt | None:
    """The try that calls belong to: the one made of them, else what an outside agent handed in after them.

    None: nothing was handed in yet.
    """
    calls = [exchange.pk for exchange in exchanges]
    made = task.attempts.filter(Q(exchange__in=calls) | Q(further__exchange__in=calls)).order_by("index").last()
    if made is not None or not exchanges:
        return made
    outside = task.attempts.filter(exchange=None).order_by("created_at", "index")
    return outside.filter(created_at__gte=max(one.created_at for one in exchanges)).first() or outside.last()


def aim_at_attempt(judgement: JudgementFields, attempt: Attempt | None) -> JudgementFields:
    """A word on an answer, said of the attempt that gave it, where the task has others beside it."""
    score = judgement.get("score")
    if attempt is None or score is None or judgement.get("steps") or attempt.task.attempts.count() == 1:
        return judgement
    return {**judgement, "score": None, "steps": [StepRating(attempt_index=attempt.index, score=score)]}


def tell_submitted(
    task: Task, read: ReadTurn, signals: Sequence[TurnSignal], whole: Sequence[JudgementFields], *, by: str
) -> None:
    """Write what a turn's signals say as feedback on the task that it was work on.

    Args:
        whole: for each signal what it says of the whole turn; a signal on a step is found by the step that its call
            said it was, and is left where it said none.
    """
    attempt = find_attempt(task, [call.exchange for call in read.calls])
    steps = attempt.steps.count() if attempt is not None else 0
    for signal, told in zip(signals, whole, strict=True):
        if signal.score is None or signal.trust is None or signal.feedback_id is not None:
            continue
        said: Any = aim_at_attempt(told, attempt)
        if signal.step is not None:
            index = read.calls[signal.step].exchange.step_index
            if attempt is None or index is None or index >= steps:
                continue
            word = StepRating(attempt_index=attempt.index, step_index=index, score=signal.score, comment=signal.reason)
            said = {"steps": [word]}
        given = note_signal(task=task, kind=signal.kind, trust=signal.trust, by=by, **said)
        TurnSignal.objects.filter(pk=signal.pk).update(feedback=given)
