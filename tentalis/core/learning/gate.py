"""The promotion gate: paired comparison of two adapters on held-out tasks, and verdicts in words."""

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import mul, sub
from statistics import NormalDist
from typing import ClassVar

from tentalis.core.checked import Checked, number
from tentalis.core.field_limits import MAX_TRIED_PERCENT
from tentalis.core.learning.collapse import Alarm
from tentalis.core.learning.sequential import foresee
from tentalis.core.weighing import count_effective, mean_weighted

MOST_SIDE_TASKS, MOST_COUNT, MOST_BLIND = 2_000, 10**9, 500
LEAST_CONFIRMED = 30
"""Tasks drawn anew without which nothing is said to be proved."""


class GateError(ValueError):
    """A comparison that makes no sense; the message says what was wanted and what was found."""


@dataclass(frozen=True, kw_only=True)
class PairedComparison:
    """Candidate minus reference on the same items.

    Args:
        items: number of items compared.
        candidate, reference: mean outcomes in [0, 1].
        difference: their plain difference, in [-1, 1].
        low, high: interval of the difference at `confidence`; holds more than the data's spread (see `compare_paired`).
        std: population standard deviation of the items' differences, pseudo-observations included.
        effective_items: so many of equal weight say as much; None: all weigh the same.
    """

    items: int
    candidate: float
    reference: float
    difference: float
    low: float
    high: float
    std: float
    confidence: float
    effective_items: float | None = None

    @property
    def size(self) -> float:
        """Items of equal weight that say as much."""
        return self.items if self.effective_items is None else self.effective_items

    @property
    def centre(self) -> float:
        """Of the interval, before it is cut at -1 and 1."""
        return self.difference * self.size / (self.size + 2)

    def find_error(self, items: int | None = None) -> float:
        """Standard error of the centre; of so many items of such weights, where they are given."""
        size = self.size if items is None else self.size * items / self.items
        return self.std / math.sqrt(size + 2)

    @property
    def swapped(self) -> "PairedComparison":
        """Reference minus candidate."""
        return replace(
            self,
            candidate=self.reference,
            reference=self.candidate,
            difference=-self.difference,
            low=-self.high,
            high=-self.low,
        )

    @property
    def points(self) -> str:
        """The difference and its interval in percentage points: `+2.3 points [−1.0, +5.6]`."""
        return f"{_points(self.difference)} points [{_points(self.low)}, {_points(self.high)}]"


def _points(share: float) -> str:
    text = f"{100 * share:+.1f}".replace("-", "−")
    return "±0.0" if text in ("+0.0", "−0.0") else text


def compare_paired(
    candidate: Sequence[float], reference: Sequence[float], weights: Sequence[float] = (), *, confidence: float = 0.9
) -> PairedComparison:
    """Compare two adapters item by item, for binary or real outcomes.

    Args:
        candidate, reference: (N,) outcomes in [0, 1] of the same items in the same order; of an item that was tried
            several times the mean, so that its tries count as the one cluster they are.
        weights: (N,) above 0, how much each item counts; only their ratios matter. (): all count the same.
        confidence: of the two-sided interval; 0.9 makes each bound a one-sided 95 % bound.
    Raises:
        GateError: no item, different numbers of items or weights, or a value outside [0, 1].
    Source:
        Agresti and Min 2005, "Simple improved confidence intervals for comparing matched proportions": a normal
        interval after adding half an observation to each of the four cells. In terms of differences that is two more
        items, with squares summing to 1, which is what we add for real outcomes too. With no disagreement at all the
        interval is still wider than a point. Where items weigh differently, the weighted mean and mean square of as
        many items as say as much (`count_effective`), as is done for proportions of surveys: Dean and Pagano 2015,
        "Evaluating confidence interval methods for binomial proportions in clustered surveys". One item of half the
        weight leaves fewer than four, whose interval hardly ever leaves zero out.
    """
    if not candidate or len(candidate) != len(reference):
        raise GateError(
            f"a paired comparison wants the same items twice, found {len(candidate)} and {len(reference)} outcomes"
        )
    if not 0.5 <= confidence < 1:
        raise GateError(f"confidence must lie in [0.5, 1), found {confidence}")
    for name, values in (("candidate", candidate), ("reference", reference)):
        for index, value in enumerate(values):
            if not 0 <= value <= 1:
                raise GateError(f"{name} outcome {index} must lie in [0, 1], found {value}")
    shares = normalise_weights(weights, items=len(candidate))
    differences = list(map(sub, candidate, reference))
    items = len(differences)
    total = math.fsum(map(mul, shares, differences))
    difference = total / items
    size = count_effective(shares, [(value - difference) ** 2 for value in differences])
    padded, part = size + 2, size / items
    centre = part * total / padded
    spread = part * math.fsum([share * (value - centre) ** 2 for share, value in zip(shares, differences, strict=True)])
    std = math.sqrt((spread + 1 + 2 * centre * centre) / padded)
    reach = NormalDist().inv_cdf(0.5 + confidence / 2) * std / math.sqrt(padded)
    return PairedComparison(
        items=items,
        candidate=mean_weighted(candidate, shares),
        reference=mean_weighted(reference, shares),
        difference=difference,
        low=max(-1.0, centre - reach),
        high=min(1.0, centre + reach),
        std=std,
        confidence=confidence,
        effective_items=None if len(set(shares)) == 1 else size,
    )


