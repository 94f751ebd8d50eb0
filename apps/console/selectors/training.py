"""Runs and adapters as pages show them: figures in columns, and where everything came from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.accounts.models import Project
from apps.adapters.models import Adapter, Deployment, PanelResult, Verdict
from apps.console.selectors.learning import AccuracyPoint, RewardPoint, find_rewards, point_of
from apps.rollouts.models import Batch
from apps.tasks.models import Task
from apps.training.models import TrainingRun

PAGE = 25
MOST_UPDATES = 2000
SAMPLE_TASKS = 60
INITIALS = {"kl", "opd", "rl"}


@dataclass(frozen=True)
class MetricColumn:
    """One figure over a run's updates; None where an update did not report it."""

    name: str
    values: Sequence[float | None]

    @property
    def label(self) -> str:
        words = self.name.replace("_per_s", "_per_second").replace("_", " ")
        return words.upper() if words in INITIALS else words[:1].upper() + words[1:]


@dataclass(frozen=True)
class RunView:
    """Everything the run page shows."""

    run: TrainingRun
    reward: float | None
    columns: Sequence[MetricColumn]
    adapter: Adapter | None
    tasks: Sequence[Task]

    @property
    def subject(self) -> str:
        """What live updates call it."""
        return f"run:{self.run.pk}"

    @property
    def updates(self) -> list[list[float | None]]:
        """One row an update, in the order of `columns`."""
        return [list(row) for row in zip(*(column.values for column in self.columns), strict=True)]

    @property
    def can_be_cancelled(self) -> bool:
        return self.run.state in {TrainingRun.State.QUEUED, TrainingRun.State.RUNNING}


@dataclass(frozen=True)
class AdapterView:
    """Everything the adapter page shows."""

    adapter: Adapter
    verdicts: Sequence[Verdict]
    panels: Sequence[AccuracyPoint]
    run: TrainingRun | None
    deployment: Deployment | None

    @property
    def subject(self) -> str:
        """What live updates call it."""
        return f"adapter:{self.adapter.pk}"

    @property
    def is_served(self) -> bool:
        return self.deployment is not None and self.deployment.adapter_id == self.adapter.pk

    @property
    def can_be_promoted(self) -> bool:
        return not self.is_served and self.adapter.state in {Adapter.State.VERIFIED, Adapter.State.RETIRED}


def find_runs(project: Project, *, before: int | None = None) -> tuple[list[RewardPoint], int | None]:
    """A page of runs, newest first, and the id to go on below; None at the end."""
    runs = TrainingRun.objects.filter(project=project).select_related("worker", "batch", "parent")
    if before is not None:
        runs = runs.filter(pk__lt=before)
    found = list(runs.defer("metrics", "spec", "recipe").order_by("-id")[: PAGE + 1])
    return find_rewards(found[:PAGE]), found[PAGE - 1].pk if len(found) > PAGE else None


def show_run(project: Project, run_id: int) -> RunView | None:
    runs = TrainingRun.objects.filter(project=project, pk=run_id).select_related("worker", "batch", "parent")
    run = runs.defer("spec").first()
    if run is None:
        return None
    tasks = Task.objects.filter(rollouts__training_use__batch=run.batch_id).order_by("id").distinct()
    return RunView(
        run=run,
        reward=find_rewards([run])[0].reward,
        columns=_columns(run.metrics),
        adapter=Adapter.objects.filter(run_id=run.pk).first(),
        tasks=list(tasks.only("pk", "prompt", "score", "state")[:SAMPLE_TASKS]),
    )


def find_adapters(project: Project, *, before: int | None = None) -> tuple[list[Adapter], int | None]:
    """A page of adapters, newest first, with their verdicts, and the id to go on below."""
    adapters = Adapter.objects.filter(project=project).select_related("worker").prefetch_related("verdicts")
    if before is not None:
        adapters = adapters.filter(pk__lt=before)
    found = list(adapters.order_by("-id")[: PAGE + 1])
    return found[:PAGE], found[PAGE - 1].pk if len(found) > PAGE else None


def find_deployments(project: Project) -> list[Deployment]:
    """What serves which worker."""
    deployments = Deployment.objects.filter(worker__project=project).select_related("worker", "adapter", "previous")
    return list(deployments.order_by("worker__name"))


def find_open_batches(project: Project) -> list[Batch]:
    return list(Batch.objects.filter(project=project, state=Batch.State.OPEN).select_related("worker"))


def show_adapter(project: Project, adapter_id: int) -> AdapterView | None:
    adapter = Adapter.objects.filter(project=project, pk=adapter_id).select_related("worker", "parent").first()
    if adapter is None:
        return None
    results = PanelResult.objects.filter(adapter=adapter).select_related("adapter").order_by("-id")
    runs = TrainingRun.objects.filter(project=project, pk=adapter.run_id or 0).select_related("batch")
    return AdapterView(
        adapter=adapter,
        verdicts=list(Verdict.objects.filter(adapter=adapter)),
        panels=[point_of(result) for result in results if result.outcomes],
        run=runs.defer("metrics", "spec", "recipe").first(),
        deployment=Deployment.objects.filter(worker=adapter.worker_id).select_related("previous").first(),
    )


def _columns(metrics: Sequence[Mapping[str, Any]]) -> list[MetricColumn]:
    """The numbers of a run's updates by name; only the last `MOST_UPDATES` are drawn."""
    rows = metrics[-MOST_UPDATES:]
    names = dict.fromkeys(name for row in rows for name, value in row.items() if name != "update" and _is_number(value))
    return [MetricColumn(name, [row[name] if _is_number(row.get(name)) else None for row in rows]) for name in names]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
