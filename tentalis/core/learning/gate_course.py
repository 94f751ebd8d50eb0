"""How a candidate is measured: a block of tasks at a time, the cheapest question first, until all are answered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

from tentalis.core.learning.collapse import Alarm, AnswerProfile, CollapseLimits, Decided, decide_alarms, find_alarms
from tentalis.core.learning.gate import (
    LEAST_CONFIRMED,
    Confirmation,
    Direction,
    GatePolicy,
    PairedComparison,
    compare_paired,
    find_direction,
    foresee_bound,
    spend_alpha,
)
from tentalis.core.learning.judged_pairs import Calibration, correct
from tentalis.core.learning.quarantine_checks import LEAST_CHANCE, SURE_OF_LEAK, Finding, may_leak, suspect_leak
from tentalis.core.learning.sequential import Looks

KEPT_SHARE, DRAWN_SHARE = 1 / 3, 1 / 15
"""Of the kept panel, and of the tasks drawn for the candidate alone, at the first look. A task of the panel costs one
try (what serves was tried on it before), one drawn anew two."""
GROWTH = 1.5
"""By which each grows: a look costs time of its own, so what needs many tasks is not asked in as many looks."""

CONFIRMED_SHARE = 1 / 3
"""Of those, at each look of a confirmation."""


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """What candidate and reference made of the same tasks: (items,) outcomes and step scores in [0, 1] of each.

    Args:
        weights: how much each task counts; (): all the same.
        judge: of outcomes that are shares of pairs which a judge that errs said are won; None where nobody errs.
    """

    mine: Sequence[float] = ()
    theirs: Sequence[float] = ()
    my_steps: Sequence[float] = ()
    their_steps: Sequence[float] = ()
    weights: Sequence[float] = ()
    judge: Calibration | None = None

    def __len__(self) -> int:
        return len(self.mine)

    def __add__(self, other: "Pairs") -> "Pairs":
        return Pairs(
            mine=[*self.mine, *other.mine],
            theirs=[*self.theirs, *other.theirs],
            my_steps=[*self.my_steps, *other.my_steps],
            their_steps=[*self.their_steps, *other.their_steps],
            weights=self._join_weights(other),
            judge=self.judge,
        )

    def _join_weights(self, other: "Pairs") -> Sequence[float]:
        if not self.weights and not other.weights:
            return ()
        return [weight for one in (self, other) for weight in (one.weights or [1.0] * len(one))]

    def first(self, count: int) -> "Pairs":
        return Pairs(
            mine=self.mine[:count],
            theirs=self.theirs[:count],
            my_steps=self.my_steps[:count],
            their_steps=self.their_steps[:count],
            weights=self.weights[:count],
            judge=self.judge,
        )

    def compare(self, confidence: float) -> tuple[PairedComparison, PairedComparison]:
        """Outcomes, and step scores; where these are not known, the outcomes twice."""
        outcomes = compare_paired(self.mine, self.theirs, self.weights, confidence=confidence)
        if self.judge is not None:
            outcomes = correct(outcomes, self.judge)
        if not self.my_steps:
            return outcomes, outcomes
        return outcomes, compare_paired(self.my_steps, self.their_steps, self.weights, confidence=confidence)


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is known so far.

    Args:
        kept: of the first tasks of the kept panel; drawn: of the first of those drawn for this candidate alone.
        profile, base: what the candidate's and the base model's answers to the kept tasks look like.
    """

    kept: Pairs
    drawn: Pairs
    profile: AnswerProfile
    base: AnswerProfile


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What a course found.

    Args:
        outcomes, steps: candidate against what serves, at intervals that hold at every look.
        kept, drawn: tasks that were asked for; planned: that would have been at most.
        looks: how often was looked.
    """

    known: Known
    kept: int
    drawn: int
    outcomes: PairedComparison
    steps: PairedComparison
    alarms: Sequence[Alarm]
    doubted: Sequence[Alarm]
    leaks: Sequence[Finding]
    looks: int
    planned: int


@dataclass
class Course:
    """One candidate's.

    Args:
        kept, drawn: tasks there are of each kind; `policy.fresh_size` of the drawn ones tell whether it may serve, all
            of them whether its gain is on known tasks alone.
        asks_leak: whether that could still change anything.
    """

    policy: GatePolicy
    kept: int
    drawn: int
    asks_leak: bool = True

    def run(
        self,
        measure: Callable[[int, int], Known],
        *,
        measure_more: Callable[[int], tuple[AnswerProfile, AnswerProfile] | None],
    ) -> Answers:
        """Measure until nothing is open.

        Args:
            measure: has the first so many kept and drawn tasks tried, of which it remembers those it has; each number
                is at least what it was before.
            measure_more: profiles of candidate and base on so many tasks behind the kept ones; None: there are none.
        """
        policy = self.policy
        limits = limits_of(policy)
        fresh = min(policy.fresh_size, self.drawn)
        serving = Looks(self.kept + fresh, confidence=policy.confidence)
        leaking = Looks(self.drawn, confidence=2 * SURE_OF_LEAK - 1) if fresh and self.asks_leak else None
        kept = min(max(ceil(self.kept * KEPT_SHARE), LEAST_CONFIRMED), self.kept)
        drawn, looks = (0 if leaking is None else min(_grow(0, fresh), self.drawn)), 0
        while True:
            known, looks = measure(kept, drawn), looks + 1
            pairs = known.kept + known.drawn.first(fresh)
            outcomes, steps = pairs.compare(serving.look(len(pairs), pairs.weights))
            checks = ((outcomes, policy.margin), (steps, policy.second_margin))
            alarms = find_alarms(known.profile, known.base, limits=limits)
            is_doubted = bool(alarms) and all(one.may_be_noise for one in alarms)
            leaks, may_yet_leak = self._ask_leak(known, leaking)
            is_over = any(found.high < -margin for found, margin in checks) or (bool(alarms) and not is_doubted)
            if is_over:
                break
            is_safe = all(found.low > -margin for found, margin in checks)
            if may_yet_leak and drawn < self.drawn:
                drawn = min(_grow(drawn, fresh), self.drawn)
            elif (may_yet_leak or not is_safe) and kept < self.kept:
                kept = min(ceil(kept * GROWTH), self.kept)
            elif not is_safe and drawn < fresh:
                drawn = min(_grow(drawn, fresh), fresh)
            elif is_doubted and kept < self.kept:
                kept = self.kept
            else:
                break
        decided = Decided(alarms)
        if not is_over:
            decided = decide_alarms(known.profile, known.base, measure_more=measure_more, limits=limits)
        return Answers(
            known=known,
            kept=kept,
            drawn=drawn,
            outcomes=outcomes,
            steps=steps,
            alarms=decided.alarms,
            doubted=decided.doubted,
            leaks=leaks,
            looks=looks,
            planned=self.kept + fresh,
        )

    def _ask_leak(self, known: Known, looks: Looks | None) -> tuple[Sequence[Finding], bool]:
        """What is found of a leak, and whether something might be found yet."""
        if looks is None:
            return (), False
        kept, _ = known.kept.compare(self.policy.confidence)
        if not len(known.drawn):
            return (), may_leak(kept, None, kept_then=self.kept, fresh_then=self.drawn)
        drawn, _ = known.drawn.compare(self.policy.confidence)
        confidence = (1 + looks.look(len(known.drawn), known.drawn.weights)) / 2
        found = suspect_leak(kept, drawn, confidence=confidence)
        return found, not found and may_leak(kept, drawn, kept_then=self.kept, fresh_then=self.drawn)


def limits_of(policy: GatePolicy) -> CollapseLimits:
    """How far answers may move from the base model's, as a project has it."""
    return CollapseLimits(length_drift=policy.length_drift, base_distance_nats=policy.base_distance_nats)


