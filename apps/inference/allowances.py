"""What a grant, a project's budgets and a server's limits by the minute allow, counted while it is used: room is held
before a call, and settled then.

The count is the gateway's (`apps.gateway.limits`), under the same names in Redis, so that what a project's callers, its
workers and its judges use is one sum. Calls made here are held for all processes in one step; of calls at the same time
only the first may go beyond an allowance. What a minute has no room for has its turn in one of the next.
"""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, NamedTuple
from uuid import uuid4

import redis
from django.conf import settings

from apps.accounts.models import Project
from apps.base.errors import TentalisError
from apps.inference.errors import NextMinuteError, ProviderBusyError
from apps.inference.grants import WHO_GRANTS
from apps.inference.models import Provider, ProviderGrant
from apps.inference.prices import load_prices
from tentalis.core.limits import DAY_S, MINUTE_S, MONTH_S, Limits, find_window
from tentalis.core.token_use import TokenUse

logger = logging.getLogger(__name__)

PREFIX = "tentalis:gateway"
HELD_FOR_S = 3600.0
"""Room of a call whose process died is free again after so long."""
REDIS_TIMEOUT_S = 2.0
_HOLD = """
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ARGV[4])
    local used, limit = tonumber(redis.call('GET', KEYS[1]) or '0'), tonumber(ARGV[1])
    if used >= limit then return 'spent' end
    local held = 0
    for _, one in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
        held = held + tonumber(string.match(one, '^[^ ]+'))
    end
    if used + held >= limit then return 'held' end
    redis.call('ZADD', KEYS[2], ARGV[5], ARGV[2] .. ' ' .. ARGV[3])
    redis.call('EXPIRE', KEYS[2], ARGV[6])
    return 'ok'
"""
_TAKE_TURN = """
    if tonumber(redis.call('GET', KEYS[1]) or '0') < tonumber(ARGV[1]) then
        redis.call('INCRBYFLOAT', KEYS[1], 1)
        redis.call('EXPIRE', KEYS[1], ARGV[2])
        return 0
    end
    redis.call('EXPIRE', KEYS[2], ARGV[2])
    return redis.call('INCR', KEYS[2])
"""
"""0: it is one's turn; else how many stand in line, oneself counted."""


class AllowanceSpentError(TentalisError):
    """What the project may use, in all or of a shared model server, is used up for this day or month."""

    status = 429
    code = "allowance_spent"
    is_final = True

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class AllowanceHeldError(ProviderBusyError):
    """Calls that are being answered may use what is left of the allowance: a later try may succeed."""

    status = 429
    code = "allowance_held"


class LimitMeter(NamedTuple):
    """One limit of a grant, of a project or of a server.

    Args:
        scope: what its counts are named by. whose: who may use what, in words. anew: who may allow more.
        measure: what a call of a model with these tokens counts for.
    """

    scope: str
    whose: str
    anew: str
    name: str
    window_s: int
    limit: float
    words: str
    measure: Callable[[str, TokenUse], float]


def name_grant(project_id: int, provider_id: int) -> str:
    """What a grant's counts are named by."""
    return f"grant:{project_id}:{provider_id}"


def name_count(name: str, window: int) -> str:
    """The key in Redis of what was used of a budget's metric, such as `grant:1:2:tokens_per_day`, in a window."""
    return f"{PREFIX}:{name}:{window}"


