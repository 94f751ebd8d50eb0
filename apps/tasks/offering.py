"""Tries of an evaluation that an agent elsewhere makes: offered as tasks, made or handed in, and graded like work.

Such a task waits at the door that the agent knows. Each call it makes for it through the gateway is answered by the
model that is measured, with the sampling and seed of the evaluation (`apps.gateway.pins`), so that an agent which
knows nothing of evaluations is measured all the same. A try that does not come is offered again, and in the end counts
as lost, never as wrong.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.db.models import Max
from django.db.models.functions import Now
from django.utils import timezone

from apps.adapters.models import Adapter
from apps.audit.services import move, move_many
from apps.evals.answering import AGAIN
from apps.evals.asking import measure_asked
from apps.evals.errors import TooFewScoredError, TriesAwaitedError
from apps.evals.grading import grade_try, note_lost, verify_items
from apps.evals.models import Evaluation, ItemTry
from apps.evals.records import KeptTry, make_record
from apps.evals.results import IDENTITY, TRIED, WantedTries, commit, read_measured
from apps.evals.streaming import ROUNDS
from apps.inference.models import Exchange
from apps.outbox.services import final_write
from apps.tasks.drafts import CUT_OFF, rebuild_draft, with_finish_reasons, with_tokens
from apps.tasks.handing_in import STORED_WITHIN_S, BoundCalls, bind, read_calls
from apps.tasks.models import Attempt, Task
from apps.tasks.selectors import find_submitter
from apps.tasks.services import keep_tasks
from apps.workers.models import Worker
from apps.worlds.registry import get_world
from tentalis.core.token_use import TokenUse
from tentalis.core.worlds import AttemptDraft, DraftStep, PanelItem, Verification

PATIENCE: Final = timedelta(hours=1)
"""So long a try waits for its agent before it is offered anew."""
MOST_OPEN: Final = 256
"""Tries of an evaluation that wait at a time."""
_AWAITED: Final = (Task.State.QUEUED, Task.State.WORKING)
OPEN: Final = (*_AWAITED, Task.State.SCORING)
STOPPED: Final = (
    Evaluation.State.PAUSED, Evaluation.State.CANCELLED, Evaluation.State.DONE, Evaluation.State.FAILED
)  # fmt: skip
NO_CALL: Final = "no call of this try came through the gateway: each wants the header X-Tentalis-Task"


def offer_tries(awaited: TriesAwaitedError, *, by: str) -> None:
    """Let tasks wait for the tries that are wanted and are not offered yet, in the running transaction.

    Raises:
        TooFewScoredError: too many of the very same tries were lost already.
    """
    for one in awaited.awaited:
        evaluation = _begin(one, by=by)
        waiting = list(evaluation.tasks.filter(state__in=OPEN))
        known = {_read_place(task) for task in waiting}
        wanted = [place for place in one.list_left() if place not in known][: MOST_OPEN - len(known)]
        _keep([_make_task(evaluation, one, place) for place in wanted])


def _begin(one: WantedTries, *, by: str) -> Evaluation:
    """The evaluation's row, which waits from now on."""
    evaluation = one.measured.evaluation
    same = {name: getattr(evaluation, name) for name in IDENTITY}
    if evaluation._state.adding:
        evaluation.state = Evaluation.State.WAITING
        try:
            with transaction.atomic():
                evaluation.save(force_insert=True)
        except IntegrityError:  # somebody else began the same one meanwhile
            evaluation = Evaluation.objects.get(state__in=TRIED, **same)
    if evaluation.state != Evaluation.State.WAITING:
        move(evaluation, Evaluation.State.WAITING, by=by)
    return evaluation


def require_not_lost(awaited: TriesAwaitedError, *, since: datetime) -> None:
    """Raises TooFewScoredError where one of these evaluations failed since then: asking again would not end."""
    for one in awaited.awaited:
        same = {name: getattr(one.measured.evaluation, name) for name in IDENTITY}
        failed = Evaluation.objects.filter(state=Evaluation.State.FAILED, finished_at__gte=since, **same).last()
        if failed is not None:
            raise TooFewScoredError(failed.failure)


