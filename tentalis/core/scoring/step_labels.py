"""What a step scorer learns from: a label a step, by completions and people's words, and which tasks are held out."""

import hashlib
import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from tentalis.core.scoring.protocol import ScoringError

Split = Literal["train", "calibrate", "test"]

REACHES = 0.5
"""An outcome of this much or more is the verified outcome reached."""
_TEST_OF_TEN, _CALIBRATE_OF_TEN = 2, 1


class Said(NamedTuple):
    """A person's score of a step in [0, 1], and the trust in that person in [0, 1]."""

    score: float
    trust: float


class Label(NamedTuple):
    """What to learn of a step, in [0, 1], and how much it counts, in (0, 1]."""

    value: float
    weight: float


def hard_label(outcomes: Sequence[float]) -> float:
    """1.0 where any completion from the step's end reaches the verified outcome, else 0.0.

    Raises:
        ScoringError: no completion, or an outcome out of [0, 1].
    Source:
        "Hard estimation" of Math-Shepherd, arXiv:2312.08935, eq. 3.
    """
    if not outcomes or not all(0.0 <= outcome <= 1.0 for outcome in outcomes):
        raise ScoringError(f"wanted outcomes in [0, 1] of one completion or more, found {list(outcomes)}")
    return float(any(outcome >= REACHES for outcome in outcomes))


def mix_label(monte_carlo: float | None, labels: Sequence[Said]) -> Label | None:
    """A step's label from what completions showed and people said; None where neither is there.

    People's scores are averaged by trust, and pull the completions' label towards them by the trust that at least one
    of them is right, T = 1 - prod(1 - t): label = (1 - T) * monte_carlo + T * said. Without completions the people's
    mean is the label and T its weight.

    Raises:
        ScoringError: a score or trust out of [0, 1].
    """
    for number in (*(one for pair in labels for one in pair), *([] if monte_carlo is None else [monte_carlo])):
        if not 0.0 <= number <= 1.0:  # NaN fails this too
            raise ScoringError(f"labels and trust: wanted numbers in [0, 1], found {number!r}")
    heard = [one for one in labels if one.trust > 0.0]
    if not heard:
        return None if monte_carlo is None else Label(monte_carlo, 1.0)
    mean = math.fsum(one.score * one.trust for one in heard) / math.fsum(one.trust for one in heard)
    trust = 1.0 - math.prod(1.0 - one.trust for one in heard)
    if monte_carlo is None:
        return Label(mean, trust)
    return Label((1.0 - trust) * monte_carlo + trust * mean, 1.0)


def choose_split(prompt: str, *, is_held_out: bool) -> Split:
    """Which use a task's steps have: 7 of 10 tasks train, 1 calibrates, 2 are only ever tested on.

    It goes by the prompt's hash, so that a task handed in twice is on one side for good.

    Args:
        is_held_out: its world keeps it out of every training.
    """
    place = int.from_bytes(hashlib.sha256(f"step scorer\x1f{prompt.strip()}".encode()).digest()[:4]) % 10
    if is_held_out or place < _TEST_OF_TEN:
        return "test"
    return "calibrate" if place < _TEST_OF_TEN + _CALIBRATE_OF_TEN else "train"
