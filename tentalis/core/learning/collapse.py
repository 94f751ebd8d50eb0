"""Alarms that an adapter is falling apart, from what its answers look like beside the base model's."""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class AnswerTraits:
    """What one answer looks like, whatever it says.

    Args:
        has_broken_tags: a tag is opened and not closed, closed and not opened, or text stands outside of tags.
        has_end: it stopped by itself with the end token.
        entropy_nats: mean of -log p over the tokens the policy sampled.
        length_tokens: tokens sampled.
        self_overlap: share of its n-grams that it had already said, see `measure_self_overlap`.
    """

    has_broken_tags: bool
    has_end: bool
    entropy_nats: float
    length_tokens: int
    self_overlap: float


@dataclass(frozen=True, kw_only=True)
class AnswerProfile:
    """The traits of many answers: rates in [0, 1], means per answer."""

    answers: int
    broken_tag_rate: float
    missing_end_rate: float
    entropy_nats: float
    length_tokens: float
    self_overlap: float


@dataclass(frozen=True, kw_only=True)
class CollapseLimits:
    """How far an adapter's answers may move from the base model's.

    Args:
        broken_tags_over_base, missing_end_over_base, self_overlap_over_base: differences of rates.
        entropy_jump, length_drift: relative to the base; entropy counts upwards only, since learning sharpens.
        entropy_floor_nats: jumps are measured from at least this entropy, so that a base that is sure of everything
            does not raise an alarm at every breath.
    Source:
        LoRA scale sweep on the desk: broken tags come first, then a missing end, then entropy; repetition comes late.
    """

    broken_tags_over_base: float = 0.02
    missing_end_over_base: float = 0.02
    entropy_jump: float = 0.3
    entropy_floor_nats: float = 0.05
    length_drift: float = 0.3
    self_overlap_over_base: float = 0.1


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """One detector that fired: its name, what it measured, what was allowed, and a sentence."""

    detector: str
    found: float
    allowed: float
    words: str


def measure_self_overlap(tokens: Sequence[Hashable], *, size: int = 4) -> float:
    """Share of n-grams that repeat an earlier one of the same answer, in [0, 1); 0 for a text shorter than two of them.

    Args:
        size: n of the n-grams, in tokens.
    """
    grams = Counter(tuple(tokens[start : start + size]) for start in range(len(tokens) - size + 1))
    total = grams.total()
    return (total - len(grams)) / total if total else 0.0


def profile_answers(traits: Sequence[AnswerTraits]) -> AnswerProfile:
    """Sum many answers up.

    Raises:
        ValueError: there is no answer.
    """
    if not traits:
        raise ValueError("a profile wants at least one answer, found none")
    count = len(traits)
    return AnswerProfile(
        answers=count,
        broken_tag_rate=sum(trait.has_broken_tags for trait in traits) / count,
        missing_end_rate=sum(not trait.has_end for trait in traits) / count,
        entropy_nats=math.fsum(trait.entropy_nats for trait in traits) / count,
        length_tokens=sum(trait.length_tokens for trait in traits) / count,
        self_overlap=math.fsum(trait.self_overlap for trait in traits) / count,
    )


def find_alarms(
    candidate: AnswerProfile, base: AnswerProfile, *, limits: CollapseLimits | None = None
) -> tuple[Alarm, ...]:
    """Compare an adapter's answers with the base model's on the same tasks; quiet means ()."""
    limits = limits or CollapseLimits()
    base_entropy = max(base.entropy_nats, limits.entropy_floor_nats)
    entropy_jump = (candidate.entropy_nats - base_entropy) / base_entropy
    length_drift = (candidate.length_tokens - base.length_tokens) / max(base.length_tokens, 1.0)
    checks = (
        (
            "broken_tags",
            candidate.broken_tag_rate - base.broken_tag_rate,
            limits.broken_tags_over_base,
            f"broken tags in {candidate.broken_tag_rate:.1%} of answers, {base.broken_tag_rate:.1%} in the base's",
        ),
        (
            "missing_end",
            candidate.missing_end_rate - base.missing_end_rate,
            limits.missing_end_over_base,
            f"no end in {candidate.missing_end_rate:.1%} of answers, {base.missing_end_rate:.1%} in the base's",
        ),
        (
            "entropy_jump",
            entropy_jump,
            limits.entropy_jump,
            f"entropy {candidate.entropy_nats:.2f} nats a token, {entropy_jump:+.0%} against the base",
        ),
        (
            "length_drift",
            abs(length_drift),
            limits.length_drift,
            f"answers of {candidate.length_tokens:.1f} tokens, {length_drift:+.0%} against the base",
        ),
        (
            "self_overlap",
            candidate.self_overlap - base.self_overlap,
            limits.self_overlap_over_base,
            f"answers repeat {candidate.self_overlap:.1%} of what they said, the base's {base.self_overlap:.1%}",
        ),
    )
    return tuple(
        Alarm(detector=detector, found=found, allowed=allowed, words=words)
        for detector, found, allowed, words in checks
        if found > allowed
    )
