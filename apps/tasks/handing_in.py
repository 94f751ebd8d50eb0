"""What outside agents hand in: their tries at a task, and the calls to the gateway that each of them consists of."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.adapters.models import Adapter
from apps.audit.services import move
from apps.base.errors import BadInputError, ConflictError
from apps.inference.calls import find_exact, find_spans, find_unfit
from apps.inference.models import MEASURED_TURN, Exchange
from apps.inference.selectors import read_conversations
from apps.outbox.services import final_write
from apps.tasks.errors import CallsNotStoredError
from apps.tasks.models import Attempt, FurtherExchange, Step, Task
from apps.workers.models import Worker
from apps.workers.selectors import find_base_model
from tentalis.core.conversation_delta import Conversation
from tentalis.core.steps import Span

STORED_WITHIN_S = 1.0
"""The gateway stores a call a moment after it answered; so long its calls are waited for."""


def hand_in_attempt(
    *,
    task: Task,
    steps: Sequence[Mapping[str, Any]],
    answer: str,
    by: User,
    index: int | None = None,
    is_last: bool | None = None,
) -> Attempt:
    """Keep an outside agent's own try at a task that waits for one.

    Args:
        steps: none where the calls it made through the gateway are to be its steps.
        index: which try of the task's group it is; None: the only one.
        is_last: no other is to come; None: that is so where it is the only one, or the group is whole with it.
    Raises:
        ConflictError: the task takes no result any more, or has this try already.
        BadInputError: a step is not {"text": …, "kind"?: …, "tool_name"?: …, "tool_result"?: …}, or no such try belongs
            to the group.
    """
    require_right(by, task.project, Right.ATTEMPTS_WRITE)
    if index is not None and task.worker.kind != Worker.Kind.OUTSIDE:
        raise BadInputError.at("index", f"wanted none: the platform does {task.worker.name}'s tasks, found {index}")
    if index is not None and not 0 <= index < task.group_size:
        raise BadInputError.at("index", f"wanted 0 to {task.group_size - 1}, found {index}")
    rows = [_read_step(place, step) for place, step in enumerate(steps)]
    with transaction.atomic():
        locked = Task.objects.select_for_update().get(pk=task.pk)
        kept = set(locked.attempts.values_list("index", flat=True))
        if locked.state != Task.State.QUEUED and not (kept and locked.state == Task.State.WORKING):
            raise ConflictError(f"task {task.pk} takes no result: wanted state queued, found {locked.state}")
        if index in kept or (kept and index is None):
            found = "one already" if index is None else f"its try {index} already"
            raise ConflictError(f"task {task.pk} has {found}: name another of its {task.group_size} as `index`")
        attempt = Attempt.objects.create(
            task=locked,
            index=index or 0,
            worker=locked.worker,
            text="\n".join(row.text for row in rows) or answer,
            answer=answer,
        )
        for row in rows:
            row.attempt = attempt
        Step.objects.bulk_create(rows)
        if is_last is None:
            is_last = index is None or len(kept) + 1 == task.group_size
        if is_last:
            made = locked.attempts.order_by("index").values_list("pk", flat=True)
            move(locked, Task.State.SCORING, by=by.handle, payload={"attempts": list(made)})
        elif locked.state == Task.State.QUEUED:
            move(locked, Task.State.WORKING, by=by.handle)
    task.state = locked.state
    return attempt


def find_stored_at(attempt: Attempt) -> datetime | None:
    """When the calls of a try that was just handed in are surely stored; None where its worker makes none."""
    if attempt.worker.kind != Worker.Kind.OUTSIDE or not find_base_model(attempt.worker):
        return None
    return attempt.created_at + timedelta(seconds=STORED_WITHIN_S)


def _read_step(index: int, step: Mapping[str, Any]) -> Step:
    known = {"text", "kind", "tool_name", "tool_result"}
    if unknown := sorted(set(step) - known):
        raise BadInputError(f"steps[{index}]: wanted {', '.join(sorted(known))}, found {', '.join(unknown)}")
    if not isinstance(step.get("text"), str):
        raise BadInputError(f"steps[{index}].text: wanted text, found {step.get('text')!r}")
    values = {name: str(step[name]) for name in known & set(step)}
    return Step(index=index, **{"kind": "step"} | values)


def bind_calls(task_ids: Sequence[int]) -> None:
    """Find the calls of tries that were handed in, token for token: without them nothing of a try can be trained on.

    A call belongs to a try by its headers `X-Tentalis-Task` and `X-Tentalis-Attempt`; the latter may be left out where
    there is only one.

    Raises:
        CallsNotStoredError: the last try came a moment ago; the gateway may not have stored all of its calls.
    """
    found = read_calls(task_ids)
    if not found:
        return
    with final_write(task_ids) as kept:
        for bound in found.values():
            if bound.attempt.task_id in kept:
                bind(bound)


class BoundCalls(NamedTuple):
    """A try that was handed in, and the calls it consists of, one at least."""

    attempt: Attempt
    calls: Sequence[Exchange]
    conversations: Mapping[int, Conversation]


def read_calls(task_ids: Sequence[int]) -> dict[int, BoundCalls]:
    """Attempt's id -> its calls, of those tries at the tasks that wait to be scored and have any. See `bind_calls`."""
    handed_in = Attempt.objects.filter(
        task__in=task_ids, task__state=Task.State.SCORING, exchange=None, worker__kind=Worker.Kind.OUTSIDE
    )
    rows = handed_in.select_related("task", "worker__provider").prefetch_related("steps").annotate(now=Now())
    attempts = [one for one in rows if find_base_model(one.worker)]
    if not attempts:
        return {}
    if min((one.now - one.created_at).total_seconds() for one in attempts) < STORED_WITHIN_S:
        raise CallsNotStoredError(wait_s=STORED_WITHIN_S)
    tries = Counter(one.task_id for one in attempts)
    calls = {one.pk: _find_calls(one, is_only=tries[one.task_id] == 1) for one in attempts}
    conversations = read_conversations(call for found in calls.values() for call in found)
    return {one.pk: BoundCalls(one, calls[one.pk], conversations) for one in attempts if calls[one.pk]}