@dataclass(frozen=True)
class Allowance:
    """What one project may use, in all and of one model server.

    Args:
        requests: how many requests a minute all projects together may ask of the server; None: no limit.
        server: the server's scope of counts and its name.
    """

    meters: tuple[LimitMeter, ...]
    requests: int | None = None
    server: tuple[str, str] = ("", "")
    clock: Callable[[], float] = field(default=time.time, repr=False)

    def hold(self, model: str, guess: TokenUse) -> "BudgetHold":
        """Hold room for a call.

        Args:
            guess: what it may take at most; that counts where the server tells no tokens.
        Raises:
            AllowanceSpentError, AllowanceHeldError: nothing is held then.
            NextMinuteError: nor here: the server is asked no more in this minute.
            ProviderBusyError: nobody can count at the moment, so nothing is to be asked.
        """
        room = BudgetHold(model, guess)
        try:
            for meter in self.meters:
                self._hold(meter, room)
            self._take_turn()
        except TentalisError:
            room.release()
            raise
        return room

    def _hold(self, meter: LimitMeter, room: "BudgetHold") -> None:
        now = self.clock()
        window, left_s = find_window(meter.window_s, now)
        count = name_count(f"{meter.scope}:{meter.name}", window)
        amount = f"{meter.measure(room.model, room.guess):.9f}"
        arguments = (meter.limit, amount, room.name, now, now + HELD_FOR_S, 2 * int(HELD_FOR_S))
        found = tell_redis(lambda client: client.eval(_HOLD, 2, count, f"{count}:held", *arguments))
        if found != "ok" and meter.window_s == MINUTE_S:
            raise NextMinuteError(f"{meter.whose} {meter.limit:g} {meter.words}, and was", wait_s=left_s)
        if found == "spent":
            raise AllowanceSpentError(
                f"{meter.whose} {meter.limit:g} {meter.words}, and has: {meter.anew}", retry_after_s=left_s
            )
        if found == "held":
            raise AllowanceHeldError(
                f"{meter.whose} {meter.limit:g} {meter.words}, and what is being answered may use the rest",
                retry_after_s=1.0,
            )
        room.held.append((meter, count, f"{amount} {room.name}"))

    def _take_turn(self) -> None:
        """Count one request of the server's minute, or have so many others go first as stand in line."""
        if self.requests is None:
            return
        scope, name = self.server
        window, left_s = find_window(MINUTE_S, self.clock())
        count = name_count(f"{scope}:requests_per_minute", window)
        arguments = (self.requests, 2 * MINUTE_S)
        line = tell_redis(lambda client: client.eval(_TAKE_TURN, 2, count, f"{count}:line", *arguments))
        if line:
            raise NextMinuteError(
                f"model server {name} is asked at most {self.requests} times a minute, and was",
                wait_s=left_s + MINUTE_S * ((int(line) - 1) // self.requests),
            )


@dataclass
class BudgetHold:
    """What is held for one call, until it is settled or released.

    Args:
        held: (meter, its count, the member of its set).
    """

    model: str
    guess: TokenUse
    name: str = field(default_factory=lambda: uuid4().hex)
    held: list[tuple[LimitMeter, str, str]] = field(default_factory=list)

    def settle(self, use: TokenUse) -> None:
        """Count what the answered call took, and give the rest of the room back.

        An answer that was paid for is not lost because nobody can count it.
        """
        took = use if any(use) else self.guess
        while self.held:
            meter, count, member = self.held.pop()
            amount = meter.measure(self.model, took)
            try:
                tell_redis(partial(_count, count=count, member=member, amount=amount, keep_s=2 * meter.window_s))
            except ProviderBusyError as error:
                logger.warning("%s: %s of an answer are not counted: %s", count, amount, error)

    def release(self) -> None:
        """Give the room back: there was no answer. Where Redis is away it is free by itself later."""
        while self.held:
            _, count, member = self.held.pop()
            with suppress(ProviderBusyError):
                tell_redis(partial(_let_go, count=count, member=member))


def find_allowance(provider: Provider | None, project_id: int) -> Allowance | None:
    """What a project's budgets allow of any model server, and its grant of a shared one; None where nothing is limited.

    Budgets of a day or a month hold for all that is paid for. A project's limits by the minute are for who asks at the
    gateway; a server's hold for everybody.
    """
    slug, said = Project.objects.values_list("slug", "limits").get(pk=project_id)
    limits, grant = Limits.from_json(said), None
    if provider is not None and provider.project_id is None:
        grant = ProviderGrant.objects.filter(provider=provider, project=project_id).first()
    scopes: list[tuple[str, str, str, Limits | ProviderGrant]] = [
        (f"project:{project_id}", f"project {slug} may use", "its managers may change its limits", limits)
    ]
    if grant is not None:
        name, words = name_grant(project_id, grant.provider_id), say_allowed(slug, provider.name if provider else "")
        scopes.append((name, words, f"{WHO_GRANTS} anew", grant))
    prices = (
        load_prices() if any(one.usd_per_month or getattr(one, "usd_per_day", None) for *_, one in scopes) else None
    )

    def count_tokens(model: str, use: TokenUse) -> float:
        return use.prompt + use.completion

    def count_usd(model: str, use: TokenUse) -> float:
        key, kind = (provider.pk, provider.kind) if provider is not None else (None, "engine")
        rates = prices and prices.find(provider_id=key, kind=kind, model=model)
        return float(rates.cost(**use._asdict())) if rates else 0.0

    meters = tuple(
        LimitMeter(scope, whose, anew, name, window_s, limit, words, count_usd if "usd" in name else count_tokens)
        for scope, whose, anew, one in scopes
        for name, window_s, words in BUDGETS
        if (limit := getattr(one, name, None)) is not None
    )
    if provider is None:
        return Allowance(meters) if meters else None
    server, requests = (f"provider:{provider.pk}", provider.name), provider.requests_per_minute
    if provider.tokens_per_minute is not None:
        whose = f"model server {provider.name} is asked for at most"
        minute = ("tokens_per_minute", MINUTE_S, provider.tokens_per_minute, "tokens a minute")
        meters += (LimitMeter(server[0], whose, "", *minute, count_tokens),)
    return Allowance(meters, requests, server) if meters or requests is not None else None


BUDGETS = (
    ("tokens_per_day", DAY_S, "tokens a day"),
    ("usd_per_day", DAY_S, "US dollars a day"),
    ("usd_per_month", MONTH_S, "US dollars a month"),
)


class BudgetUse(NamedTuple):
    """How much of a project's budget is used in its present day or month."""

    project: str
    name: str
    words: str
    used: float
    limit: float


def use_of_budgets() -> list[BudgetUse]:
    """Of every budget of a day or a month that a project has, as it is counted. [] while nobody can count."""
    now, found = time.time(), []
    for key, slug, said in Project.objects.exclude(limits={}).order_by("pk").values_list("pk", "slug", "limits"):
        for name, window_s, words in BUDGETS:
            if (limit := said.get(name)) is not None:
                count = name_count(f"project:{key}:{name}", find_window(window_s, now)[0])
                found.append((count, BudgetUse(slug, name, words, 0.0, float(limit))))
    if not found:
        return []
    try:
        counts = tell_redis(lambda client: client.mget([count for count, _ in found]))
    except ProviderBusyError:
        return []
    return [one._replace(used=float(used or 0)) for (_, one), used in zip(found, counts, strict=True)]


def say_allowed(project: str, provider: str) -> str:
    return f"project {project} may use of model server {provider}"


def _count(client: Any, *, count: str, member: str, amount: float, keep_s: int) -> None:
    with client.pipeline() as pipe:
        pipe.incrbyfloat(count, amount)
        pipe.expire(count, keep_s)
        pipe.zrem(f"{count}:held", member)
        pipe.execute()


def _let_go(client: Any, *, count: str, member: str) -> None:
    client.zrem(f"{count}:held", member)


def tell_redis(question: Callable[[Any], Any]) -> Any:
    """Raises ProviderBusyError where Redis does not answer."""
    try:
        return question(_connect())
    except redis.RedisError as error:
        raise ProviderBusyError(f"what was used of the allowance is not known now ({type(error).__name__})") from error


@lru_cache(maxsize=1)
def _connect() -> "redis.Redis":
    return redis.Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=REDIS_TIMEOUT_S,
        socket_connect_timeout=REDIS_TIMEOUT_S,
        decode_responses=True,
    )
