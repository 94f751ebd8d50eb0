"""Runs and adapters as pages show them: figures in columns, and where everything came from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from django.db.models import Count, Prefetch, Q
from django.utils.dateparse import parse_datetime

from apps.accounts.models import Project
from apps.adapters.models import Adapter, Deployment, Shadow, Verdict
from apps.adapters.permitted import CHANGED_FROM, is_before_gate, why_not
from apps.adapters.selectors import find_deployment
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.base.pages import take_page
from apps.console.selectors.gate_tables import GateTables, read_gate_tables
from apps.console.selectors.metrics import SHORT, Chart, ChartGroup, group_charts, split_charts
from apps.console.selectors.replies import RepliedTwice, find_replies
from apps.console.selectors.trace import Movement, find_movement
from apps.evals.models import Evaluation
from apps.feedback.models import Feedback
from apps.gate.pairs import Waiting, find_waiting, why_no_people
from apps.inference.costs import Cost
from apps.reports.learning_curve import AccuracyPoint, find_rewards
from apps.reports.lineage import PersonShare, find_people
from apps.rollouts.contents import Contents, WorkerShare, count_contents, count_workers
from apps.rollouts.models import Batch
from apps.tasks.models import Task
from apps.training import run_control
from apps.training.cost_benefit import COMPARED
from apps.training.models import TrainingRun
from apps.training.results import cost_of_run
from apps.training.retrying import Untaken, find_untaken
from apps.workers.base_names import name_base
from apps.workers.models import Worker
from tentalis.core.learning.gate import PairedComparison

PAGE = 20
MOST_PEOPLE = 12
MOST_SERVED = 200
SAMPLE_TASKS = 20
OFFERED = 12
SHADOWS = TRIALS = 5


@dataclass(frozen=True)
class RunRow:
    """A run of the list: what it learns from, the mean reward of that, what it made and what that brought.

    Attributes:
        reward, holds, adapter: None where it has none.
        brought: its adapter beside what served when the gate judged it; None where nothing was measured.
    """

    run: TrainingRun
    reward: float | None
    holds: Contents | None
    adapter: Adapter | None = None
    brought: PairedComparison | None = None


@dataclass(frozen=True)
class VerdictRow:
    """A verdict of the list: what was measured, None where nothing was; its words tell why."""

    verdict: Verdict
    found: PairedComparison | None


@dataclass(frozen=True)
class AdapterRow:
    """An adapter of the list, with its newest result on held-out tasks."""

    adapter: Adapter
    measured: AccuracyPoint | None
    verdicts: Sequence[VerdictRow]


@dataclass(frozen=True)
class RunView:
    """Everything the run page shows.

    Attributes:
        holds: what its batch holds; None where it learns from no batch.
        workers: who did its tasks; () where that is but the one whose line it is.
        others: runs that are drawn beside it, in the order of the charts' series after its own.
        offered: runs of the same worker that could be.
    """

    run: TrainingRun
    reward: float | None
    holds: Contents | None
    groups: Sequence[ChartGroup]
    adapter: Adapter | None
    tasks: Sequence[Task]
    workers: Sequence[WorkerShare] = ()
    others: Sequence[TrainingRun] = ()
    offered: Sequence[TrainingRun] = ()
    cost: Cost = field(default_factory=Cost)

    @property
    def is_short(self) -> bool:
        """Whether a table says its updates better than charts."""
        return not self.others and all(len(chart.updates) <= SHORT for group in self.groups for chart in group.charts)

    @cached_property
    def table(self) -> tuple[list[int], list[tuple[Chart, list[float | None]]]]:
        """The numbers of its updates, and each metric with its values there; for a short run."""
        charts = [chart for group in self.groups for chart in group.charts]
        updates = sorted({update for chart in charts for update in chart.updates})
        return updates, [
            (chart, [dict(zip(chart.updates, chart.series[0], strict=True)).get(update) for update in updates])
            for chart in charts
        ]

    @cached_property
    def first_charts(self) -> list[Chart]:
        """The few that it is read by."""
        return split_charts(self.groups)[0]

    @cached_property
    def other_groups(self) -> list[ChartGroup]:
        return split_charts(self.groups)[1]

    @property
    def other_count(self) -> int:
        return sum(len(group.charts) for group in self.other_groups)

    @property
    def subject(self) -> str:
        """What live updates call it."""
        return f"run:{self.run.pk}"

    @property
    def runs(self) -> list[TrainingRun]:
        """Everything drawn, this run first."""
        return [self.run, *self.others]

    @property
    def base(self) -> str:
        """What it was, or would be, trained on; "" where nobody said."""
        if self.adapter is not None and (told := self.adapter.manifest.get("base_model")):
            return str(told)
        return name_base(self.run.worker)

    @property
    def untaken(self) -> Untaken | None:
        return find_untaken(self.run)

    @property
    def is_under_way(self) -> bool:
        return self.run.state == TrainingRun.State.RUNNING

    @cached_property
    def can_be(self) -> list[str]:
        """cancelled, paused, resumed, tried again."""
        return [change for change in run_control.CHANGED_FROM if not run_control.why_not(self.run, change)]


@dataclass(frozen=True)
class Trial:
    """A canary that ended.

    Attributes:
        outcome: stopped, harm, promoted or replaced; words: what it found, and why it ended.
        by: who ended it.
    """

    percent: int
    outcome: str
    words: str
    by: str
    started_at: datetime | None
    ended_at: datetime

    @classmethod
    def read(cls, entry: AuditEntry) -> "Trial":
        told = entry.payload
        began = parse_datetime(str(told.get("started_at", "")))
        return cls(told["percent"], told["outcome"], told["words"], entry.actor, began, entry.at)

    @property
    def did_harm(self) -> bool:
        return self.outcome == "harm"


@dataclass(frozen=True)
class AdapterView:
    """Everything the adapter page shows.

    Attributes:
        compared: name -> id of those a verdict compared it with.
        waiting: what it waits for, where people compare its answers.
    """

    adapter: Adapter
    verdicts: Sequence[Verdict]
    panels: Sequence[AccuracyPoint]
    run: TrainingRun | None
    holds: Contents | None
    deployment: Deployment | None
    people: Sequence[PersonShare]
    movement: Movement | None
    tables: GateTables
    replies: Sequence[RepliedTwice]
    shadows: Sequence[Shadow]
    trials: Sequence[Trial]
    compared: Mapping[str, int]
    waiting: Waiting | None

    @cached_property
    def can_ask_people(self) -> bool:
        """Whether people could compare its answers, where the gate could not tell them apart."""
        return not why_no_people(self.adapter)

    @property
    def subject(self) -> str:
        """What live updates call it."""
        return f"adapter:{self.adapter.pk}"

    @cached_property
    def is_at_gate(self) -> bool:
        """Whether the gate looks at it, or is yet to."""
        return is_before_gate(self.adapter)

    @property
    def is_canary(self) -> bool:
        return self.deployment is not None and self.deployment.canary_id == self.adapter.pk

    @property
    def is_held(self) -> bool:
        """Whether it passed the gate and waits for the end of another's trial."""
        waits = self.adapter.held_since is not None and self.adapter.state == Adapter.State.VERIFIED
        return waits and self.deployment is not None and self.deployment.canary_id is not None

    @property
    def can_be_canary(self) -> bool:
        """Whether it could get a share of the work now: nothing else is tried."""
        is_free = self.deployment is None or self.deployment.canary_id is None
        return is_free and not self.why_not["tried"]

    @cached_property
    def why_not(self) -> dict[str, str]:
        """Why it cannot be promoted, tried, suspected, released; "" where it can."""
        return {change: why_not(self.adapter, change) for change in CHANGED_FROM}

    @property
    def is_shadow(self) -> bool:
        return any(one.state == Shadow.State.RUNNING for one in self.shadows)

    @property
    def is_served(self) -> bool:
        return self.deployment is not None and self.deployment.adapter_id == self.adapter.pk


