"""What many episodes at the workbench come to: success, efficiency, wasted calls, and how habits change."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean
from typing import Final, NamedTuple

from tentalis.core.workbench.episode import Judgement

RESAMPLED: Final = 2_000


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Means over episodes.

    Args:
        success, efficiency: in [0, 1]. wasted: calls an episode that did not help. faults: habits an episode that were
            decided otherwise than this house does.
    """

    episodes: int
    success: float
    efficiency: float
    wasted: float
    faults: float


def measure(judged: Sequence[Judgement]) -> Figures:
    """Figures of at least one episode."""
    return Figures(
        episodes=len(judged),
        success=fmean(one.is_done for one in judged),
        efficiency=fmean(one.efficiency for one in judged),
        wasted=fmean(one.wasted for one in judged),
        faults=fmean(one.faults for one in judged),
    )


class Slope(NamedTuple):
    """Change of a figure from one place to the next, with its interval."""

    slope: float
    low: float
    high: float


def measure_habit_slope(rows: Sequence[Sequence[float]], *, seed: int = 0, confidence: float = 0.9) -> Slope:
    """How faults, or wasted calls, change from one task, or sequence, to the next; below 0: habits are being learnt.

    Least squares over all rows together; the interval is of rows drawn anew with repetition, for what stands in one row
    hangs together.

    Args:
        rows: (R, P), R >= 2, P >= 2: what was counted at each place of each row.
    Raises:
        ValueError: fewer rows or places, or rows of several lengths.
    """
    lengths = {len(row) for row in rows}
    if len(rows) < 2 or len(lengths) != 1 or min(lengths) < 2:
        raise ValueError(
            f"wanted at least 2 rows of as many places, at least 2; found {len(rows)} of {sorted(lengths)}"
        )
    rng, each = Random(seed), [_fit(row) for row in rows]
    drawn = sorted(fmean(rng.choices(each, k=len(each))) for _ in range(RESAMPLED))
    tail = (1 - confidence) / 2
    return Slope(fmean(each), drawn[int(tail * RESAMPLED)], drawn[int((1 - tail) * RESAMPLED) - 1])


def _fit(row: Sequence[float]) -> float:
    middle, mean = (len(row) - 1) / 2, fmean(row)
    above = sum((place - middle) * (value - mean) for place, value in enumerate(row))
    return above / sum((place - middle) ** 2 for place in range(len(row)))
