"""The verdict on an adapter that is tried on a share of the work, seen or in the shadow, once enough was seen."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from operator import sub
from statistics import fmean

from tentalis.core.learning.sequential import find_valid_reach

LEAST_TASKS = 20
"""On each side, before anything is said."""
ALPHA = 0.05
"""Chance that the interval ever misses the true difference, over all looks together."""
ADDED = 12
"""Observations half a point from the mean that the variance is taken with. With one, a canary that is right in 90 of
100 beside one that is always right was called at most 10 points worse in 16 of 100 trials; with these in 1 to 4."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """The scored tasks of one side.

    Args:
        tasks: how many.
        mean: of their scores, in [0, 1]; 0 without any.
        variance: of their scores, population; 0 without any.
    """

    tasks: int
    mean: float = 0.0
    variance: float = 0.0


class CanaryOutcome(enum.StrEnum):
    """What is to be done."""

    WATCHING = "watching"
    HARM = "harm"
    SAFE = "safe"


@dataclass(frozen=True)
class CanaryReading:
    """A look at a canary.

    Args:
        difference: canary minus deployed, mean scores, in [-1, 1].
        low, high: interval of the difference that holds at every look at once.
    """

    outcome: CanaryOutcome
    deployed: Arm
    canary: Arm
    difference: float
    low: float
    high: float
    words: str


def judge_canary(deployed: Arm, canary: Arm, *, margin: float) -> CanaryReading:
    """Compare two sides that did different tasks; may be asked after every task.

    The variance is the sample's with `ADDED` more observations on each side, so that a few equal scores do not pass for
    certainty.

    Args:
        margin: how much worse a canary may be and still be called safe, as a share.
    Returns:
        HARM when the whole interval is below 0, SAFE when all of it is above -margin, else WATCHING.
    """
    variance = None
    if min(deployed.tasks, canary.tasks) >= LEAST_TASKS:
        variance = _variance_of_mean(deployed) + _variance_of_mean(canary)
    return _read(deployed, canary, variance, margin=margin)


def judge_shadow(deployed: Sequence[float], shadow: Sequence[float], *, margin: float) -> CanaryReading:
    """As `judge_canary`, of scores of the same tasks in the same order: how hard a task is says nothing any more."""
    tasks = len(deployed)
    if not tasks:
        return _read(Arm(tasks=0), Arm(tasks=0), None, margin=margin)
    before, unseen = (Arm(tasks=tasks, mean=fmean(scores)) for scores in (deployed, shadow))
    gaps = list(map(sub, shadow, deployed))
    mean = fmean(gaps)
    gaps_of = Arm(tasks=tasks, variance=fmean([(gap - mean) ** 2 for gap in gaps]))
    return _read(before, unseen, _variance_of_mean(gaps_of) if tasks >= LEAST_TASKS else None, margin=margin)


def _read(deployed: Arm, canary: Arm, variance: float | None, *, margin: float) -> CanaryReading:
    """What is said of a difference whose estimate has this variance; None: too few tasks."""
    difference = canary.mean - deployed.mean
    outcome, low, high = CanaryOutcome.WATCHING, -1.0, 1.0
    if variance is None:
        scored = f"{canary.tasks} of its tasks are scored and {deployed.tasks} others"
        words = f"{scored}; {LEAST_TASKS} of each are wanted first"
        return CanaryReading(outcome, deployed, canary, difference, low, high, words)
    reach = find_valid_reach(variance, alpha=ALPHA)
    low, high = max(low, difference - reach), min(high, difference + reach)
    if high < 0:
        outcome, end = CanaryOutcome.HARM, "worse than what is in service"
    elif low > -margin:
        outcome, end = CanaryOutcome.SAFE, f"at most {100 * margin:.0f} points worse, for sure"
    else:
        end = "nothing can be said yet"
    words = (
        f"{100 * difference:+.1f} points [{100 * low:+.1f}, {100 * high:+.1f}] "
        f"on {canary.tasks} tasks against {deployed.tasks} others: {end}"
    ).replace("-", "−")
    return CanaryReading(outcome, deployed, canary, difference, low, high, words)


def _variance_of_mean(arm: Arm) -> float:
    return (arm.tasks * arm.variance + ADDED / 4) / (arm.tasks + ADDED) / arm.tasks
