"""Reading an attempt back from its rows, as a world verifies it and as scorers and judges read it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.db.models import F, OuterRef, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from apps.inference.models import Exchange
from apps.tasks.models import WITH_STEPS, Attempt, FurtherExchange, Step, Task
from apps.worlds.verifying import read_step
from tentalis.core.scoring.protocol import AttemptContext, Source
from tentalis.core.worlds import AttemptDraft, DraftStep

CUT_OFF = "length"
_READ = ("task_id", "index", "state", "text", "answer", "error", "score_details", "outcome", "verification")


def load_attempts(tasks: Iterable[Task]) -> dict[int, list[Attempt]]:
    """Task id -> its attempts in order, with their steps, without the exact tokens: two queries."""
    found: dict[int, list[Attempt]] = {task.pk: [] for task in tasks}
    attempts = Attempt.objects.filter(task__in=list(found)).prefetch_related(WITH_STEPS)
    told = with_finish_reasons(attempts).order_by("task_id", "index")
    for attempt in told.only(*_READ):
        found[attempt.task_id].append(attempt)
    return found


def with_finish_reasons(attempts: QuerySet[Any]) -> QuerySet[Any]:
    """Attempts that know their `last_finish_reason`, for `rebuild_draft` of many."""
    further = FurtherExchange.objects.filter(attempt=OuterRef("pk")).order_by("-place")
    last = Subquery(further.values("exchange__finish_reason")[:1])
    told: QuerySet[Any] = attempts.annotate(last_finish_reason=Coalesce(last, F("exchange__finish_reason"), Value("")))
    return told


def rebuild_draft(attempt: Attempt, steps: Sequence[Step]) -> AttemptDraft:
    """What the agent handed back, without its tokens. What neither its model server nor a limit of its world cut off
    has ended by itself."""
    limit = (attempt.verification or {}).get("details", {}).get("ended_by", "")
    return AttemptDraft(
        text=attempt.text,
        answer=attempt.answer,
        steps=[
            DraftStep(kind=step.kind, text=step.text, tool_name=step.tool_name, tool_result=step.tool_result)
            for step in steps
        ],
        finish_reason=attempt.last_finish_reason,
        ended=attempt.last_finish_reason != CUT_OFF and not limit,
        error=attempt.error,
    )


def with_tokens(draft: AttemptDraft, calls: Sequence[Exchange]) -> AttemptDraft:
    """The draft with all that its model wrote in its calls, for what an answer looks like."""
    return replace(
        draft,
        token_ids=[token for call in calls for token in call.unpack_token_ids()],
        logprobs=[value for call in calls for value in call.unpack_logprobs()],
        sampled=[chosen for call in calls for chosen in call.unpack_sampled()],
    )


def read_context(
    task: Task, attempt: Attempt, *, facts: Mapping[str, Any] | None = None, sources: tuple[Source, ...] = ()
) -> AttemptContext:
    """The attempt as scorers and judges read it."""
    return AttemptContext(
        environment=task.environment,
        prompt=task.prompt,
        text=attempt.text,
        steps=tuple(map(read_step, attempt.ordered_steps)),
        answer=attempt.answer or None,
        reference=None if task.reference is None else str(task.reference),
        rubric=task.project.rubric,
        constitution=task.project.constitution,
        facts=facts or {},
        sources=sources,
    )
