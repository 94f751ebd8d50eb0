"""Delivers every message of the queues up to five times, in another order: it hears them and says them again."""

import heapq
import json
import random
import re
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

import redis

QUEUES = ("workers", "scorers", "hints", "control", "gpu")
PREFIX = "tentalis:"
MAX_COPIES = 4
MAX_DELAY_S = 2.0
_WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(rb"\\(x[0-9a-f]{2}|.)", re.DOTALL)
_NAMED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b"}


@dataclass
class Duplicator:
    """Runs in threads of its own between `start` and `stop`.

    Attributes:
        seen: messages heard; sent: copies pushed.
    """

    redis_url: str
    seed: int
    seen: int = 0
    sent: int = 0
    _due: list[tuple[float, str, bytes]] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _own_copies: set[str] = field(default_factory=set)

    def start(self) -> None:
        for target in (self._listen, self._speak):
            threading.Thread(target=target, name=f"duplicator{target.__name__}", daemon=True).start()

    def stop(self) -> None:
        self._ended.set()

    def _listen(self) -> None:
        draw = random.Random(self.seed)
        keys = {f"{PREFIX}{queue}".encode(): f"{PREFIX}{queue}" for queue in QUEUES}
        while not self._ended.is_set():
            try:
                with redis.Redis.from_url(self.redis_url, socket_timeout=None) as client:
                    self._listen_on(client, keys, draw)
            except redis.RedisError:
                self._ended.wait(0.1)

    def _listen_on(self, client: redis.Redis, keys: dict[bytes, str], draw: random.Random) -> None:
        connection: Any = client.connection_pool.get_connection()
        try:
            connection.send_command("MONITOR")
            connection.read_response()
            while not self._ended.is_set():
                line = connection.read_response(disable_decoding=True)
                words = split_words(bytes(line)) if b"LPUSH" in line else []
                if len(words) == 3 and words[1] in keys:
                    self._note(keys[words[1]], words[2], draw)
        finally:
            connection.disconnect()

    def _note(self, key: str, message: bytes, draw: random.Random) -> None:
        tag = json.loads(message)["properties"]["delivery_tag"]
        with self._lock:
            if tag in self._own_copies:
                self._own_copies.discard(tag)
                return
            self.seen += 1
            for _ in range(draw.randint(0, MAX_COPIES)):
                heapq.heappush(self._due, (time.monotonic() + draw.uniform(0, MAX_DELAY_S), key, message))

    def _speak(self) -> None:
        client = redis.Redis.from_url(self.redis_url, socket_timeout=2, socket_connect_timeout=2)
        while not self._ended.wait(0.02):
            while (copy := self._take_due()) is not None:
                key, message = copy
                try:
                    client.lpush(key, self._make_copy(message))
                    self.sent += 1
                except redis.RedisError:
                    self._ended.wait(0.2)

    def _take_due(self) -> tuple[str, bytes] | None:
        with self._lock:
            if self._due and self._due[0][0] <= time.monotonic():
                return heapq.heappop(self._due)[1:]
        return None

    def _make_copy(self, message: bytes) -> bytes:
        """The message under a delivery tag of its own: the transport keeps what is unacknowledged by that."""
        document = json.loads(message)
        tag = str(uuid.uuid4())
        document["properties"]["delivery_tag"] = tag
        with self._lock:
            self._own_copies.add(tag)
        return json.dumps(document).encode()


def split_words(line: bytes) -> list[bytes]:
    """The words of one line of MONITOR: `+time [db address] "LPUSH" "key" "value"`, unescaped."""
    return [_ESCAPE.sub(_unescape, word) for word in _WORD.findall(line)]


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match[1]
    if len(code) == 3:
        return bytes([int(code[1:], 16)])
    return _NAMED.get(code, code)
