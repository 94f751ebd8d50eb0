"""What a project's iCalendar text says of now; and whether it is one that can be asked.

A rule can recur every second since 1970, or match nothing and be sought for ever: a text that somebody wrote is only
ever read in a child process that has a clock, `python -m apps.accounts.unfolding`. What it finds for the next two
months is kept for a day in each process and read from there.
"""

import hashlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from apps.base.connections import give_back_connections

LOOK_AHEAD = timedelta(days=62)
KEPT = timedelta(days=1)
KEPT_FAILED = timedelta(hours=1)
MOST_LOOK_S = 5.0
"""Of the processor, for one look at a text, the start of its process included."""
MOST_WAIT_S = 15.0
"""The process stands back behind those that answer."""
NICENESS = 10
MOST_KEPT = 1_000
MOST_AT_ONCE = 2
READER = "apps.accounts.unfolding"
_ROOT = Path(__file__).resolve().parents[2]
_children = threading.BoundedSemaphore(MOST_AT_ONCE)


class CalendarError(ValueError):
    """A text is no calendar that can be asked; the message says why."""


class CalendarState(NamedTuple):
    """Whether an event runs, what it is called, and when that changes (None: not within two months)."""

    in_event: bool
    summary: str
    until: datetime | None


class Event(NamedTuple):
    """One occurrence: [start, end), both aware."""

    start: datetime
    end: datetime
    summary: str


class _Look(NamedTuple):
    """What a child found at a time, or why nothing."""

    at: datetime
    events: Sequence[Event] = ()
    failure: str = ""

    def holds(self, now: datetime) -> bool:
        return timedelta(0) <= now - self.at < (KEPT_FAILED if self.failure else KEPT)


_kept: dict[str, _Look] = {}


def ask_calendar(text: str, *, now: datetime, may_look: bool = True) -> CalendarState:
    """What is written for `now` (aware), recurrences and exceptions included.

    An event without a time zone, or of whole days, is read in the zone of `now`.

    Args:
        may_look: False where the caller holds a lock: what is not known yet is not looked for.
    Source:
        RFC 5545; recurrences by the recurring-ical-events library.
    Raises:
        CalendarError: the text cannot be read, not in time, or not now.
    """
    look = find_look(text, now=now, may_look=may_look)
    if look.failure:
        raise CalendarError(look.failure)
    running = [event for event in look.events if event.start <= now < event.end]
    if running:
        return CalendarState(True, running[0].summary, max(event.end for event in running))
    coming = [event.start for event in look.events if now < event.start < now + LOOK_AHEAD]
    return CalendarState(False, "", min(coming, default=None))


def find_look(text: str, *, now: datetime, may_look: bool = True) -> _Look:
    """What is kept of a text, looked at anew in a child where that is too old."""
    key = hashlib.sha256(f"{name_zone(now.tzinfo)} {text}".encode()).hexdigest()
    found = _kept.get(key)
    if found is not None and found.holds(now):
        return found
    if not may_look:
        raise CalendarError("it is being looked at")
    made = _look_in_child(text, now)
    if len(_kept) >= MOST_KEPT:
        _kept.clear()
    _kept[key] = made
    return made


def require_calendar(text: str) -> None:
    """Refuse a text that cannot be asked, or not in time.

    Raises:
        CalendarError: why.
    """
    if (look := find_look(text, now=datetime.now(UTC))).failure:
        raise CalendarError(look.failure)


def name_zone(zone: tzinfo | None) -> str:
    """A zone as another process understands it: its name, or seconds from UTC."""
    if isinstance(zone, ZoneInfo):
        return zone.key
    return str(int((datetime.now(zone).utcoffset() or timedelta()).total_seconds()))


def _look_in_child(text: str, now: datetime) -> _Look:
    """Raises CalendarError where too many are looked at already."""
    is_free = give_back_connections()
    if not _children.acquire(timeout=MOST_WAIT_S if is_free else 0):  # nobody waits with a connection in hand
        raise CalendarError("too many calendars are being looked at; try again")
    command = ["nice", "-n", str(NICENESS), sys.executable, "-m", READER, now.isoformat(), name_zone(now.tzinfo)]
    try:
        done = subprocess.run(
            command, input=text.encode(), capture_output=True, timeout=MOST_WAIT_S, cwd=_ROOT, check=False
        )
        has_ended = done.returncode not in (-signal.SIGXCPU, -signal.SIGKILL)
    except subprocess.TimeoutExpired:
        has_ended = False
    finally:
        _children.release()
    if not has_ended:
        message = f"it takes more than {MOST_LOOK_S:g} s to look at: an event recurs too often, for too long, or never"
        return _Look(now, failure=message)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-300:]
        return _Look(now, failure=said or f"it ended with {done.returncode}")
    rows = json.loads(done.stdout)
    return _Look(now, [Event(datetime.fromisoformat(a), datetime.fromisoformat(b), name) for a, b, name in rows])
