"""May a trained step scorer replace what scores now: one paired comparison on held-out steps, said in words."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from tentalis.core.scoring.protocol import ScoringError
from tentalis.core.scoring.ranking import GOOD_FROM, AucComparison, Scored, compare_auc


@dataclass(frozen=True, kw_only=True)
class ScorerPolicy:
    """What is asked of a candidate.

    Args:
        needs: `better`: the interval of the difference lies above 0; `not_worse`: above -margin.
        margin: loss of AUC that is still no loss.
        floor: its own AUC lies above this, by the interval's lower bound, whatever it is compared with.
        confidence: of the intervals, two-sided.
        least: held-out good steps, and bad ones, it is judged on at least.
        least_tasks: that they are of. Steps of one task are alike: at the floor itself, one of 2 tasks was accepted in
            27 of 100 simulated trainings, of 3 in 16, of 10 in 6; the bounds promise 5.
    """

    needs: Literal["better", "not_worse"] = "not_worse"
    margin: float = 0.02
    floor: float = 0.6
    confidence: float = 0.9
    least: int = 15
    least_tasks: int = 10

    def __post_init__(self) -> None:
        counts = min(self.least, self.least_tasks)
        if self.needs not in ("better", "not_worse") or not 0.0 <= self.margin < 1.0 or counts < 1:
            raise ScoringError(f"scorer policy: wanted needs better or not_worse, a margin in [0, 1), found {self}")


@dataclass(frozen=True, kw_only=True)
class ScorerVerdict:
    """Whether it may score, why, and the numbers behind it (JSON-ready)."""

    is_accepted: bool
    words: str
    measured: dict[str, Any] = field(default_factory=dict)


def judge_scorer(items: Sequence[Scored], *, against: str, policy: ScorerPolicy, seed: int) -> ScorerVerdict:
    """Accept a candidate or refuse it, always with words.

    Args:
        against: who `reference` is; "" for nobody: then only the floor is asked for.
    """
    good = sum(item.truth >= GOOD_FROM for item in items)
    bad = len(items) - good
    tasks = len({item.group for item in items})
    if min(good, bad) < policy.least or tasks < policy.least_tasks:
        wanted = (
            f"{policy.least} good and {policy.least} bad held-out steps of {policy.least_tasks} tasks of known truth"
        )
        words = f"refused: wanted {wanted}, found {good} and {bad} of {tasks}"
        return ScorerVerdict(is_accepted=False, words=words)
    found = compare_auc(items, seed=seed, confidence=policy.confidence)
    if found is None:
        return ScorerVerdict(is_accepted=False, words="refused: no order of the held-out steps could be measured")
    measured = asdict(found) | {"against": against}
    if not against:
        for name in ("reference", "difference", "low", "high"):
            measured[name] = None
    own = f"step AUC {found.candidate:.3f} on {found.items} held-out steps of {found.groups} tasks"
    if found.candidate_low <= policy.floor:
        words = f"refused: {own}, its lower bound {found.candidate_low:.3f} is not above {policy.floor:g}"
        return ScorerVerdict(is_accepted=False, words=words, measured=measured)
    if not against:
        words = f"accepted: {own}, lower bound {found.candidate_low:.3f}; nobody scored these steps before it"
        return ScorerVerdict(is_accepted=True, words=words, measured=measured)
    return _compare(found, own, against, policy, measured)


def _compare(
    found: AucComparison, own: str, against: str, policy: ScorerPolicy, measured: dict[str, Any]
) -> ScorerVerdict:
    gap = f"{found.difference:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
    beside = f"{own} beside {found.reference:.3f} of {against}: {gap}"
    if found.low > 0.0:
        return ScorerVerdict(is_accepted=True, words=f"accepted: better, {beside}", measured=measured)
    if policy.needs == "not_worse" and found.low > -policy.margin:
        words = f"accepted: not worse by more than {policy.margin:g}, {beside}"
        return ScorerVerdict(is_accepted=True, words=words, measured=measured)
    wanted = "wanted better" if policy.needs == "better" else f"wanted not worse by {policy.margin:g}"
    return ScorerVerdict(is_accepted=False, words=f"refused: {wanted}, {beside}", measured=measured)