def _make_task(evaluation: Evaluation, one: WantedTries, place: tuple[int, int]) -> Task:
    item, key, number = one.item_set.items[place[0]], one.item_set.keys[place[0]], place[1]
    weighs: dict[str, Any] = {"weight": item.weight} if item.weight != 1.0 else {}
    weighs |= {"category": item.category} if item.category else {}
    return Task(
        project_id=evaluation.project_id,
        worker_id=evaluation.worker_id,
        submitted_by=find_submitter(evaluation.project, evaluation.asked_by),
        environment=one.item_set.world.name,
        prompt=item.prompt,
        reference=item.reference,
        checks=item.checks,
        metadata={"evaluation": {"id": evaluation.pk, "item": place[0], "try": number, "key": str(key)} | weighs},
        group_size=1,
        seed=item.seed + evaluation.seed + AGAIN * number,
        evaluation=evaluation,
        pins={"0": evaluation.adapter.name if evaluation.adapter else ""},
    )


def find_unmade() -> list[Task]:
    """Tries that wait for an agent who is asked for them."""
    offered = Task.objects.filter(evaluation__state=Evaluation.State.WAITING, state=Task.State.QUEUED)
    return list(offered.exclude(worker__kind=Worker.Kind.OUTSIDE).select_related("worker"))


def measure(evaluation_id: int, *, by: str) -> None:
    """Go on with an evaluation: take in what was handed in of it, or try what nobody tried yet."""
    rows = Evaluation.objects.select_related("worker__project", "adapter", "project")
    evaluation = rows.get(pk=evaluation_id)
    if evaluation.state == Evaluation.State.WAITING:
        take_in(evaluation, by=by)
        return
    try:
        measure_asked(evaluation_id, by=by)
    except TriesAwaitedError as awaited:
        with final_write():
            offer_tries(awaited, by=by)


def take_in(evaluation: Evaluation, *, by: str) -> None:
    """Grade what was handed in, and offer again what did not come in time, or not at all.

    Raises:
        CallsNotStoredError: a try came a moment ago; the gateway may not have stored all of its calls.
    """
    measured = read_measured(evaluation)
    tasks = list(evaluation.tasks.select_related("submitted_by", "worker").order_by("pk"))
    rounds = Counter(map(_read_place, tasks))
    newest = {place: task for task in tasks if (place := _read_place(task)) not in measured.tries}
    come = _find_stored([task for task in newest.values() if task.state == Task.State.SCORING])
    calls = read_calls([task.pk for task in come])  # by attempt
    known = calls | _read_kept(come)
    rows = _grade(come, evaluation, known)
    gone = [task for task in newest.values() if task.state not in OPEN or _is_late(task)]
    again = [task for task in gone if rounds[_read_place(task)] < ROUNDS]
    rows += [_note_gone(task) for task in gone if task not in again]
    is_last = len(rows) == len(newest)
    evaluation.seconds += _measure_work(evaluation, newest.values(), come)
    with final_write():
        for bound in calls.values():
            bind(bound)
        for task, row in zip(come, rows, strict=False):
            Attempt.objects.filter(task=task).update(outcome=row.outcome)
        move_many(come, Task.State.DONE, by=by)
        move_many([task for task in gone if task.state in OPEN], Task.State.CANCELLED, by=by)
        _keep([_copy(task) for task in again])
        commit(measured, rows, is_last=is_last and not evaluation.asked_by, by=by)
        if is_last and evaluation.asked_by:
            move(evaluation, Evaluation.State.RUNNING, by=by)
        if not is_last:
            measured.pause_spent(by=by)  # what is still offered is taken from the door then


