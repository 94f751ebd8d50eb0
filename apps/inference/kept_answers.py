"""What a link was answered before its server told it to wait is kept for when it goes on: nothing is asked twice.

So a link that asks more than its server takes in a minute comes to its end, a part at a time. Kept in Redis for an hour
or as long as it waits; where that is lost, it is asked again. Who forgets a person drops all that a project keeps.
"""

import logging
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final
from uuid import uuid4

import orjson

from apps.inference.allowances import tell_redis
from apps.inference.errors import ProviderBusyError
from apps.outbox.services import find_held

logger = logging.getLogger(__name__)

MOST_CHARS: Final = 8 * 2**20
"""Of one link's answers; of more the first are asked again."""
KEPT_FOR_S: Final = 3_600
WRITTEN_FOR_S: Final = 24 * 3_600
_DIGEST: Final = 64


@dataclass
class KeptAnswers:
    """The answers of one link, by what was asked, in the order in which they came. Many threads may ask at once.

    Args:
        link: which one, of all links of the project.
    """

    project_id: int | None
    link: str
    _known: dict[str, deque[str]] | None = None
    _dropped: str | None = ""  # what `drop_kept_answers` had written last when this link began; "": that is not known
    _said: deque[str] = field(default_factory=deque)
    _size: int = 0
    _waits_s: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def _key(self) -> str:
        return f"{_name_all(self.project_id)}{self.link}"

    def take(self, asked: str) -> Any:
        """An answer to this from when the link was told to wait, each once; None where there is none."""
        with self._lock:
            if self._known is None:
                self._known = self._load()
            found = self._known.get(asked)
            if not found:
                return None
            said = found.popleft()
            self._note(asked + said)
        return orjson.loads(said)

    def add(self, asked: str, answer: Any) -> None:
        with self._lock:
            self._note(asked + orjson.dumps(answer).decode())

    def keep(self, wait_s: float) -> None:
        """It is told to wait: keep all that it was answered, and what comes yet of what is under way."""
        with self._lock:
            if self._waits_s:
                return
            self._waits_s = max(KEPT_FOR_S, int(2 * wait_s))
            left = [asked + said for asked, answers in (self._known or {}).items() for said in answers]
            self._push([*left, *self._said])

    def _note(self, entry: str) -> None:
        if self._waits_s:
            self._push([entry])
            return
        self._said.append(entry)
        self._size += len(entry)
        while self._size > MOST_CHARS:
            self._size -= len(self._said.popleft())

    def _load(self) -> dict[str, deque[str]]:
        def read(client: Any) -> Any:
            with client.pipeline() as pipe:
                pipe.lrange(self._key, 0, -1)
                pipe.get(_name_dropped(self.project_id))
                pipe.delete(self._key)
                return pipe.execute()

        known: dict[str, deque[str]] = {}
        with suppress(ProviderBusyError):
            entries, self._dropped, _ = tell_redis(read)
            for entry in entries:
                known.setdefault(entry[:_DIGEST], deque()).append(entry[_DIGEST:])
        return known

    def _push(self, entries: list[str]) -> None:
        if not entries:
            return

        dropped = _name_dropped(self.project_id)

        def push(pipe: Any) -> None:
            if pipe.get(dropped) == self._dropped:
                pipe.multi()
                pipe.rpush(self._key, *entries)
                pipe.expire(self._key, self._waits_s)

        try:
            tell_redis(lambda client: client.transaction(push, dropped))
        except ProviderBusyError as error:
            logger.warning("%d answers of a link that waits are asked for again: %s", len(entries), error)


