"""The closed loop, driven as a team would: tasks in, judged, trained on, gated, served, again.

On the desk that is built in, or on any project's own tasksets.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar

from django.db.models import Count, Max

from apps.accounts.models import Project, User
from apps.accounts.services import change_project, create_project
from apps.adapters.models import Adapter, Verdict
from apps.adapters.selectors import find_deployed
from apps.audit.chain import seal_entries, verify_chain
from apps.base.errors import TentalisError
from apps.evals.comparing import pair
from apps.evals.measuring import play
from apps.evals.models import PASSED, Evaluation, Item, ItemTry
from apps.evals.panels import ItemSet, Panel, choose_panel, find_generator, find_own, say_missing
from apps.evals.results import Measured, WantedTries, find_block, find_measured
from apps.feedback.models import Review, RowImport
from apps.outbox.kinds import SegmentKind
from apps.outbox.models import Segment
from apps.pipeline import flow
from apps.rollouts.models import Batch, Demonstration, Rollout, TrainingUse
from apps.tasks.models import Attempt, Task
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from apps.workers.recipes import choose_recipe
from apps.workers.services import create_worker
from apps.worlds.registry import get_world
from tentalis.core.desk import make_tickets, say_house_rules
from tentalis.core.learning.gate import GatePolicy, PairedComparison, compare_paired
from tentalis.core.task_files import TaskRow

Found = TypeVar("Found")

REPORT_SIZE = 300
REPORT_SEED = 7
SHOWN = 3
POLL_S = 0.02
MOST_POLL_S = 1.0
"""Who waits for long looks less often, by a fiftieth of what was waited."""
PATIENCE_S = 300.0
"""So long nothing may come of anything: no attempt, no try of an item, no sign of life of a run."""
HUMAN_RATE = 0.05


class LoopStoppedError(TentalisError):
    """The loop did not close; the message says where it stopped and why."""

    code = "loop_stopped"


class Stage(NamedTuple):
    """What is being done, and how much of it is done.

    Args:
        of: how much there is; 0: not known.
    """

    name: str
    done: int = 0
    of: int = 0


Watch = Callable[[Stage], None]
WATCH_S = 1.0
"""So long at least between two looks at how far the loop is."""


def _ignore(_: Stage) -> None:
    pass


class Ground(Protocol):
    """Where the loop is shown: what tasks come in, and what is measured beside the gate."""

    worker: Worker
    environment: str

    def draw(self, update: int, *, seed: int) -> Sequence[TaskRow]:
        """The tasks of an update, as many as fill a batch."""

    @property
    def report(self) -> ItemSet:
        """Held-out tasks, with other seeds than the gate's."""


@dataclass
class Desk:
    """The ticket desk that is built in, which makes up its tickets."""

    worker: Worker
    environment: str = "desk"

    def draw(self, update: int, *, seed: int) -> Sequence[TaskRow]:
        tickets = make_tickets(1_000_003 * (seed + 1) + update, self.worker.project.batch_tasks, held_out=False)
        return [
            TaskRow(line, ticket.text, seed=_seed_of(seed, update, line))
            for line, ticket in enumerate(tickets, start=1)
        ]

    @property
    def report(self) -> ItemSet:
        return Panel("report", get_world(self.environment), REPORT_SIZE, REPORT_SEED).item_set


class OwnItems:
    """A project's own tasksets: their items to train on come in as tasks, again when all have come.

    Raises:
        LoopStoppedError: there is nothing to train on, or nothing to measure on.
    """

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        panel = choose_panel(worker, version=0, policy=GatePolicy.from_json(worker.project.gate_policy))
        if panel is None or not panel.own:
            raise LoopStoppedError(
                f"worker {worker.name} cannot be measured on items of its own: {say_missing(worker)}"
            )
        self.environment = panel.world.name
        self._train = find_own(worker, Item.Split.TRAIN).get(self.environment, ())
        if not self._train:
            raise LoopStoppedError(f"wanted checked items to train on for {panel.world.label}, found none")
        shifted = [replace(item, seed=item.seed + REPORT_SEED) for item in panel.own[:REPORT_SIZE]]
        self.report = ItemSet("report", panel.world, shifted)

    def draw(self, update: int, *, seed: int) -> Sequence[TaskRow]:
        items, count = list(self._train), self.worker.project.batch_tasks
        Random(seed).shuffle(items)
        start = max(update - 1, 0) * count
        wanted = islice(cycle(items), start, start + count)
        return [
            TaskRow(line, item.prompt, item.reference, checks=item.checks, seed=_seed_of(seed, update, line))
            for line, item in enumerate(wanted, start=1)
        ]


def _seed_of(seed: int, update: int, line: int) -> int:
    return (seed * 1_000 + update) * 1_000 + line - 1


