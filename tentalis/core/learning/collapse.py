"""Alarms that an adapter is falling apart, from what its answers look like beside the base model's.

An alarm is a measured difference beyond a bar, whatever its interval; the interval says whether so few answers could
show the same of an adapter that is well. Where they could, more are measured (`decide_alarms`), and then the difference
decides as ever: doubt alone never clears an adapter.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist, stdev
from typing import NamedTuple

ENOUGH_ANSWERS = 300
"""On so many an alarm stands as it is, sure or not: the default panel's size, by which the bars were set."""

SOMETIMES = ("repeated_words", "base_nats")
"""Traits that older answers lack, and those of servers that score nothing."""
WORDS_APART = 10
"""Within so many words of ordinary English hardly a tenth is said again: "the", "and", a name."""
_WORD = re.compile(r"\w+")

CONFIDENCE = 0.9
"""Of the two-sided intervals; each bound is a one-sided 95 % bound, as the gate's."""


@dataclass(frozen=True, kw_only=True)
class AnswerTraits:
    """What one answer looks like, whatever it says.

    Args:
        has_broken_tags: a tag is opened and not closed, closed and not opened, or text stands outside of tags.
        has_end: it stopped by itself with the end token.
        entropy_nats: mean of -log p over the tokens the policy sampled.
        length_tokens: tokens sampled.
        self_overlap: share of its n-grams that it had already said, see `measure_self_overlap`.
        repeated_words: share of its words that it had just said, see `measure_repeated_words`; None: not measured.
        base_nats: mean of -log p under the base model, over the tokens the policy sampled; None: not measured.
    """

    has_broken_tags: bool
    has_end: bool
    entropy_nats: float
    length_tokens: int
    self_overlap: float
    repeated_words: float | None = None
    base_nats: float | None = None


@dataclass(frozen=True, kw_only=True)
class AnswerProfile:
    """The traits of many answers: rates in [0, 1], means per answer, and how far answers differ.

    Args:
        entropy_std, length_std, self_overlap_std, repeated_words_std, base_nats_std: sample standard deviations over
            answers; None: not known.
        repeated_words, base_nats: None where they were not measured of each.
    """

    answers: int
    broken_tag_rate: float
    missing_end_rate: float
    entropy_nats: float
    length_tokens: float
    self_overlap: float
    entropy_std: float | None = None
    length_std: float | None = None
    self_overlap_std: float | None = None
    repeated_words: float | None = None
    repeated_words_std: float | None = None
    base_nats: float | None = None
    base_nats_std: float | None = None


@dataclass(frozen=True, kw_only=True)
class CollapseLimits:
    """How far an adapter's answers may move from the base model's.

    Args:
        broken_tags_over_base, missing_end_over_base, self_overlap_over_base, repeated_words_over_base: differences of
            rates.
        base_distance_nats: how much less likely a token of the answers may be to the base model than one of its own.
        entropy_jump, length_drift: relative to the base; entropy counts upwards only, since learning sharpens.
        entropy_spread: standard deviations of the base's own answers that entropy may rise at least: what differs so
            much from task to task is no sign of falling apart, whatever the model's size and however sure it is.
        entropy_floor_nats: jumps are measured from at least this entropy, so that a base that is sure of everything
            does not raise an alarm at every breath.
    Source:
        LoRA scale sweep on the desk: broken tags come first, then a missing end, then entropy; repetition comes late.
        The spread: Glass 1976, "Primary, secondary, and meta-analysis of research", the difference in standard
        deviations of the control group. An agent that unlearns a habit is less sure for a while: of 20 better adapters
        of a shop's agent 5 rose by more than 30 %, none by a standard deviation.
    """

    broken_tags_over_base: float = 0.02
    missing_end_over_base: float = 0.02
    entropy_jump: float = 0.3
    entropy_spread: float = 1.0
    entropy_floor_nats: float = 0.05
    length_drift: float = 0.3
    self_overlap_over_base: float = 0.1
    repeated_words_over_base: float = 0.1
    base_distance_nats: float = 1.5


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """One detector that fired: its name, what it measured, what was allowed, and a sentence.

    Args:
        low, high: interval of `found` at `CONFIDENCE`; None where it has none.
    """

    detector: str
    found: float
    allowed: float
    words: str
    low: float | None = None
    high: float | None = None

    @property
    def may_be_noise(self) -> bool:
        """Whether what is allowed lies within the interval."""
        return self.low is not None and self.low <= self.allowed


