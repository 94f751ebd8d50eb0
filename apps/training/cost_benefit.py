"""Compare the cost of trainings with the measured benefit. Nothing is credited that was not measured."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate
from typing import Any

from django.db.models import Prefetch, Q

from apps.adapters.models import Adapter, Verdict
from apps.adapters.selectors import find_deployment
from apps.evals.comparing import pair, read_outcomes
from apps.evals.models import Evaluation
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from tentalis.core.learning.gate import GatePolicy, PairedComparison, compare_paired

COMPARED = "sampled accuracy"
BASE = "the base model"
MOST_RUNS = 60
MOST_TIMES = 60
"""A rate's unit is at most so many times what was spent: none is told of an hour by less than a minute."""
MADE_NOTHING = {
    TrainingRun.State.QUEUED: "it has not begun",
    TrainingRun.State.RUNNING: "it trains",
    TrainingRun.State.PAUSED: "it is paused",
}


class Outcome(StrEnum):
    """What a training brought, by the interval of what the gate measured."""

    GAINED = "gained"
    LOST = "lost"
    INCONCLUSIVE = "inconclusive"
    UNMEASURED = "unmeasured"


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What was spent; None where nobody measured it, which is not nothing.

    Attributes:
        gpu_s: seconds on the training box, over all attempts.
        judge_tokens: tokens of judges, AI managers and hints on the tasks it learnt from.
        usd: US dollars of those tasks' calls whose price is known.
        human_minutes: of people's work on those tasks, where it was timed.
        is_partial: a part of the calls had no price, or a part of people's work was not timed.
    """

    gpu_s: float | None = None
    judge_tokens: float | None = None
    usd: float | None = None
    human_minutes: float | None = None
    is_partial: bool = False

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(
            gpu_s=_sum(self.gpu_s, other.gpu_s),
            judge_tokens=_sum(self.judge_tokens, other.judge_tokens),
            usd=_sum(self.usd, other.usd),
            human_minutes=_sum(self.human_minutes, other.human_minutes),
            is_partial=self.is_partial or other.is_partial,
        )


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Percentage points a unit of what was spent, with the interval of what was measured."""

    points: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Gain:
    """What was measured on held-out tasks, paired.

    Attributes:
        against: name of what it was compared with; "" where nothing was measured.
        words: the same in a sentence; why nothing was measured.
    """

    outcome: Outcome
    words: str
    against: str = ""
    found: PairedComparison | None = None

    @property
    def is_proved(self) -> bool:
        return self.outcome in {Outcome.GAINED, Outcome.LOST}

    def per(self, spent: float | None) -> Rate | None:
        """Points a unit; None where nothing is proved, nobody knows what was spent, or that is too little of a unit."""
        if self.found is None or not self.is_proved or spent is None or spent * MOST_TIMES < 1:
            return None
        low, points, high = (100 * share / spent for share in (self.found.low, self.found.difference, self.found.high))
        return Rate(points=points, low=low, high=high)


@dataclass(frozen=True, kw_only=True)
class Return:
    """What was spent and what was measured.

    Attributes:
        run, adapter: None of a whole line.
        accuracy: (share, items) on the newest held-out panel that the adapter met; None where it met none.
        until: everything spent on the line up to here, failed runs too.
    """

    spent: Spent
    gain: Gain
    run: TrainingRun | None = None
    adapter: Adapter | None = None
    accuracy: tuple[float, int] | None = None
    until: Spent = field(default_factory=Spent)

    @property
    def per_gpu_hour(self) -> Rate | None:
        return self.gain.per(self.spent.gpu_s / 3600 if self.spent.gpu_s else None)

    @property
    def per_human_minute(self) -> Rate | None:
        return self.gain.per(self.spent.human_minutes)


@dataclass(frozen=True, kw_only=True)
class Returns:
    """A worker's own line of trainings, oldest first.

    Attributes:
        base: (share, items) of the base model on the newest panel; None before it was measured.
        rows: the newest `MOST_RUNS`; earlier: how many came before them.
        total: everything spent, and what serves now against the base model on the same tasks.
        beside: spent on trainings that are not of the line: step scorers, managers, people's own adapters.
    """

    worker: Worker
    base: tuple[float, int] | None
    rows: Sequence[Return]
    earlier: int
    total: Return
    beside: Spent
    beside_count: int


def find_return(run: TrainingRun) -> Return:
    """Of one run: what it and its data cost, and what its adapter measured against what served then."""
    adapters = Adapter.objects.filter(run_id=run.pk).prefetch_related(_verdicts())
    adapter = adapters.defer("manifest").first()
    spent = read_spent(run.cost)
    measured = _measure([adapter] if adapter else [])
    return Return(
        run=run,
        adapter=adapter,
        spent=spent,
        gain=_read_gain(run, adapter),
        accuracy=measured.get(adapter.pk) if adapter else None,
        until=spent,
    )


