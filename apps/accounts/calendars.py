"""What a project's iCalendar text says of now; and whether it is one that can be asked.

`python -m apps.accounts.calendars` looks at the text on its standard input once: a rule that matches nothing is sought
for ever, so that a new text is tried in a process that can be ended.
"""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import recurring_ical_events
from icalendar import Calendar

LOOK_AHEAD = timedelta(days=62)
MOST_LOOK_S = 5.0
"""Of one look at a new text, the start of its process included."""
_ROOT = Path(__file__).resolve().parents[2]


class CalendarError(ValueError):
    """A text is no calendar that can be asked; the message says why."""


class Said(NamedTuple):
    """Whether an event runs, what it is called, and when that changes (None: not within two months)."""

    in_event: bool
    summary: str
    until: datetime | None


@lru_cache(maxsize=64)
def _read(text: str) -> recurring_ical_events.CalendarQuery:
    return recurring_ical_events.of(Calendar.from_ical(text))


def ask_calendar(text: str, *, now: datetime) -> Said:
    """Look at the events at `now` (aware), recurrences and exceptions included.

    An event without a time zone, or of whole days, is read in the zone of `now`.

    Source:
        RFC 5545; recurrences by the recurring-ical-events library.
    Raises:
        CalendarError: the text cannot be read, or an event of it cannot.
    """
    try:
        return _ask(text, now)
    except Exception as error:  # whatever the libraries make of a text that somebody wrote
        raise CalendarError(f"{type(error).__name__}: {error!s:.200}") from error


def require_calendar(text: str) -> None:
    """Refuse a text that cannot be asked, or not in time.

    Raises:
        CalendarError: why.
    """
    try:
        Calendar.from_ical(text)
    except ValueError as error:
        raise CalendarError(f"{error!s:.200}") from error
    command = [sys.executable, "-m", "apps.accounts.calendars"]
    try:
        done = subprocess.run(
            command, input=text.encode(), capture_output=True, timeout=MOST_LOOK_S, cwd=_ROOT, check=False
        )
    except subprocess.TimeoutExpired:
        message = f"it takes more than {MOST_LOOK_S:g} s to look at: an event recurs too often, for too long, or never"
        raise CalendarError(message) from None
    if done.returncode:
        raise CalendarError(done.stderr.decode(errors="replace").strip()[-300:] or f"it ended with {done.returncode}")


def _ask(text: str, now: datetime) -> Said:
    query = _read(text)
    running = [event for event in query.between(now, now + timedelta(seconds=1)) if _end(event, now) > now]
    if running:
        ends = max(_end(event, now) for event in running)
        return Said(True, str(running[0].get("SUMMARY", "")), ends)
    starts = [_start(event, now) for event in query.between(now, now + LOOK_AHEAD)]
    coming = [start for start in starts if start > now]
    return Said(False, "", min(coming, default=None))


def _start(event: recurring_ical_events.Occurrence, now: datetime) -> datetime:
    return _aware(event["DTSTART"].dt, now)


def _end(event: recurring_ical_events.Occurrence, now: datetime) -> datetime:
    return _aware(event["DTEND"].dt, now)


def _aware(value: object, now: datetime) -> datetime:
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=now.tzinfo)
    return datetime.combine(value, datetime.min.time(), tzinfo=now.tzinfo)  # type: ignore[arg-type]


def main() -> int:
    """Ask the text on the standard input about now; 1 and the reason where it cannot be asked."""
    try:
        ask_calendar(sys.stdin.buffer.read().decode(), now=datetime.now(UTC))
    except CalendarError as error:
        sys.stderr.write(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