def measure_self_overlap(tokens: Sequence[Hashable], *, size: int = 4) -> float:
    """Share of n-grams that repeat an earlier one of the same answer, in [0, 1); 0 for a text shorter than two of them.

    Args:
        size: n of the n-grams, in tokens.
    """
    grams = Counter(tuple(tokens[start : start + size]) for start in range(len(tokens) - size + 1))
    total = grams.total()
    return (total - len(grams)) / total if total else 0.0


def measure_repeated_words(text: str, *, within: int = WORDS_APART) -> float:
    """Share of a text's words that are among the few before them, in [0, 1); 0 for a text without words.

    It does not grow with length, and it sees what short answers repeat, which n-grams do not: a model that is paid for
    words that must occur says them again and again ("Jana, Jana, Jana lamp").

    Args:
        within: so many words before each are looked at.
    """
    words = _WORD.findall(text.casefold())
    again = sum(word in words[max(place - within, 0) : place] for place, word in enumerate(words))
    return again / len(words) if words else 0.0


def profile_answers(traits: Sequence[AnswerTraits]) -> AnswerProfile:
    """Sum many answers up.

    Raises:
        ValueError: there is no answer.
    """
    if not traits:
        raise ValueError("a profile wants at least one answer, found none")
    count = len(traits)
    entropies = [trait.entropy_nats for trait in traits]
    lengths = [float(trait.length_tokens) for trait in traits]
    overlaps = [trait.self_overlap for trait in traits]
    others = {name: _sum_up([getattr(trait, name) for trait in traits]) for name in SOMETIMES}
    entropy_std, length_std, overlap_std = (
        stdev(values) if count > 1 else None for values in (entropies, lengths, overlaps)
    )
    return AnswerProfile(
        answers=count,
        broken_tag_rate=sum(trait.has_broken_tags for trait in traits) / count,
        missing_end_rate=sum(not trait.has_end for trait in traits) / count,
        entropy_nats=math.fsum(entropies) / count,
        length_tokens=math.fsum(lengths) / count,
        self_overlap=math.fsum(overlaps) / count,
        entropy_std=entropy_std,
        length_std=length_std,
        self_overlap_std=overlap_std,
        **{
            key: value
            for name, found in others.items()
            for key, value in zip((name, f"{name}_std"), found, strict=True)
        },
    )