def _find_calls(attempt: Attempt, *, is_only: bool) -> list[Exchange]:
    named = Q(attempt_index=attempt.index) | (Q(attempt_index=None) if is_only else Q())
    turn = "main" if attempt.task.evaluation_id is None else MEASURED_TURN
    found = Exchange.objects.filter(
        named, project=attempt.task.project_id, task_id=attempt.task_id, turn=turn, choice=0, error="",
        worker_name=attempt.worker.name, attempt=None, further_of=None,
    )  # fmt: skip
    return list(found.order_by("pk"))


def bind(bound: BoundCalls) -> None:
    """Keep which calls a try consists of, in the running transaction."""
    attempt, calls, conversations = bound
    prompts = [conversations[call.pk].prompt_token_ids for call in calls]
    pairs = zip(calls, pairwise(prompts), strict=False)
    repeated = {call.pk for call, (first, again) in pairs if first and first == again}
    calls = [call for call in calls if call.pk not in repeated]  # asked again: its first answer went nowhere
    exact = find_exact(calls)
    attempt.exchange = exact[0]
    attempt.adapter = Adapter.objects.filter(project=attempt.task.project_id, name=exact[-1].adapter_name).first()
    attempt.unfit = find_unfit(calls, exact)
    attempt.elapsed_s = attempt.elapsed_s or sum(call.latency_ms or 0.0 for call in calls) / 1000
    attempt.save(update_fields=["exchange", "adapter", "unfit", "elapsed_s"])
    FurtherExchange.objects.bulk_create(
        FurtherExchange(attempt=attempt, exchange=call, place=place) for place, call in enumerate(exact[1:], start=1)
    )
    spans = find_spans(exact, conversations) if not attempt.unfit else []
    if steps := list(attempt.steps.all()):
        for step in steps:
            span = _find_span(step.index, len(steps), exact, spans)
            step.token_start, step.token_end = span or (None, None)
            step.token_overlap = 0 if span else None
        Step.objects.bulk_update(steps, ["token_start", "token_end", "token_overlap"])
        return
    Step.objects.bulk_create(
        _make_step(attempt, place, call, spans[place] if spans else None) for place, call in enumerate(exact)
    )


def _find_span(index: int, size: int, calls: Sequence[Exchange], spans: Sequence[Span]) -> Span | None:
    """Where a step's tokens are: those of the calls that named it, or of the call in its place where none named any and
    there are as many steps as calls; None where that is not known."""
    named = [place for place, call in enumerate(calls) if call.step_index is not None]
    its = [place for place in named if calls[place].step_index == index]
    if not named and size == len(calls):
        its = [index]
    return (spans[its[0]][0], spans[its[-1]][1]) if spans and its else None


def _make_step(attempt: Attempt, index: int, call: Exchange, span: Span | None) -> Step:
    """A call as a step, where the agent told none."""
    tools = [tool.get("function", tool) for tool in call.tool_calls if isinstance(tool, Mapping)]
    words = [f"{tool.get('name', '?')} {tool.get('arguments', tool.get('input', ''))}".strip() for tool in tools]
    start, end = span or (None, None)
    return Step(
        attempt=attempt,
        index=index,
        kind="call" if tools else "answer",
        text="\n".join(filter(None, [call.text, *words])),
        tool_name=str(tools[0].get("name", "?"))[:100] if tools else "",
        token_start=start,
        token_end=end,
        token_overlap=0 if span else None,
    )
