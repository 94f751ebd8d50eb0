"""What happens at an iCalendar text's times: `python -m apps.accounts.unfolding TIME ZONE`, the text on its input.

A process of its own: what reads the text may be made to work or to fill memory without end, and is a third of a second
to load.
"""

import json
import resource
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import recurring_ical_events
from icalendar import Calendar

from apps.accounts.calendars import KEPT, LOOK_AHEAD, MOST_LOOK_S, CalendarError, Event

MOST_MEMORY_BYTES = 512 * 2**20
MOST_EVENTS = 2_000
"""In two months; and components of one text."""
TOO_OFTEN = {"SECONDLY", "MINUTELY"}


def unfold(text: str, *, now: datetime) -> list[Event]:
    """The occurrences that run at `now` or begin within two months and what is kept.

    Raises:
        CalendarError: the text cannot be read, an event of it cannot, or there are too many.
    """
    try:
        calendar = read(text)
        check_rules(calendar)
        found = recurring_ical_events.of(calendar).between(now, now + LOOK_AHEAD + KEPT)
        events = [
            Event(_aware(one["DTSTART"].dt, now), _aware(one["DTEND"].dt, now), str(one.get("SUMMARY", "")))
            for one in found
        ]
    except CalendarError:
        raise
    except Exception as error:  # whatever the libraries make of a text that somebody wrote
        raise CalendarError(f"{type(error).__name__}: {error!s:.200}") from error
    if len(events) > MOST_EVENTS:
        raise CalendarError(f"wanted at most {MOST_EVENTS:,} events in two months, found {len(events):,}")
    return sorted(event for event in events if event.end > now)


def _aware(value: object, now: datetime) -> datetime:
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=now.tzinfo)
    return datetime.combine(value, datetime.min.time(), tzinfo=now.tzinfo)  # type: ignore[arg-type]


def read(text: str) -> Any:
    """A calendar of its text.

    Raises:
        CalendarError: it is none.
    """
    try:
        return Calendar.from_ical(text)
    except ValueError as error:
        raise CalendarError(f"{error!s:.200}") from error


def check_rules(calendar: Any) -> None:
    """Refuse what recurs more often than hourly, and more events than anybody keeps.

    Raises:
        CalendarError: why.
    """
    components = list(calendar.walk())
    if len(components) > MOST_EVENTS:
        raise CalendarError(f"wanted at most {MOST_EVENTS:,} entries, found {len(components):,}")
    for component in components:
        for name in ("RRULE", "EXRULE"):
            rules = component.get(name, [])
            for rule in rules if isinstance(rules, list) else [rules]:
                _check_rule(rule)


def _check_rule(rule: Any) -> None:
    often = {str(value).upper() for value in rule.get("FREQ", [])} & TOO_OFTEN
    if often:
        raise CalendarError(f"wanted events that recur hourly or more seldom, found FREQ={min(often)}")
    for part in ("BYSECOND", "BYMINUTE"):
        if len(rule.get(part, [])) > 1:
            raise CalendarError(f"wanted events that recur hourly or more seldom, found several in {part}")


def main(argv: Sequence[str]) -> int:
    """Unfold the text on the standard input from a time on, in a zone; 1 and the reason where that cannot be done."""
    for kind, most in ((resource.RLIMIT_DATA, MOST_MEMORY_BYTES), (resource.RLIMIT_CPU, int(MOST_LOOK_S))):
        resource.setrlimit(kind, (most, most))
    at, zone = argv
    place = timezone(timedelta(seconds=int(zone))) if zone.lstrip("-").isdecimal() else ZoneInfo(zone)
    try:
        events = unfold(sys.stdin.buffer.read().decode(), now=datetime.fromisoformat(at).astimezone(place))
    except CalendarError as error:
        sys.stderr.write(str(error))
        return 1
    except MemoryError:
        sys.stderr.write("it takes too much memory to look at")
        return 1
    json.dump([(event.start.isoformat(), event.end.isoformat(), event.summary[:200]) for event in events], sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
