"""The outer loop: a manager's rubric is weights, and audits (judgements whose truth is known) refit them.

A rubric manager scores an attempt by sigmoid(w . phi): phi are the rubric's items as found in the attempt, w is what
the manager makes of each. How far it is trusted is measured on audits that its weights had not seen.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tentalis.core.scoring.ranking import (
    Auc,
    Difference,
    compare_aucs,
    measure_auc,
    reach_of,
    variance_of_mean,
)
from tentalis.core.sigmoid import cross_entropy, sigmoid

Items = Mapping[str, float]
"""A rubric's items as found in an attempt: name -> value, in [-1, 1]; what is not named is 0."""

MOST_NEWTON_STEPS = 50
_STEP_TOLERANCE = 1e-9


class MetaError(ValueError):
    """Audits or weights that make no sense; the message says what was wanted and what was found."""


@dataclass(frozen=True)
class MetaPolicy:
    """What is asked of a manager's own learning.

    Args:
        tau: standard deviation of the prior around the weights a manager starts from; 3 is wide: two audits that
            contradict a rule move it to the other side of 0.
        cold_rounds: rounds after which a manager's unaudited word counts for something, whatever the audits say.
        recent_audits: the newest audits, on which AUCs are measured.
        least_each: good and bad audits that takes at least, of each.
        margin: how much lower an AUC may be and still count as not worse, where the interval shows that much.
        confidence: of the two-sided intervals.
    """

    tau: float = 3.0
    cold_rounds: int = 2
    recent_audits: int = 64
    least_each: int = 4
    margin: float = 0.05
    confidence: float = 0.9


POLICY = MetaPolicy()


@dataclass(frozen=True)
class Audit:
    """One judgement whose truth is known.

    Args:
        items: phi of what was judged.
        said: what the manager said of it, in [0, 1], before the truth was known.
        truth: in [0, 1].
    """

    items: Items
    said: float
    truth: float

    def __post_init__(self) -> None:
        for name, value in (("said", self.said), ("truth", self.truth)):
            if not 0.0 <= value <= 1.0:
                raise MetaError(f"{name} must lie in [0, 1], found {value!r}")
        for name, value in self.items.items():
            if not math.isfinite(value):
                raise MetaError(f"item {name!r} must be a finite number, found {value!r}")


@dataclass(frozen=True)
class Fit:
    """What the audits make of the weights.

    Args:
        weights: item -> posterior mode.
        stds: item -> posterior standard deviation, of Laplace's approximation at the mode.
    """

    weights: Mapping[str, float]
    stds: Mapping[str, float]


def judge_items(weights: Mapping[str, float], items: Items) -> float:
    """The manager's score: sigmoid(w . phi), in (0, 1). An item without a weight counts 0."""
    return float(sigmoid(math.fsum(weights.get(name, 0.0) * value for name, value in items.items())))


