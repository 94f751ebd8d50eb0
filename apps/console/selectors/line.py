"""A worker's line: what its trainings found, one after the other, by the version each made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models.fields.json import KeyTransform
from django.utils.translation import gettext_lazy as _

from apps.adapters.models import Adapter
from apps.console.selectors.metrics import MetricWords, is_number, say_metric
from apps.reports.learning_curve import POINTS, AccuracyPoint, find_accuracy, find_rewards
from apps.training.models import TrainingRun
from apps.workers.models import Worker

LEAST_VERSIONS = 2
TOLD = ("kl", "kl_base", "entropy", "mean_length_tokens")
"""Metrics of which a run's last update stands for the run."""
SHARES = frozenset({"accuracy", "silent"})

WORDS: Mapping[str, MetricWords] = {
    "reward": MetricWords(
        "", _("Mean reward"), _("0 to 1"), _("Of the attempts it learned from, with a standard deviation each way.")
    ),
    "accuracy": MetricWords(
        "", _("Held-out accuracy"), "", _("Share of tasks never trained on done right, with its 95 % interval.")
    ),
    "silent": MetricWords(
        "", _("Groups without signal"), "", _("Share of tasks whose attempts all earned the same: nothing to prefer.")
    ),
    **{name: say_metric(name) for name in TOLD},
    "staleness": MetricWords(
        "",
        _("Staleness"),
        _("versions"),
        _("How many versions old the attempts were that it learned from, on average."),
    ),
}
WITH_INTERVAL = frozenset({"reward", "accuracy"})


@dataclass(frozen=True)
class LineChart:
    """One figure over the versions. `place`: of its column in the table; its interval is in the two behind it."""

    name: str
    place: int

    @property
    def words(self) -> MetricWords:
        return WORDS[self.name]

    @property
    def has_interval(self) -> bool:
        return self.name in WITH_INTERVAL

    @property
    def is_share(self) -> bool:
        return self.name in SHARES

    @property
    def is_up_to_1(self) -> bool:
        return self.is_share or self.name == "reward"


@dataclass(frozen=True)
class LineRow:
    """A version of the line; 0 is the base model, which no run made. `cells`: (value, is a share), by column."""

    version: int
    adapter: Adapter | None
    run: TrainingRun | None
    cells: Sequence[tuple[float | None, bool]]


@dataclass(frozen=True)
class Line:
    """The last `POINTS` versions, oldest first, and what of them can be drawn."""

    charts: Sequence[LineChart]
    rows: Sequence[LineRow]


def find_line(worker: Worker) -> Line | None:
    """What a worker's trainings found, version by version; None before there are two to compare. Five queries."""
    own = Adapter.objects.filter(worker=worker, end_user="", run_id__isnull=False).defer("manifest")
    adapters = {one.version: one for one in own.order_by("-version")[:POINTS]}
    measured = {point.version: point for point in find_accuracy(worker)[1]}
    versions = sorted(adapters.keys() | (measured.keys() & {0}))
    if len(versions) < LEAST_VERSIONS:
        return None
    runs = {run.pk: run for run in _find_runs([one.run_id for one in adapters.values() if one.run_id is not None])}
    rewards = {point.run.pk: point.reward for point in find_rewards(list(runs.values()))}
    made = {version: runs.get(adapters[version].run_id or 0) for version in adapters}
    found = {version: _read_version(made.get(version), rewards, measured.get(version)) for version in versions}
    drawn = [name for name in WORDS if any(found[version][name][0] is not None for version in versions)]
    charts, place = [], 1
    for name in drawn:
        charts.append(LineChart(name, place))
        place += 3 if name in WITH_INTERVAL else 1
    rows = [
        LineRow(
            version,
            adapters.get(version),
            made.get(version),
            [(value, name in SHARES) for name in drawn for value in found[version][name]],
        )
        for version in versions
    ]
    return Line(charts, rows)


def _find_runs(ids: Sequence[int]) -> list[TrainingRun]:
    """Runs with the metrics of their last update alone, as `last`: those of a long run are many."""
    rows = TrainingRun.objects.filter(pk__in=ids).defer("metrics", "spec", "recipe", "gates", "notes")
    return list(rows.annotate(last=KeyTransform("-1", "metrics")))


def _read_version(
    run: TrainingRun | None, rewards: Mapping[int, float | None], measured: AccuracyPoint | None
) -> dict[str, tuple[float | None, ...]]:
    said: Mapping[str, Any] = run.summary if run is not None else {}
    last: Mapping[str, Any] = getattr(run, "last", None) or {}
    reward, std = rewards.get(run.pk) if run is not None else None, _read(said, "reward_std")
    low, high = (
        (max(0.0, reward - std), min(1.0, reward + std)) if reward is not None and std is not None else (None, None)
    )
    silent, groups = _read(said, "groups_without_signal"), _read(said, "groups")
    return {
        "reward": (reward, low, high),
        "accuracy": (measured.accuracy, measured.low, measured.high) if measured else (None, None, None),
        "silent": (silent / groups if silent is not None and groups else None,),
        **{name: (_read(last, name),) for name in TOLD},
        "staleness": (_read(said, "staleness"),),
    }


def _read(told: Mapping[str, Any], name: str) -> float | None:
    value = told.get(name)
    return float(value) if value is not None and is_number(value) else None
