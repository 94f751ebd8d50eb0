"""What may mislead whoever reads a run's figures: items that its adapter learnt, and outcomes that follow length."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from apps.evals.figures import find_taken
from apps.evals.models import Evaluation
from apps.training.contamination import Leaks, find_contamination

STRONG: Final = 0.3
"""A correlation of outcome and length from which on it is said."""
LONGER: Final = 1.25
"""One side writes so many times as much as the other: it is said beside their comparison."""


class Confounds(NamedTuple):
    """Of a run.

    Args:
        leaks: what its adapter learnt of its items; None for the base model.
        length_correlation: between outcome and tokens written; None where it is not known.
        words: what of these is to be said, a sentence each.
    """

    leaks: Leaks | None
    length_correlation: float | None
    words: Sequence[str]


def find_confounds(evaluation: Evaluation) -> Confounds:
    """Reads all that its adapter learnt from: seconds, where that is much.

    Raises:
        ConflictError: its items are not what they were.
    """
    leaks, taken = find_contamination(evaluation), find_taken(evaluation)
    words = []
    if leaks is not None and leaks.measured:
        words.append(
            f"{leaks.measured} of {leaks.answers} answers that it learnt from hold words of items it is measured on"
        )
    correlation = taken.length_correlation
    if correlation is not None and abs(correlation) >= STRONG:
        longer = "longer" if correlation > 0 else "shorter"
        words.append(f"{longer} answers come out better: the correlation of outcome and length is {correlation:.2f}")
    return Confounds(leaks, correlation, words)


def compare_lengths(a: Evaluation, b: Evaluation) -> str:
    """What of the lengths of two runs' answers is to be said beside their comparison; "" for nothing."""
    mine, theirs = (find_taken(one).tokens for one in (a, b))
    if not mine or not theirs or max(mine / theirs, theirs / mine) < LONGER:
        return ""
    return f"evaluation {a.pk} writes {mine:.0f} tokens a try and evaluation {b.pk} {theirs:.0f}: length may be why"
