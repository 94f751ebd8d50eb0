"""Pairs of answers told apart by a judge that errs: what people would say of them, with the judge's error inside."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from tentalis.core.learning.gate import PairedComparison, compare_paired

LEAST_JUDGED = 30
"""Pairs of which people said which answer is better, without which a judge's error is not known."""


@dataclass(frozen=True)
class Calibration:
    """How a judge did on pairs of which people said which answer is better.

    Args:
        agreed, reversed: pairs on which it said the same, or the opposite; ties: on which it said neither.
    """

    agreed: int = 0
    reversed: int = 0
    ties: int = 0

    @property
    def pairs(self) -> int:
        return self.agreed + self.reversed + self.ties

    @property
    def error(self) -> float | None:
        """Share of the pairs that it got wrong, a tie being half of it; None of none."""
        return (self.reversed + self.ties / 2) / self.pairs if self.pairs else None

    @property
    def missing(self) -> int:
        """Pairs that people have yet to judge before it counts."""
        return max(LEAST_JUDGED - self.pairs, 0)

    def measure_gain(self, confidence: float) -> PairedComparison:
        """How much of people's word is left in what it says: 1 of one that never errs, 0 of one that guesses."""
        said = [1.0] * self.agreed + [0.0] * self.reversed + [0.5] * self.ties
        return compare_paired(said, [1 - value for value in said], confidence=confidence)

    def is_enough(self, confidence: float) -> bool:
        """Whether enough pairs say that it is right more often than wrong."""
        return not self.missing and self.measure_gain(confidence).low > 0


def correct(asked: PairedComparison, judge: Calibration) -> PairedComparison:
    """What people would have said of the pairs that a judge was asked about.

    Args:
        asked: the judge's word, each item's outcome being the share of its pairs won, a tie half of one; the difference
            is the share won minus the share lost.
        judge: how it did where people had judged.
    Returns:
        The same of people's word, at the same confidence; from -1 to 1 where too little is known of the judge's error.
    Source:
        Rogan and Gladen 1978, "Estimating prevalence from the results of a screening test": (p + Sp - 1) / (Se + Sp -
        1). Asked in both orders a judge treats both sides alike, so Se = Sp and the estimate is the difference divided
        by the gain Se + Sp - 1; ties of the judge's lower the gain. Both have samples of their own, so the interval is
        that of a ratio of two independent normal means: Fieller 1954, "Some problems in interval estimation". (Lang and
        Reiczigel 2014 do the same for one proportion by adjusted counts.)
    Assumes:
        That the judge errs as often on the pairs it is asked about as on those that people judged. It need not: where
        an adapter learned what the judge likes and people do not, people's blind pairs tell.
    Example:
        Of 200 pairs 110 won and 90 lost, by a judge right in 90 of 100: 0.10 / 0.8 = 0.125.
    """
    gain = judge.measure_gain(asked.confidence)
    z = NormalDist().inv_cdf(0.5 + asked.confidence / 2)
    mine, mine_error = asked.centre, asked.find_error()
    kept, kept_error = gain.centre, gain.find_error()
    spare = kept**2 - (z * kept_error) ** 2
    if kept <= 0 or spare <= 0:
        return replace(asked, low=-1.0, high=1.0)
    reach = math.sqrt(max((mine * kept) ** 2 - spare * (mine**2 - (z * mine_error) ** 2), 0.0))
    low, high = (mine * kept - reach) / spare, (mine * kept + reach) / spare
    difference = max(-1.0, min(asked.difference / gain.difference, 1.0))
    return replace(
        asked,
        candidate=(1 + difference) / 2,
        reference=(1 - difference) / 2,
        difference=difference,
        low=max(-1.0, low),
        high=min(1.0, high),
        std=asked.std / kept,
    )


def count_agreement(judged: Sequence[tuple[float, float]]) -> Calibration:
    """Calibration by (said, truth) pairs; where the truth is a tie nothing is told of the judge."""
    decided = [(said, truth) for said, truth in judged if truth != 0.5]
    ties = sum(said == 0.5 for said, _ in decided)
    agreed = sum(said != 0.5 and (said > 0.5) == (truth > 0.5) for said, truth in decided)
    return Calibration(agreed=agreed, reversed=len(decided) - ties - agreed, ties=ties)
