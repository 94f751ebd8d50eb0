"""How long to wait before another try. Jitter is the caller's, who may draw at random: core never does."""

import math
from datetime import UTC
from email.utils import parsedate_to_datetime

_MOST_DOUBLINGS = 64


def grow_wait(failures: int, *, first_s: float, cap_s: float) -> float:
    """Seconds before the next try: first_s * 2^failures, at most cap_s.

    Args:
        failures: in a row before the last one, from 0; any number, it never overflows.
    Source:
        Truncated exponential backoff, https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/.
    """
    return float(min(cap_s, first_s * 2 ** min(failures, _MOST_DOUBLINGS)))


def read_retry_after(text: str | None, *, now: float, longest_s: float) -> float | None:
    """Seconds that a Retry-After header asks to wait, in [0, longest_s]; None where it is missing or unreadable.

    Args:
        text: seconds or an HTTP date; of a date the seconds are rounded up.
        now: Unix time.
    Source:
        RFC 9110, section 10.2.3. Fractions of a second are read too; a date without a zone is UTC.
    """
    if not text:
        return None
    try:
        wait_s = float(text)
    except ValueError:
        try:
            at = parsedate_to_datetime(text)
            wait_s = math.ceil(at.replace(tzinfo=at.tzinfo or UTC).timestamp() - now)
        except (OverflowError, TypeError, ValueError):
            return None
    return None if math.isnan(wait_s) else max(0.0, min(wait_s, longest_s))