def normalise_weights(weights: Sequence[float], *, items: int) -> list[float]:
    """(N,) with mean 1; all 1 where there are none.

    Raises:
        GateError: another number of them than of items, or one that is not above 0.
    """
    if not weights:
        return [1.0] * items
    if len(weights) != items or not all(0 < weight < math.inf for weight in weights):
        raise GateError(f"wanted {items} weights above 0, found {list(weights)!r:.80}")
    if len(set(weights)) == 1:
        return [1.0] * items  # not a rounding beside it
    mean = math.fsum(weights) / items
    return [weight / mean for weight in weights]


def minimum_detectable_effect(*, items: float, std: float, confidence: float = 0.9, power: float = 0.8) -> float:
    """The smallest true difference that a paired comparison of this size finds with this probability.

    Args:
        items: of equal weight, or as many as say as much.
        std: of the items' differences.
    Returns:
        A difference in the unit of `std`: (z_confidence + z_power) * std / sqrt(items).
    """
    if not items > 0:
        raise GateError(f"items must be above 0, found {items}")
    normal = NormalDist()
    return (normal.inv_cdf(0.5 + confidence / 2) + normal.inv_cdf(power)) * std / math.sqrt(items)


def find_items_needed(*, effect: float, std: float, confidence: float = 0.9, power: float = 0.8) -> int:
    """How many items it takes for `minimum_detectable_effect` to be `effect`, which is above 0."""
    if not effect > 0:
        raise GateError(f"effect must be above 0, found {effect}")
    return math.ceil((minimum_detectable_effect(items=1, std=std, confidence=confidence, power=power) / effect) ** 2)


def foresee_bound(comparison: PairedComparison, *, items: int, below: float) -> float:
    """The chance that the upper end of the interval lies below a value when so many items are compared.

    Of the lower end above a value: the same of `comparison.swapped`, below the negative value.
    """
    error, then = comparison.find_error(), comparison.find_error(items)
    reach = NormalDist().inv_cdf(0.5 + comparison.confidence / 2) * then
    return foresee(-comparison.difference, error=error, error_then=then, bar=reach - below)


