"""Trying an adapter on a share of the work: which tasks it gets, and when enough was seen of it."""

import enum
import hashlib
import math
from dataclasses import dataclass

LEAST_TASKS = 20
MIXTURE_STD = 0.1
MOST_PERCENT = 50


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


@dataclass(frozen=True, kw_only=True)
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


def is_canary(key: str, *, percent: int) -> bool:
    """Whether a piece of work goes to the canary: always the same for the same key, `percent` of all keys.

    Args:
        key: names the canary and the piece of work.
        percent: in [0, 50].
    """
    if not 0 <= percent <= MOST_PERCENT:
        raise ValueError(f"percent must lie in 0..{MOST_PERCENT}, found {percent}")
    digest = hashlib.sha256(key.encode()).digest()
    return int.from_bytes(digest[:8]) % 10_000 < percent * 100


def judge_canary(
    deployed: Arm, canary: Arm, *, margin: float, alpha: float = 0.05, least: int = LEAST_TASKS
) -> CanaryReading:
    """Compare the two sides; may be asked after every task.

    Args:
        margin: how much worse a canary may be and still be called safe, as a share.
        alpha: chance that the interval ever misses the true difference, over all looks together.
        least: tasks on each side before anything is said.
    Returns:
        HARM when the whole interval is below 0, SAFE when all of it is above -margin, else WATCHING.
    Source:
        Mixture sequential probability ratio test: Johari, Pekelis, Walsh 2015, "Always valid inference",
        arXiv:1512.04922, with a normal mixture of standard deviation 0.1 around no difference. Theirs knows the
        variance; ours is the sample's with one more observation half a point from the mean, so that a few equal scores
        do not pass for certainty.
    """
    difference = canary.mean - deployed.mean
    if min(deployed.tasks, canary.tasks) < least:
        words = f"{canary.tasks} of its tasks are scored and {deployed.tasks} others; {least} of each are wanted first"
        return CanaryReading(
            outcome=CanaryOutcome.WATCHING,
            deployed=deployed,
            canary=canary,
            difference=difference,
            low=-1.0,
            high=1.0,
            words=words,
        )
    reach = _reach(_variance_of_mean(deployed) + _variance_of_mean(canary), alpha)
    low, high = max(-1.0, difference - reach), min(1.0, difference + reach)
    if high < 0:
        outcome, end = CanaryOutcome.HARM, "worse than what is in service"
    elif low > -margin:
        outcome, end = CanaryOutcome.SAFE, f"at most {100 * margin:.0f} points worse, for sure"
    else:
        outcome, end = CanaryOutcome.WATCHING, "nothing can be said yet"
    words = (
        f"{100 * difference:+.1f} points [{100 * low:+.1f}, {100 * high:+.1f}] "
        f"on {canary.tasks} tasks against {deployed.tasks} others: {end}"
    ).replace("-", "−")
    return CanaryReading(
        outcome=outcome, deployed=deployed, canary=canary, difference=difference, low=low, high=high, words=words
    )


def _variance_of_mean(arm: Arm) -> float:
    return (arm.tasks * arm.variance + 0.25) / (arm.tasks + 1) / arm.tasks


def _reach(variance: float, alpha: float) -> float:
    """Half the width of the always valid interval around an estimate of this variance."""
    mixture = MIXTURE_STD**2
    total = variance + mixture
    return math.sqrt(2 * variance * total / mixture * (math.log(1 / alpha) + 0.5 * math.log(total / variance)))