def fit_weights(audits: Sequence[Audit], *, prior: Mapping[str, float], tau: float = POLICY.tau) -> Fit:
    """Posterior mode of the weights under the prior N(w0, tau^2), by Newton's method.

    Minimises L(w) = -sum_i [y_i log p_i + (1 - y_i) log(1 - p_i)] + |w - w0|^2 / (2 tau^2), p_i = sigmoid(w . phi_i).
    L is strictly convex and a step is halved until L falls, so that it ends at the one minimum from anywhere.

    Args:
        audits: in any order; their truths may be fractions.
        prior: item -> w0; items only audits name have w0 = 0.
        tau: > 0.
    Returns:
        Weights of every item of prior and audits. Without audits: the prior itself, every std tau.
    Raises:
        MetaError: tau is not positive.
    Source:
        Bayesian logistic regression, Laplace approximation: Bishop, Pattern Recognition and Machine Learning, 2006,
        sec. 4.4 and 4.5.1. The damping of the step is ours.
    """
    if not tau > 0.0:
        raise MetaError(f"tau must be above 0, found {tau!r}")
    names = sorted(set(prior) | {name for audit in audits for name in audit.items})
    phi = np.array([[audit.items.get(name, 0.0) for name in names] for audit in audits])
    phi = phi.reshape(len(audits), len(names))  # (N, K), also where nothing is to be seen
    truths = np.array([audit.truth for audit in audits])
    start = np.array([prior.get(name, 0.0) for name in names])
    weights, precision = start, np.eye(len(names)) / tau**2

    def loss_of(weights: NDArray[np.float64]) -> float:
        return cross_entropy(phi @ weights, truths) + float(np.sum(((weights - start) / tau) ** 2)) / 2

    def curvature_at(chances: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(precision + (phi.T * (chances * (1.0 - chances))) @ phi)  # (K, K)

    loss = loss_of(weights)
    for _ in range(MOST_NEWTON_STEPS):
        chances = sigmoid(phi @ weights)
        step = np.linalg.solve(curvature_at(chances), phi.T @ (chances - truths) + (weights - start) / tau**2)
        size = 1.0
        while (moved_loss := loss_of(weights - size * step)) > loss and size >= _STEP_TOLERANCE:
            size /= 2
        if moved_loss > loss:
            break  # rounding: no step of any size improves
        weights, loss = weights - size * step, moved_loss
        if np.max(np.abs(size * step), initial=0.0) < _STEP_TOLERANCE:
            break
    variances = np.diag(np.linalg.inv(curvature_at(sigmoid(phi @ weights))))
    stds = np.sqrt(np.maximum(variances, 0.0))
    return Fit(
        dict(zip(names, weights.tolist(), strict=True)),
        dict(zip(names, stds.tolist(), strict=True)),
    )


def foretell(
    rounds: Sequence[Sequence[Audit]], *, prior: Mapping[str, float], tau: float = POLICY.tau
) -> list[list[float]]:
    """What refitting before every round would have said of each of its audits, none of which it had seen.

    Returns:
        Scores in (0, 1), shaped as `rounds`; the first round's are the prior's.
    Source:
        Prequential analysis: Dawid 1984, Journal of the Royal Statistical Society A 147(2).
    """
    told, seen = [], list[Audit]()
    weights: Mapping[str, float] = prior
    for audits in rounds:
        told.append([judge_items(weights, audit.items) for audit in audits])
        seen += audits
        if len(told) < len(rounds):
            weights = fit_weights(seen, prior=prior, tau=tau).weights
    return told


def gate_factor(auc: float | None) -> float:
    """How far an unaudited word counts: (2 AUC - 1)^2, 0 from a coin's AUC downwards and where it is unknown."""
    return 0.0 if auc is None else max(0.0, 2.0 * auc - 1.0) ** 2


def weigh_unaudited(used: Auc, *, rounds: int, cold_rounds: int, least_each: int) -> tuple[float, str]:
    """How far a manager's unaudited word counts by the AUC of what is used, and what that adds to the words.

    Args:
        rounds: how often the manager has learnt; before `cold_rounds` the word counts for nothing.
        least_each: good and bad audits the AUC takes at least, of each, to be known.
    Returns:
        In [0, 1]; words, "" where nothing is to be added.
    """
    if rounds < cold_rounds:
        return 0.0, f"; its word counts only where it is audited for {cold_rounds} rounds"
    return (gate_factor(used.value) if min(used.good, used.bad) >= least_each else 0.0), ""


@dataclass(frozen=True, kw_only=True)
class LearntVerdict:
    """Whether what a manager learnt is used, and why.

    Args:
        present: AUC of what it would replace; candidate: its own; on the same audits.
        difference: candidate - present.
        gate: how far the manager's unaudited word counts from now on, in [0, 1].
    """

    applies: bool
    words: str
    present: Auc
    candidate: Auc
    difference: Difference
    gate: float

    @property
    def metrics(self) -> dict[str, Any]:
        """Its numbers, as they are stored."""
        return {
            "auc_before": self.present.value,
            "auc_before_interval": [self.present.low, self.present.high],
            "auc_after": self.candidate.value,
            "auc_after_interval": [self.candidate.low, self.candidate.high],
            "difference": self.difference.value,
            "difference_interval": [self.difference.low, self.difference.high],
            "gate": self.gate,
        }


@dataclass(frozen=True, kw_only=True)
class Refit(LearntVerdict):
    """A manager's weights refitted.

    Args:
        present: of what the manager said; candidate: of what refitting would have said; both on the newest audits,
            none of which either had seen.
    """

    fit: Fit
    audits: int


def refit(
    rounds: Sequence[Sequence[Audit]],
    *,
    prior: Mapping[str, float],
    past_rounds: int = 0,
    policy: MetaPolicy = POLICY,
) -> Refit:
    """Fit a manager's weights to its audits and decide whether to use them.

    They are used when their AUC is no lower than the manager's as it judges now, or is shown by the interval to be
    lower by less than the margin.

    Args:
        rounds: the window's audits, oldest round first.
        prior: weights the manager had before the window's first audit, so that no audit counts twice.
        past_rounds: how many there were before the window.
    """
    audits = list(chain.from_iterable(rounds))
    fitted = fit_weights(audits, prior=prior, tau=policy.tau)
    told = list(chain.from_iterable(foretell(rounds, prior=prior, tau=policy.tau)))[-policy.recent_audits :]
    recent = audits[-policy.recent_audits :]
    said, truths = [audit.said for audit in recent], [audit.truth for audit in recent]
    present = measure_auc(said, truths, confidence=policy.confidence)
    candidate = measure_auc(told, truths, confidence=policy.confidence)
    difference = compare_aucs(told, said, truths, confidence=policy.confidence)
    applies, words = _decide(present, candidate, difference, policy)
    gate, caveat = weigh_unaudited(
        candidate if applies else present,
        rounds=past_rounds + len(rounds),
        cold_rounds=policy.cold_rounds,
        least_each=policy.least_each,
    )
    return Refit(
        fit=fitted,
        applies=applies,
        present=present,
        candidate=candidate,
        difference=difference,
        gate=gate,
        audits=len(audits),
        words=words + caveat,
    )


def _decide(present: Auc, candidate: Auc, difference: Difference, policy: MetaPolicy) -> tuple[bool, str]:
    if difference.value is None or min(candidate.good, candidate.bad) < policy.least_each:
        return False, (
            f"wanted {policy.least_each} good and as many bad audits, found {candidate.good} and {candidate.bad}"
        )
    found = f"AUC {candidate.words} on audits it had not seen, {present.words} as it judged"
    if difference.value >= 0.0:
        return True, f"not worse: {found}"
    if difference.low > -policy.margin:
        return True, f"lower by less than {policy.margin:g}: {found}"
    return False, f"not shown to be as good: {found}"


@dataclass(frozen=True)
class Fall:
    """What audits since a fit is in use say of it.

    Args:
        rolls_back: whether to go back to what was before.
        now: AUC of what it said; before: of what the weights, or the adapter, before would have said of the same.
    """

    rolls_back: bool
    now: Auc
    before: Auc
    words: str


def find_fall(
    since: Sequence[Audit],
    *,
    promised: float,
    former: Sequence[float],
    influence: Difference | None = None,
) -> Fall:
    """Whether a fit in use has to go: its AUC fell below what it was let in with, and what was before does no worse.

    A fall counts when the whole interval lies below the promise; or when the AUC itself does and the manager's feedback
    is shown to have done harm (influence), which alone decides nothing. Where what was before does worse on the same
    audits it is the work that changed, and going back would not help.

    Args:
        since: audits of what it said since it is in use.
        promised: AUC it was let in with.
        former: (N,) what the weights or the adapter before would have said of the same.
    """
    truths = [audit.truth for audit in since]
    now = measure_auc([audit.said for audit in since], truths, confidence=POLICY.confidence)
    before = measure_auc(former, truths, confidence=POLICY.confidence)
    if now.value is None or before.value is None or min(now.good, now.bad) < POLICY.least_each:
        return Fall(False, now, before, f"too few audits since it is in use: {now.good} good, {now.bad} bad")
    does_harm = influence is not None and influence.value is not None and influence.high < 0.0
    fell = now.high < promised or (now.value < promised and does_harm)
    found = f"AUC {now.words} since it is in use, let in with {promised:.2f}"
    if not fell:
        return Fall(False, now, before, f"holds: {found}")
    if before.value < now.value:
        words = f"fell, but what was before would do worse ({before.value:.2f}): {found}"
        return Fall(False, now, before, words)
    harm = "; its feedback made the work worse" if does_harm else ""
    return Fall(True, now, before, f"fell: {found}; what was before has {before.value:.2f} on the same{harm}")


@dataclass(frozen=True)
class KindOutcomes:
    """Verified outcomes of one kind of task, before a training and after it.

    Args:
        heard: the training learnt from the manager's word on this kind.
        before, after: outcomes in [0, 1] under the adapter before and the one trained.
    """

    heard: bool
    before: Sequence[float]
    after: Sequence[float]


def estimate_influence(kinds: Sequence[KindOutcomes]) -> Difference:
    """How much more the kinds gained that the manager was heard on: mean gain of those minus mean gain of the others.

    An observation, no experiment: managers are not heard at random. Reported beside the AUC, and never alone a reason.

    Returns:
        In [-2, 2]; unknown where either side has no kind with outcomes before and after.
    Source:
        Difference in differences: Ashenfelter and Card 1985, Review of Economics and Statistics 67(4). Two
        pseudo-outcomes, 0 and 1, are added to each mean's variance.
    """
    sides: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for kind in kinds:
        if kind.before and kind.after:
            variance = variance_of_mean([*kind.before, 0.0, 1.0]) + variance_of_mean([*kind.after, 0.0, 1.0])
            sides[kind.heard].append((fmean(kind.after) - fmean(kind.before), variance))
    if not sides[True] or not sides[False]:
        return Difference(None, -2.0, 2.0)
    value = fmean(gain for gain, _ in sides[True]) - fmean(gain for gain, _ in sides[False])
    spread = math.fsum(math.fsum(variance for _, variance in side) / len(side) ** 2 for side in sides.values())
    reach = reach_of(POLICY.confidence) * math.sqrt(spread)
    return Difference(value, max(-2.0, value - reach), min(2.0, value + reach))


def trace_influence(kinds: Mapping[str, KindOutcomes]) -> dict[str, float]:
    """How much more each kind gained that the manager was heard on: its gain minus the mean gain of those it was not.

    As `estimate_influence`, kind by kind, and as little of an experiment.

    Returns:
        Kind -> in [-2, 2]; {} where no kind it was not heard on has outcomes before and after.
    """
    gains = {name: fmean(kind.after) - fmean(kind.before) for name, kind in kinds.items() if kind.before and kind.after}
    others = [gain for name, gain in gains.items() if not kinds[name].heard]
    if not others:
        return {}
    return {name: gain - fmean(others) for name, gain in gains.items() if kinds[name].heard}