@dataclass
class Round:
    """One update: what went in, what came out.

    Args:
        reward: mean of its answers; None where it imitated what people had answered.
        state: of its adapter, once it was judged.
    """

    update: int
    reward: float | None
    held_out: float | None
    deployed: str
    state: str
    verdict: str
    wall_s: float
    train_s: float


@dataclass
class DemoOutcome:
    """What the loop came to.

    Args:
        gain, gain_passed: after beside before on the same held-out tasks, sampled: of the mean outcome, and of the
            share with all of it right.
        capability: what of its base model's other abilities the adapter that serves kept, in the gate's words; "" where
            nobody asked.
    """

    before: "Report"
    after: "Report"
    rounds: list[Round] = field(default_factory=list)
    gain: PairedComparison | None = None
    gain_passed: PairedComparison | None = None
    capability: str = ""
    attempts: int = 0
    rollouts: int = 0
    uses: int = 0
    loop_s: float = 0.0
    audit_ok: bool = False


@dataclass
class Report:
    """What a version of the model makes of the held-out tasks.

    Args:
        sampled, greedy: mean outcome. passed: share of the sampled replies with all that can be had: every check.
        interval: 95 %, of the mean that is sampled.
        replies: (prompt, greedy reply) of a few.
        outcomes: of the sampled replies, by item's key.
    """

    sampled: float
    greedy: float
    passed: float
    interval: tuple[float, float]
    replies: Sequence[tuple[str, str]]
    outcomes: dict[int, float] = field(default_factory=dict)


def make_demo_project(by: User) -> Worker:
    """A fresh project with a desk worker whose rule-book manager reviews everything."""
    number = Project.objects.filter(slug__startswith="demo-").count() + 1
    project = create_project(
        slug=f"demo-{number}",
        name=f"Ticket desk, demonstration {number}",
        by=by,
        rubric=say_house_rules(),
        review_policy={"who": "ai", "ai_manager": "rule-book"},
        group_size=8,
        batch_tasks=24,
    )
    return create_worker(project=project, name="desk", kind="desk", by=by)


def run_loop(
    ground: Ground,
    *,
    by: User,
    updates: int,
    seed: int,
    imitation: Mapping[str, Any],
    report: Callable[[Round], None] | None = None,
    watch: Watch = _ignore,
) -> DemoOutcome:
    """Let the worker learn for some updates.

    Args:
        seed: decides the tasks and the sampling.
        imitation: of the recipe by which answers of people that are there are imitated.
        report: is told of each update that ended; watch: again and again, of what is being done.
    Raises:
        LoopStoppedError: an update did not come to its end.
    """
    worker = ground.worker
    _wait_for_imports(worker)
    attempts, rollouts = _count_made(worker)
    base = measure_report(ground, None, watch=watch)
    outcome = DemoOutcome(before=base, after=base)
    started = time.monotonic()
    for update in range(1, updates + 1):
        outcome.rounds.append(run_update(ground, by=by, update=update, seed=seed, imitation=imitation, watch=watch))
        if report is not None:
            report(outcome.rounds[-1])
    outcome.loop_s = time.monotonic() - started
    serving = find_deployed(worker)
    outcome.after = measure_report(ground, serving, watch=watch)
    outcome.gain, outcome.gain_passed = _compare(outcome.before, outcome.after)
    verdict = serving.verdicts.filter(question="safe").first() if serving else None
    outcome.capability = verdict.details.get("capability", {}).get("words", "") if verdict else ""
    made = _count_made(worker)
    outcome.attempts, outcome.rollouts = made[0] - attempts, made[1] - rollouts
    outcome.uses = TrainingUse.objects.filter(batch__project=worker.project).count()
    while seal_entries():
        pass
    outcome.audit_ok = verify_chain().is_clean
    return outcome


def ask_a_person(ground: Ground, *, by: User, seed: int) -> None:
    """What is done after the loop, where a manager of flesh may come: a share waits for a person, and so does one
    task at once. The loop itself waits for nobody."""
    worker = ground.worker
    policy = {**worker.project.review_policy, "human_rate": HUMAN_RATE}
    policy["who"] = "both" if policy.get("who") == "ai" else "human"
    project = change_project(project=worker.project, by=by, review_policy=policy)
    rows = ground.draw(0, seed=seed)[:1]
    (task,) = flow.submit_rows(project=project, rows=rows, environment=ground.environment, by=by, worker=worker)
    waits = Review.objects.filter(task=task, audience=Review.Audience.HUMAN)
    _wait_for(waits.first, f"task {task.pk}: no review", worker, lambda: None)


