"""How far a rater can be trusted, from items whose truth is known: error rates, drift, weight.

A judgement and its truth are scores in [0, 1]; from APPROVES on a score approves. A rater errs in two ways that are
kept apart, for an average hides the worse one: it approves what is bad, or rejects what is good.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, Self

from tentalis.core.scoring.protocol import ScoringError

APPROVES = 0.5
"""A score of this much or more approves."""
Z_95 = 1.959963984540054


class Interval(NamedTuple):
    """A share with its interval; None of them is known where nothing was counted."""

    value: float | None
    low: float
    high: float
    items: int


@dataclass(frozen=True, kw_only=True)
class TrustPolicy:
    """What is asked of a rater.

    Args:
        tolerance: largest share of bad items approved (and of good ones rejected) that is still acceptable.
        prior_errors, prior_items: what is believed of an unknown rater: so many errors in so many items.
        memory_items: items of one kind (bad, good) after which an error has lost 1 - 1/e of its say.
        drift_from, drift_to: error rates the drift detector tells apart. Who errs more often than `drift_from` rings it
            again and again, and each time the run that speaks most against them is what is remembered: so it lies not
            far below the tolerance (ADR 182).
        false_alarm_items: mean number of items between two false alarms of the detector, at least.
        correlation: how much alike errors within one sitting are (intra-class correlation).
        quarantine_below: a weight under which a rater's word is not used.
        quarantine_items, quarantine_sittings: so many audited items, from so many sittings, that takes at least.
        release_above: the weight at which a machine is used again by itself; a person is reinstated by a person.
    """

    tolerance: float = 0.15
    prior_errors: float = 1.0
    prior_items: float = 20.0
    memory_items: float = 200.0
    drift_from: float = 0.12
    drift_to: float = 0.35
    false_alarm_items: float = 10_000.0
    correlation: float = 0.1
    quarantine_below: float = 0.1
    quarantine_items: int = 20
    quarantine_sittings: int = 5
    release_above: float = 0.5


POLICY = TrustPolicy()


@dataclass(frozen=True)
class ErrorTrack:
    """Errors on items of one kind, older ones counting for less.

    Args:
        items, errors: what is remembered, decayed; errors <= items.
        drift: the detector's statistic, >= 0.
        run_items, run_errors: the same since the statistic was last 0: what came after the change, if there was one.
    """

    items: float = 0.0
    errors: float = 0.0
    drift: float = 0.0
    run_items: float = 0.0
    run_errors: float = 0.0

    def add(self, is_error: bool, *, size: float, policy: TrustPolicy) -> tuple["ErrorTrack", bool]:
        """The track after one more item, and whether the detector rang.

        It rings when sum(log-likelihood ratio of `drift_to` against `drift_from`), never below 0, passes
        log(false_alarm_items). What was before the change is forgotten then, unless it speaks against the rater too.

        Args:
            size: how much the item counts, in (0, 1].
        Source:
            CUSUM: Page 1954, Biometrika 41; its mean time to a false alarm is at least exp(threshold): Lorden 1971,
            Annals of Mathematical Statistics 42(6). The change is placed where the statistic last was 0, its
            maximum-likelihood estimate.
        """
        keep = 1.0 - size / policy.memory_items
        error = size if is_error else 0.0
        items, errors = keep * self.items + size, keep * self.errors + error
        bad, good = policy.drift_to, policy.drift_from
        ratio = math.log(bad / good) if is_error else math.log((1 - bad) / (1 - good))
        drift = max(0.0, self.drift + size * ratio)
        if drift == 0.0:
            return ErrorTrack(items, errors), False
        run_items, run_errors = self.run_items + size, self.run_errors + error
        if drift > math.log(policy.false_alarm_items):
            heard = (ErrorTrack(items, errors), ErrorTrack(run_items, run_errors))
            return min(heard, key=lambda track: track.probability_within(policy)), True
        return ErrorTrack(items, errors, drift, run_items, run_errors), False

    def probability_within(self, policy: TrustPolicy) -> float:
        """P(error rate <= tolerance), by its Beta posterior, as a share of what the prior alone gives; in [0, 1]."""
        prior = (policy.prior_errors, policy.prior_items - policy.prior_errors)
        held = beta_cdf(policy.tolerance, prior[0] + self.errors, prior[1] + self.items - self.errors)
        return min(1.0, held / beta_cdf(policy.tolerance, *prior))


@dataclass(frozen=True)
class Standing:
    """What is remembered of a rater.

    Args:
        bad: items whose truth is a rejection; an error approves one.
        good: items whose truth is an approval; an error rejects one.
    """

    bad: ErrorTrack = field(default_factory=ErrorTrack)
    good: ErrorTrack = field(default_factory=ErrorTrack)

    def weight(self, policy: TrustPolicy = POLICY) -> float:
        """Trust weight in [0, 1]: the probability that both error rates are acceptable, relative to an unknown rater.

        w = min(1, P(f <= t)/P0) * min(1, P(m <= t)/P0), with f ~ Beta(a + approved bad, b + rejected bad), m alike for
        the good, P0 the prior's own P. An unknown rater has 1; the memory makes it recover as slowly as it forgets.

        Source:
            Beta-binomial posterior, Gelman et al., Bayesian Data Analysis, 3rd ed., sec. 2.4. That a posterior
            probability is the weight is our choice: a vote counts as much as it is likely to come from an able rater.
        """
        return self.bad.probability_within(policy) * self.good.probability_within(policy)

    def add(
        self, judged: Sequence[tuple[float, float]], policy: TrustPolicy = POLICY
    ) -> tuple["Standing", tuple[bool, bool]]:
        """The standing after one sitting, and whether it drifted on bad and on good items.

        Of m items of one kind each counts 1 / (1 + (m - 1) * correlation): errors in one sitting are often one.

        Args:
            judged: (said, truth), each in [0, 1].
        Raises:
            ScoringError: a score out of [0, 1].
        Source:
            Design effect of cluster sampling, Kish 1965, Survey Sampling, sec. 5.4.
        """
        tracks, rang = [], []
        for is_good, start in ((False, self.bad), (True, self.good)):
            errors = [approves(said) != is_good for said, truth in judged if approves(truth) == is_good]
            size = 1.0 / (1.0 + (len(errors) - 1) * policy.correlation) if errors else 1.0
            track, alarm = start, False
            for is_error in errors:
                track, now = track.add(is_error, size=size, policy=policy)
                alarm |= now
            tracks.append(track)
            rang.append(alarm)
        return Standing(tracks[0], tracks[1]), (rang[0], rang[1])

    def to_json(self) -> dict[str, list[float]]:
        return {name: list(_numbers(track)) for name, track in (("bad", self.bad), ("good", self.good))}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """{} is an unknown rater. Raises ScoringError for anything `to_json` would not write."""
        try:
            found = {name: ErrorTrack(*(float(number) for number in data.get(name, ()))) for name in ("bad", "good")}
        except (TypeError, ValueError) as error:
            raise ScoringError(f"standing: wanted five numbers for bad and for good, found {error}") from None
        return cls(**found)


@dataclass(frozen=True)
class Confusion:
    """Counts of approvals against the truth."""

    true_approvals: int = 0
    false_approvals: int = 0
    true_rejections: int = 0
    false_rejections: int = 0

    @classmethod
    def of(cls, judged: Sequence[tuple[float, float]]) -> Self:
        """Of (said, truth) pairs. Raises ScoringError for a score out of [0, 1]."""
        cells = [(approves(said), approves(truth)) for said, truth in judged]
        return cls(
            true_approvals=cells.count((True, True)),
            false_approvals=cells.count((True, False)),
            true_rejections=cells.count((False, False)),
            false_rejections=cells.count((False, True)),
        )

    @property
    def items(self) -> int:
        return self.true_approvals + self.false_approvals + self.true_rejections + self.false_rejections

    @property
    def accuracy(self) -> Interval:
        return wilson_interval(self.true_approvals + self.true_rejections, self.items)

    @property
    def false_approval_rate(self) -> Interval:
        """Share of the bad items that were approved (FPR)."""
        return wilson_interval(self.false_approvals, self.false_approvals + self.true_rejections)

    @property
    def false_rejection_rate(self) -> Interval:
        """Share of the good items that were rejected (FNR)."""
        return wilson_interval(self.false_rejections, self.false_rejections + self.true_approvals)


def approves(score: float) -> bool:
    """Raises ScoringError unless the score is in [0, 1]."""
    if not 0.0 <= score <= 1.0:  # NaN fails this too
        raise ScoringError(f"score: wanted a number in [0, 1], found {score!r}")
    return score >= APPROVES


def wilson_interval(hits: float, items: float) -> Interval:
    """A share with its score interval; [0, 1] and no value without items.

    Raises:
        ScoringError: more hits than items, or fewer than none.
    Source:
        Wilson 1927, JASA 22(158).
    """
    if not 0 <= hits <= items:
        raise ScoringError(f"hits: wanted 0 to {items}, found {hits}")
    if items == 0:
        return Interval(None, 0.0, 1.0, 0)
    share = hits / items
    scale = 1.0 + Z_95 * Z_95 / items
    middle = (share + Z_95 * Z_95 / (2 * items)) / scale
    half = Z_95 * math.sqrt(share * (1 - share) / items + Z_95 * Z_95 / (4 * items * items)) / scale
    low = 0.0 if hits == 0 else max(0.0, middle - half)
    high = 1.0 if hits == items else min(1.0, middle + half)
    return Interval(share, low, high, int(items))


def mean_absolute_error(judged: Sequence[tuple[float, float]]) -> float | None:
    """Mean distance of scores from the truth, in [0, 1]; None without any."""
    return math.fsum(abs(said - truth) for said, truth in judged) / len(judged) if judged else None


@lru_cache(maxsize=4096)
def beta_cdf(x: float, a: float, b: float) -> float:
    """P(X <= x) for X ~ Beta(a, b), to about 1e-14. Kept: of a rater's two tracks an item moves one, the prior stays.

    Raises:
        ScoringError: x out of [0, 1], or a or b not positive.
    Source:
        Regularised incomplete beta function by its continued fraction, DLMF 8.17.22, evaluated by Lentz's method.
    """
    if not (0.0 <= x <= 1.0 and a > 0.0 and b > 0.0):
        raise ScoringError(f"beta distribution: wanted x in [0, 1], a and b above 0, found {x!r}, {a!r}, {b!r}")
    if x in (0.0, 1.0):
        return x
    if x > (a + 1.0) / (a + b + 2.0):  # where the fraction converges slowly the other tail converges fast
        return 1.0 - beta_cdf(1.0 - x, b, a)
    front = math.exp(
        a * math.log(x) + b * math.log1p(-x) - math.log(a) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    )
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    value = d
    for m in range(1, 500):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d, c = 1.0 + term * d, 1.0 + term / c
            d, c = 1.0 / (d if abs(d) > tiny else tiny), c if abs(c) > tiny else tiny
            step = c * d
            value *= step
        if abs(step - 1.0) < 1e-15:
            break
    return min(1.0, front * value)


def _numbers(track: ErrorTrack) -> tuple[float, ...]:
    return track.items, track.errors, track.drift, track.run_items, track.run_errors
