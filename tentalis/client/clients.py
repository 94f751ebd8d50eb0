"""The waiting and the async client: one connection pool each, the same requests."""

import asyncio
import base64
import hashlib
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from tentalis.client.endpoints import Call, Endpoints, Json
from tentalis.client.errors import ClientError, UnreachableError, make_error, read_problem
from tentalis.client.retries import Retries
from tentalis.outbound.trust import trust_authorities

TIMEOUT_S = 30.0
KEYED = frozenset({"POST", "PUT", "PATCH", "DELETE"})
PAGE = 200
PART_BYTES = 600_000
"""Of a file that is sent in parts: in base64 it fits a request's body."""


def make_options(url: str, token: str, timeout_s: float) -> dict[str, Any]:
    """What both httpx clients are made with. Proxies of the environment are not asked: a token goes to its origin.

    Raises:
        ClientError: the address or the token cannot be one.
    """
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ClientError(f"wanted an address like http://127.0.0.1:8000, found {url!r} ({error})") from None
    if parsed.scheme not in {"http", "https"} or not parsed.host or parsed.query or parsed.fragment or parsed.userinfo:
        raise ClientError(f"wanted an address like http://127.0.0.1:8000, found {url!r}")
    if token and not (token.isascii() and token.isprintable() and " " not in token):
        raise ClientError("wanted a token of the form tnt_<key id>_<secret>, found other characters")
    headers = {"Accept": "application/json", "User-Agent": "tentalis"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return {
        "base_url": f"{url.rstrip('/')}/api/v1/",
        "headers": headers,
        "timeout": timeout_s,
        "follow_redirects": False,
        "trust_env": False,
        "verify": trust_authorities(),
    }


def make_request(client: httpx.Client | httpx.AsyncClient, call: Call) -> httpx.Request:
    """The request with a key of its own, where it changes something."""
    params = {name: _to_text(value) for name, value in call.params.items() if value is not None}
    headers = {"Idempotency-Key": str(uuid.uuid4())} if call.verb in KEYED else {}
    return client.build_request(call.verb, call.path, params=params, json=call.body, headers=headers)


def read_answer(response: httpx.Response) -> Json:
    """The JSON object of an answer; {} for none.

    Raises:
        ApiError: the platform refused.
        ClientError: what answered is not the platform, or is it at another address.
    """
    if response.status_code >= 400:
        raise make_error(response.status_code, response.content, response.reason_phrase)
    if response.status_code >= 300:
        elsewhere = response.headers.get("Location", "nowhere")
        raise ClientError(
            f"{response.url} answered {response.status_code} and sends on to {elsewhere!r:.200}, where no token goes: "
            "name the platform's own address"
        )
    if not response.content:
        return {}
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise ClientError(f"{response.url} answered {response.status_code} and no JSON object: is it the platform?")
    return answer


def _to_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _describe(error: httpx.RequestError, request: httpx.Request) -> UnreachableError:
    origin = f"{request.url.scheme}://{request.url.netloc.decode()}"
    return UnreachableError(f"{origin} cannot be reached: {str(error) or type(error).__name__}")


def _should_repeat(response: httpx.Response, retries: Retries, attempt: int) -> bool:
    if response.status_code < 400 or attempt >= retries.attempts:
        return False
    return retries.may_help(response.status_code, str(read_problem(response.content).get("code", "")))


class Client(Endpoints[Json]):
    """Waits for each answer. Use it as a context manager, or `close` it.

    Args:
        url: of the platform, without /api.
        token: "" for none.
        sleep: waits that many seconds between tries.
    """

    def __init__(
        self,
        url: str,
        token: str = "",
        *,
        timeout_s: float = TIMEOUT_S,
        retries: Retries | None = None,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = url.rstrip("/")
        self._http = httpx.Client(**make_options(url, token, timeout_s), transport=transport)
        self._retries = retries or Retries()
        self._sleep = sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def send(self, call: Call) -> Json:
        request = make_request(self._http, call)
        attempt = 0
        while True:
            attempt += 1
            try:
                response = self._http.send(request)
            except httpx.RequestError as error:
                if attempt >= self._retries.attempts:
                    raise _describe(error, request) from error
                self._sleep(self._retries.wait_s(attempt, None))
                continue
            if not _should_repeat(response, self._retries, attempt):
                return read_answer(response)
            self._sleep(self._retries.wait_s(attempt, response.headers.get("Retry-After")))

    def iterate(self, list_rows: Callable[..., Json], **params: Any) -> Iterator[Json]:
        """Every row of a list: `client.iterate(client.list_tasks, state="done")`."""
        cursor: str | None = None
        while True:
            page = list_rows(**{"limit": PAGE, **params, "cursor": cursor})
            yield from page["results"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def upload(self, file: Path) -> str:
        """Send a file in parts, from where it was left; its sha256.

        Raises:
            ApiError, UnreachableError: as every request. ClientError: the file cannot be read.
        """
        try:
            with file.open("rb") as stream:
                sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
                size = stream.tell()
                told = self.get_upload(sha256)
                while not told["whole"]:
                    stream.seek(told["received_bytes"])
                    part = base64.b64encode(stream.read(PART_BYTES)).decode()
                    offset = told["received_bytes"]
                    told = self.add_upload_part(sha256, size_bytes=size, offset=offset, part=part)
        except OSError as error:
            raise ClientError(f"{file} cannot be read: {error.strerror}") from error
        return sha256

    def download(self, path: str, target: Path, **params: Any) -> int:
        """Save an export (`rollouts/export`, `batches/3/export`, `adapters/7/download`, `audit/export`); its size in
        bytes.

        A download that breaks off leaves nothing under the target's name.

        Raises:
            ApiError, UnreachableError: as every request; nothing is sent again.
            ClientError: the file cannot be written.
        """
        request = make_request(self._http, Call("GET", path, params))
        staging = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            response = self._http.send(request, stream=True)
            try:
                if response.status_code >= 300:
                    response.read()
                    read_answer(response)
                with staging.open("wb") as file:
                    size = sum(file.write(chunk) for chunk in response.iter_bytes())
            finally:
                response.close()
            staging.replace(target)
        except httpx.RequestError as error:
            raise _describe(error, request) from error
        except OSError as error:
            raise ClientError(f"{target} cannot be written: {error.strerror}") from error
        finally:
            staging.unlink(missing_ok=True)
        return size


class AsyncClient(Endpoints[Awaitable[Json]]):
    """The same for asyncio. Use it as an async context manager, or `await close()`."""

    def __init__(
        self,
        url: str,
        token: str = "",
        *,
        timeout_s: float = TIMEOUT_S,
        retries: Retries | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._http = httpx.AsyncClient(**make_options(url, token, timeout_s), transport=transport)
        self._retries = retries or Retries()
        self._sleep = sleep

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def send(self, call: Call) -> Json:
        request = make_request(self._http, call)
        attempt = 0
        while True:
            attempt += 1
            try:
                response = await self._http.send(request)
            except httpx.RequestError as error:
                if attempt >= self._retries.attempts:
                    raise _describe(error, request) from error
                await self._sleep(self._retries.wait_s(attempt, None))
                continue
            if not _should_repeat(response, self._retries, attempt):
                return read_answer(response)
            await self._sleep(self._retries.wait_s(attempt, response.headers.get("Retry-After")))

    async def iterate(self, list_rows: Callable[..., Awaitable[Json]], **params: Any) -> AsyncIterator[Json]:
        """Every row of a list: `async for row in client.iterate(client.list_tasks)`."""
        cursor: str | None = None
        while True:
            page = await list_rows(**{"limit": PAGE, **params, "cursor": cursor})
            for row in page["results"]:
                yield row
            cursor = page["next_cursor"]
            if cursor is None:
                return
