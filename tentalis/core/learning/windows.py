"""When a project may train, and how much of the box it may have: hours, quiet, quota, share."""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any, Final, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
CalendarMeaning = Literal["closed", "open"]
MEANINGS: Final[tuple[CalendarMeaning, ...]] = ("closed", "open")
MOST_HOURS, MOST_CALENDAR_CHARS = 50, 200_000
_HOURS = re.compile(r"(?:(?P<days>[a-z]{3}(?:-[a-z]{3})?) )?(?P<start>\d\d?:\d\d)-(?P<end>\d\d?:\d\d)")


class TrainingPolicyError(ValueError):
    """A policy field is not what it must be; the message names it, what was wanted and what was found."""


@dataclass(frozen=True)
class Window:
    """A stretch of the day on some weekdays, local time.

    Args:
        days: weekdays it begins on, 0 for Monday.
        start, end: [start, end); an end at or before the start lies on the next day.
    """

    days: frozenset[int]
    start: time
    end: time

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `22:00-06:00`, `sat 00:00-24:00` or `mon-fri 19:00-07:00`.

        Raises:
            TrainingPolicyError: it is none of these.
        """
        wanted = f"hours: wanted 'mon-fri 22:00-06:00' or '22:00-06:00', found {text!r:.80}"
        found = _HOURS.fullmatch(text.strip().lower())
        if found is None:
            raise TrainingPolicyError(wanted)
        first, _, last = (found["days"] or "mon-sun").partition("-")
        if first not in DAYS or (last or first) not in DAYS:
            raise TrainingPolicyError(f"{wanted}; days are {', '.join(DAYS)}")
        begin, length = DAYS.index(first), (DAYS.index(last or first) - DAYS.index(first)) % 7 + 1
        try:
            start, end = _read_time(found["start"]), _read_time(found["end"])
        except ValueError:
            raise TrainingPolicyError(wanted) from None
        return cls(frozenset((begin + offset) % 7 for offset in range(length)), start, end)

    def holds(self, local: datetime) -> bool:
        """Whether `local` lies in it."""
        now = local.time()
        if self.start < self.end:
            return local.weekday() in self.days and self.start <= now < self.end
        return (local.weekday() in self.days and now >= self.start) or (
            (local.weekday() - 1) % 7 in self.days and now < self.end
        )

    def next_start(self, local: datetime) -> datetime:
        """The first time after `local` at which it begins."""
        for offset in range(8):
            start = (local + timedelta(days=offset)).replace(
                hour=self.start.hour, minute=self.start.minute, second=0, microsecond=0
            )
            if start.weekday() in self.days and start > local:
                return start
        raise AssertionError("a window begins at least once a week")


def _read_time(text: str) -> time:
    hour, minute = map(int, text.split(":"))
    return time(0) if (hour, minute) == (24, 0) else time(hour, minute)


@dataclass(frozen=True, kw_only=True)
class TrainingPolicy:
    """`Project.training_policy`, read.

    Args:
        timezone: IANA name; hours and days are its.
        hours: stretches in which runs may be sent, as `Window.parse` reads them; empty: always.
        calendar: an iCalendar text (RFC 5545) whose events close or open the box to the project; "" for none.
        calendar_means: what an event of the calendar says: `closed`, no training then; `open`, only then.
        pauses_outside: a run that still trains when its hours end is paused at its next update and goes on when they
            begin again; else it ends what it began.
        quiet_s: a run waits until nothing of the project was worked on for so long; 0: it does not.
        gpu_s_per_day: seconds of training in any 24 hours, after which runs wait; None: no limit.
        runs_per_day: the same in runs sent.
        share: weight among the projects that wait for one box: twice the share, twice the time.
        serves_until_rebuilt: an adapter that learnt from somebody who was forgotten serves until it is made again
            without them; else what served before it does, at once.
    """

    timezone: str = "UTC"
    hours: tuple[str, ...] = ()
    calendar: str = dataclasses.field(default="", metadata={"long": MOST_CALENDAR_CHARS})
    calendar_means: CalendarMeaning = "closed"
    pauses_outside: bool = False
    quiet_s: float = 0.0
    gpu_s_per_day: float | None = None
    runs_per_day: int | None = None
    share: float = 1.0
    serves_until_rebuilt: bool = True

    def __post_init__(self) -> None:
        try:
            ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, TypeError, OSError):
            raise TrainingPolicyError(
                f"timezone: wanted an IANA name such as Europe/Berlin, found {self.timezone!r:.80}"
            ) from None
        hours: Any = self.hours
        if not isinstance(hours, tuple) or not all(isinstance(text, str) for text in hours) or len(hours) > MOST_HOURS:
            raise TrainingPolicyError(f"hours: wanted a list of at most {MOST_HOURS} texts, found {hours!r:.80}")
        for text in hours:
            Window.parse(text)
        calendar: Any = self.calendar
        if not isinstance(calendar, str) or len(calendar) > MOST_CALENDAR_CHARS:
            raise TrainingPolicyError(f"calendar: wanted a text of at most {MOST_CALENDAR_CHARS:,} characters")
        if self.calendar_means not in MEANINGS:
            raise TrainingPolicyError(
                f"calendar_means: wanted one of {', '.join(MEANINGS)}, found {self.calendar_means!r:.80}"
            )
        for name in ("pauses_outside", "serves_until_rebuilt"):
            if not isinstance(getattr(self, name), bool):
                raise TrainingPolicyError(f"{name}: wanted true or false, found {getattr(self, name)!r:.80}")
        _require("quiet_s", self.quiet_s, 0, 30 * 86_400)
        _require("share", self.share, 0.01, 1000)
        if self.gpu_s_per_day is not None:
            _require("gpu_s_per_day", self.gpu_s_per_day, 1, 10**9)
        runs: Any = self.runs_per_day
        if runs is not None and (type(runs) is not int or not 1 <= runs <= 10**6):
            raise TrainingPolicyError(f"runs_per_day: wanted a whole number from 1 to 1,000,000, found {runs!r:.80}")

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read a policy; a field that is left out takes its default.

        Raises:
            TrainingPolicyError: an unknown field, or one that is not what it must be.
        """
        known = [item.name for item in dataclasses.fields(cls)]
        if unknown := sorted(set(map(str, data)) - set(known)):
            raise TrainingPolicyError(
                f"a training policy has no field {', '.join(unknown)}; it knows {', '.join(known)}"
            )
        values = dict(data)
        if isinstance(values.get("hours"), list):
            values["hours"] = tuple(values["hours"])
        return cls(**values)

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)


