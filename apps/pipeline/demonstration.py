"""The closed loop on the desk, driven as a team would: tasks in, reviewed, trained on, gated, served, again."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from apps.accounts.models import Project, User
from apps.accounts.services import change_project, create_project
from apps.adapters.models import Adapter
from apps.adapters.selectors import find_deployed
from apps.audit.chain import seal_entries, verify_chain
from apps.base.errors import TentalisError
from apps.evals.measuring import measure
from apps.evals.models import Evaluation
from apps.evals.panels import Panel
from apps.feedback.models import Review
from apps.outbox.kinds import SegmentKind
from apps.outbox.models import Segment
from apps.pipeline import flow
from apps.rollouts.models import Batch, Rollout, TrainingUse
from apps.tasks.models import Attempt, Task
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from apps.workers.services import create_worker
from apps.worlds.registry import get_world
from tentalis.core.desk import make_tickets, say_house_rules
from tentalis.core.task_files import TaskRow

Found = TypeVar("Found")

REPORT_SIZE = 300
REPORT_SEED = 7
POLL_S = 0.02
PATIENCE_S = 120.0
HUMAN_RATE = 0.05


class LoopStoppedError(TentalisError):
    """The loop did not close; the message says where it stopped and why."""

    code = "loop_stopped"


@dataclass
class Round:
    """One update: what went in, what came out."""

    update: int
    reward: float
    held_out: float | None
    deployed: str
    verdict: str
    wall_s: float
    train_s: float


@dataclass
class DemoOutcome:
    """What the loop came to; accuracies are shares of held-out tickets answered right."""

    base_sampled: float
    base_greedy: float
    final_sampled: float = 0.0
    final_greedy: float = 0.0
    interval: tuple[float, float] = (0.0, 0.0)
    rounds: list[Round] = field(default_factory=list)
    attempts: int = 0
    rollouts: int = 0
    uses: int = 0
    loop_s: float = 0.0
    audit_ok: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


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
    *, worker: Worker, by: User, updates: int, seed: int, report: Callable[[Round], None] | None = None
) -> DemoOutcome:
    """Let the worker learn for some updates.

    Args:
        seed: decides the tickets and the sampling.
    Raises:
        LoopStoppedError: an update did not come to its end.
    """
    base = measure_report(worker, None)
    outcome = DemoOutcome(base_sampled=base[0].mean_outcome or 0.0, base_greedy=base[1].mean_outcome or 0.0)
    started = time.monotonic()
    for update in range(1, updates + 1):
        outcome.rounds.append(run_update(worker=worker, by=by, update=update, seed=seed))
        if report is not None:
            report(outcome.rounds[-1])
    outcome.loop_s = time.monotonic() - started
    sampled, greedy = measure_report(worker, find_deployed(worker))
    outcome.final_sampled, outcome.final_greedy = sampled.mean_outcome or 0.0, greedy.mean_outcome or 0.0
    outcome.interval = round(sampled.low or 0.0, 4), round(sampled.high or 0.0, 4)
    outcome.attempts = Attempt.objects.filter(task__project=worker.project).count()
    outcome.rollouts = Rollout.objects.filter(project=worker.project).count()
    outcome.uses = TrainingUse.objects.filter(batch__project=worker.project).count()
    while seal_entries():
        pass
    outcome.audit_ok = verify_chain().is_clean
    return outcome


def ask_a_person(*, worker: Worker, by: User, seed: int) -> None:
    """What is done after the loop, where a manager of flesh may come: a share waits for a person, and so does one
    ticket at once. The loop itself waits for nobody."""
    policy = {**worker.project.review_policy, "who": "both", "human_rate": HUMAN_RATE}
    project = change_project(project=worker.project, by=by, review_policy=policy)
    ticket = make_tickets(seed, 1, held_out=False)[0]
    task = flow.submit(project=project, prompt=ticket.text, environment="desk", by=by, worker=worker, seed=seed)
    waits = Review.objects.filter(task=task, audience=Review.Audience.HUMAN)
    _wait_for(waits.first, f"task {task.pk}: no review", worker)


def run_update(*, worker: Worker, by: User, update: int, seed: int) -> Round:
    """Submit a batch of tickets and wait until what was learned from it is judged."""
    started = time.monotonic()
    tickets = make_tickets(1_000_003 * (seed + 1) + update, worker.project.batch_tasks, held_out=False)
    rows = [
        TaskRow(line, ticket.text, seed=(seed * 1_000 + update) * 1_000 + line - 1)
        for line, ticket in enumerate(tickets, start=1)
    ]
    flow.submit_rows(project=worker.project, rows=rows, environment="desk", by=by, worker=worker)
    runs = TrainingRun.objects.filter(batch__worker=worker, batch__number=update)
    run = _wait_for(runs.first, f"update {update}: no run", worker)
    adapter = _wait_for(lambda: _find_judged(run), f"update {update}: run {run.pk} brought no verdict", worker)
    run.refresh_from_db()
    return _summarise(worker, run, adapter, update, time.monotonic() - started)


def _find_judged(run: TrainingRun) -> Adapter | None:
    adapter = Adapter.objects.filter(run_id=run.pk).first()
    if adapter is None:
        state, failure = TrainingRun.objects.values_list("state", "failure").get(pk=run.pk)
        if state in {TrainingRun.State.FAILED, TrainingRun.State.REFUSED, TrainingRun.State.CANCELLED}:
            raise LoopStoppedError(f"run {run.pk} {state}: {failure}")
    if adapter is None or adapter.state == Adapter.State.CANDIDATE:
        return None
    is_adopted = not Segment.objects.filter(
        kind=SegmentKind.ADOPT, subject_id=adapter.pk, state=Segment.State.OPEN
    ).exists()
    return adapter if is_adopted or adapter.state == Adapter.State.REFUSED else None


def _wait_for(find: Callable[[], Found | None], what: str, worker: Worker) -> Found:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if (found := find()) is not None:
            return found
        time.sleep(POLL_S)
    failed = Task.objects.filter(project=worker.project, state=Task.State.FAILED).first()
    why = f"task {failed.pk} failed at {failed.failed_link}: {failed.failure}" if failed else "nothing failed"
    raise LoopStoppedError(f"{what} within {PATIENCE_S:.0f} s; {why}")


def _summarise(worker: Worker, run: TrainingRun, adapter: Adapter, update: int, wall_s: float) -> Round:
    batch = Batch.objects.get(run=run)
    rewards = Rollout.objects.filter(training_use__batch=batch).values_list("reward", flat=True)
    known = [reward for reward in rewards if reward is not None]
    panel = Evaluation.objects.on_panels().filter(adapter=adapter).first()
    verdict = adapter.verdicts.filter(question="safe").first()
    return Round(
        update=update,
        reward=sum(known) / len(known) if known else 0.0,
        held_out=panel.mean_outcome if panel else None,
        deployed=adapter.name if adapter.state == Adapter.State.DEPLOYED else "",
        verdict=verdict.words if verdict else "",
        wall_s=wall_s,
        train_s=run.summary.get("wall_s", 0.0),
    )


def measure_report(worker: Worker, adapter: Adapter | None) -> list[Evaluation]:
    """On the report's held-out tickets, sampled and greedy; the gate's panels are others."""
    panel = Panel("report", get_world("desk"), REPORT_SIZE, REPORT_SEED)
    return [
        measure(worker, adapter, panel.item_set, Evaluation.Purpose.REPORT, is_greedy=is_greedy).evaluation
        for is_greedy in (False, True)
    ]