def find_returns(worker: Worker) -> Returns:
    """Of a worker's own line: seven queries, however many runs."""
    runs = TrainingRun.objects.filter(worker=worker).order_by("pk")
    is_own = Q(purpose=TrainingRun.Purpose.POLICY, end_user="")
    costs = dict(runs.filter(is_own).values_list("pk", "cost"))
    beside = [read_spent(cost) for cost in runs.exclude(is_own).values_list("cost", flat=True)]
    until = dict(zip(costs, accumulate(read_spent(cost) for cost in costs.values()), strict=True))
    shown = list(
        runs.filter(is_own).select_related("batch").defer("metrics", "spec", "recipe").order_by("-pk")[:MOST_RUNS]
    )
    found = Adapter.objects.filter(run_id__in=[run.pk for run in shown]).defer("manifest")
    adapters = {adapter.run_id: adapter for adapter in found.prefetch_related(_verdicts())}
    measured = _measure(adapters.values())
    rows = [
        Return(
            run=run,
            adapter=(adapter := adapters.get(run.pk)),
            spent=read_spent(run.cost),
            gain=_read_gain(run, adapter),
            accuracy=measured.get(adapter.pk) if adapter else None,
            until=until[run.pk],
        )
        for run in reversed(shown)
    ]
    everything = until[max(until)] if until else Spent()
    base = Evaluation.objects.on_panels().filter(worker=worker, adapter=None).last()
    return Returns(
        worker=worker,
        base=_share(base) if base else None,
        rows=rows,
        earlier=len(costs) - len(rows),
        total=Return(spent=everything, gain=_read_line(worker), until=everything),
        beside=sum(beside, Spent()),
        beside_count=len(beside),
    )


def read_spent(cost: Mapping[str, Any]) -> Spent:
    """What a run's row says; it says nothing before its first result."""
    calls, unpriced = cost.get("calls"), cost.get("unpriced", 0)
    judgements, untimed = cost.get("judgements"), cost.get("untimed", 0)
    return Spent(
        gpu_s=cost.get("gpu_s"),
        judge_tokens=cost.get("judge_tokens"),
        usd=None if calls and unpriced == calls else cost.get("usd"),
        human_minutes=None if judgements and untimed == judgements else cost.get("human_minutes"),
        is_partial=bool(unpriced or untimed),
    )


def _sum(left: float | None, right: float | None) -> float | None:
    return right if left is None else left if right is None else left + right


def _verdicts() -> "Prefetch[Any]":
    return Prefetch("verdicts", Verdict.objects.filter(question=Verdict.Question.SAFE), to_attr="safe")


def _read_gain(run: TrainingRun, adapter: Adapter | None) -> Gain:
    if adapter is None:
        reason = MADE_NOTHING.get(TrainingRun.State(run.state), "it made no adapter")
        return Gain(outcome=Outcome.UNMEASURED, words=f"nothing was measured: {reason}")
    verdicts: list[Verdict] = adapter.safe  # type: ignore[attr-defined]
    if not verdicts:
        return Gain(outcome=Outcome.UNMEASURED, words="nothing was measured: the gate has not judged its adapter yet")
    numbers = verdicts[0].details.get(COMPARED)
    if numbers is None:
        return Gain(outcome=Outcome.UNMEASURED, words=f"nothing was measured: {verdicts[0].words}")
    return judge_gain(PairedComparison(**numbers), against=verdicts[0].compared_with or BASE)


def _read_line(worker: Worker) -> Gain:
    """What serves now against the base model, on the newest panel that both met."""
    deployment = find_deployment(worker)
    serving = deployment.adapter if deployment else None
    if serving is None:
        return Gain(outcome=Outcome.UNMEASURED, words="nothing was measured: the base model serves")
    results = Evaluation.objects.on_panels().filter(worker=worker).filter(Q(adapter=serving) | Q(adapter=None))
    met: dict[tuple[str, str], dict[int | None, Evaluation]] = {}
    for result in results.order_by("pk"):
        met.setdefault((result.item_set, result.item_set_hash), {})[result.adapter_id] = result
    both = [panel for panel in met.values() if {None, serving.pk} <= panel.keys()]
    outcomes, weights = read_outcomes(both[-1].values()) if both else ({}, {})
    pairs = pair(outcomes[both[-1][serving.pk].pk], outcomes[both[-1][None].pk], weights) if both else ([], [], [])
    if not pairs[0]:
        return Gain(outcome=Outcome.UNMEASURED, words="nothing was measured: what serves met no held-out tasks")
    confidence = GatePolicy.from_json(worker.project.gate_policy).confidence
    return judge_gain(compare_paired(*pairs, confidence=confidence), against=BASE)


def judge_gain(comparison: PairedComparison, *, against: str) -> Gain:
    """What an interval says: only one that leaves zero out proves anything."""
    if comparison.low > 0:
        outcome, meaning = Outcome.GAINED, "it gained"
    elif comparison.high < 0:
        outcome, meaning = Outcome.LOST, "it lost"
    else:
        outcome, meaning = Outcome.INCONCLUSIVE, "no gain is proved, no loss either"
    words = f"{comparison.points} on {comparison.items} held-out tasks against {against}: {meaning}"
    return Gain(outcome=outcome, words=words, against=against, found=comparison)


def _measure(adapters: Iterable[Adapter]) -> dict[int, tuple[float, int]]:
    """Of each, its newest result on a held-out panel."""
    results = Evaluation.objects.on_panels().filter(adapter__in=[adapter.pk for adapter in adapters])
    newest = results.order_by("adapter_id", "-pk").distinct("adapter_id")
    return {result.adapter_id: _share(result) for result in newest if result.adapter_id is not None}


def _share(result: Evaluation) -> tuple[float, int]:
    return result.mean_outcome or 0.0, result.items