def _sum_up(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Mean and sample standard deviation; None where not all of them are known."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None, None
    return math.fsum(known) / len(known), stdev(known) if len(known) > 1 else None


def join_profiles(first: AnswerProfile, second: AnswerProfile) -> AnswerProfile:
    """The profile of both their answers together, as `profile_answers` of all of them would give it."""
    total = first.answers + second.answers
    share = second.answers / total

    def mean(mine: float, other: float) -> float:
        return mine + share * (other - mine)

    def spread(mine: float, other: float, stds: tuple[float | None, float | None]) -> float | None:
        if stds[0] is None or stds[1] is None:
            return None
        within = (first.answers - 1) * stds[0] ** 2 + (second.answers - 1) * stds[1] ** 2
        return math.sqrt((within + first.answers * share * (other - mine) ** 2) / (total - 1))

    others: dict[str, float | None] = {}
    for name in SOMETIMES:
        mine, other = getattr(first, name), getattr(second, name)
        if mine is not None and other is not None:
            stds = (getattr(first, f"{name}_std"), getattr(second, f"{name}_std"))
            others |= {name: mean(mine, other), f"{name}_std": spread(mine, other, stds)}
    return AnswerProfile(
        answers=total,
        broken_tag_rate=mean(first.broken_tag_rate, second.broken_tag_rate),
        missing_end_rate=mean(first.missing_end_rate, second.missing_end_rate),
        entropy_nats=mean(first.entropy_nats, second.entropy_nats),
        length_tokens=mean(first.length_tokens, second.length_tokens),
        self_overlap=mean(first.self_overlap, second.self_overlap),
        entropy_std=spread(first.entropy_nats, second.entropy_nats, (first.entropy_std, second.entropy_std)),
        length_std=spread(first.length_tokens, second.length_tokens, (first.length_std, second.length_std)),
        self_overlap_std=spread(
            first.self_overlap, second.self_overlap, (first.self_overlap_std, second.self_overlap_std)
        ),
        **others,
    )


class _Measured(NamedTuple):
    """A difference from the base's and its standard error; None where an answer's spread is not known."""

    found: float
    error: float | None


def find_alarms(
    candidate: AnswerProfile, base: AnswerProfile, *, limits: CollapseLimits | None = None
) -> tuple[Alarm, ...]:
    """Compare an adapter's answers with the base model's on the same tasks; quiet means ().

    What is measured decides, not its interval: that says whether to measure more.

    Source:
        Spread of rates: Agresti and Caffo 2000, "Simple and effective confidence intervals for proportions", one
        success and one failure added on each side; the centre stays what was measured. Of relative changes: the delta
        method. That both sides answered the same tasks is left out, which makes the intervals wider.
    """
    limits = limits or CollapseLimits()
    base_entropy = max(base.entropy_nats, limits.entropy_floor_nats)
    entropy = _compare_means(
        (candidate.entropy_nats, candidate.entropy_std, candidate.answers),
        (base_entropy, base.entropy_std if base_entropy == base.entropy_nats else 0.0, base.answers),
    )
    length = _compare_means(
        (candidate.length_tokens, candidate.length_std, candidate.answers),
        (max(base.length_tokens, 1.0), base.length_std, base.answers),
        minus=base.length_tokens,
    )
    checks = (
        (
            "broken_tags",
            _compare_rates(candidate, base, lambda one: one.broken_tag_rate),
            limits.broken_tags_over_base,
            f"broken tags in {candidate.broken_tag_rate:.1%} of answers, {base.broken_tag_rate:.1%} in the base's",
        ),
        (
            "missing_end",
            _compare_rates(candidate, base, lambda one: one.missing_end_rate),
            limits.missing_end_over_base,
            f"no end in {candidate.missing_end_rate:.1%} of answers, {base.missing_end_rate:.1%} in the base's",
        ),
        (
            "entropy_jump",
            entropy,
            max(limits.entropy_jump, limits.entropy_spread * (base.entropy_std or 0.0) / base_entropy),
            f"entropy {candidate.entropy_nats:.2f} nats a token, {entropy.found:+.0%} against the base",
        ),
        (
            "length_drift",
            length._replace(found=abs(length.found)),
            limits.length_drift,
            f"answers of {candidate.length_tokens:.1f} tokens, {length.found:+.0%} against the base",
        ),
        (
            "self_overlap",
            _compare_shares(
                (candidate.self_overlap, candidate.self_overlap_std, candidate.answers),
                (base.self_overlap, base.self_overlap_std, base.answers),
            ),
            limits.self_overlap_over_base,
            f"answers repeat {candidate.self_overlap:.1%} of what they said, the base's {base.self_overlap:.1%}",
        ),
        *_check_sometimes(candidate, base, limits),
    )
    return tuple(
        _alarm(detector, measured, allowed, words, min(candidate.answers, base.answers))
        for detector, measured, allowed, words in checks
        if measured.found > allowed
    )


class Decided(NamedTuple):
    """What stands, and what fell to few answers' doubt: the alarms that made more answers necessary."""

    alarms: tuple[Alarm, ...]
    doubted: tuple[Alarm, ...] = ()


def decide_alarms(
    candidate: AnswerProfile,
    base: AnswerProfile,
    *,
    measure_more: Callable[[int], tuple[AnswerProfile, AnswerProfile] | None],
    limits: CollapseLimits | None = None,
) -> Decided:
    """Compare as `find_alarms` does; where few answers may have raised every alarm by noise, on `ENOUGH_ANSWERS`.

    Then what all answers together measure decides, of every detector, sure or not.

    Args:
        measure_more: measures so many more tasks on both sides; None where there are no more, and the alarms stand.
    """
    first = find_alarms(candidate, base, limits=limits)
    missing = ENOUGH_ANSWERS - min(candidate.answers, base.answers)
    if missing <= 0 or not first or not all(one.may_be_noise for one in first):
        return Decided(first)
    more = measure_more(missing)
    if more is None:
        return Decided(first)
    found = find_alarms(join_profiles(candidate, more[0]), join_profiles(base, more[1]), limits=limits)
    return Decided(found, first)


def _alarm(detector: str, measured: _Measured, allowed: float, words: str, answers: int) -> Alarm:
    if measured.error is None:
        return Alarm(detector=detector, found=measured.found, allowed=allowed, words=words)
    reach = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2) * measured.error
    low, high = measured.found - reach, measured.found + reach
    if low <= allowed:
        form = ".2f" if detector == "base_distance" else ".1%"
        words += (
            f"; {answers} answers are too few to tell: {low:+{form}} to {high:+{form}}, {allowed:{form}} are allowed"
        )
    return Alarm(detector=detector, found=measured.found, allowed=allowed, words=words, low=low, high=high)


