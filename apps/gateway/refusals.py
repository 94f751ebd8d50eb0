"""What the gateway itself refuses, kept as exchanges without words: few rows, however many requests there were.

Of the same refusal (token, session, code) the first is recorded at once. What follows within a minute is counted, and
recorded as one when the minute is over. A token that is refused in ever new sessions gets a few of them recorded, and
the others as one.
"""

import logging
from collections import Counter
from dataclasses import dataclass
from uuid import uuid4

import orjson

from apps.gateway.record import Header, Spool, SpoolError

logger = logging.getLogger(__name__)

WINDOW_S = 60.0
MOST_SESSIONS = 20
"""Of one token, recorded each for itself within a minute."""

_Key = tuple[str, int, str, str]


@dataclass(slots=True)
class _Window:
    """A refusal that may come again. `header` is of the last one; `more`: how many are not recorded yet."""

    until: float
    header: Header
    more: int = 0


class Refusals:
    """Of one process; used in its event loop only."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._open: dict[_Key, _Window] = {}
        self._sessions: Counter[str] = Counter()

    def take(self, header: Header, code: str, now: float) -> bool:
        """Record a refusal, or count it; whether it is recorded under its own id.

        Args:
            now: seconds of a clock that never goes back.
        """
        token = header["token"]
        key = token, header["project"], header["session"], code
        if key not in self._open and self._sessions[token] >= MOST_SESSIONS:
            key = token, header["project"], "", code
        window = self._open.get(key)
        if window is not None:
            window.header = header
            window.more += 1
            return False
        self._open[key] = _Window(now + WINDOW_S, header)
        self._sessions[token] += 1
        return self._record(header, 1)

    def flush(self, now: float) -> None:
        """Record what was counted in the minutes that are over."""
        for key, window in [item for item in self._open.items() if item[1].until <= now]:
            del self._open[key]
            self._sessions[key[0]] -= 1
            if not self._sessions[key[0]]:
                del self._sessions[key[0]]
            if window.more:
                header = window.header.copy()
                header["id"] = uuid4().hex
                header["error"] = f"{header['error']} ({window.more} requests within a minute)"
                self._record(header, window.more)

    def _record(self, header: Header, count: int) -> bool:
        """Without the words that were said: they may be long, and were not answered."""
        if self._spool.is_full:
            return False
        try:
            self._spool.append(header, orjson.dumps({"refused": count}), b"")
        except SpoolError as error:
            logger.error("a refusal is not recorded: %s", error)
            return False
        return True
