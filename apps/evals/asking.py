"""Evaluations that people ask for: asked, paused, taken up again, cancelled; done a while at a time."""

from collections.abc import Sequence
from typing import Final, TypedDict

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.adapters.models import Adapter
from apps.adapters.serving import load
from apps.audit.kinds import Kind
from apps.audit.services import move, record
from apps.base.errors import BadInputError, ConflictError, IllegalMoveError
from apps.evals.errors import EvaluationStoppedError
from apps.evals.limits import RunLimits
from apps.evals.measuring import play
from apps.evals.models import Benchmark, Evaluation, Item, ItemTry, Taskset, TryRecord
from apps.evals.panels import OWN_CHOICE, PANEL_SEED, ItemSet, Panel, has_past, open_panel, read_item, refuse_tries
from apps.evals.results import (
    Measured,
    WantedTries,
    describe_asking,
    describe_making,
    find_measured,
    name_of,
    read_measured,
)
from apps.workers.agents import can_measure, works_outside
from apps.workers.models import Worker
from apps.worlds.identity import name_world
from apps.worlds.registry import get_world

MOST_ITEMS = 5_000
MOST_TRIES = 16
MOST_DRAW = 10**9
UNLIMITED: Final = RunLimits()
IMPORTED: Final = "another tool made this run: nothing of it can be asked again here"
_PLACE: Final = ("item_try__place", "item_try__number")


class AskedFields(TypedDict, total=False):
    """What `ask_evaluation` takes."""

    adapter: Adapter | None
    taskset: Taskset | None
    split: str
    benchmark: Benchmark | None
    environment: str
    size: int
    draw: int
    tries: int
    is_greedy: bool
    seed: int
    limit: int | None
    indices: Sequence[int]
    limits: RunLimits
    replay_of: Evaluation | None


def ask_evaluation(
    *,
    worker: Worker,
    by: User,
    adapter: Adapter | None = None,
    taskset: Taskset | None = None,
    split: str = Item.Split.HELD_OUT,
    benchmark: Benchmark | None = None,
    environment: str = "",
    size: int = 100,
    draw: int = 0,
    tries: int | None = None,
    is_greedy: bool = False,
    seed: int = 0,
    limit: int | None = None,
    indices: Sequence[int] = (),
    limits: RunLimits = UNLIMITED,
    replay_of: Evaluation | None = None,
) -> Evaluation:
    """An evaluation of an adapter, or of the base model; the one there is where the very same was asked before.

    Args:
        taskset, split: the items; or `benchmark`, whose they are; else `environment`, which makes up `size` held-out
            tasks: draw `draw` of them.
        tries: of each item, with other seeds; None: as many as the benchmark says, else one.
        is_greedy: the likeliest answer instead of a sampled one.
        seed: added to the items' own: another one gives other answers.
        limit: so many of the items at most, the first ones; indices: these, by their places from 0.
        limits: how much it may take.
        replay_of: a run whose very prompts it asks once more; see `replay_evaluation`.
    Raises:
        BadInputError, ConflictError: saying what was wanted and what was found.
    """
    require_right(by, worker.project, Right.EVALS_WRITE)
    if not can_measure(worker):
        raise BadInputError.at("worker", f"wanted one whose model is asked by name, found {worker.name}: {OWN_CHOICE}")
    if adapter is not None and adapter.worker_id != worker.line_id:
        raise BadInputError.at("adapter", f"wanted one of {worker.name}'s line, found {adapter.name}")
    if adapter is not None and adapter.barred:
        raise ConflictError(f"{adapter.name} may not be served: {adapter.barred}")
    if benchmark is not None:
        if taskset is not None or environment:
            raise BadInputError.at("benchmark", "wanted a benchmark alone, found a taskset or an environment beside it")
        taskset, split = benchmark.taskset, benchmark.split
    if tries is None:
        tries = benchmark.tries if benchmark is not None else 1
    if (taskset is None) == (not environment):
        raise BadInputError.at("taskset", "wanted a taskset, or an environment that makes up tasks; found both or none")
    if words := refuse_tries(worker, get_world(taskset.environment if taskset else environment)):
        raise BadInputError.at("taskset" if taskset else "environment", words)
    if taskset is not None:
        found = taskset.items.filter(split=split).count()
        wanted = found if limit is None else min(found, limit)
        item_set = open_items(taskset, split, count=min(wanted, MOST_ITEMS + 1), indices=indices)
    elif limit is not None or indices:
        raise BadInputError.at(
            "limit" if limit is not None else "indices", "wanted a taskset or benchmark to choose of"
        )
    else:
        name = f"{environment}/{size}/{draw}"
        item_set = Panel(name, get_world(environment), size, PANEL_SEED + draw).item_set
    if works_outside(worker) and any(has_past(item) for item in item_set.items):
        message = f"wanted prompts for an agent that works outside, as {worker.name} does; found a conversation"
        raise BadInputError.at("taskset", message)
    if not 1 <= len(item_set.items) <= MOST_ITEMS:
        raise BadInputError.at("taskset", f"wanted 1 to {MOST_ITEMS:,} items, found {len(item_set.items):,}")
    purpose = Evaluation.Purpose.REPORT
    measured = find_measured(
        worker, adapter, item_set, purpose, tries=tries, is_greedy=is_greedy, seed=seed, replay_of=replay_of
    )
    evaluation = measured.evaluation
    if not evaluation._state.adding:
        return evaluation
    _require_price(measured, limits)
    evaluation.limits, evaluation.indices = limits.to_json(), list(indices)
    evaluation.made_with = describe_making(worker, item_set)
    evaluation.taskset, evaluation.split, evaluation.asked_by = taskset, split if taskset else "", by.handle
    evaluation.benchmark = benchmark
    try:
        with transaction.atomic():
            evaluation.save(force_insert=True)
            payload = {"items": item_set.name, "tries": tries, "adapter": adapter.name if adapter else ""}
            record(Kind.EVAL_QUEUED, subject=evaluation, by=by.handle, payload=payload)
    except IntegrityError:
        raise ConflictError("the same evaluation was paused, or is just being asked for: take that one up") from None
    return evaluation