def start_update(ground: Ground, *, by: User, update: int, seed: int, imitation: Mapping[str, Any]) -> None:
    """Take what people answered and nothing learnt from yet, where there is any; else submit a batch of tasks."""
    worker = ground.worker
    if _are_shown(worker):
        flow.close_batch(worker=worker, by=by, recipe={**imitation, "algorithm": "sft"})
        return
    rows = ground.draw(update, seed=seed)
    flow.submit_rows(project=worker.project, rows=rows, environment=ground.environment, by=by, worker=worker)


def run_update(
    ground: Ground,
    *,
    by: User,
    update: int,
    seed: int,
    imitation: Mapping[str, Any] = MappingProxyType({}),
    watch: Watch = _ignore,
) -> Round:
    """Start an update and wait until what was learned from it is judged."""
    started, worker = time.monotonic(), ground.worker
    size, last = worker.project.batch_tasks * worker.project.group_size, _find_last_attempt(worker)
    start_update(ground, by=by, update=update, seed=seed, imitation=imitation)
    runs = TrainingRun.objects.filter(batch__worker=worker, batch__number=update)

    def watch_answers() -> None:
        answered = Attempt.objects.filter(pk__gt=last, task__project=worker.project).count()
        watch(Stage(f"update {update}: answers", min(answered, size), size))

    def watch_run() -> None:
        adapter = Adapter.objects.filter(run_id=run.pk).first()
        if adapter is None:
            watch(Stage(f"update {update}: training"))
            return
        tries = ItemTry.objects.filter(evaluation__adapter=adapter).count()
        watch(Stage(f"update {update}: answers to the gate", tries))

    run = _wait_for(runs.first, f"update {update}: no run", worker, watch_answers)
    words = f"update {update}: run {run.pk} brought no verdict"
    (adapter,) = _wait_for(lambda: _find_judged(run), words, worker, watch_run)
    run.refresh_from_db()
    return _summarise(worker, run, adapter, update, time.monotonic() - started)


def _count_made(worker: Worker) -> tuple[int, int]:
    """Attempts and rollouts of the project so far."""
    attempts = Attempt.objects.filter(task__project=worker.project).count()
    return attempts, Rollout.objects.filter(project=worker.project).count()


def _wait_for_imports(worker: Worker) -> None:
    """Until what people answered before is there to be learnt from."""
    running = RowImport.objects.filter(worker=worker, state=RowImport.State.RUNNING)
    learning = Task.objects.filter(worker=worker, state=Task.State.LEARNING)
    _wait_for(lambda: None if running.exists() or learning.exists() else True, "imported work", worker, lambda: None)


def _are_shown(worker: Worker) -> bool:
    """Whether there are answers of people that nothing learnt from yet, enough of them to learn from.

    Who learns by preference learns from what people edit as it is, in pairs; what was brought comes in none.
    """
    said = Demonstration.objects.filter(worker=worker, batch=None, unusable_reason="")
    shown = said.exclude(source=Demonstration.Source.ATTEMPT)
    if choose_recipe(worker.project, worker).learns_from == Batch.Kind.PAIRS:
        shown = said.filter(source=Demonstration.Source.IMPORTED)
    count = shown.values("task").distinct().count()
    return count >= max(1, GatePolicy.from_json(worker.project.gate_policy).least_solved)


def _find_judged(run: TrainingRun) -> tuple[Adapter | None] | None:
    """Its adapter once the gate judged it, or none where the run refused to publish one; None: not yet.

    Raises:
        LoopStoppedError: nothing will come of it.
    """
    adapter = Adapter.objects.filter(run_id=run.pk).first()
    if adapter is None:
        state, failure = TrainingRun.objects.values_list("state", "failure").get(pk=run.pk)
        if state in {TrainingRun.State.FAILED, TrainingRun.State.CANCELLED}:
            raise LoopStoppedError(f"run {run.pk} {state}: {failure}")
        return (None,) if state == TrainingRun.State.REFUSED else None
    if adapter.state == Adapter.State.CANDIDATE:  # with a verdict it is left to a person, and the loop goes on
        return (adapter,) if adapter.verdicts.filter(question=Verdict.Question.SAFE).exists() else None
    is_adopted = not Segment.objects.filter(
        kind=SegmentKind.ADOPT, subject_id=adapter.pk, state=Segment.State.OPEN
    ).exists()
    return (adapter,) if is_adopted or adapter.state == Adapter.State.REFUSED else None


def _wait_for(find: Callable[[], Found | None], what: str, worker: Worker, look: Callable[[], None]) -> Found:
    started = looked = time.monotonic()
    seen, deadline = _count_moves(worker), started + PATIENCE_S
    while True:
        if (found := find()) is not None:
            return found
        if time.monotonic() > looked + WATCH_S:
            look()
            looked = time.monotonic()
        if time.monotonic() > deadline:
            if (now := _count_moves(worker)) == seen:
                break
            seen, deadline = now, time.monotonic() + PATIENCE_S
        time.sleep(min(MOST_POLL_S, max(POLL_S, (time.monotonic() - started) / 50)))
    failed = Task.objects.filter(project=worker.project, state=Task.State.FAILED).first()
    why = f"task {failed.pk} failed at {failed.failed_link}: {failed.failure}" if failed else "nothing failed"
    raise LoopStoppedError(f"{what}, and nothing moved for {PATIENCE_S:.0f} s; {why}")


