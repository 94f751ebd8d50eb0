"""How much of an answer is taken from a server we ask, whichever library reads it."""

import time
from collections.abc import Mapping

from multidict import istr

from tentalis.core import backoff
from tentalis.limits import LIMITS

_ENCODING = istr("Content-Encoding")
COMPRESSED = "the answer is compressed, which was not asked for"


def is_compressed(headers: Mapping[str, str]) -> bool:
    """Whether a body would have to be unpacked, to a size that nothing tells before. Nobody here asks for that."""
    found = headers.get(_ENCODING)
    return found is not None and found.strip().lower() not in {"", "identity"}


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to be left alone, never longer than the limit; None where it does not say."""
    return backoff.read_retry_after(headers.get("Retry-After"), now=time.time(), longest_s=LIMITS.retry_after_s)


class Measure:
    """Of one answer's body, as it comes.

    Args:
        most_bytes: of it all. total_s: from now to its end; None: as long as it takes.
    """

    def __init__(self, most_bytes: int, total_s: float | None = None) -> None:
        self._most_bytes = most_bytes
        self._total_s = total_s
        self._until = None if total_s is None else time.monotonic() + total_s
        self.size = 0

    def find_excess(self, size: int) -> str:
        """What is wrong now that so many bytes more have come, in words; "" where nothing is."""
        self.size += size
        if self.size > self._most_bytes:
            return f"the answer is longer than {self._most_bytes} bytes"
        if self._until is not None and time.monotonic() > self._until:
            return f"the answer takes longer than {self._total_s:g} s"
        return ""