def _measure_work(evaluation: Evaluation, offered: Collection[Task], come: Sequence[Task]) -> float:
    """Seconds until the last of those that come was handed in, from when they were offered, or when the last one before
    them was handed in."""
    last = Max("created_at")
    ended = Attempt.objects.filter(task__in=come).aggregate(last=last)["last"]
    if ended is None:
        return 0.0
    earlier = Attempt.objects.filter(task__evaluation=evaluation).exclude(task__in=offered)
    counted = earlier.aggregate(last=last)["last"]
    began = min(task.created_at for task in offered)
    worked: timedelta = ended - max(began, counted or began)
    return max(0.0, worked.total_seconds())


def find_ready(evaluations: Iterable[int] | None = None) -> list[tuple[int, int]]:
    """(id, project) of evaluations that wait, of which a try was handed in, or did not come in time.

    Args:
        evaluations: ids to look among; None: all.
    """
    waiting = Evaluation.objects.filter(state=Evaluation.State.WAITING)
    waiting = waiting if evaluations is None else waiting.filter(pk__in=list(evaluations))
    ready = []
    for evaluation in waiting:
        tried = set(evaluation.item_tries.values_list("place", "number"))
        newest = {_read_place(task): task for task in evaluation.tasks.select_related("worker").order_by("pk")}
        left = [task for place, task in newest.items() if place not in tried]
        if not left or any(task.state not in _AWAITED or _is_late(task) for task in left):
            ready.append((evaluation.pk, evaluation.project_id))
    return ready


def withdraw(*, by: str) -> int:
    """Take tries from the door that nobody wants any more: their evaluation was stopped, or the gate's candidate that
    they were for was decided about. What was measured until then is kept. Returns how many."""
    candidates = Adapter.objects.filter(state=Adapter.State.CANDIDATE).exclude(waits_for="")
    gates = Evaluation.objects.filter(state=Evaluation.State.WAITING, asked_by="")
    unwanted = gates.exclude(worker__in=candidates.values("worker"))
    with transaction.atomic():
        for evaluation in unwanted.select_for_update():
            move(evaluation, Evaluation.State.DONE, by=by, finished_at=timezone.now())
        rows = Task.objects.filter(state__in=OPEN, evaluation__state__in=STOPPED)
        tasks = list(rows.select_for_update(skip_locked=True, of=("self",)))
        move_many(tasks, Task.State.CANCELLED, by=by, payload={"reason": "its evaluation is over"})
    return len(tasks)


def _is_late(task: Task) -> bool:
    is_handed_in = task.worker.kind == Worker.Kind.OUTSIDE  # else its segment ends, one way or the other
    return is_handed_in and task.state in _AWAITED and task.created_at < timezone.now() - PATIENCE


def _find_stored(tasks: Sequence[Task]) -> list[Task]:
    """Those that were handed in long enough ago for their calls to be stored; all of them where none was, which are
    waited for then."""
    since = Now() - timedelta(seconds=STORED_WITHIN_S)
    found = Attempt.objects.filter(task__in=tasks, created_at__lte=since).values_list("task_id", flat=True)
    stored = set(found)
    return [task for task in tasks if task.pk in stored or not stored]


def _read_kept(tasks: Sequence[Task]) -> dict[int, BoundCalls]:
    """Attempt's id -> its calls, of those tries of which these were known when they were made."""
    made = Attempt.objects.filter(task__in=tasks).exclude(exchange=None).select_related("exchange")
    return {
        one.pk: BoundCalls(one, [one.exchange, *(each.exchange for each in one.further_calls)], {})
        for one in made
        if one.exchange is not None
    }


