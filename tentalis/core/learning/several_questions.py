"""Several questions asked of the same data: what each may still say."""

from collections.abc import Sequence
from statistics import NormalDist

from tentalis.core.learning.gate import PairedComparison


def find_p_value(comparison: PairedComparison) -> float:
    """Chance in [0, 1] of a difference at least this large, either way, where there is none.

    Of the same normal with the same pseudo-observations as the interval: below 1 - confidence exactly where the
    interval leaves zero out.
    """
    return 2 * (1 - NormalDist().cdf(abs(comparison.centre) / comparison.find_error()))


def adjust_holm(p_values: Sequence[float]) -> list[float]:
    """P-values corrected for how many there are: those up to a level hold together, each wrong at most at that level.

    Returns:
        (N,) in the order given, each at least what it was.
    Source:
        Holm 1979, "A simple sequentially rejective multiple test procedure", as adjusted p-values: the i-th smallest
        of N times N - i + 1, at least the one before it, at most 1.
    Example:
        0.01, 0.04, 0.03 become 0.03, 0.06, 0.06.
    """
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted, least = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = least
    return adjusted