def find_runs(
    project: Project, *, worker: str = "", state: str = "", tag: str = "", before: int | None = None
) -> tuple[list[RunRow], int | None]:
    """A page of runs, newest first, and the id to go on below; None at the end."""
    runs = TrainingRun.objects.filter(project=project).select_related("worker", "batch", "parent")
    if worker:
        runs = runs.filter(worker__name=worker)
    if state:
        runs = runs.filter(state=state)
    if tag:
        runs = runs.filter(tags__contains=[tag])
    page, older = take_page(runs.defer("metrics", "spec", "recipe"), before=before, size=PAGE)
    held = count_contents(run.batch for run in page if run.batch is not None)
    adapters = Adapter.objects.filter(run_id__in=[run.pk for run in page]).prefetch_related("verdicts")
    made = {adapter.run_id: adapter for adapter in adapters.defer("manifest")}
    rows = [
        RunRow(
            one.run, one.reward, held.get(one.run.batch_id or 0), made.get(one.run.pk), _brought(made.get(one.run.pk))
        )
        for one in find_rewards(page)
    ]
    return rows, older


def show_run(project: Project, run_id: int, *, others: Sequence[int] = ()) -> RunView | None:
    """None where there is no such run, or one of the `others` is none."""
    runs = TrainingRun.objects.filter(project=project).select_related("worker", "batch", "parent").defer("spec")
    found = runs.in_bulk([run_id, *others])
    if run_id not in found or any(other not in found for other in others):
        return None
    run, beside = found[run_id], [found[other] for other in others]
    tasks = Task.objects.none()
    if run.batch is not None:
        tasks = Task.objects.filter(pk__in=run.batch.task_ids()).order_by("id")
    judged = Prefetch("feedback", Feedback.objects.standing().only("task", "author").order_by("pk"), to_attr="judged")
    workers = count_workers(run.batch) if run.batch is not None else []
    offered = TrainingRun.objects.filter(worker=run.worker_id).exclude(pk=run.pk).exclude(metrics=[])
    return RunView(
        run=run,
        reward=find_rewards([run])[0].reward,
        holds=count_contents([run.batch])[run.batch.pk] if run.batch is not None else None,
        groups=group_charts([one.metrics for one in (run, *beside)]),
        adapter=Adapter.objects.filter(run_id=run.pk).first(),
        tasks=list(tasks.only("pk", "prompt", "score", "state").prefetch_related(judged)[:SAMPLE_TASKS]),
        workers=workers if any(one.worker != run.worker.name for one in workers) else (),
        others=beside,
        cost=cost_of_run(run).total,
        offered=list(offered.select_related("batch").defer("metrics", "spec", "recipe").order_by("-id")[:OFFERED]),
    )


