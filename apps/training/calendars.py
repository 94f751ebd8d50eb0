"""What a project's iCalendar text says of now."""

from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

import recurring_ical_events
from icalendar import Calendar

LOOK_AHEAD = timedelta(days=62)


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
    """
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
