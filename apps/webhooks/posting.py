"""Sending one message, once, through the guard of outbound requests; what came of it is a Reply, never an error."""

import asyncio
import threading
from functools import lru_cache

from django.conf import settings

from apps.webhooks.enqueueing import enqueue_all
from apps.webhooks.models import Webhook
from apps.webhooks.sending import KEPT_CHARS, Reply, Sender
from tentalis.outbound.answers import read_retry_after
from tentalis.outbound.http1 import Client, read_target

MAX_ANSWER_BYTES = 4 * KEPT_CHARS
HEADERS = {"Content-Type": "application/json", "User-Agent": "tentalis", "Accept": "*/*"}


class Poster:
    """Connections kept by one thread with an event loop: the whole of a request has one time limit there.

    A message goes out as it is, with no cookies, no redirects followed and no proxy asked.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = Client(HEADERS, connect_s=None)
        self._thread = threading.Thread(target=self._loop.run_forever, name="webhooks-http", daemon=True)
        self._thread.start()

    def __call__(self, webhook: Webhook, body: bytes, headers: dict[str, str]) -> Reply:
        timeout_s: float = settings.TENTALIS["WEBHOOK_TIMEOUT_SECONDS"]
        sending = self._send(webhook.url, body, headers, allow_private=webhook.allow_private, timeout_s=timeout_s)
        return asyncio.run_coroutine_threadsafe(sending, self._loop).result()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _send(
        self, url: str, body: bytes, headers: dict[str, str], *, allow_private: bool, timeout_s: float
    ) -> Reply:
        words = b""
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._client.ask(
                    read_target(url), body, headers, silence_s=timeout_s, allow_private=allow_private
                )
                try:
                    while len(words) <= MAX_ANSWER_BYTES and (part := await answer.read()):
                        words += part
                finally:
                    answer.close()
        except TimeoutError:
            return Reply(0, f"no answer within {timeout_s:g} s")
        except (ConnectionError, ValueError) as error:
            return Reply(0, _clean(str(error) or type(error).__name__))
        text = _clean(words.decode("utf-8", "replace"))
        if 300 <= answer.status < 400:
            text = _clean(f"redirects are not followed (to {answer.headers.get('Location', '')[:100]})")
        return Reply(answer.status, text, read_retry_after(answer.headers))

    async def _close(self) -> None:
        self._client.close()
        await asyncio.sleep(0)  # until their sockets are closed


def _clean(words: str) -> str:
    """What Postgres keeps: no zeros, and no byte of a header that is no UTF-8."""
    return words.replace("\x00", "").encode(errors="replace").decode()[:KEPT_CHARS]


def tell() -> None:
    """Write the messages due and begin sending; waits for no address. One statement where there is none."""
    if Webhook.objects.filter(is_active=True).exists():
        enqueue_all()
        _shared_sender().send_due()


@lru_cache(maxsize=1)
def _shared_sender() -> Sender:
    return Sender(Poster())