@dataclass(frozen=True, kw_only=True)
class GatePolicy(Checked):
    """What a project asks of an adapter before it serves.

    Args:
        margin: how much worse than the deployed adapter an update might be and still serve, as a share.
        second_margin: the same for the second metric.
        confidence: of the two-sided intervals.
        power: with which the minimum detectable effect is found.
        anchor_margin: how much worse than the anchor a line may be for sure before it must go back, as a share.
        confirm_size: tasks drawn anew on which what the panel shows against the anchor must be seen again.
        anchor_patience: updates without proof after which the anchor's question is inconclusive.
        panel_size: held-out tasks an adapter is measured on at most.
        panel_lifetime: updates after which other held-out tasks are drawn, before these were consulted too often.
        canary_percent: share of the work that an adapter found safe gets first, in [0, 50]; 0: it serves at once.
        fresh_size: held-out tasks drawn at most for each candidate alone, which nothing can be trained on; 0: none.
        sweep_size: tasks of the panel that it is tried on at other strengths; 0: it is not.
        skills_size: tasks that the base model did right and that must not be lost; 0: none.
        skills_margin: share of those that may be lost.
        blind_pairs: pairs of answers, an update's beside those of what serves, that people compare at most where no
            check says what is right; 0: none, a judge is asked.
        people_per_pair: how many of them compare each.
        length_drift: by how much the mean length of answers may differ from the base model's, relative to it. A house
            style that is longer or shorter than what the base writes wants more.
        base_distance_nats: how much less likely a token of its answers may be to the base model than one of the base's
            own, where the model server scores texts. An ending of a house's own costs about one.
        capability_pairs: pairs of sentences that tell what a model knows besides its work, asked with some plain text
            where the model has words for it; 0: neither is asked.
        text_margin_nats: how much more a token of that text may cost an adapter than its base model.
        reasoning_margin: share of what the base model knows of those pairs that may be lost.
        alignment_margin: share of the scenarios of alignment that it may answer less honestly than what serves, where
            the installation asks them.
        least_solved: distinct tasks that must be solved before anything is imitated or preferred.
        most_loss_ratio: of the validation loss to the training loss.
        least_length_ratio: of the answers' length after training to that before.
        most_grad_norm: of an update, before it is clipped.
    """

    NOUN: ClassVar[str] = "gate policy"

    margin: float = number(0.1, 0, 1, above=True, below=True)
    second_margin: float = number(0.1, 0, 1, above=True, below=True)
    confidence: float = number(0.9, 0.5, 1, above=True, below=True)
    power: float = number(0.8, 0.5, 1, above=True, below=True)
    anchor_margin: float = number(0.02, 0, 1, above=True, below=True)
    confirm_size: int = number(300, LEAST_CONFIRMED, MOST_SIDE_TASKS)
    anchor_patience: int = number(12, 1, MOST_COUNT)
    panel_size: int = number(300, 1, MOST_COUNT)
    panel_lifetime: int = number(16, 1, MOST_COUNT)
    canary_percent: int = number(0, 0, MAX_TRIED_PERCENT)
    fresh_size: int = number(300, 0, MOST_SIDE_TASKS)
    sweep_size: int = number(60, 0, MOST_SIDE_TASKS)
    skills_size: int = number(100, 0, MOST_SIDE_TASKS)
    skills_margin: float = number(0.02, 0, 1, above=True, below=True)
    blind_pairs: int = number(0, 0, MOST_BLIND)
    people_per_pair: int = number(1, 1, 5)
    length_drift: float = number(0.3, 0, 10, above=True)
    base_distance_nats: float = number(1.5, 0, 100, above=True)
    capability_pairs: int = number(100, 0, MOST_SIDE_TASKS)
    text_margin_nats: float = number(0.1, 0, 100, above=True)
    reasoning_margin: float = number(0.02, 0, 1, above=True, below=True)
    alignment_margin: float = number(0.05, 0, 1, above=True, below=True)
    least_solved: int = number(100, 0, MOST_COUNT)
    most_loss_ratio: float = number(5.0, 0, MOST_COUNT, above=True)
    least_length_ratio: float = number(0.5, 0, 1, above=True, below=True)
    most_grad_norm: float = number(1_000.0, 0, MOST_COUNT, above=True)


class ServingOutcome(enum.StrEnum):
    """Answer to "safe to serve?"."""

    SAFE = "safe"
    UNDECIDED = "undecided"
    REFUSED = "refused"


class AnchorOutcome(enum.StrEnum):
    """Answer to "proved better?"."""

    TOO_EARLY = "too_early"
    PROVED = "proved"
    INCONCLUSIVE = "inconclusive"
    WORSE = "worse"


@dataclass(frozen=True, kw_only=True)
class ServingVerdict:
    """Whether an adapter may serve, the comparison behind it, and the sentence a person reads."""

    outcome: ServingOutcome
    comparison: PairedComparison
    words: str

    @property
    def is_safe(self) -> bool:
        return self.outcome is ServingOutcome.SAFE


