"""How much each scorer counts in an environment, and what happens to the weight of one that failed."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

from tentalis.core.scoring.protocol import Score, ScoringError, Unscored, check_score

SUPPORTING = frozenset({"effort", "efficiency", "diff_size", "hallucination"})
"""Scorers of how work was done. None of them says whether it is right, so none of them is a score by itself."""
_SUM_TOLERANCE = 1e-9


def _require_weight(where: str, weight: object) -> None:
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0.0 < weight <= 1.0:
        raise ScoringError(f"{where} wants a weight in (0, 1], found {weight!r}")


@dataclass(frozen=True)
class WeightProfile:
    """The weights of one environment.

    Args:
        weights: scorer -> weight in (0, 1]; they sum to 1.
    Raises:
        ScoringError: no scorer, a weight out of range, or another sum.
    """

    environment: str
    weights: Mapping[str, float]

    def __post_init__(self) -> None:
        where = f"weight profile {self.environment!r}"
        if not self.weights:
            raise ScoringError(f"{where}: wanted at least one scorer, found none")
        for scorer, weight in self.weights.items():
            _require_weight(f"{where}: {scorer}", weight)
        total = math.fsum(self.weights.values())
        if abs(total - 1.0) > _SUM_TOLERANCE:
            raise ScoringError(f"{where}: weights want to sum to 1, found {total:.6g}")
        object.__setattr__(self, "weights", MappingProxyType(dict(self.weights)))

    def to_json(self) -> dict[str, float]:
        return dict(self.weights)

    @classmethod
    def from_json(cls, environment: str, data: Any) -> Self:
        """Raises ScoringError as the class does, and for anything that is not an object of numbers."""
        if not isinstance(data, Mapping):
            raise ScoringError(
                f"weight profile {environment!r}: wanted an object of scorer and weight, found {type(data).__name__}"
            )
        return cls(environment, data)


@dataclass(frozen=True)
class Redistributed:
    """A scorer without a score: the weight it would have had went to the scorers that had one."""

    scorer: str
    reason: str
    weight: float


@dataclass(frozen=True)
class Combined:
    """One number out of several scorers.

    Args:
        value: in [0, 1]; None when no scorer had a score that says whether the work is right.
        used_weights: scorer -> weight really used, summing to 1; empty with no value.
        redistributed_from: the scorers that had none, in the profile's order.
    """

    value: float | None
    used_weights: Mapping[str, float]
    redistributed_from: tuple[Redistributed, ...]

    @property
    def score(self) -> Score:
        """The value, or Unscored with the reasons of all scorers."""
        if self.value is not None:
            return self.value
        return Unscored("; ".join(f"{lost.scorer}: {lost.reason}" for lost in self.redistributed_from))

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def describe_redistribution(self) -> str:
        """What a person reads beside the value; "" when every scorer had a score."""
        takers = ", ".join(f"{scorer} {weight:.2f}" for scorer, weight in self.used_weights.items())
        return "; ".join(
            f"{lost.scorer} unscored ({lost.reason}), its {lost.weight:.2f} "
            + (f"went to {takers}" if takers else "had nobody to go to")
            for lost in self.redistributed_from
        )


def combine(
    scores: Mapping[str, Score], profile: WeightProfile, *, trust: Mapping[str, float] | None = None
) -> Combined:
    """Weighted mean over the scorers that have a score, their weights scaled to sum to 1.

    A scorer of the profile that is missing from `scores` is unscored too. Nothing is filled in. Where the profile has
    scorers that say whether work is right and none of them has a score, there is no value: the supporting ones alone
    would give right and wrong work the same. Nor do they gain by distrust: none is trusted more than those are, on
    average, that say what is right.

    Args:
        trust: scorer -> factor on its weight, in [0, 1]; 1 for who is not named. With 0 its score is not used.
    Raises:
        ScoringError: a scorer the profile does not weigh, or a score or factor out of [0, 1].
    """
    trust = trust or {}
    if strangers := sorted(set(scores) - set(profile.weights)):
        raise ScoringError(
            f"profile {profile.environment!r} weighs {', '.join(profile.weights)}, found also {', '.join(strangers)}"
        )
    present: dict[str, float] = {}
    lost: list[Redistributed] = []
    for scorer, weight in profile.weights.items():
        score = scores.get(scorer, Unscored("the scorer gave no result"))
        check_score(score, subject=f"scorer {scorer!r}")
        factor = trust.get(scorer, 1.0)
        if not 0.0 <= factor <= 1.0:
            raise ScoringError(f"trust in {scorer}: wanted a number in [0, 1], found {factor!r}")
        if isinstance(score, Unscored):
            lost.append(Redistributed(scorer, score.reason, weight))
        elif factor == 0.0:
            lost.append(Redistributed(scorer, "it lost its calibration and is quarantined", weight))
        else:
            present[scorer] = float(score)
    if present.keys() <= SUPPORTING and not profile.weights.keys() <= SUPPORTING:
        lost += [
            Redistributed(scorer, "nothing said whether it is right", profile.weights[scorer]) for scorer in present
        ]
        present = {}
    weighed = {scorer: profile.weights[scorer] * trust.get(scorer, 1.0) for scorer in present}
    if telling := present.keys() - SUPPORTING:
        most = math.fsum(weighed[one] for one in telling) / math.fsum(profile.weights[one] for one in telling)
        weighed |= {one: min(weighed[one], most * profile.weights[one]) for one in present.keys() & SUPPORTING}
    total = math.fsum(weighed.values())
    used = {scorer: weight / total for scorer, weight in weighed.items()}
    value = math.fsum(used[scorer] * score for scorer, score in present.items()) if present else None
    if value is not None:
        value = min(max(value, min(present.values())), max(present.values()))  # rounding must not leave the range
    return Combined(value, used, tuple(lost))
