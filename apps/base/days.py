"""Days that are asked for: such as the database, and every zone's clock, can name."""

from datetime import date

from django.utils.dateparse import parse_date

FIRST_YEAR, LAST_YEAR = 1901, 8999


def is_nameable(day: date) -> bool:
    """Whether a day's neighbours have names too, in any zone."""
    return FIRST_YEAR <= day.year <= LAST_YEAR


def read_day(text: str) -> date | None:
    """A day such as 2026-03-31; None where the text is none."""
    try:
        day = parse_date(text)
    except ValueError:
        return None
    return day if day is not None and is_nameable(day) else None
