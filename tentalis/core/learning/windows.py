"""When a project may train, and how much of the box it may have: hours, quiet, quota, share."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import ClassVar, Final, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tentalis.core.checked import Checked, FieldError, Text, choice, flag, number, several, text

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
CalendarMeaning = Literal["closed", "open"]
MEANINGS: Final[tuple[CalendarMeaning, ...]] = ("closed", "open")
MOST_HOURS, MOST_CALENDAR_CHARS = 50, 200_000
_HOURS = re.compile(r"(?:(?P<days>[a-z]{3}(?:-[a-z]{3})?) )?(?P<start>\d\d?:\d\d)-(?P<end>\d\d?:\d\d)")


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
            FieldError: it is none of these.
        """
        wanted = f"hours: wanted 'mon-fri 22:00-06:00' or '22:00-06:00', found {text!r:.80}"
        found = _HOURS.fullmatch(text.strip().lower())
        if found is None:
            raise FieldError(wanted, field="hours")
        first, _, last = (found["days"] or "mon-sun").partition("-")
        if first not in DAYS or (last or first) not in DAYS:
            raise FieldError(f"{wanted}; days are {', '.join(DAYS)}", field="hours")
        begin, length = DAYS.index(first), (DAYS.index(last or first) - DAYS.index(first)) % 7 + 1
        try:
            start, end = _read_time(found["start"]), _read_time(found["end"])
        except ValueError:
            raise FieldError(wanted, field="hours") from None
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
class TrainingPolicy(Checked):
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
        runs_per_day: the same in runs begun. One counts once, when it is sent for the first time, however often it is
            tried again, sent again or goes on after a pause.
        share: weight among the projects that wait for one box: twice the share, twice the time.
        serves_until_rebuilt: an adapter that learnt from somebody who was forgotten serves until it is made again
            without them; else what served before it does, at once.
    """

    NOUN: ClassVar[str] = "training policy"

    timezone: str = text("UTC", 200, least=1)
    hours: tuple[str, ...] = several((), Text(200, 1), most=MOST_HOURS)
    calendar: str = text("", MOST_CALENDAR_CHARS)
    calendar_means: CalendarMeaning = choice("closed", MEANINGS)
    pauses_outside: bool = flag(False)
    quiet_s: float = number(0.0, 0, 30 * 86_400)
    gpu_s_per_day: float | None = number(None, 1, 10**9, whole=False)
    runs_per_day: int | None = number(None, 1, 10**6, whole=True)
    share: float = number(1.0, 0.01, 1000)
    serves_until_rebuilt: bool = flag(True)

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            wanted = "an IANA name such as Europe/Berlin"
            raise self.refuse("timezone", wanted=wanted, found=self.timezone) from None
        for hours in self.hours:
            Window.parse(hours)

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)


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
