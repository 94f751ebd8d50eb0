"""Several votes on one thing: their median, how far they lie apart, and how many were no votes at all."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tentalis.core.scoring.protocol import Score, Unscored, check_score


@dataclass(frozen=True, kw_only=True)
class Tally:
    """What m votes came to.

    Args:
        value: the median of the valid votes; Unscored when fewer than half of all votes are valid.
        spread: max - min of the valid votes; None without one.
        iqr: distance of their quartiles (linear interpolation, ends included); None without one.
        valid: how many votes were scores.
        invalid_reasons: why the others were not -> how often.
    """

    value: Score
    spread: float | None
    iqr: float | None
    valid: int
    invalid_reasons: Mapping[str, int]

    @property
    def invalid(self) -> int:
        return sum(self.invalid_reasons.values())

    @property
    def cast(self) -> int:
        return self.valid + self.invalid


def tally_votes(votes: Sequence[Score]) -> Tally:
    """Count votes; an invalid one (Unscored) is counted with its reason and stands for no number.

    Quorum: at least half of the votes cast are valid, and at least one.

    Raises:
        ScoringError: a vote out of [0, 1].
    """
    for index, vote in enumerate(votes):
        check_score(vote, subject=f"vote {index}")
    valid = sorted(float(vote) for vote in votes if not isinstance(vote, Unscored))
    invalid = Counter(vote.reason for vote in votes if isinstance(vote, Unscored))
    value: Score
    if not votes:
        value = Unscored("no vote was cast")
    elif not valid or 2 * len(valid) < len(votes):
        reasons = "; ".join(f"{count} x {reason}" for reason, count in invalid.items())
        value = Unscored(f"{len(valid)} of {len(votes)} votes valid, wanted at least half: {reasons}")
    else:
        value = statistics.median(valid)
    return Tally(
        value=value,
        spread=valid[-1] - valid[0] if valid else None,
        iqr=_quartile_distance(valid) if valid else None,
        valid=len(valid),
        invalid_reasons=dict(invalid),
    )


def _quartile_distance(values: Sequence[float]) -> float:
    if len(values) == 1:
        return 0.0
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return third - first
