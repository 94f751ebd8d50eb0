"""How somebody works through a queue: how fast, with how much attention, and whether it wears off.

These are signs to ask about, never proof, and they enter no weight.
"""

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tentalis.core.scoring.calibration import Interval, approves, wilson_interval

HASTY_S = 5.0
"""In less nobody has read anything worth judging."""
HASTY_SHARE = 0.25
"""And in less than this part of one's own median."""
STREAK = 10
"""So many equal scores in a row are worth a question."""
SESSION_GAP_S = 1_800.0
"""A pause of this length ends a session."""
SESSION_SITTINGS = 10
"""A shorter session says nothing about its end."""


class Item(NamedTuple):
    """One judged item.

    Args:
        at_s: when, seconds since any fixed moment.
        active_s: seconds of work on it; None: not measured.
        score: in [0, 1]; None: none was given.
    """

    at_s: float
    active_s: float | None
    score: float | None


class Streak(NamedTuple):
    """The longest run of one and the same score."""

    length: int
    score: float | None


@dataclass(frozen=True)
class Pace:
    """What the items of one person show.

    Args:
        items: how many were looked at; timed: how many of them have a time.
        median_s: seconds an item; None where nothing was timed.
        hasty: items done in under HASTY_S and under HASTY_SHARE of the median.
        sessions: stretches of work without a longer pause.
    """

    items: int
    timed: int
    median_s: float | None
    hasty: int
    streak: Streak
    sessions: int


class Decline(NamedTuple):
    """Error rates in the first and the second halves of sessions that are long enough."""

    early: Interval
    late: Interval

    @property
    def is_clear(self) -> bool:
        """The second halves are worse by more than chance: their interval lies wholly above the first halves'."""
        return self.early.items > 0 and self.late.low > self.early.high


def measure_pace(items: Sequence[Item]) -> Pace:
    """Args: items: in the order of their times."""
    times = [item.active_s for item in items if item.active_s is not None]
    median = statistics.median(times) if times else None
    limit = 0.0 if median is None else min(HASTY_S, HASTY_SHARE * median)
    return Pace(
        items=len(items),
        timed=len(times),
        median_s=median,
        hasty=sum(time < limit for time in times),
        streak=find_streak([item.score for item in items]),
        sessions=len(split_sessions([item.at_s for item in items])),
    )


def find_streak(scores: Sequence[float | None]) -> Streak:
    """The longest run of equal scores; an item without a score ends one."""
    longest = Streak(0, None)
    for score, run in itertools.groupby(scores):
        length = sum(1 for _ in run)
        if score is not None and length > longest.length:
            longest = Streak(length, score)
    return longest


def split_sessions(times_s: Sequence[float]) -> list[range]:
    """Places in `times_s` (rising) that belong together: no pause between two is longer than `SESSION_GAP_S`."""
    starts = [
        place for place in range(len(times_s)) if not place or times_s[place] - times_s[place - 1] > SESSION_GAP_S
    ]
    return [range(start, end) for start, end in itertools.pairwise([*starts, len(times_s)])]


def find_decline(sittings: Sequence[tuple[float, Sequence[tuple[float, float]]]]) -> Decline:
    """Compare the halves of long sessions.

    Args:
        sittings: (at_s, [(said, truth)]) of items whose truth is known, in the order of their times.
    """
    halves: list[list[tuple[float, float]]] = [[], []]
    for session in split_sessions([at for at, _ in sittings]):
        if len(session) >= SESSION_SITTINGS:
            middle = session.start + len(session) // 2
            for place in session:
                halves[place >= middle].extend(sittings[place][1])
    rates = [
        wilson_interval(sum(approves(said) != approves(truth) for said, truth in half), len(half)) for half in halves
    ]
    return Decline(*rates)
