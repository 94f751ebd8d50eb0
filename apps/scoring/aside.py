"""Scoring an answer that is nobody's attempt: a trainer's sample, or an answer in the shadow. It becomes no row."""

from collections.abc import Sequence

from apps.inference.metering import charge
from apps.inference.models import Exchange
from apps.scoring.services import ScoredAttempt, convene, find_profile, score_attempts
from apps.tasks.drafts import CUT_OFF
from apps.tasks.models import Attempt, Step, Task
from tentalis.core.worlds import AttemptDraft

NO_ROW = 0
"""The id of what is no row: none has it."""


def score_aside(task: Task, draft: AttemptDraft, *, turn: str = "judge", adapter_name: str = "") -> ScoredAttempt:
    """Every scorer of the task's weight profile on a draft, exactly as on an attempt.

    Args:
        turn: what the judges' calls are charged to; adapter_name: whose answer they judge, where that pays.
    Raises:
        ScoringError: the project's stored weights cannot be used.
    """
    steps: Sequence[Step] = [
        Step(
            index=index,
            kind=step.kind,
            text=step.text,
            tool_name=step.tool_name,
            tool_result=step.tool_result,
        )
        for index, step in enumerate(draft.steps)
    ]
    attempt = Attempt(
        pk=NO_ROW,
        task=task,
        worker=task.worker,
        text=draft.text,
        answer=draft.answer,
        error=draft.error,
        state=Attempt.State.FAILED if draft.error else Attempt.State.ANSWERED,
        exchange=Exchange(finish_reason="stop" if draft.ended else CUT_OFF),
    )
    vars(attempt)["_prefetched_objects_cache"] = {
        "steps": steps
    }  # what `steps.all()` gives, without asking the database
    with charge(project=task.project, turn=turn, task_id=task.pk, adapter_name=adapter_name):
        panel = convene(task, find_profile(task.project, task.environment))
        return score_attempts(task, [attempt], panel)[0]