def replay_evaluation(*, evaluation: Evaluation, by: User, limits: RunLimits = UNLIMITED) -> Evaluation:
    """An evaluation that asks the very prompts of another once more, byte for byte, with the same sampling and seeds.

    Raises:
        ConflictError: something that decides them is not what it was, by name.
    """
    worker = evaluation.worker
    if evaluation.is_imported:
        raise ConflictError(IMPORTED)
    if evaluation.taskset is None:
        raise ConflictError(f"wanted a run of a taskset or benchmark, found {evaluation.item_set}")
    now = describe_asking(worker, get_world(evaluation.taskset.environment))
    changed = sorted(name for name, value in now.items() if evaluation.asked_with.get(name) != value)
    if changed:
        raise ConflictError(f"what decides its prompts is not what it was: {', '.join(changed)}")
    reopen_items(evaluation)
    return ask_evaluation(
        worker=worker,
        by=by,
        adapter=evaluation.adapter,
        **(
            {"benchmark": evaluation.benchmark}
            if evaluation.benchmark is not None
            else {"taskset": evaluation.taskset, "split": evaluation.split}
        ),
        tries=evaluation.tries,
        is_greedy=evaluation.is_greedy,
        seed=evaluation.seed,
        indices=evaluation.indices,
        limit=None if evaluation.indices else evaluation.planned // evaluation.tries,
        limits=limits,
        replay_of=evaluation,
    )


def count_other_prompts(evaluation: Evaluation) -> int:
    """Of a replay: tries whose prompt is not that of the same try of the run it replays."""
    theirs = TryRecord.objects.filter(item_try__evaluation=evaluation.replay_of_id)
    known = {tuple(place): said for *place, said in theirs.values_list(*_PLACE, "prompt_hash")}
    mine = TryRecord.objects.filter(item_try__evaluation=evaluation).values_list(*_PLACE, "prompt_hash")
    return sum(known.get(tuple(place), said) != said for *place, said in mine)


def open_items(taskset: Taskset, split: str, *, count: int, indices: Sequence[int] = ()) -> ItemSet:
    """The first items of a split, or those at these places: those that come later are in no evaluation that began
    before them.

    Raises:
        BadInputError: places that are none, or twice.
    """
    rows = taskset.items.filter(split=split).order_by("id")
    if indices:
        if len(set(indices)) < len(indices) or len(indices) > MOST_ITEMS:
            raise BadInputError.at("indices", f"wanted at most {MOST_ITEMS:,} places, each once, found {len(indices)}")
        every = list(rows[: max(indices) + 1])
        if min(indices) < 0 or len(every) <= max(indices):
            raise BadInputError.at(
                "indices", f"wanted places from 0 to {len(every) - 1}, found {min(indices)} to {max(indices)}"
            )
        items = [every[place] for place in indices]
    else:
        items = list(rows[:count])
    return ItemSet(f"{taskset}/{split}", get_world(taskset.environment), [read_item(item) for item in items])


def reopen_items(evaluation: Evaluation) -> ItemSet:
    """The items it was asked for.

    Raises:
        ConflictError: they are not what they were, or were made up for this measurement alone.
    """
    if evaluation.taskset is not None:
        count = evaluation.planned // evaluation.tries
        item_set = open_items(evaluation.taskset, evaluation.split, count=count, indices=evaluation.indices)
    elif (panel := open_panel(evaluation.item_set)) is not None:
        item_set = panel.item_set
    else:
        raise ConflictError(f"the items of {evaluation.item_set} were made up for one measurement, and are not kept")
    if item_set.hash != evaluation.item_set_hash:
        raise ConflictError(f"the items of {evaluation.item_set} are not what they were when it was asked for")
    asked_of, found = evaluation.asked_with.get("world"), name_world(item_set.world)
    if asked_of not in {None, found}:
        raise ConflictError(f"the world is not what it was: it was begun in {asked_of}, found {found}; ask for it anew")
    return item_set


