"""Model servers as addresses that live and die: who is asked, and who is asked next."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Mapping
from contextlib import suppress

from apps.base.tasks import cancel_and_wait
from apps.gateway.tables import Backend
from tentalis.limits import LIMITS
from tentalis.outbound.addresses import BlockedAddressError
from tentalis.outbound.answers import COMPRESSED, Measure, is_compressed
from tentalis.outbound.http1 import Answer, BrokenError, Client, Target, UnreachedError, read_target

logger = logging.getLogger(__name__)

LONGEST_REST_S = 10.0
PROBE_EVERY_S = 0.5
PROBE_TIMEOUT_S = 2.0
ERROR_WORDS_S = 5.0
HEADERS = {
    "Content-Type": "application/json",
    "User-Agent": "tentalis",
    "Accept": "*/*",
    "Accept-Encoding": "identity",
}
FAR_STATUSES = frozenset({502, 503, 504})
"""Answers that say that another address of the same server may do better."""


class Endpoint:
    """One address of a backend. It rests after a failure, longer each time, and is tried last while it does."""

    def __init__(self, backend: Backend, base_url: str) -> None:
        urls = backend.kind.urls(base_url)
        self.base_url = base_url
        self.trusts_private = backend.trusts_private
        self.api = urls.api
        self.chat = read_target(urls.chat)
        self.completions = read_target(urls.completions or urls.chat)
        self.tokenize = read_target(f"{urls.root}/tokenize") if backend.kind.tokenizes else None
        self.health = read_target(f"{urls.root}/health") if backend.kind.is_local else None
        self.in_flight = 0
        self._failures = 0
        self._rests_until = 0.0

    @property
    def is_resting(self) -> bool:
        return self._rests_until > time.monotonic()

    @property
    def is_failing(self) -> bool:
        return self._failures > 0

    def note_failure(self, reason: str) -> None:
        rest_s = min(LONGEST_REST_S, 0.5 * 2**self._failures)
        if not self._failures:
            logger.warning("%s does not answer, others are asked first: %s", self.base_url, reason)
        self._failures += 1
        self._rests_until = time.monotonic() + rest_s

    def note_success(self) -> None:
        if self._failures:
            logger.info("%s answers again", self.base_url)
            self._failures = 0
            self._rests_until = 0.0


class DownError(Exception):
    """An address gave no answer; another may.

    Attributes:
        wait_s: when it wants to be asked again; None where it did not say.
        was_asked: it had taken the question, so that asking again is paid again.
    """

    def __init__(self, message: str, *, wait_s: float | None = None, was_asked: bool = False) -> None:
        super().__init__(message)
        self.wait_s = wait_s
        self.was_asked = was_asked


class AnswerTooLongError(Exception):
    """An answer is longer than is taken, or compressed; another address of the same server would give the same."""


async def read_whole(answer: Answer) -> bytes:
    """All of an answer. Raises AnswerTooLongError, or one of BrokenError and TimeoutError."""
    check_head(answer)
    measure = Measure(LIMITS.gateway_answer_bytes)
    parts: list[bytes] = []
    while part := await answer.read():
        parts.append(part)
        if words := measure.find_excess(len(part)):
            answer.close()
            raise AnswerTooLongError(words)
    return b"".join(parts)


async def read_beginning(answer: Answer) -> bytes:
    """Of an error, so much of its words as comes in time; one read alone may end in the middle of them."""
    found = b""
    with suppress(TimeoutError):
        async with asyncio.timeout(ERROR_WORDS_S):
            while len(found) < LIMITS.error_answer_bytes and (part := await answer.read()):
                found += part
    return found[: LIMITS.error_answer_bytes]


def check_head(answer: Answer) -> None:
    """Raise AnswerTooLongError where the head alone tells that."""
    words = COMPRESSED if is_compressed(answer.headers) else ""
    if not words and answer.size > LIMITS.gateway_answer_bytes:
        words = Measure(LIMITS.gateway_answer_bytes).find_excess(answer.size)
    if words:
        answer.close()
        raise AnswerTooLongError(words)


class Upstreams:
    """All addresses, and the connections to them. To be made inside the running loop."""

    def __init__(self) -> None:
        self._endpoints: dict[tuple[str, str, bool], Endpoint] = {}
        self._client = Client(HEADERS)
        self._prober: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._prober = asyncio.create_task(self._probe_failing())

    async def stop(self) -> None:
        await cancel_and_wait(self._prober)
        self._client.close()

    def order(self, backend: Backend, session: str) -> list[Endpoint]:
        """The addresses in the order in which to try them: a session's own first, those at rest last."""
        found = [self._find(backend, url) for url in backend.urls]
        if len(found) == 1:
            return found
        found.sort(key=lambda endpoint: _weigh(session, endpoint.base_url), reverse=True)
        return sorted(found, key=lambda endpoint: endpoint.is_resting)

    async def ask(
        self, backend: Backend, endpoint: Endpoint, target: Target, body: bytes, more: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a request and wait for the head of its answer.

        Args:
            more: headers beside the backend's.
        Raises:
            DownError: nobody answered, or somebody who says that another may.
            TimeoutError: it took the request and was silent for too long.
        """
        headers = {**more, **backend.headers} if more else backend.headers
        try:
            answer = await self._client.ask(
                target, body, headers, silence_s=backend.timeout_s, allow_private=endpoint.trusts_private
            )
        except UnreachedError as error:
            cause = error.__cause__
            words = "it cannot be reached in time" if isinstance(cause, TimeoutError) else "no connection"
            words = cause.words if isinstance(cause, BlockedAddressError) else words
            endpoint.note_failure(words)
            raise DownError(words) from error
        except BrokenError as error:
            words = f"the connection broke ({error})"
            endpoint.note_failure(words)
            raise DownError(words) from error
        if answer.status in FAR_STATUSES:
            endpoint.note_failure(f"status {answer.status}")
        else:
            endpoint.note_success()
        return answer

    def _find(self, backend: Backend, base_url: str) -> Endpoint:
        key = backend.kind.kind, base_url, backend.trusts_private
        if (endpoint := self._endpoints.get(key)) is None:
            endpoint = self._endpoints[key] = Endpoint(backend, base_url)
        return endpoint

    async def _probe_failing(self) -> None:
        """Ask those that failed whether they are well, so that callers need not find out."""
        while True:
            await asyncio.sleep(PROBE_EVERY_S)
            for endpoint in list(self._endpoints.values()):
                if endpoint.is_failing and endpoint.health is not None:
                    await self._probe(endpoint, endpoint.health)

    async def _probe(self, endpoint: Endpoint, target: Target) -> None:
        with suppress(ConnectionError, TimeoutError):
            answer = await self._client.ask(
                target, None, {}, silence_s=PROBE_TIMEOUT_S, allow_private=endpoint.trusts_private
            )
            await read_beginning(answer)
            answer.close()
            if answer.status == 200:
                endpoint.note_success()


def _weigh(session: str, url: str) -> bytes:
    """Rendezvous: each session prefers one address, and when that one is gone only its own sessions move."""
    return hashlib.blake2b(f"{session}\0{url}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
