"""Budgets of tokens, projects and providers: counted here, and shared between gateways through Redis in the background.

A request never waits for Redis. Each process counts what it lets through and several times a second adds it to the
common count and learns what the others let through; together they may overshoot by what comes in between. While Redis
is away each process keeps to the limits by its own count. Minutes and days are whole ones, in UTC.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from redis.asyncio import Redis
from redis.exceptions import RedisError

from apps.base.tasks import cancel_and_wait
from apps.gateway.dialects.content import Usage
from apps.gateway.errors import RefusalError
from apps.gateway.tables import Backend, Caller
from apps.inference.allowances import name_count, name_grant
from tentalis.core.limits import DAY_S, MINUTE_S, MONTH_S, Limits, find_window

logger = logging.getLogger(__name__)

SYNC_EVERY_S = 0.2
REDIS_TIMEOUT_S = 1.0
_NONE = Limits()


class Metric(NamedTuple):
    """One field of `Limits`, with the seconds it is about."""

    name: str
    window_s: int
    words: str


REQUESTS = Metric("requests_per_minute", MINUTE_S, "requests a minute")
TOKENS_MINUTE = Metric("tokens_per_minute", MINUTE_S, "tokens a minute")
TOKENS_DAY = Metric("tokens_per_day", DAY_S, "tokens a day")
USD_DAY = Metric("usd_per_day", DAY_S, "US dollars a day")
USD_MONTH = Metric("usd_per_month", MONTH_S, "US dollars a month")
METRICS = (REQUESTS, TOKENS_MINUTE, TOKENS_DAY, USD_DAY, USD_MONTH)
DOLLARS = (USD_DAY, USD_MONTH)


class Count:
    """How much of one metric was used in the present window: what all said, and what of ours is not said yet.

    Attributes:
        reserved: what requests of this process that are being answered may use yet.
    """

    __slots__ = ("key", "reserved", "said", "unsaid", "window", "window_s")

    def __init__(self, key: str, window_s: int) -> None:
        self.key = key
        self.window_s = window_s
        self.window = -1
        self.said = 0.0
        self.unsaid = 0.0
        self.reserved = 0.0

    def read(self, now: float) -> float:
        window, _ = find_window(self.window_s, now)
        if window != self.window:
            self.window, self.said, self.unsaid = window, 0.0, 0.0
        return self.said + self.unsaid

    def add(self, amount: float, now: float) -> None:
        self.read(now)
        self.unsaid += amount


class Scope(NamedTuple):
    """Whose budget it is, and what it is. `is_server`: of a server, and not of who asks it."""

    key: str
    words: str
    limits: Limits
    is_server: bool = False


class Reservation:
    """Room held in some counts, for one request."""

    def __init__(self, held: Iterable[tuple[Count, float]]) -> None:
        self._held = list(held)
        for count, amount in self._held:
            count.reserved += amount

    def release(self) -> None:
        """Once its answer is counted, or there is none."""
        for count, amount in self._held:
            count.reserved = max(0.0, count.reserved - amount)
        self._held = []


class Budgets:
    """All counts of this process.

    Args:
        redis: the common count; None counts for this process alone.
    """

    def __init__(self, redis: "Redis | None" = None) -> None:
        self._redis = redis
        self._counts: dict[tuple[str, str], Count] = {}
        self._syncer: asyncio.Task[None] | None = None
        self._is_away = False

    def start(self) -> None:
        if self._redis is not None:
            self._syncer = asyncio.create_task(self._sync_for_ever())

    async def stop(self) -> None:
        if self._syncer is not None:
            await cancel_and_wait(self._syncer)
            await self.sync(time.time())
        if self._redis is not None:
            await self._redis.aclose()

    def admit(
        self,
        caller: Caller,
        backend: Backend,
        now: float,
        *,
        guess: Callable[[], Usage],
        count_usd: Callable[[Usage], float],
        allowance: Limits = _NONE,
        is_fallback: bool = False,
    ) -> "Reservation | None":
        """Count one request against every budget it falls under, and hold room for what it may use.

        Of requests at the same time only the first may go beyond a budget: the others find its room taken.

        Args:
            guess: what it may use; called where a budget is in tokens or dollars.
            count_usd: what that costs; called where one is in dollars.
            allowance: of the project's grant for the backend.
            is_fallback: the request was counted already, and is now given to another server.
        Returns:
            What is held, until it is released; None where there is no budget.
        Raises:
            RefusalError: 429: one of them is used up, or others hold what is left; nothing is counted then.
        """
        if _are_free(caller, backend, allowance):
            return None
        scopes = list(_scopes(caller, backend, allowance))
        limited = [
            (scope, metric, limit, self._count(scope, metric))
            for scope in scopes
            for metric in METRICS
            if (limit := getattr(scope.limits, metric.name)) is not None
            and not (is_fallback and metric is REQUESTS and not scope.is_server)
        ]
        for scope, metric, limit, count in limited:
            used = count.read(now)
            if used >= limit:
                raise _refuse(scope, metric, limit, now)
            if used + count.reserved >= limit:
                raise _refuse_held(scope, metric, limit)
        usage = guess() if any(metric is not REQUESTS for _, metric, _, _ in limited) else None
        held = []
        for _, metric, _, count in limited:
            if metric is REQUESTS:
                count.add(1, now)
            elif usage is not None:
                held.append((count, count_usd(usage) if metric in DOLLARS else usage.prompt + usage.completion))
        return Reservation(held)

    def admit_request(self, caller: Caller, now: float) -> None:
        """Count one request that asks no server, against its token's and its project's budgets of requests.

        Raises:
            RefusalError: 429: one of them is used up; nothing is counted then.
        """
        limited = [
            (scope, limit, self._count(scope, REQUESTS))
            for scope in _callers_scopes(caller)
            if (limit := scope.limits.requests_per_minute) is not None
        ]
        for scope, limit, count in limited:
            if count.read(now) >= limit:
                raise _refuse(scope, REQUESTS, limit, now)
        for _, _, count in limited:
            count.add(1, now)

    def charge(
        self,
        caller: Caller,
        backend: Backend,
        *,
        tokens: int,
        count_usd: Callable[[], float],
        now: float,
        allowance: Limits = _NONE,
    ) -> None:
        """Count what an answer cost.

        Args:
            tokens: of its prompt and of itself.
            count_usd: called where a budget is in dollars.
        """
        if _are_free(caller, backend, allowance):
            return
        for scope in _scopes(caller, backend, allowance):
            for metric in (TOKENS_MINUTE, TOKENS_DAY):
                if getattr(scope.limits, metric.name) is not None:
                    self._count(scope, metric).add(tokens, now)
            for metric in DOLLARS:
                if getattr(scope.limits, metric.name) is not None:
                    self._count(scope, metric).add(count_usd(), now)

    async def sync(self, now: float) -> None:
        """Tell Redis what was counted here, and learn what was counted everywhere."""
        if self._redis is None:
            return
        current = [count for count in self._counts.values() if count.window == find_window(count.window_s, now)[0]]
        self._counts = {key: count for key, count in self._counts.items() if count in current or count.reserved}
        if not current:
            return
        told = [(count, count.window, count.unsaid) for count in current]
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                for count, window, unsaid in told:
                    key = name_count(count.key, window)
                    pipe.incrbyfloat(key, unsaid)
                    pipe.expire(key, 2 * count.window_s)
                answers = await pipe.execute()
        except (RedisError, OSError, TimeoutError) as error:
            if not self._is_away:
                logger.warning("budgets are kept by this process alone: %s", error)
            self._is_away = True
            return
        self._is_away = False
        for (count, window, unsaid), total in zip(told, answers[::2], strict=True):
            if count.window == window:
                count.said = float(total)
                count.unsaid -= unsaid

    async def _sync_for_ever(self) -> None:
        while True:
            await asyncio.sleep(SYNC_EVERY_S)
            await self.sync(time.time())

    def _count(self, scope: Scope, metric: Metric) -> Count:
        key = scope.key, metric.name
        if (count := self._counts.get(key)) is None:
            count = self._counts[key] = Count(f"{scope.key}:{metric.name}", metric.window_s)
        return count


def connect_redis(url: str) -> Redis:
    client: Redis = Redis.from_url(
        url, socket_timeout=REDIS_TIMEOUT_S, socket_connect_timeout=REDIS_TIMEOUT_S, decode_responses=True
    )
    return client


def _are_free(caller: Caller, backend: Backend, allowance: Limits) -> bool:
    """Whether no budget is about them, as of most."""
    return (
        caller.token_limits.are_none
        and caller.project_limits.are_none
        and backend.limits.are_none
        and allowance.are_none
    )


def _scopes(caller: Caller, backend: Backend, allowance: Limits) -> Iterator[Scope]:
    """Only those with a limit."""
    if not allowance.are_none and backend.key is not None:
        words = f"project {caller.project_slug} at model server {backend.name}"
        yield Scope(name_grant(caller.project, backend.key), words, allowance, is_server=True)
    yield from _callers_scopes(caller)
    if not backend.limits.are_none:
        yield Scope(f"provider:{backend.key}", f"provider {backend.name}", backend.limits, is_server=True)


def _callers_scopes(caller: Caller) -> Iterator[Scope]:
    if not caller.token_limits.are_none:
        yield Scope(f"token:{caller.token}", "this token", caller.token_limits)
    if not caller.project_limits.are_none:
        yield Scope(f"project:{caller.project}", f"project {caller.project_slug}", caller.project_limits)


def _refuse(scope: Scope, metric: Metric, limit: float, now: float) -> RefusalError:
    wait_s = math.ceil(find_window(metric.window_s, now)[1])
    return RefusalError(
        f"{scope.words} may use {limit:g} {metric.words}, and has",
        status=429,
        code="rate_limit_exceeded" if metric.window_s == MINUTE_S else "insufficient_quota",
        retry_after_s=wait_s,
        is_recorded=False,
    )


def _refuse_held(scope: Scope, metric: Metric, limit: float) -> RefusalError:
    return RefusalError(
        f"{scope.words} may use {limit:g} {metric.words}, and what is being answered may use the rest",
        status=429,
        code="rate_limit_exceeded",
        retry_after_s=1,
        is_recorded=False,
    )