@dataclass
class WrittenAnswers:
    """What a model said to one try, written down as it comes: where whoever makes it is killed, the next one goes on
    behind its last answer, and asks nothing that was answered. Where Redis is lost, it is asked again."""

    project_id: int | None
    name: str
    _known: dict[str, deque[str]] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, asked: str) -> Any:
        """An answer to this that was written down, each once; None where there is none."""
        with self._lock:
            if self._known is None:
                self._known = {}
                with suppress(ProviderBusyError):
                    for entry in tell_redis(lambda client: client.lrange(self._key, 0, -1)):
                        self._known.setdefault(entry[:_DIGEST], deque()).append(entry[_DIGEST:])
            found = self._known.get(asked)
            return orjson.loads(found.popleft()) if found else None

    def add(self, asked: str, answer: Any) -> None:
        entry = asked + orjson.dumps(answer).decode()

        def push(client: Any) -> None:
            with client.pipeline(transaction=False) as pipe:
                pipe.rpush(self._key, entry)
                pipe.expire(self._key, WRITTEN_FOR_S)
                pipe.execute()

        try:
            tell_redis(push)
        except ProviderBusyError as error:
            logger.warning("an answer is asked for again should its try be interrupted: %s", error)

    def keep(self, wait_s: float) -> None:
        """It is kept."""

    @property
    def _key(self) -> str:
        return f"{_name_all(self.project_id)}{self.name}"


_writing: ContextVar[WrittenAnswers | None] = ContextVar("tentalis_written_answers", default=None)


@contextmanager
def write_answers(project_id: int, name: str, *, is_new: bool = False) -> Iterator[None]:
    """Write down, and find again, what models answer within.

    Args:
        name: the same when it is begun anew. is_new: nothing is written down under it yet, and nothing looked for.
    """
    token = _writing.set(WrittenAnswers(project_id, name, {} if is_new else None))
    try:
        yield
    finally:
        _writing.reset(token)


def find_written(project_id: int, names: Sequence[str]) -> set[str]:
    """Those of the names under which something is written down; all of them where Redis does not say."""

    def look(client: Any) -> list[int]:
        with client.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.exists(f"{_name_all(project_id)}{name}")
            return list(pipe.execute())

    try:
        return {name for name, there in zip(names, tell_redis(look), strict=True) if there}
    except ProviderBusyError:
        return set(names)


def forget_written(project_id: int, names: Sequence[str]) -> None:
    """Drop what was written down under these names; where Redis is away, it goes after a while."""
    keys = [f"{_name_all(project_id)}{name}" for name in names]
    if keys:
        with suppress(ProviderBusyError):
            tell_redis(lambda client: client.delete(*keys))


def find_written_answers() -> WrittenAnswers | None:
    """Where answers are written down in this thread."""
    return _writing.get()


def find_kept_answers() -> KeptAnswers | None:
    """Those of the link that this thread is at; None outside any, and of a set, whose tasks are tried alone then."""
    held = find_held()
    if held is None or len(held.claim.subjects) != 1:
        return None
    [segment] = held.claim.subjects
    found: KeptAnswers = held.noted.setdefault(
        "answers", KeptAnswers(held.claim.project_id, f"{segment}:{held.claim.position}")
    )
    return found


def drop_kept_answers(project_id: int) -> None:
    """Delete what a project's links keep. A link that is at work keeps nothing any more: it may have been answered
    already.

    Raises:
        ProviderBusyError: Redis does not answer.
    """

    def drop(client: Any) -> None:
        client.set(_name_dropped(project_id), uuid4().hex)
        for key in client.scan_iter(match=f"{_name_all(project_id)}*", count=1_000):
            client.delete(key)

    try:
        tell_redis(drop)
    except ProviderBusyError as error:
        raise ProviderBusyError(
            "what model servers answered links that wait is still in Redis, for as long as they wait or an hour: Redis"
            " does not answer. Try again"
        ) from error


def _name_all(project_id: int | None) -> str:
    """What the keys of a project begin with."""
    return f"tentalis:answers:{project_id}:"


def _name_dropped(project_id: int | None) -> str:
    return f"tentalis:answers-dropped:{project_id}"


def name_asked(*asked: Any) -> str:
    """What is asked, as answers are found by it."""
    return sha256(orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)).hexdigest()