def _require(name: str, value: object, low: float, high: float) -> None:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or not low <= value <= high
    ):
        raise TrainingPolicyError(f"{name}: wanted a number from {low:,} to {high:,}, found {value!r:.80}")


def find_opening(hours: Sequence[str], *, zone: ZoneInfo, now: datetime) -> datetime | None:
    """When the hours begin next; None while they hold, or where there are none.

    Args:
        now: aware.
    Returns:
        An aware time in `zone`, later than `now`.
    """
    local = now.astimezone(zone)
    windows = [Window.parse(text) for text in hours]
    if not windows or any(window.holds(local) for window in windows):
        return None
    return min(window.next_start(local) for window in windows)


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A run that waits for a place on the box.

    Args:
        run_id: it.
        project_id: whose it is.
        priority: the higher goes first within its project.
        used_s: seconds that the project trained lately.
        share: of the project.
    """

    run_id: int
    project_id: int
    priority: int
    used_s: float
    share: float


def order_fairly(waiting: Sequence[Waiting]) -> list[int]:
    """Ids of runs in the order in which free places go to them: whose project had least of its share first.

    Source:
        Weighted fair queueing by what was used: A. Demers, S. Keshav, S. Shenker 1989, with use measured over the last
        day instead of a virtual clock, so that a project that was quiet for long has no endless credit.
    """
    ordered = sorted(waiting, key=lambda one: (one.used_s / one.share, -one.priority, one.run_id))
    return [one.run_id for one in ordered]
