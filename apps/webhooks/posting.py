"""Sending one message, once, through the guard of outbound requests; what came of it is a Reply, never an error."""

import asyncio
import threading

import aiohttp
from django.conf import settings

from apps.webhooks.models import Webhook
from apps.webhooks.sending import KEPT_CHARS, Reply
from tentalis.outbound.addresses import BlockedAddressError
from tentalis.outbound.aio import make_connector
from tentalis.outbound.answers import read_retry_after

MAX_ANSWER_BYTES = 4 * KEPT_CHARS
MAX_OUTGOING = 32


class Poster:
    """Connections kept by one thread with an event loop: the whole of a request has one time limit there.

    A message goes out as it is, with no cookies, no redirects followed and no proxy asked.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        self._thread = threading.Thread(target=self._loop.run_forever, name="webhooks-http", daemon=True)
        self._thread.start()

    def __call__(self, webhook: Webhook, body: bytes, headers: dict[str, str]) -> Reply:
        timeout_s: float = settings.TENTALIS["WEBHOOK_TIMEOUT_SECONDS"]
        sent = {"Content-Type": "application/json", "User-Agent": "tentalis", **headers}
        sending = self._send(webhook.url, body, sent, allow_private=webhook.allow_private, timeout_s=timeout_s)
        return asyncio.run_coroutine_threadsafe(sending, self._loop).result()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _send(
        self, url: str, body: bytes, headers: dict[str, str], *, allow_private: bool, timeout_s: float
    ) -> Reply:
        try:
            async with self._session(allow_private).post(
                url,
                data=body,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=timeout_s),
            ) as response:
                words = await _read_start(response)
        except TimeoutError:
            return Reply(0, f"no answer within {timeout_s:g} s")
        except (aiohttp.ClientError, BlockedAddressError, ValueError) as error:
            return Reply(0, _describe(error))
        text = words.decode("utf-8", "replace").replace("\x00", "")
        if 300 <= response.status < 400:
            text = f"redirects are not followed (to {response.headers.get('Location', '')[:100]})"
        wait = read_retry_after(response.headers)
        return Reply(response.status, text[:KEPT_CHARS], wait)

    def _session(self, allow_private: bool) -> aiohttp.ClientSession:
        if allow_private not in self._sessions:
            connector = make_connector(allow_private=allow_private, limit=MAX_OUTGOING)
            self._sessions[allow_private] = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
            )
        return self._sessions[allow_private]

    async def _close(self) -> None:
        for session in self._sessions.values():
            await session.close()


async def _read_start(response: aiohttp.ClientResponse) -> bytes:
    """The body, or its beginning where it is long; then the connection is closed rather than read to its end."""
    words = b""
    async for chunk in response.content.iter_chunked(1024):
        words += chunk
        if len(words) > MAX_ANSWER_BYTES:
            response.close()
            break
    return words


def _describe(error: Exception) -> str:
    """What went wrong, in words; a refused address by its own."""
    inner = getattr(error, "os_error", None)
    words = str(inner if isinstance(inner, BlockedAddressError) else error)
    return (words or type(error).__name__).replace("\x00", "")[:KEPT_CHARS]
