"""How often one caller may do something, counted for all processes together; a look and a note are one step.

A window slides: the count of the present minute, and of the last one as much as is still within sixty seconds. While
Redis is away each process counts for itself.
"""

import logging
import threading
import time
from contextlib import suppress
from functools import lru_cache
from typing import Any

import redis
from django.conf import settings

logger = logging.getLogger(__name__)

WINDOW_S = 60
PREFIX = "tentalis:throttle:"
AWAY_S = 5.0
MOST_LOCAL = 10_000


class Counter:
    """Requests by caller and minute."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._local: dict[str, int] = {}
        self._away_until = 0.0

    def take(self, name: str, limit: int, now: float) -> bool:
        """Note a request where fewer than `limit` were taken within the last sixty seconds; whether it was."""
        minute, passed = divmod(now, WINDOW_S)
        keys = [f"{PREFIX}{name}:{int(minute) - ago}" for ago in (0, 1)]
        present, last = self._count_shared(keys) or self._count_here(keys)
        if present + last * (1 - passed / WINDOW_S) <= limit:
            return True
        self._untake(keys[0])
        return False

    def give_back(self, name: str, now: float) -> None:
        """Take back one that was taken within this minute."""
        self._untake(f"{PREFIX}{name}:{int(now // WINDOW_S)}")

    def _count_shared(self, keys: list[str]) -> tuple[int, int] | None:
        if time.monotonic() < self._away_until:
            return None
        try:
            with _connect().pipeline(transaction=False) as pipe:
                pipe.incr(keys[0])
                pipe.expire(keys[0], 2 * WINDOW_S)
                pipe.get(keys[1])
                present, _, last = pipe.execute()
        except redis.RedisError as error:
            logger.warning("requests are counted by each process alone (%s)", type(error).__name__)
            self._away_until = time.monotonic() + AWAY_S
            return None
        return int(present), int(last or 0)

    def _untake(self, key: str) -> None:
        with self._lock:
            if key in self._local:
                self._local[key] -= 1
        if time.monotonic() >= self._away_until:
            with suppress(redis.RedisError):
                _connect().decr(key)

    def _count_here(self, keys: list[str]) -> tuple[int, int]:
        with self._lock:
            if len(self._local) > MOST_LOCAL:
                self._local.clear()
            self._local[keys[0]] = self._local.get(keys[0], 0) + 1
            return self._local[keys[0]], self._local.get(keys[1], 0)


@lru_cache(maxsize=1)
def _connect() -> "redis.Redis":
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=0.5, socket_connect_timeout=0.5)


def forget_callers() -> None:
    """Count from nothing, for every process; for tests."""
    connection: Any = _connect()
    if keys := list(connection.scan_iter(f"{PREFIX}*", count=1000)):
        connection.delete(*keys)


counter = Counter()