@dataclass(frozen=True, kw_only=True)
class AnchorVerdict:
    """Whether an adapter is proved better than the anchor, the comparison behind it, and the sentence."""

    outcome: AnchorOutcome
    comparison: PairedComparison
    words: str


def judge_serving(
    comparison: PairedComparison,
    *,
    against: str,
    policy: GatePolicy,
    second: PairedComparison | None = None,
    second_name: str = "the second metric",
    alarms: Sequence[Alarm] = (),
    faults: Sequence[str] = (),
    leaves_few: bool = False,
) -> ServingVerdict:
    """Answer "safe to serve?": non-inferior to the deployed adapter, second metric not worse, detectors quiet.

    Args:
        against: name of the deployed adapter.
        second: the same items under a metric the reward does not see; None when there is none.
        faults: what else forbids it, in words.
        leaves_few: what fewer than `LEAST_CONFIRMED` items do not show to be good enough is undecided, unless it did
            worse on them: so few refuse what is good as easily as what is bad.
    """
    checks = [("it", comparison, policy.margin)]
    if second is not None:
        checks.append((second_name, second, policy.second_margin))
    reasons = [
        f"{name} may be {-100 * found.low:.1f} points worse, {100 * margin:.1f} are allowed"
        for name, found, margin in checks
        if found.low <= -margin
    ]
    reasons.extend(alarm.words for alarm in alarms)
    reasons.extend(faults)
    start = f"{comparison.points} against {against}"
    is_few = leaves_few and comparison.items < LEAST_CONFIRMED and not alarms and not faults
    if reasons and is_few and all(found.difference >= 0 and found.high >= -margin for _, found, margin in checks):
        words = f"{start}: {'; '.join(reasons)}: so few items show neither harm nor that it is good enough"
        return ServingVerdict(outcome=ServingOutcome.UNDECIDED, comparison=comparison, words=words)
    if reasons:
        return ServingVerdict(
            outcome=ServingOutcome.REFUSED, comparison=comparison, words=f"{start}: refused: {'; '.join(reasons)}"
        )
    return ServingVerdict(outcome=ServingOutcome.SAFE, comparison=comparison, words=f"{start}: safe to serve")


def spend_alpha(look: int, *, confidence: float) -> float:
    """The share of the error left for one anchor that its `look`-th confirmation may use, each direction for itself.

    However many confirmations there are, together they are wrong with at most the probability that one look at
    `confidence` would be: the shares 1/2, 1/6, 1/12, … sum to 1.

    Args:
        look: which confirmation against this anchor, from 1.
        confidence: of the two-sided intervals; 0.9 leaves 5 % to each direction.
    Returns:
        The one-sided error of this confirmation, (1 - confidence) / 2 / (look * (look + 1)).
    Source:
        Alpha spending over an unknown number of looks: Lan and DeMets 1983; the series as in Bonferroni's inequality.
        Every look has tasks of its own, so its level holds whatever the looks before it found, and whatever made
        anybody ask for it.
    """
    if look < 1:
        raise GateError(f"look must be at least 1, found {look}")
    return (1 - confidence) / 2 / (look * (look + 1))


class Direction(enum.StrEnum):
    """What a comparison with the anchor shows."""

    BETTER = "better"
    WORSE = "worse"
    NEITHER = "neither"


def find_direction(
    comparison: PairedComparison, *, policy: GatePolicy, second: PairedComparison | None = None
) -> Direction:
    """BETTER on both metrics for sure, WORSE on either by more than the anchor's margin for sure, or NEITHER.

    Args:
        second: the same items under a metric the reward does not see; None when there is none.
    """
    both = [comparison] if second is None else [comparison, second]
    if any(one.high < -policy.anchor_margin for one in both):
        return Direction.WORSE
    return Direction.BETTER if all(one.low > 0 for one in both) else Direction.NEITHER


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """Candidate against anchor on tasks that were drawn for this look alone.

    Args:
        look: which one against this anchor, from 1.
        comparison, second: outcomes, and the metric the reward does not see, at the confidence of `spend_alpha(look)`.
        is_again: none could be drawn: it is the kept ones, asked with other seeds.
    """

    look: int
    comparison: PairedComparison
    second: PairedComparison | None = None
    is_again: bool = False

    @property
    def where(self) -> str:
        return f"{self.comparison.items} tasks {'asked once more' if self.is_again else 'drawn anew'}"


