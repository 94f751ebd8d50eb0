"""What all requests of one gateway process share."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from apps.gateway.config_cache import ConfigCache
from apps.gateway.errors import refuse_busy
from apps.gateway.limits import Budgets
from apps.gateway.metrics import Metrics
from apps.gateway.record import Spool
from apps.gateway.refusals import Refusals
from apps.gateway.tables import Caller
from apps.gateway.upstreams import Upstreams
from apps.inference.breaker import Breaker

TICK_S = 0.5
IDS_AT_ONCE = 256


class Quiet(Protocol):
    """An answer whose caller may hear nothing for a while."""

    last_heard_at: float

    async def ping(self) -> None:
        """Send something that changes nothing."""


class Earlier(NamedTuple):
    """An answer that a request goes on from.

    Args:
        messages: the conversation up to and with it. session: key of the session it belongs to; "" where it has none.
    """

    messages: Sequence[dict[str, Any]]
    session: str


FindEarlier = Callable[[Caller, str], Awaitable["Earlier | None"]]
"""(who asks, the answer's id) -> what they go on from; None where they were given no such answer."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long is waited, in seconds.

    Args:
        down_s: for a server that is down, or has yet to load an adapter, before the caller is refused.
        heartbeat_s: silence after which a stream's caller is sent a comment.
    """

    down_s: float = 5.0
    heartbeat_s: float = 10.0


def _find_nothing_wrong() -> list[str]:
    return []


def make_ids() -> Iterator[str]:
    """The hexadecimal digits of random UUIDs. Asking the system for each would let go of the interpreter each time."""
    while True:
        digits = os.urandom(16 * IDS_AT_ONCE).hex()
        for start in range(0, len(digits), 32):
            one = digits[start : start + 32]
            yield f"{one[:12]}4{one[13:16]}{'89ab'[int(one[16], 16) & 3]}{one[17:]}"


@dataclass(kw_only=True)
class Edge:
    """The state of one process.

    Args:
        most_in_flight: requests at the same time; more are refused with 429.
        origins: of the pages that may ask from a browser, `*` for all.
        find_troubles: why what is recorded here does not reach the database, in words; nothing where it does.

    Attributes:
        in_flight: requests that were read and are being answered.
        ids: of exchanges, a new one each.
        breaker: which models that have fallbacks are left alone for a while.
        begun: by token, those whose body may yet be under way too. held_bytes: of their bodies.
    """

    config: ConfigCache
    upstreams: Upstreams
    budgets: Budgets
    spool: Spool
    find_earlier: FindEarlier
    most_in_flight: int = 1024
    patience: Patience = field(default_factory=Patience)
    find_troubles: Callable[[], list[str]] = _find_nothing_wrong
    metrics: Metrics = field(default_factory=Metrics)
    in_flight: int = 0
    begun: Counter[str] = field(default_factory=Counter)
    held_bytes: int = 0
    lag_s: float = 0.0
    is_draining: bool = False
    origins: frozenset[str] = frozenset()
    quiet: set[Quiet] = field(default_factory=set)
    ids: Iterator[str] = field(default_factory=make_ids)
    breaker: Breaker = field(default_factory=Breaker)

    def __post_init__(self) -> None:
        self.refusals = Refusals(self.spool)

    def admit(self) -> None:
        """Count one request more; who calls this takes it off `in_flight` again.

        Raises:
            RefusalError: 429: it cannot be served at the moment, or could not be recorded.
        """
        if self.in_flight >= self.most_in_flight:
            raise refuse_busy(f"{self.most_in_flight} requests are being answered, which is all this gateway takes")
        if self.spool.is_full:
            raise refuse_busy(
                "what is answered could not be recorded at the moment", retry_after_s=5, code="spool_full"
            )
        self.in_flight += 1

    async def tick_for_ever(self) -> None:
        """Measure how late the loop runs, keep silent streams alive, and record what was refused meanwhile."""
        pings: set[asyncio.Task[None]] = set()
        while True:
            before = time.monotonic()
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            self.lag_s = now - before - TICK_S
            self.refusals.flush(now)
            for stream in list(self.quiet):
                if now - stream.last_heard_at >= self.patience.heartbeat_s:
                    stream.last_heard_at = now
                    task = asyncio.create_task(_ping(stream))
                    pings.add(task)
                    task.add_done_callback(pings.discard)


async def _ping(stream: Quiet) -> None:
    with suppress(ConnectionError):
        await stream.ping()
