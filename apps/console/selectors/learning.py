"""How a worker has learned: held-out accuracy by adapter, reward by training run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import NormalDist, fmean

from django.db.models import Avg, Exists, OuterRef, Q, Subquery

from apps.accounts.models import Project
from apps.adapters.models import Adapter, Deployment, PanelResult
from apps.adapters.selectors import find_deployment
from apps.rollouts.models import Batch, Rollout
from apps.training.models import TrainingRun
from apps.workers.models import Worker

CONFIDENCE = 0.95
POINTS = 60


@dataclass(frozen=True)
class AccuracyPoint:
    """What one model did on the held-out panel. Version 0 is the base model.

    Attributes:
        accuracy, low, high: mean outcome in [0, 1] and its 95 % interval.
    """

    version: int
    adapter: Adapter | None
    items: int
    accuracy: float
    low: float
    high: float
    at: datetime


@dataclass(frozen=True)
class RewardPoint:
    """Mean reward, in [0, 1], of the rollouts a run learned from; None where nobody judged them."""

    run: TrainingRun
    reward: float | None


@dataclass(frozen=True)
class Learning:
    """One worker's way so far.

    Attributes:
        panel: name of the newest held-out panel.
        served: the point of what serves now; None before it was measured.
    """

    worker: Worker
    deployment: Deployment | None
    panel: str
    accuracy: Sequence[AccuracyPoint]
    rewards: Sequence[RewardPoint]

    @property
    def base(self) -> AccuracyPoint | None:
        return next((point for point in self.accuracy if point.version == 0), None)

    @property
    def served(self) -> AccuracyPoint | None:
        adapter_id = self.deployment.adapter_id if self.deployment else None
        return next((p for p in self.accuracy if (p.adapter.pk if p.adapter else None) == adapter_id), None)

    @property
    def gain_points(self) -> float | None:
        """Percentage points between what serves and the base model."""
        if self.served is None or self.base is None or self.served is self.base:
            return None
        return 100 * (self.served.accuracy - self.base.accuracy)


def wilson_interval(mean: float, items: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Interval of a share measured on `items` independent items.

    Args:
        mean: in [0, 1].
    Returns:
        (low, high), both in [0, 1].
    Source:
        Wilson 1927. For outcomes between 0 and 1 it is wider than it need be.
    """
    if items < 1:
        raise ValueError(f"items must be at least 1, found {items}")
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    spread = z * math.sqrt(mean * (1 - mean) / items + z * z / (4 * items * items))
    centre, scale = mean + z * z / (2 * items), 1 + z * z / items
    low, high = (centre - spread) / scale, (centre + spread) / scale
    return (0.0 if mean == 0 else low), (1.0 if mean == 1 else high)


def find_learning(worker: Worker) -> Learning:
    """The last `POINTS` adapters and runs of a worker, oldest first, and the base model."""
    panel, accuracy = find_accuracy(worker)
    return Learning(
        worker=worker,
        deployment=find_deployment(worker),
        panel=panel,
        accuracy=accuracy,
        rewards=_find_rewards(worker),
    )


def find_rewards(runs: Sequence[TrainingRun]) -> list[RewardPoint]:
    """The runs with the mean reward of their batches, read from the ledger."""
    # batch by batch: asked for all at once, Postgres reads the ledger from end to end
    learned = Rollout.objects.filter(training_use__batch=OuterRef("pk")).order_by().values("training_use__batch")
    mean = Subquery(learned.annotate(mean=Avg("reward")).values("mean"))
    batches = Batch.objects.filter(pk__in=[run.batch_id for run in runs]).order_by()
    means = dict(batches.values_list("pk", mean))
    return [RewardPoint(run, means.get(run.batch_id)) for run in runs]


def choose_worker(project: Project, name: str) -> tuple[Worker | None, list[Worker]]:
    """The worker a page is about: the named one, else the one that learned last, else the first; and all of them.

    Of those who learn with another, that one: they have no line of their own.
    """
    every = list(Worker.objects.filter(project=project).select_related("learns_with"))
    workers = [worker for worker in every if worker.learns_with_id is None]
    named = next((worker.line for worker in every if worker.name == name), None)
    if named is not None or len(workers) < 2:
        return named or next(iter(workers), None), workers
    last = TrainingRun.objects.filter(project=project).order_by("-id").values_list("worker_id", flat=True).first()
    return next((worker for worker in workers if worker.pk == last), workers[0]), workers


def find_accuracy(worker: Worker) -> tuple[str, list[AccuracyPoint]]:
    """Name of the newest panel, and each model's newest result.

    Panels are refreshed now and then, so neighbours may have met other items.
    """
    results = PanelResult.objects.filter(worker=worker)
    measured = PanelResult.objects.filter(adapter=OuterRef("pk"))
    shown = Adapter.objects.filter(Exists(measured), worker=worker).order_by("-version").values("pk")[:POINTS]
    newest = results.filter(Q(adapter=None) | Q(adapter__in=shown)).order_by("adapter_id", "-id").distinct("adapter_id")
    rows = [row for row in newest.select_related("adapter").defer("adapter__manifest", "step_scores") if row.outcomes]
    panel = max(rows, key=lambda row: row.pk).panel if rows else ""
    return panel, sorted((point_of(row) for row in rows), key=lambda point: point.version)


def point_of(result: PanelResult) -> AccuracyPoint:
    """A panel result as a point of the curve."""
    mean = fmean(result.outcomes)
    low, high = wilson_interval(mean, len(result.outcomes))
    version = result.adapter.version if result.adapter else 0
    return AccuracyPoint(version, result.adapter, len(result.outcomes), mean, low, high, result.created_at)


def _find_rewards(worker: Worker) -> list[RewardPoint]:
    """Of the runs that learnt from a batch: no other has a reward, nor a place on the chart."""
    runs = (
        TrainingRun.objects.filter(worker=worker, batch__isnull=False)
        .select_related("batch")
        .defer("metrics", "spec", "recipe")
    )
    return find_rewards(list(reversed(runs.order_by("-id")[:POINTS])))