def find_adapters(
    project: Project, *, worker: str = "", state: str = "", before: int | None = None
) -> tuple[list[AdapterRow], int | None]:
    """A page of adapters, newest first, with their verdicts and results, and the id to go on below."""
    adapters = Adapter.objects.filter(project=project).select_related("worker").prefetch_related("verdicts")
    if worker:
        adapters = adapters.filter(worker__name=worker)
    if state:
        adapters = adapters.filter(state=state)
    page, older = take_page(adapters.defer("manifest"), before=before, size=PAGE)
    results = Evaluation.objects.on_panels().filter(adapter__in=page).defer("profile")
    newest = results.select_related("adapter").order_by("adapter_id", "-pk").distinct("adapter_id")
    measured = {result.adapter_id: AccuracyPoint(result) for result in newest}
    rows = [
        AdapterRow(
            one, measured.get(one.pk), [VerdictRow(verdict, read_found(verdict)) for verdict in one.verdicts.all()]
        )
        for one in page
    ]
    return rows, older


def read_found(verdict: Verdict) -> PairedComparison | None:
    """What the verdict compared; None where nothing was measured."""
    numbers = verdict.details.get(COMPARED)
    return PairedComparison(**numbers) if numbers else None


def _brought(adapter: Adapter | None) -> PairedComparison | None:
    verdicts = adapter.verdicts.all() if adapter is not None else ()
    return next((read_found(one) for one in verdicts if one.question == Verdict.Question.SAFE), None)


def find_deployments(project: Project) -> list[Deployment]:
    """What serves which worker, and the people whose own adapter came last."""
    deployments = Deployment.objects.filter(worker__project=project).select_related(
        "worker", "adapter", "previous", "canary"
    )
    latest = deployments.alias(is_own=Q(end_user="")).order_by("-is_own", "-moved_at")[:MOST_SERVED]
    own = [one for one in latest if not one.end_user]
    people = [one for one in latest if one.end_user and one.adapter_id is not None]
    return [*sorted(own, key=lambda one: one.worker.name), *people[:MOST_PEOPLE]]


def find_open_batches(project: Project) -> list[Batch]:
    """Those that fill: the workers', and of people the newest."""
    filling = Batch.objects.filter(project=project, state=Batch.State.OPEN).select_related("worker")
    latest = list(filling.alias(is_own=Q(end_user="")).order_by("-is_own", "-id")[:MOST_SERVED])
    own = [batch for batch in latest if not batch.end_user]
    return [*own, *latest[len(own) :][:MOST_PEOPLE]]


def find_open_batch(worker: Worker, end_user: str = "") -> Batch | None:
    """What the next training of a worker's line, or of one person's, learns from."""
    return Batch.objects.filter(worker=worker.line_id, end_user=end_user, state=Batch.State.OPEN).first()


def _find_trials(adapter: Adapter) -> list[AuditEntry]:
    """The ends of its latest trials, newest first."""
    told = AuditEntry.objects.filter(subject_type="adapter", subject_id=adapter.pk, kind=Kind.CANARY_ENDED)
    return list(told.order_by("-id")[:TRIALS])


def show_adapter(project: Project, adapter_id: int) -> AdapterView | None:
    adapter = Adapter.objects.filter(project=project, pk=adapter_id).select_related("worker", "parent").first()
    if adapter is None:
        return None
    results = Evaluation.objects.on_panels().filter(adapter=adapter).select_related("adapter").order_by("-id")
    runs = TrainingRun.objects.filter(project=project, pk=adapter.run_id or 0).select_related("batch")
    run = runs.defer("metrics", "spec", "recipe").first()
    batch = run.batch if run else None
    verdicts = list(Verdict.objects.filter(adapter=adapter))
    named = Adapter.objects.filter(worker=adapter.worker_id, name__in={one.compared_with for one in verdicts})
    return AdapterView(
        adapter=adapter,
        verdicts=verdicts,
        panels=list(map(AccuracyPoint, results)),
        run=run,
        holds=count_contents([batch])[batch.pk] if batch is not None else None,
        deployment=find_deployment(adapter.worker, end_user=adapter.end_user),
        people=find_people(adapter),
        movement=find_movement(adapter),
        tables=read_gate_tables(adapter, verdicts),
        replies=find_replies(adapter),
        compared=dict(named.values_list("name", "pk")),
        waiting=find_waiting(adapter),
        trials=[Trial.read(entry) for entry in _find_trials(adapter)],
        shadows=list(
            Shadow.objects.filter(adapter=adapter).annotate(tasks=Count("attempts")).order_by("-pk")[:SHADOWS]
        ),
    )