def _find_last_attempt(worker: Worker) -> int:
    """The newest of the project's, found from its end: it may have millions. 0: there is none."""
    newest = Attempt.objects.filter(task__project=worker.project).order_by("-pk").values_list("pk", flat=True)
    return newest.first() or 0


def _count_moves(worker: Worker) -> tuple[Any, ...]:
    """What changes as long as anything is done for the worker."""
    return (
        _find_last_attempt(worker),
        ItemTry.objects.filter(evaluation__worker=worker).count(),
        TrainingRun.objects.filter(worker=worker).aggregate(Count("pk"), Max("heartbeat_at")),
    )


def _summarise(worker: Worker, run: TrainingRun, adapter: Adapter | None, update: int, wall_s: float) -> Round:
    batch = Batch.objects.get(run=run)
    rewards = Rollout.objects.filter(training_use__batch=batch).values_list("reward", flat=True)
    known = [reward for reward in rewards if reward is not None]
    panel = Evaluation.objects.on_panels().filter(adapter=adapter).first() if adapter else None
    verdict = adapter.verdicts.filter(question="safe").first() if adapter else None
    return Round(
        update=update,
        reward=None if batch.kind == Batch.Kind.DEMONSTRATIONS else sum(known) / max(1, len(known)),
        held_out=panel.mean_outcome if panel else None,
        deployed=adapter.name if adapter and adapter.state == Adapter.State.DEPLOYED else "",
        state=adapter.state if adapter else run.state,
        verdict=verdict.words if verdict else run.failure,
        wall_s=wall_s,
        train_s=run.summary.get("wall_s", 0.0),
    )


def measure_report(ground: Ground, adapter: Adapter | None, *, watch: Watch = _ignore) -> Report:
    """On the held-out tasks of the report, sampled and greedy; the gate's panels are others."""
    name = f"held-out tasks, {adapter.name if adapter else 'the base model'}"
    sampled, greedy = (
        _measure(ground, adapter, is_greedy=is_greedy, watch=watch, name=f"{name}, {how}")
        for is_greedy, how in ((False, "sampled"), (True, "greedy"))
    )
    return Report(
        sampled=_require_mean(sampled),
        greedy=_require_mean(greedy),
        passed=sampled.evaluation.share_passed or 0.0,
        interval=(round(sampled.evaluation.low or 0.0, 4), round(sampled.evaluation.high or 0.0, 4)),
        replies=read_replies(greedy, ground.report),
        outcomes=dict(sampled.outcomes),
    )


def _measure(ground: Ground, adapter: Adapter | None, *, is_greedy: bool, watch: Watch, name: str) -> Measured:
    asked, purpose = ground.report, Evaluation.Purpose.REPORT
    measured = find_measured(ground.worker, adapter, asked, purpose, is_greedy=is_greedy)
    count = len(asked.items)
    step = find_block(ground.worker)
    for upto in range(step, count + step, step):
        watch(Stage(name, min(len(measured.tries), count), count))
        play(WantedTries(measured, asked, range(min(upto, count))))
    return measured


def _compare(before: Report, after: Report) -> tuple[PairedComparison, PairedComparison]:
    """Of the mean outcome, and of the share with all of it right."""
    mine, theirs, _ = pair(after.outcomes, before.outcomes, dict.fromkeys(after.outcomes, 1.0))
    passed = [[float(value >= PASSED) for value in side] for side in (mine, theirs)]
    return compare_paired(mine, theirs), compare_paired(*passed)


def _require_mean(measured: Measured) -> float:
    if measured.evaluation.mean_outcome is None:
        raise LoopStoppedError(f"the report could not be measured: {measured.evaluation.failure}")
    return measured.evaluation.mean_outcome


def read_replies(greedy: Measured, asked: ItemSet) -> Sequence[tuple[str, str]]:
    """What the model said to a few of the report's tasks when it took the likeliest words."""
    kept = ((item, greedy.tries.get((place, 0))) for place, item in enumerate(asked.items[:SHOWN]))
    return [(item.prompt, row.answer) for item, row in kept if row is not None and row.answer]


def open_report(worker: Worker) -> ItemSet | None:
    """The held-out tasks that a demonstration reports on with this worker; None where it has none."""
    try:
        return Desk(worker).report if find_generator(worker) else OwnItems(worker).report
    except LoopStoppedError:
        return None
