"""Whether a policy orders pairs as people do, told from pairs that it did not learn from, where these can tell it.

What people prefer is known of the pairs, so what a policy made of each is a number, its margin: by how many nats the
better answer gained on the other since the policy it is compared with. A policy that learnt nothing of what people
prefer may move far, but as far one way as the other.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import NormalDist, fmean
from typing import Final, NamedTuple

import numpy as np

from tentalis.core.scoring.run_figures import ItemKind, find_mean

LEVEL: Final = 0.05
"""Of what is said for sure, both ways together, as the intervals at 95 %."""
LEAST_TASKS: Final = 6
"""Of fewer not even margins that all point one way are rare enough: 2 / 2^5 is above the level."""
MOST_EXACT: Final = 200
"""Margins that are counted out; of more, the normal distribution is right to the third digit."""


class PairOrder(NamedTuple):
    """How held-out pairs are ordered.

    Args:
        pairs, tasks: how many; the pairs of a task are one cluster.
        accuracy: share of the pairs whose better answer gained more, a tie a half, in [0, 1].
        low, high: its interval at 95 %.
        margin: mean over tasks of the mean margin of their pairs, nats.
        p: chance of margins so far from 0, either way, where what was learnt has nothing to do with what people prefer.
    """

    pairs: int
    tasks: int
    accuracy: float
    low: float
    high: float
    margin: float
    p: float

    @property
    def words(self) -> str:
        """What was found, and whether it is better than before."""
        if self.p > LEVEL:
            least = f", {LEAST_TASKS} can at best" if self.tasks < LEAST_TASKS else ""
            end = f"whether that is better than before cannot be told with {self.tasks} tasks{least}"
        else:
            end = f"{'better' if self.margin > 0 else 'worse'} than before, on {self.tasks} tasks"
        gained = f"the better answer gained {self.margin:+.3g} nats on the other".replace("-", "−")
        return f"{self._share} are ordered right, {gained}: {end} (p {self.p:.2g})"

    def find_fault(self, *, least: float) -> str:
        """What is shown to be wrong, in words; "" where that is nothing, or cannot be told.

        Args:
            least: share of such pairs of which more must be ordered right.
        """
        if self.high <= least:
            return f"{self._share} are ordered right, more than {least:.0%} are wanted"
        return self.words if self.p <= LEVEL and self.margin < 0 else ""

    @property
    def _share(self) -> str:
        interval = f"[{100 * self.low:.1f}, {100 * self.high:.1f}]"
        return f"{self.accuracy:.1%} {interval} of the {self.pairs} held-out pairs"

    def describe(self, kind: str = "held_out") -> dict[str, float]:
        """The numbers under the names of a run's summary. Args: kind: of pairs, with which the names begin."""
        return {
            f"{kind}_pairs": float(self.pairs),
            f"{kind}_pair_accuracy": self.accuracy,
            f"{kind}_pair_low": self.low,
            f"{kind}_pair_high": self.high,
            f"{kind}_margin": self.margin,
            f"{kind}_margin_p": self.p,
        }


def find_order(margins: Mapping[int, Sequence[float]]) -> PairOrder | None:
    """Sum up how pairs are ordered; None of none.

    Args:
        margins: task -> margins of its pairs, nats.
    """
    tasks = [found for found in margins.values() if found]
    kinds = [
        ItemKind(1, len(found), len(found), len(found), 0, sum((value > 0) + (value == 0) / 2 for value in found))
        for found in tasks
    ]
    accuracy = find_mean(kinds)
    if accuracy is None:
        return None
    means = [fmean(found) for found in tasks]
    pairs = sum(map(len, tasks))
    return PairOrder(
        pairs, len(tasks), accuracy.value, accuracy.low, accuracy.high, fmean(means), find_signed_rank_p(means)
    )


def find_signed_rank_p(values: Sequence[float]) -> float:
    """Two-sided p of values around 0, in (0, 1]; 1 of none. Zeros say nothing, equal sizes share their ranks.

    Source:
        Wilcoxon 1945, Biometrics Bulletin 1(6): each rank is as likely to be on either side, which is exact here, since
        under the hypothesis which answer of a pair is called the better one has nothing to do with what was learnt.
    Example:
        Six values that are all above 0: 2 / 2^6.
    """
    sized = sorted((abs(value), value > 0) for value in values if value)
    ranks: list[int] = []  # twice of each, so that shared ones are whole
    for _, alike in groupby(sized, key=lambda one: one[0]):
        count = len(list(alike))
        ranks += [2 * len(ranks) + count + 1] * count
    above = sum(rank for rank, (_, is_above) in zip(ranks, sized, strict=True) if is_above)
    if len(ranks) > MOST_EXACT:
        spread = sum(rank * rank for rank in ranks) ** 0.5 / 2
        return 2 * NormalDist().cdf(-abs(above - sum(ranks) / 2) / spread)
    chances = np.ones(1)  # of each sum of ranks above 0
    for rank in ranks:
        chances = (np.pad(chances, (0, rank)) + np.pad(chances, (rank, 0))) / 2
    return min(1.0, 2 * float(min(chances[: above + 1].sum(), chances[above:].sum())))
