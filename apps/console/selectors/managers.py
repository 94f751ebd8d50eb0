"""What managers learnt from audits, as the quality pages show it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from apps.accounts.models import Project
from apps.calibration.models import Rater
from apps.console.selectors.quality import name_rater
from apps.tasks.models import Task
from apps.training.models import ManagerRun

LATEST = 20
TASKS = 12
POINTS = 60


@dataclass(frozen=True)
class Estimate:
    """A number with its interval; None where it is not known."""

    value: float | None
    low: float | None
    high: float | None

    @classmethod
    def read(cls, metrics: Mapping[str, Any], name: str) -> "Estimate":
        low, high = metrics.get(f"{name}_interval") or (None, None)
        return cls(metrics.get(name), low, high)


@dataclass(frozen=True)
class FitRow:
    """One fit of a manager's weights, or one training of its adapter."""

    run: ManagerRun

    @property
    def name(self) -> str:
        return name_rater(self.run.manager)

    @cached_property
    def before(self) -> Estimate:
        return Estimate.read(self.run.metrics, "auc_before")

    @cached_property
    def after(self) -> Estimate:
        return Estimate.read(self.run.metrics, "auc_after")

    @cached_property
    def influence(self) -> Estimate:
        return Estimate.read(self.run.metrics, "influence")

    @property
    def gate(self) -> float | None:
        value: float | None = self.run.metrics.get("gate")
        return value

    @property
    def control(self) -> float | None:
        """AUC of the rubric as it is written, or of the model without an adapter, on the same audits."""
        value: float | None = self.run.metrics.get("control")
        return value

    @property
    def held_out(self) -> int:
        """Audits an adapter was kept from and is judged on."""
        return len(self.run.metrics.get("held_out", ()))


@dataclass(frozen=True)
class WeightRow:
    """One rubric item's weight before and after, and how sure the audits are of it."""

    item: str
    before: float
    after: float
    std: float | None

    @property
    def change(self) -> float:
        return self.after - self.before


@dataclass(frozen=True)
class FitView:
    """Everything the page of one fit shows.

    Args:
        weights: those that moved most first; history: the manager's fits, oldest first.
        rater: None where nobody knows the manager any more.
        tasks: the first of those whose audits it learnt from, as far as they still exist.
    """

    row: FitRow
    weights: Sequence[WeightRow]
    history: Sequence[FitRow]
    rater: Rater | None
    tasks: Sequence[Task] = ()

    @property
    def subject(self) -> str:
        """What live updates call it."""
        return f"managerrun:{self.row.run.pk}"


def find_fits(project: Project) -> list[FitRow]:
    """The latest fits of any manager. One query."""
    rows = ManagerRun.objects.filter(project=project).order_by("-id").defer("before", "weights")
    return [FitRow(run) for run in rows[:LATEST]]


def show_fit(project: Project, run_id: int) -> FitView | None:
    """Four queries; None where there is no such fit."""
    run = ManagerRun.objects.filter(project=project, pk=run_id).select_related("parent").first()
    if run is None:
        return None
    stds = run.metrics.get("stds") or {}
    weights = [
        WeightRow(item, run.before.get(item, 0.0), run.weights.get(item, 0.0), stds.get(item))
        for item in run.weights.keys() | run.before.keys()
    ]
    earlier = ManagerRun.objects.filter(project=project, manager=run.manager, kind=run.kind).order_by("-id")
    return FitView(
        row=FitRow(run),
        weights=sorted(weights, key=lambda row: (-abs(row.change), row.item)),
        history=[FitRow(one) for one in earlier.defer("before", "weights")[:POINTS]][::-1],
        rater=Rater.objects.filter(project=project, handle=run.manager).first(),
        tasks=list(Task.objects.filter(project=project, pk__in=run.learnt_from).order_by("pk").only("prompt")[:TASKS]),
    )
