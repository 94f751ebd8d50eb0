"""Model servers as addresses that live and die: who is asked, and who is asked next."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Mapping
from contextlib import suppress

import aiohttp
from yarl import URL

from apps.base.tasks import cancel_and_wait
from apps.gateway.tables import Backend
from tentalis.limits import LIMITS
from tentalis.outbound.addresses import BlockedAddressError
from tentalis.outbound.aio import make_connector
from tentalis.outbound.answers import COMPRESSED, Measure, is_compressed

logger = logging.getLogger(__name__)

CONNECT_S = 3.0
LONGEST_REST_S = 10.0
PROBE_EVERY_S = 0.5
PROBE_TIMEOUT_S = 2.0
ERROR_WORDS_S = 5.0
KEEPALIVE_S = 60.0
BIGGEST_LINE = 2**17
FAR_STATUSES = frozenset({502, 503, 504})
"""Answers that say that another address of the same server may do better."""


class Endpoint:
    """One address of a backend. It rests after a failure, longer each time, and is tried last while it does."""

    def __init__(self, backend: Backend, base_url: str) -> None:
        urls = backend.kind.urls(base_url)
        self.base_url = base_url
        self.trusts_private = backend.trusts_private
        self.api = urls.api
        self.chat = URL(urls.chat, encoded=True)
        self.completions = URL(urls.completions or urls.chat, encoded=True)
        self.tokenize = URL(f"{urls.root}/tokenize", encoded=True) if backend.kind.tokenizes else None
        self.health = URL(f"{urls.root}/health", encoded=True) if backend.kind.is_local else None
        self.in_flight = 0
        self._failures = 0
        self._rests_until = 0.0

    @property
    def is_resting(self) -> bool:
        return self._rests_until > time.monotonic()

    @property
    def is_failing(self) -> bool:
        return self._failures > 0

    def note_failure(self, words: str) -> None:
        rest_s = min(LONGEST_REST_S, 0.5 * 2**self._failures)
        if not self._failures:
            logger.warning("%s does not answer, others are asked first: %s", self.base_url, words)
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


async def read_whole(answer: aiohttp.ClientResponse) -> bytes:
    """All of an answer. Raises AnswerTooLongError, or what aiohttp raises where the server goes away."""
    check_head(answer)
    content, measure = answer.content, Measure(LIMITS.gateway_answer_bytes)
    parts: list[bytes] = []
    while not parts or not content.at_eof():
        parts.append(await content.readany())
        if words := measure.find_excess(len(parts[-1])):
            answer.close()
            raise AnswerTooLongError(words)
    return b"".join(parts)


async def read_beginning(answer: aiohttp.ClientResponse) -> bytes:
    """Of an error, so much of its words as comes in time; one read alone may end in the middle of them."""
    parts, left = [], LIMITS.error_answer_bytes
    with suppress(TimeoutError):
        async with asyncio.timeout(ERROR_WORDS_S):
            while left > 0 and (part := await answer.content.read(left)):
                parts.append(part)
                left -= len(part)
    return b"".join(parts)


def check_head(answer: aiohttp.ClientResponse) -> None:
    """Raise AnswerTooLongError where the head alone tells that."""
    words = COMPRESSED if is_compressed(answer.headers) else ""
    if not words and (size := answer.content_length or 0) > LIMITS.gateway_answer_bytes:
        words = Measure(LIMITS.gateway_answer_bytes).find_excess(size)
    if words:
        answer.close()
        raise AnswerTooLongError(words)


class Upstreams:
    """All addresses, and the connections to them. To be made inside the running loop."""

    def __init__(self) -> None:
        self._endpoints: dict[tuple[str, str, bool], Endpoint] = {}
        self._clients = {trusts: _make_client(trusts_private=trusts) for trusts in (False, True)}
        self._prober: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._prober = asyncio.create_task(self._probe_failing())

    async def stop(self) -> None:
        await cancel_and_wait(self._prober)
        for client in self._clients.values():
            await client.close()

    def order(self, backend: Backend, session: str) -> list[Endpoint]:
        """The addresses in the order in which to try them: a session's own first, those at rest last."""
        found = [self._find(backend, url) for url in backend.urls]
        if len(found) == 1:
            return found
        found.sort(key=lambda endpoint: _weigh(session, endpoint.base_url), reverse=True)
        return sorted(found, key=lambda endpoint: endpoint.is_resting)

    async def ask(
        self, backend: Backend, endpoint: Endpoint, url: URL, body: bytes, more: Mapping[str, str] | None = None
    ) -> aiohttp.ClientResponse:
        """Send a request and wait for the head of its answer.

        Args:
            more: headers beside the backend's.
        Raises:
            DownError: nobody answered, or somebody who says that another may.
            TimeoutError: it took the request and was silent for too long.
        """
        client = self._clients[endpoint.trusts_private]
        headers = {**more, **backend.headers} if more else backend.headers
        try:
            response = await client.post(
                url, data=body, headers=headers, allow_redirects=False, timeout=_timeout(backend.timeout_s)
            )
        except aiohttp.ConnectionTimeoutError as error:
            endpoint.note_failure("no connection in time")
            raise DownError("it cannot be reached in time") from error
        except aiohttp.ServerTimeoutError as error:
            raise TimeoutError(f"silent for {backend.timeout_s:g} s") from error
        except aiohttp.ClientConnectorError as error:
            words = error.os_error.words if isinstance(error.os_error, BlockedAddressError) else "no connection"
            endpoint.note_failure(words)
            raise DownError(words) from error
        except aiohttp.ClientError as error:
            words = f"the connection broke ({type(error).__name__})"
            endpoint.note_failure(words)
            raise DownError(words) from error
        if response.status in FAR_STATUSES:
            endpoint.note_failure(f"status {response.status}")
        else:
            endpoint.note_success()
        return response

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

    async def _probe(self, endpoint: Endpoint, url: URL) -> None:
        with suppress(aiohttp.ClientError, TimeoutError):
            client = self._clients[endpoint.trusts_private]
            timeout = aiohttp.ClientTimeout(total=PROBE_TIMEOUT_S)
            async with client.get(url, allow_redirects=False, timeout=timeout) as response:
                if response.status == 200:
                    endpoint.note_success()


_TIMEOUTS: dict[float, aiohttp.ClientTimeout] = {}


def _timeout(silence_s: float) -> aiohttp.ClientTimeout:
    if (found := _TIMEOUTS.get(silence_s)) is None:
        found = _TIMEOUTS[silence_s] = aiohttp.ClientTimeout(sock_connect=CONNECT_S, sock_read=silence_s)
    return found


def _make_client(*, trusts_private: bool) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        auto_decompress=False,
        connector=make_connector(allow_private=trusts_private, limit=0, keepalive_timeout=KEEPALIVE_S),
        headers={"Content-Type": "application/json", "User-Agent": "tentalis", "Accept-Encoding": "identity"},
        timeout=aiohttp.ClientTimeout(total=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=BIGGEST_LINE,
    )


def _weigh(session: str, url: str) -> bytes:
    """Rendezvous: each session prefers one address, and when that one is gone only its own sessions move."""
    return hashlib.blake2b(f"{session}\0{url}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