def _compare_rates(mine: AnswerProfile, base: AnswerProfile, rate: Callable[[AnswerProfile], float]) -> _Measured:
    smoothed = [((rate(one) * one.answers + 1) / (one.answers + 2), one.answers + 2) for one in (mine, base)]
    return _Measured(rate(mine) - rate(base), math.sqrt(math.fsum(share * (1 - share) / n for share, n in smoothed)))


Mean = tuple[float, float | None, int]
"""Of so many answers: mean, standard deviation, how many."""


def _compare_means(mine: Mean, base: Mean, *, minus: float | None = None) -> _Measured:
    """(mine - base) / base, or (mine - minus) / base."""
    (value, std, count), (reference, base_std, base_count) = mine, base
    found = (value - (reference if minus is None else minus)) / reference
    if std is None or base_std is None:
        return _Measured(found, None)
    error = math.hypot(std / math.sqrt(count), value / reference * base_std / math.sqrt(base_count)) / reference
    return _Measured(found, error)


def _check_sometimes(
    candidate: AnswerProfile, base: AnswerProfile, limits: CollapseLimits
) -> Iterator[tuple[str, _Measured, float, str]]:
    """What is not always measured, where it is of both."""
    if candidate.repeated_words is not None and base.repeated_words is not None:
        found = _compare_shares(
            (candidate.repeated_words, candidate.repeated_words_std, candidate.answers),
            (base.repeated_words, base.repeated_words_std, base.answers),
        )
        words = f"answers say {candidate.repeated_words:.1%} of their words again at once, the base's"
        yield "repeated_words", found, limits.repeated_words_over_base, f"{words} {base.repeated_words:.1%}"
    if candidate.base_nats is not None and base.base_nats is not None:
        found = _compare_shares(
            (candidate.base_nats, candidate.base_nats_std, candidate.answers),
            (base.base_nats, base.base_nats_std, base.answers),
        )
        words = f"the base model gives its answers {candidate.base_nats:.2f} nats a token, its own"
        yield "base_distance", found, limits.base_distance_nats, f"{words} {base.base_nats:.2f}"


def _compare_shares(mine: Mean, base: Mean) -> _Measured:
    """mine - base."""
    (value, std, count), (reference, base_std, base_count) = mine, base
    if std is None or base_std is None:
        return _Measured(value - reference, None)
    return _Measured(value - reference, math.hypot(std / math.sqrt(count), base_std / math.sqrt(base_count)))