def _grade(tasks: Sequence[Task], evaluation: Evaluation, found: Mapping[int, BoundCalls]) -> list[ItemTry]:
    """What each try is worth; those that can be graded are graded together."""
    attempts = with_finish_reasons(Attempt.objects.filter(task__in=tasks)).prefetch_related("steps")
    made: dict[int, Attempt] = {one.task_id: one for one in attempts}
    wanted, rows, graded = evaluation.adapter.name if evaluation.adapter else "", [], []
    for task in tasks:
        row, attempt = _make_row(task), made[task.pk]
        rows.append(row)
        calls = found.get(attempt.pk)
        served = {call.adapter_name for call in calls.calls} if calls else set()
        if attempt.unfit:
            note_lost(row, attempt.unfit)
        elif calls is None or served != {wanted}:
            others = ", ".join(sorted(name or "the base model" for name in served - {wanted}))
            note_lost(row, f"answered by {others}, not by what is measured" if others else NO_CALL)
        else:
            item = PanelItem(prompt=task.prompt, reference=task.reference, checks=task.checks)
            graded.append((row, item, _read_draft(attempt, calls), calls))
    if graded:
        world, (_, items, drafts, _) = get_world(tasks[0].environment), zip(*graded, strict=True)
        for one, said in zip(graded, verify_items(items, world, drafts, evaluation=evaluation), strict=True):
            row, item, draft, calls = one
            grade_try(row, item, world, draft, said)
            if evaluation.keeps_records:
                _make_record(draft, said, calls.calls).put_into(row)
    return rows


def _read_draft(attempt: Attempt, calls: BoundCalls) -> AttemptDraft:
    """What was handed in, with the tokens of all its calls."""
    draft = rebuild_draft(attempt, list(attempt.steps.all()))
    last = calls.calls[-1].finish_reason
    return replace(
        with_tokens(draft, calls.calls),
        answer=attempt.answer,
        steps=draft.steps or [DraftStep(kind="answer", text=attempt.answer)],
        finish_reason=last,
        ended=last != CUT_OFF,
    )


def _make_record(draft: AttemptDraft, found: Verification | None, calls: Sequence[Exchange]) -> KeptTry:
    turns = [
        AttemptDraft(
            token_ids=call.unpack_token_ids(),
            logprobs=call.unpack_logprobs(),
            sampled=call.unpack_sampled(),
            use=TokenUse(call.prompt_tokens, call.completion_tokens, call.cached_tokens),
            sampling=call.sampling,
            request=call.request,
        )
        for call in calls
    ]
    messages = [
        message
        for call in calls
        for message in (
            *call.messages,
            {"role": "assistant", "content": call.text} | ({"tool_calls": call.tool_calls} if call.tool_calls else {}),
        )
    ]
    kept = make_record(replace(draft, messages=messages), found, turns=turns, opening=calls[0].messages)
    costs = [call.cost_usd for call in calls if call.cost_usd is not None]
    latencies = [call.latency_ms for call in calls if call.latency_ms is not None]
    known = {
        "cost_usd": sum(costs, start=Decimal()) if len(costs) == len(calls) else None,
        "seconds": sum(latencies) / 1000 if len(latencies) == len(calls) else None,
    }
    return kept._replace(numbers={**kept.numbers, **known})


def _make_row(task: Task) -> ItemTry:
    place, number = _read_place(task)
    said = task.metadata["evaluation"]
    return ItemTry(
        place=place,
        number=number,
        key=int(said["key"]),
        weight=said.get("weight", 1.0),
        category=said.get("category", ""),
    )


def _note_gone(task: Task) -> ItemTry:
    return note_lost(
        _make_row(task), task.failure or f"its agent handed nothing in, though it was offered {ROUNDS} times"
    )


def _copy(task: Task) -> Task:
    """The same try, offered anew."""
    copied = ("project_id", "worker_id", "submitted_by", "environment", "prompt", "reference", "checks", "metadata")
    others = {name: getattr(task, name) for name in (*copied, "seed", "evaluation_id", "pins")}
    return Task(**others, group_size=1)


def _keep(tasks: Sequence[Task]) -> None:
    if tasks:
        keep_tasks(tasks, tasks[0].submitted_by)


def _read_place(task: Task) -> tuple[int, int]:
    said = task.metadata["evaluation"]
    return said["item"], said["try"]
