"""What an export may be narrowed by, and what that means to the database."""

from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Any

from apps.base.days import read_day

DATES = frozenset({"since", "until"})
COMMON: Mapping[str, None] = {"worker": None, "since": None, "until": None}


def find_fault(name: str, value: str) -> str:
    """What is wrong with a filter's value; "" where nothing is."""
    if "\0" in value:
        return f"{name}: holds a NUL character, which nothing here has"
    is_fit = name not in DATES or read_day(value) is not None
    return "" if is_fit else f"{name}: wanted a date such as 2026-03-31, found {value[:40]!r}"


def look_up(filters: Mapping[str, str], **paths: str) -> dict[str, Any]:
    """Filters as the database takes them: whole days, in UTC, the last one too; others by their path, or as they are.

    Args:
        paths: of a filter that is no column of the row; a worker's is `worker__name` where nothing is said.
    """
    found: dict[str, Any] = {}
    for name, value in filters.items():
        day = read_day(value) if name in DATES else None
        if day is not None:
            at = datetime.combine(day, time.min, UTC)
            found["created_at__gte" if name == "since" else "created_at__lt"] = (
                at if name == "since" else at + timedelta(days=1)
            )
        else:
            found[paths.get(name, "worker__name" if name == "worker" else name)] = value
    return found
