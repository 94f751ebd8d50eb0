"""How a worker has learned: held-out accuracy by adapter, reward by training run."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from django.db.models import Avg, Exists, OuterRef, Q, Subquery

from apps.adapters.models import Adapter, Deployment
from apps.adapters.selectors import find_deployment
from apps.evals.models import Evaluation
from apps.rollouts.models import Batch, Rollout
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from tentalis.core.scoring.calibration import Interval, wilson_interval

POINTS = 60


@dataclass(frozen=True)
class AccuracyPoint:
    """What one model did on a held-out panel. Version 0, without an adapter, is the base model."""

    result: Evaluation

    @property
    def version(self) -> int:
        return self.adapter.version if self.adapter else 0

    @property
    def adapter(self) -> Adapter | None:
        return self.result.adapter

    @property
    def state(self) -> str:
        return self.adapter.state if self.adapter else ""

    @property
    def panel(self) -> str:
        return self.result.item_set

    @property
    def items(self) -> int:
        return self.result.items

    @property
    def accuracy(self) -> float:
        """Mean outcome, in [0, 1]."""
        return self.result.mean_outcome or 0.0

    @cached_property
    def interval(self) -> Interval:
        """Of the accuracy, at 95 %; for outcomes between 0 and 1 it is wider than it need be."""
        return wilson_interval(self.accuracy * self.items, self.items)

    @property
    def low(self) -> float:
        return self.interval.low

    @property
    def high(self) -> float:
        return self.interval.high

    @property
    def step_score(self) -> float | None:
        return self.result.mean_step_score

    @property
    def at(self) -> datetime:
        return self.result.created_at


@dataclass(frozen=True)
class RewardPoint:
    """Mean reward, in [0, 1], of the rollouts a run learned from; None where nobody judged them."""

    run: TrainingRun
    reward: float | None


@dataclass(frozen=True)
class Learning:
    """One worker's way so far.

    Attributes:
        accuracy: each model's newest result; neighbours may have met other panels.
        served: the point of what serves now; None before it was measured.
        base: the base model's newest result on the panel that `served` was measured on; None where it has none there.
    """

    worker: Worker
    deployment: Deployment | None
    accuracy: Sequence[AccuracyPoint]
    served: AccuracyPoint | None
    base: AccuracyPoint | None
    rewards: Sequence[RewardPoint]

    @property
    def newest(self) -> AccuracyPoint | None:
        """What was measured last."""
        return max(self.accuracy, key=lambda point: point.result.pk, default=None)

    @property
    def gain_points(self) -> float | None:
        """Percentage points between what serves and the base model, on the same panel."""
        if self.served is None or self.base is None or self.served.version == 0:
            return None
        return 100 * (self.served.accuracy - self.base.accuracy)


def find_learning(worker: Worker) -> Learning:
    """The last `POINTS` adapters and runs of a worker, oldest first, and the base model."""
    deployment, accuracy = find_deployment(worker), find_accuracy(worker)[1]
    adapter_id = deployment.adapter_id if deployment else None
    served = next((one for one in accuracy if one.result.adapter_id == adapter_id), None)
    return Learning(
        worker=worker,
        deployment=deployment,
        accuracy=accuracy,
        served=served,
        base=_find_base(accuracy, served),
        rewards=_find_rewards(worker),
    )


def _find_base(accuracy: Sequence[AccuracyPoint], served: AccuracyPoint | None) -> AccuracyPoint | None:
    newest = next((point for point in accuracy if point.version == 0), None)
    if served is None or newest is None or newest.panel == served.panel:
        return newest
    older = Evaluation.objects.on_panels().filter(worker=served.result.worker_id, adapter=None, item_set=served.panel)
    found = older.order_by("-pk").first()
    return AccuracyPoint(found) if found else None


def find_rewards(runs: Sequence[TrainingRun]) -> list[RewardPoint]:
    """The runs with the mean reward of their batches, read from the ledger."""
    # batch by batch: asked for all at once, Postgres reads the ledger from end to end
    learned = Rollout.objects.filter(training_use__batch=OuterRef("pk")).order_by().values("training_use__batch")
    mean = Subquery(learned.annotate(mean=Avg("reward")).values("mean"))
    batches = Batch.objects.filter(pk__in=[run.batch_id for run in runs]).order_by()
    means = dict(batches.values_list("pk", mean))
    return [RewardPoint(run, means.get(run.batch_id)) for run in runs]


def find_accuracy(worker: Worker) -> tuple[str, list[AccuracyPoint]]:
    """Name of the newest panel, and each model's newest result.

    Panels are refreshed now and then, so neighbours may have met other items.
    """
    results = Evaluation.objects.on_panels().filter(worker=worker)
    measured = Evaluation.objects.on_panels().filter(adapter=OuterRef("pk"))
    shown = Adapter.objects.filter(Exists(measured), worker=worker).order_by("-version").values("pk")[:POINTS]
    newest = results.filter(Q(adapter=None) | Q(adapter__in=shown)).order_by("adapter_id", "-id").distinct("adapter_id")
    rows = list(newest.select_related("adapter").defer("adapter__manifest", "profile"))
    panel = max(rows, key=lambda row: row.pk).item_set if rows else ""
    return panel, sorted(map(AccuracyPoint, rows), key=lambda point: point.version)


def list_measurements(worker: Worker) -> list[AccuracyPoint]:
    """Every measurement of the worker's models, by version and time."""
    results = Evaluation.objects.on_panels().filter(worker=worker).select_related("adapter").defer("adapter__manifest")
    points = map(AccuracyPoint, results.order_by("id"))
    return sorted(points, key=lambda point: (point.version, point.at))


def _find_rewards(worker: Worker) -> list[RewardPoint]:
    """Of the runs that learnt from a batch, by its number: no other has a reward, nor a place on the chart."""
    runs = (
        TrainingRun.objects.filter(worker=worker, batch__isnull=False)
        .select_related("batch")
        .defer("metrics", "spec", "recipe")
    )
    return find_rewards(list(reversed(runs.order_by("-batch__number", "-id")[:POINTS])))