def _grow(drawn: int, planned: int) -> int:
    """How many drawn tasks there are at the next look."""
    return max(ceil(drawn * GROWTH), drawn + max(ceil(planned * DRAWN_SHARE), 1))


def may_show(outcomes: PairedComparison, steps: PairedComparison, *, policy: GatePolicy, items: int) -> bool:
    """Whether the whole kept panel most likely shows a direction against the anchor."""
    return any(_foresee(one, outcomes, steps, policy, items) >= 0.75 for one in (Direction.BETTER, Direction.WORSE))


def confirm(
    shown: Direction, *, look: int, policy: GatePolicy, items: int, measure: Callable[[int], Pairs]
) -> Confirmation:
    """Ask what the kept panel shows against the anchor of tasks drawn for this look alone, a block at a time.

    It ends when they show it too, or when all of them hardly will.

    Args:
        look: which confirmation against this anchor, from 1.
        items: tasks there are.
        measure: candidate and anchor on the first so many of them.
    """
    looks = Looks(items, confidence=1 - 2 * spend_alpha(look, confidence=policy.confidence))
    count = 0
    while True:
        count = min(max(count + ceil(items * CONFIRMED_SHARE), LEAST_CONFIRMED), items)
        pairs = measure(count)
        outcomes, steps = pairs.compare(looks.look(count, pairs.weights))
        found = find_direction(outcomes, policy=policy, second=steps)
        if count == items or found is shown or _foresee(shown, outcomes, steps, policy, items) < LEAST_CHANCE:
            return Confirmation(look=look, comparison=outcomes, second=steps)


def _foresee(
    shown: Direction, outcomes: PairedComparison, steps: PairedComparison, policy: GatePolicy, items: int
) -> float:
    if shown is Direction.BETTER:
        return min(foresee_bound(one.swapped, items=items, below=0.0) for one in (outcomes, steps))
    return max(foresee_bound(one, items=items, below=-policy.anchor_margin) for one in (outcomes, steps))