def judge_progress(
    comparison: PairedComparison,
    *,
    against: str,
    policy: GatePolicy,
    updates_since_anchor: int,
    second: PairedComparison | None = None,
    second_name: str = "the second metric",
    confirmation: Confirmation | None = None,
    unconfirmed: str = "and too few tasks to draw for a confirmation",
    noise_std: float | None = None,
) -> AnchorVerdict:
    """Answer "proved better?" against the last anchor: superiority, also on the second metric.

    The kept panel was looked at by every version since it was drawn: what it shows (`find_direction`) asks for a
    confirmation and decides nothing. A confirmation on tasks of its own decides, at the error that is left for it, and
    the claim is what it measured, so that neither many looks nor the lucky one among them say more than is known.

    Args:
        comparison, second: candidate against anchor on the kept panel.
        against: name of the anchor.
        updates_since_anchor: updates gated since the anchor was proved, this one included.
        confirmation: where the panel showed a direction; None: it showed none, or none was asked for.
        unconfirmed: why none was, in words.
        noise_std: of the items' differences between two measurements of one adapter, which no difference smaller than
            its noise can be told from; None takes the comparison's own.
    Returns:
        WORSE (roll back to the anchor) or PROVED where the confirmation shows what the panel showed, INCONCLUSIVE
        after `anchor_patience` updates without either, else TOO_EARLY.
    """
    start = f"{comparison.points} against anchor {against}"
    shown = find_direction(comparison, policy=policy, second=second)
    is_confirmed = (
        shown is not Direction.NEITHER
        and confirmation is not None
        and find_direction(confirmation.comparison, policy=policy, second=confirmation.second) is shown
    )
    if confirmation is not None and is_confirmed:
        found = confirmation.comparison
        drawn = f"on {confirmation.where}"
        if shown is Direction.BETTER:
            points = f"{_points(found.difference)} [{_points(found.low)}, {_points(found.high)}] points"
            return AnchorVerdict(
                outcome=AnchorOutcome.PROVED,
                comparison=found,
                words=f"improved by {points} against anchor {against} {drawn}",
            )
        words = f"{found.points} against anchor {against} {drawn}"
        if confirmation.second is not None and found.high >= -policy.anchor_margin:
            words += f", but {confirmation.second.points} on {second_name}"
        return AnchorVerdict(outcome=AnchorOutcome.WORSE, comparison=found, words=f"{words}: worse, roll back")
    if shown is not Direction.NEITHER:
        start += f" on the kept panel, {_say_unconfirmed(confirmation, second_name) if confirmation else unconfirmed}"
    if updates_since_anchor >= policy.anchor_patience:
        outcome, end = AnchorOutcome.INCONCLUSIVE, f"inconclusive after {updates_since_anchor} updates"
    else:
        effect = minimum_detectable_effect(
            items=comparison.size,
            std=comparison.std if noise_std is None else noise_std,
            confidence=policy.confidence,
            power=policy.power,
        )
        outcome = AnchorOutcome.TOO_EARLY
        tasks = f"{comparison.items} tasks"
        if comparison.effective_items is not None:
            tasks += f", which weigh as {comparison.effective_items:.1f} equal ones do"
        end = f"too early to say; with {tasks}, "
        end += f"differences under {100 * effect:.1f} points" if effect < 1 else "no difference"
        end += " cannot be detected" if effect < 1 else " can be detected"
    return AnchorVerdict(outcome=outcome, comparison=comparison, words=f"{start}: {end}")


def _say_unconfirmed(confirmation: Confirmation, second_name: str) -> str:
    found = confirmation.comparison
    words = f"not confirmed by {found.points} on {confirmation.where}"
    return words if confirmation.second is None else f"{words} and {confirmation.second.points} on {second_name}"