def measure_asked(evaluation_id: int, *, by: str) -> None:
    """Go on with an evaluation for a part of the time that a link has; what is left is done by the next one."""
    rows = Evaluation.objects.select_related("worker__project", "worker__provider", "adapter", "taskset")
    evaluation = rows.get(pk=evaluation_id)
    if evaluation.state == Evaluation.State.QUEUED:
        move(evaluation, Evaluation.State.RUNNING, by=by)
    if evaluation.state != Evaluation.State.RUNNING:
        return
    item_set = reopen_items(evaluation)
    if evaluation.adapter is not None:
        load(evaluation.adapter)
    wanted = WantedTries(read_measured(evaluation), item_set)
    if wanted.list_left() and wanted.measured.pause_spent(by=by):
        return
    try:
        play(
            wanted,
            patience_s=settings.TENTALIS["TASK_TIMEOUT_SECONDS"] / 4,
            by=by,
        )
    except (EvaluationStoppedError, IllegalMoveError):  # somebody paused or cancelled it meanwhile
        return
    is_over = evaluation.state == Evaluation.State.DONE
    if is_over and evaluation.replay_of_id is not None and (others := count_other_prompts(evaluation)):
        words = f"{others} of its prompts are not those of evaluation {evaluation.replay_of_id}"
        Evaluation.objects.filter(pk=evaluation.pk).update(failure=words)


def find_unfinished(evaluation_ids: Sequence[int]) -> list[tuple[int, int]]:
    """(id, project) of those that go on."""
    running = Evaluation.objects.filter(pk__in=evaluation_ids, state=Evaluation.State.RUNNING)
    return list(running.values_list("pk", "project_id"))


def pause_evaluation(*, evaluation: Evaluation, by: User) -> Evaluation:
    """No further block is begun; the one at work is kept."""
    return _move(evaluation, Evaluation.State.PAUSED, by=by)


def cancel_evaluation(*, evaluation: Evaluation, by: User) -> Evaluation:
    """As a pause, for good."""
    return _move(evaluation, Evaluation.State.CANCELLED, by=by)


def resume_evaluation(*, evaluation: Evaluation, by: User, limits: RunLimits = UNLIMITED) -> Evaluation:
    """Let a paused one go on; one that failed tries again what could not be asked or graded.

    Args:
        limits: in place of those of them that it had.
    """
    _require_price(Measured(evaluation), limits)
    with transaction.atomic():
        if told := limits.to_json():
            evaluation.limits = evaluation.limits | told
            Evaluation.objects.filter(pk=evaluation.pk).update(limits=evaluation.limits)
        _forget_unasked(evaluation)
        return _move(evaluation, Evaluation.State.QUEUED, by=by)


def _forget_unasked(evaluation: Evaluation) -> None:
    """What could not be asked or graded is asked again."""
    evaluation.item_tries.filter(cause=ItemTry.Cause.INFRASTRUCTURE).delete()


def _require_price(measured: Measured, limits: RunLimits) -> None:
    if limits.usd is not None and measured.rates is None:
        model = name_of(measured.evaluation.worker, measured.evaluation.adapter)
        raise BadInputError.at("usd", f"wanted a model whose price is known, found {model}")


def _move(evaluation: Evaluation, state: Evaluation.State, *, by: User) -> Evaluation:
    require_right(by, evaluation.project, Right.EVALS_WRITE)
    if evaluation.is_imported:
        raise ConflictError(IMPORTED)
    if not evaluation.asked_by:
        raise ConflictError("the gate measures this one for a verdict: nobody asked for it")
    _move_alone(evaluation, state, by=by.handle)
    return evaluation


def _move_alone(evaluation: Evaluation, state: Evaluation.State, *, by: str) -> None:
    try:
        with transaction.atomic():
            move(evaluation, state, by=by, failure="")
    except IntegrityError:
        raise ConflictError("the very same was asked for again since: see that one") from None


def fail_evaluation(evaluation_id: int, *, link: str, reason: str, by: str) -> None:
    """It could not be done; what was tried until then is kept. A verdict that waited for it waits no longer."""
    evaluation = Evaluation.objects.get(pk=evaluation_id)
    if evaluation.state in {Evaluation.State.QUEUED, Evaluation.State.RUNNING, Evaluation.State.WAITING}:
        move(evaluation, Evaluation.State.FAILED, by=by, failure=reason, finished_at=timezone.now())


def revive_evaluation(evaluation_id: int, *, link: str, by: str) -> None:
    """Let one that failed try again what could not be asked or graded.

    Raises:
        ConflictError: it was measured for a verdict, which waits for it no longer; or the same was asked for since.
    """
    evaluation = Evaluation.objects.get(pk=evaluation_id)
    if evaluation.state != Evaluation.State.FAILED:
        return
    if not evaluation.asked_by:
        raise ConflictError(f"evaluation {evaluation_id} was measured for a verdict, which waits for it no longer")
    with transaction.atomic():
        _forget_unasked(evaluation)
        _move_alone(evaluation, Evaluation.State.QUEUED, by=by)
