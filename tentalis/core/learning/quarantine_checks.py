"""Check what quarantines an adapter whatever it scores: its origin, tensors, strength, data and reward.

Each check answers with findings in words; quiet means (). None of them looks at how well the adapter answers, but where
that contradicts what it was taught.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from tentalis.core.contracts import AdapterManifest
from tentalis.core.learning.gate import PairedComparison, compare_paired
from tentalis.core.learning.monitors import BatchFacts
from tentalis.core.learning.sequential import foresee

WEAKER = (0.1, 0.25, 0.5)
"""Strengths an adapter is tried at, as shares of its own."""

MOST_ZEROS = 0.05
MOST_GROWTH = 3.0
"""Largest step of strength from parent to child, as a factor, where its recipe is not known."""

MOST_REACH = 1.05
"""Of what the optimiser may do, for rounding."""

SURE_OF_STRENGTH = 0.95
"""Of the intervals at all strengths together."""
LEAST_AGREEMENT = 0.6
LEAK_POINTS = 0.05
SURE_OF_LEAK = 0.998
"""Over all looks together: every update is asked this, most of them honest."""
LEAST_CHANCE = 0.3
"""Of a finding when all tasks are measured, under which it is looked for no further."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is not as it should be.

    Args:
        check: origin, tensors, strength, leak, reward, held_out or skills.
        is_broken: it can be nothing but wrong; else a person may find it harmless.
    """

    check: str
    words: str
    is_broken: bool = False


@dataclass(frozen=True, kw_only=True)
class TensorFacts:
    """One tensor of an adapter.

    Args:
        norm: Euclidean, over all its numbers.
        zeros: share of them that are exactly 0, in [0, 1].
        is_finite: none is NaN or infinite.
    """

    shape: tuple[int, ...]
    norm: float
    zeros: float
    is_finite: bool


@dataclass(frozen=True, kw_only=True)
class WeightFacts:
    """The tensors of an adapter by name, and what B A is multiplied with (alpha / rank)."""

    tensors: Mapping[str, TensorFacts]
    scale: float

    @property
    def strength(self) -> float:
        """How much the adapter may change its base: the scale times the root of the summed squares of |A| |B|."""
        total = 0.0
        for name, second in self.tensors.items():
            first = self.tensors.get(name.replace(".lora_B.", ".lora_A."))
            if ".lora_B." in name and first is not None:
                total += (first.norm * second.norm) ** 2
        return self.scale * math.sqrt(total)


def suspect_origin(
    manifest: AdapterManifest,
    *,
    parent: AdapterManifest | None,
    parent_sha256: str,
    parent_name: str,
    served_sha256: str,
    served_name: str,
) -> tuple[Finding, ...]:
    """Whether it continues what serves now, on the same base and at the same scale.

    Args:
        parent, parent_sha256, parent_name: of the adapter that the registry says it continues; None, "" and the base
            model's name for none.
        served_sha256, served_name: of what serves now, whose place it would take.
    """
    found = []
    if parent_sha256 != served_sha256:
        found.append(_origin(f"stale: it continues {parent_name}, and {served_name} serves now"))
    if manifest.parent_sha256 != parent_sha256:
        found.append(
            _origin(
                f"its manifest continues {manifest.parent_sha256[:8] or 'the base model'}, "
                f"the registry says {parent_sha256[:8] or 'the base model'}"
            )
        )
    if parent is not None:
        if manifest.base_sha256 != parent.base_sha256:
            words = f"its base hashes to {manifest.base_sha256[:8]}, its parent's to {parent.base_sha256[:8]}"
            found.append(Finding(check="origin", words=words, is_broken=True))
        if (manifest.rank, manifest.alpha) != (parent.rank, parent.alpha):
            words = (
                f"its rank and alpha are {manifest.rank} and {manifest.alpha:g}, "
                f"its parent's {parent.rank} and {parent.alpha:g}: another strength than it was trained at"
            )
            found.append(Finding(check="strength", words=words, is_broken=True))
    return tuple(found)


def _origin(words: str) -> Finding:
    return Finding(check="origin", words=words)


def suspect_tensors(
    mine: WeightFacts, parent: WeightFacts | None, *, modules: Sequence[str], reach: float | None = None
) -> tuple[Finding, ...]:
    """Whether all tensors are there, finite and full, and no stronger than their run can have made them.

    Args:
        parent: of the adapter it continues; None for a first one.
        modules: names that its manifest says are adapted.
        reach: how far the run may have moved one number; None where nobody knows.
    """
    found = []
    if parent is not None and (lost := sorted(set(parent.tensors) - set(mine.tensors))):
        found.append(_broken(f"{len(lost)} of {len(parent.tensors)} tensors are missing, the first is {lost[0]}"))
    if untouched := [one for one in modules if not any(f".{one}." in name for name in mine.tensors)]:
        found.append(_broken(f"no tensor for {', '.join(untouched)}, which its manifest says are adapted"))
    for name, facts in sorted(mine.tensors.items()):
        before = parent.tensors.get(name) if parent else None
        if not facts.is_finite:
            found.append(_broken(f"{name} holds NaN or infinite numbers"))
        elif before is not None and facts.shape != before.shape:
            found.append(_broken(f"{name} has shape {facts.shape}, its parent's {before.shape}"))
        elif before is not None and facts.zeros - before.zeros > MOST_ZEROS:
            found.append(_broken(f"{facts.zeros:.0%} of {name} are zero, {before.zeros:.0%} in its parent"))
    found += _suspect_growth(mine, parent) if reach is None else _suspect_moves(mine, parent, reach)
    return tuple(found[:3])


def _suspect_growth(mine: WeightFacts, parent: WeightFacts | None) -> Iterator[Finding]:
    """Of one whose recipe nobody knows."""
    if parent is not None and parent.strength > 0 and mine.strength > MOST_GROWTH * parent.strength:
        words = f"{mine.strength / parent.strength:.1f} times as strong as what it continues, "
        yield Finding(check="strength", words=f"{words}one run makes {MOST_GROWTH:g} at most")


def _suspect_moves(mine: WeightFacts, parent: WeightFacts | None, reach: float) -> Iterator[Finding]:
    """Where a norm grew by more than the optimiser can move the tensor's numbers, in their root mean square.

    A first adapter's B began at zero; where its A began only its trainer knows.
    """
    moves = {}
    for name, facts in mine.tensors.items():
        before = parent.tensors.get(name) if parent is not None else None
        if before is not None or (parent is None and ".lora_B." in name):
            norm = facts.norm - (before.norm if before is not None else 0.0)
            moves[name] = norm / math.sqrt(math.prod(facts.shape))
    if moves and (most := max(moves.values())) > MOST_REACH * reach:
        name = max(moves, key=lambda one: moves[one])
        words = f"the numbers of {name} grew by {most:.2g} in the mean, its run can move them by {reach:.2g}"
        yield Finding(check="strength", words=words)


def _broken(words: str) -> Finding:
    return Finding(check="tensors", words=words, is_broken=True)


def may_be_better(outcomes: Sequence[float], whole: Sequence[float]) -> bool:
    """Whether a weaker adapter may still prove clearly better when it is tried on all tasks.

    Tasks that the adapter got right as it is can only be lost, so the best that may come of them is that none is. Of
    those that it failed and that are left, what the ones before foretell decides, unless too little of them is left to
    matter.

    Args:
        outcomes: (n,) outcomes of the weaker one on the first n.
        whole: (N,) its own of all, those that are 1.0 last.
    """
    failed = sum(outcome < 1.0 for outcome in whole)
    left = failed - len(outcomes)
    if left <= 0:
        return _compare_weaker(outcomes, whole).low > 0
    counts = range(left + 1)
    enough = bisect_left(counts, True, key=lambda count: _wins(outcomes, whole, left, count))
    if enough not in counts or not outcomes:
        return enough in counts
    mean = (math.fsum(outcomes) + 1) / (len(outcomes) + 2)
    deviation = math.sqrt(mean * (1 - mean))
    return (
        foresee(
            mean,
            error=deviation / math.sqrt(len(outcomes) + 2),
            error_then=deviation / math.sqrt(failed + 2),
            bar=(math.fsum(outcomes) + enough - 0.5) / failed,
        )
        >= LEAST_CHANCE
    )


def _wins(outcomes: Sequence[float], whole: Sequence[float], left: int, count: int) -> bool:
    """Whether it is clearly better where it gets so many of those that are left right; then it is with more, too.

    S and Q the sums of differences and of their squares, low > 0 is S > 0 and S² (1 + z²/(N + 2)) > z² (Q + 1);
    so S (1 + z²/(N + 2)) > z, and one more right adds at least 2z + 1 on the left, at most z² on the right: less, up to
    z = 1 + √2, the confidence .984.
    """
    return _compare_weaker([*outcomes, *[1.0] * count, *[0.0] * (left - count)], whole).low > 0


def _compare_weaker(found: Sequence[float], whole: Sequence[float]) -> PairedComparison:
    sure = 1 - (1 - SURE_OF_STRENGTH) / len(WEAKER)
    return compare_paired([*found, *whole[len(found) :]], whole, confidence=sure)


def suspect_strength(outcomes: Mapping[float, Sequence[float]]) -> tuple[Finding, ...]:
    """Whether the adapter answers better at a part of its strength: then it is over-scaled.

    Args:
        outcomes: scale -> outcomes in [0, 1] of the same items, (N,) at 1.0; fewer where `may_be_better` said no, and
            nothing is found there.
    Source:
        Bonferroni: the strengths share the error, so that an adapter that none of them changes is found over-scaled in
        1 to 3 % of cases, whatever the strengths have in common (ADR 187).
        Scale sweep on the desk: a trained adapter rises up to its own scale and falls off a cliff soon after it.
    """
    whole = outcomes[1.0]
    weaker = {
        scale: _compare_weaker(found, whole)
        for scale, found in outcomes.items()
        if scale < 1 and len(found) == len(whole)
    }
    better = {scale: found for scale, found in weaker.items() if found.low > 0}
    if not better:
        return ()
    scale, found = max(better.items(), key=lambda one: one[1].difference)
    return (Finding(check="strength", words=f"over-scaled: at {scale:g} of its strength it is {found.points} better"),)


def suspect_leak(
    kept: PairedComparison, fresh: PairedComparison, *, confidence: float = SURE_OF_LEAK
) -> tuple[Finding, ...]:
    """Whether the gain is on the tasks that could be known alone.

    Args:
        kept: candidate against reference on the panel that is used again and again.
        fresh: the same two on tasks drawn for this candidate alone.
        confidence: one-sided.
    """
    gap = kept.difference - fresh.difference
    reach = NormalDist().inv_cdf(confidence) * math.hypot(kept.find_error(), fresh.find_error())
    if kept.difference <= 0 or gap - reach <= 0 or gap < LEAK_POINTS:
        return ()
    words = f"its gain is on known tasks alone: {kept.points} on the panel, {fresh.points} on {fresh.items} drawn anew"
    return (Finding(check="leak", words=words),)


def may_leak(kept: PairedComparison, fresh: PairedComparison | None, *, kept_then: int, fresh_then: int) -> bool:
    """Whether `suspect_leak` may find something when all tasks are measured, by what is seen so far.

    Args:
        fresh: None before any.
        kept_then, fresh_then: how many there are.
    """
    before, after = kept.find_error(), kept.find_error(kept_then)
    chance = foresee(kept.difference, error=before, error_then=after, bar=0.0)
    if fresh is not None:
        then = math.hypot(after, fresh.find_error(fresh_then))
        bar = max(LEAK_POINTS, NormalDist().inv_cdf(SURE_OF_LEAK) * then)
        now = math.hypot(before, fresh.find_error())
        chance = min(chance, foresee(kept.difference - fresh.difference, error=now, error_then=then, bar=bar))
    return chance >= LEAST_CHANCE


def suspect_reward(batch: BatchFacts, verified: PairedComparison | None) -> tuple[Finding, ...]:
    """Whether it was taught to please: a reward that does not know right from wrong, or that rose while truth fell.

    Args:
        verified: candidate against what serves; None before it is measured.
    """
    found = []
    if batch.held_out:
        words = f"{batch.held_out} of {batch.rollouts} of its training attempts are on tasks that are only measured on"
        found.append(Finding(check="held_out", words=words))
    if batch.agreement is not None and batch.agreement < LEAST_AGREEMENT:
        words = (
            f"its reward tells right from wrong at {batch.agreement:.2f} (AUC, {batch.audited} verified attempts), "
            f"{LEAST_AGREEMENT:.2f} is wanted"
        )
        found.append(Finding(check="reward", words=words))
    if batch.agreement is not None and verified and verified.high < 0 and batch.reward > batch.outcome:
        words = (
            f"it was rewarded with {batch.reward:.2f} for attempts that are right in {batch.outcome:.0%} of cases, "
            f"and what is verified fell by {verified.points}"
        )
        found.append(Finding(check="reward", words=words))
    return tuple(found)


def suspect_skills(comparison: PairedComparison, *, margin: float) -> tuple[Finding, ...]:
    """Whether it lost what the base model could do already: more than `margin`, for sure.

    Args:
        comparison: candidate against the base model or what serves, whichever does worse: an honest line may move away
            from its base for good.
    """
    if comparison.high >= -margin:
        return ()
    words = f"it lost what the base model could do already: {comparison.points}"
    return (Finding(check="skills", words=words, is_broken=True),)
