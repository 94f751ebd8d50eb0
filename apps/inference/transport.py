"""HTTP to model servers: pooled, guarded connections per server, orjson bodies, every failure as one of our errors."""

import atexit
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import orjson
from django.db import connection

from apps.base.errors import BadInputError
from apps.base.texts import make_storable
from apps.inference.breaker import breaker
from apps.inference.errors import (
    AddressNotAllowedError,
    ModelNotServedError,
    PacedError,
    ProviderAnswerError,
    ProviderBusyError,
    ProviderRefusedError,
    ProviderSilentError,
)
from apps.inference.provider_kinds import ProviderKind
from apps.outbox.services import find_held_project
from tentalis.limits import LIMITS
from tentalis.outbound.addresses import BlockedAddressError, Origin, check_url
from tentalis.outbound.answers import read_retry_after
from tentalis.outbound.events import iterate_events
from tentalis.outbound.scopes import RequestEndedError, current_scope
from tentalis.outbound.sync import AnswerTooLongError, guarded_client

CONNECT_TIMEOUT_S = 3.0
HOW_TO_ALLOW = (
    "An admin can allow private addresses for this model server: `tentalis model change NAME --allow-private`, or the"
    " switch on its page in the console"
)
LONGEST_PACE_S = 600.0
"""Who wants to be left alone for longer is away."""
_WRITE_TIMEOUT_S = 30.0
_TOTAL_S = 3600.0
_MAX_BYTES = LIMITS.job_answer_bytes
_MAX_CONNECTIONS = 256
_UNUSED_S = 30.0
"""A connection that nobody used for so long is closed: servers hang up on it sooner (uvicorn after 5 s)."""
_WORDS_SHOWN = 500
_BUSY_STATUSES = frozenset({408, 425, 429})


class _Connections:
    """The process's connections to one server. Each is a client of its own, lent to one request at a time, that which
    came back last first: a pool that threads share is gone through as a whole, under one lock, by every request."""

    def __init__(self, origin: Origin, *, allow_private: bool) -> None:
        self._origin, self._allow_private = origin, allow_private
        self._room = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        self._idle: deque[tuple[float, httpx.Client]] = deque()  # since when; the newest last

    @contextmanager
    def lend(self, patience_s: float | None) -> Iterator[httpx.Client]:
        """Raises ProviderBusyError where none comes back in time."""
        if not self._room.acquire(timeout=patience_s):
            raise ProviderBusyError(f"{self._origin}: all connections to it are in use")
        try:
            try:
                _, client = self._idle.pop()
            except IndexError:
                client = self._open()
            try:
                yield client
            finally:
                self._idle.append((time.monotonic(), client))
                self.close_unused()
        finally:
            self._room.release()

    def close_unused(self) -> None:
        with suppress(IndexError):  # others take them meanwhile
            while self._idle[0][0] < time.monotonic() - _UNUSED_S:
                self._idle.popleft()[1].close()

    def _open(self) -> httpx.Client:
        return guarded_client(
            base_url=str(self._origin),
            bound_to=self._origin,
            allow_private=self._allow_private,
            max_bytes=_MAX_BYTES,
            total_s=_TOTAL_S,
            max_connections=1,
        )

    def close(self) -> None:
        while self._idle:
            self._idle.pop()[1].close()


class _Servers:
    """The process's connections, by server."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Origin, bool], _Connections] = {}
        self._lock, self._looked_at = threading.Lock(), 0.0
        atexit.register(self.close)

    def find(self, origin: Origin, *, allow_private: bool) -> _Connections:
        """Those to one server. Now and then those to all are looked at, and closed where nobody used them for long."""
        with self._lock:  # threads that begin together would each have their own
            if time.monotonic() > self._looked_at + _UNUSED_S:
                self._looked_at = time.monotonic()
                for each in self._kept.values():
                    each.close_unused()
            if (found := self._kept.get((origin, allow_private))) is None:
                found = self._kept[origin, allow_private] = _Connections(origin, allow_private=allow_private)
            return found

    def close(self) -> None:
        for each in self._kept.values():
            each.close()


_servers: Final = _Servers()


class Transport:
    """Requests to one server.

    Args:
        kind: how it is spoken to.
        base_url: with or without the API's prefix: `http://host:8300`, `https://host/v1`, `https://host/some/api`.
        api_key: sent as the kind says; never part of an error.
        timeout_s: longest silence of the server while it answers.
        allow_private: loopback and private addresses may be used.
    """

    def __init__(
        self, kind: ProviderKind, base_url: str, api_key: str, *, timeout_s: float, allow_private: bool
    ) -> None:
        try:
            urls = kind.urls(base_url)
            self._origin = check_url(urls.api)
        except (BadInputError, ValueError) as error:
            raise ProviderRefusedError(f"the model server's address {error}") from None
        self.root = urls.root
        self.api_path = urlsplit(urls.api).path
        self._server_path = urlsplit(urls.root).path
        self.chat_path = urlsplit(urls.chat).path
        self.completions_path = urlsplit(urls.completions).path
        self._allow_private = allow_private
        self._headers = {"Content-Type": "application/json", **kind.headers(api_key)}
        self._timeout = httpx.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S, write=_WRITE_TIMEOUT_S)

    def call_api(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """A request below the API's prefix; see `call`."""
        return self.call(method, self.api_path + path, body)

    def call_server(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """A request beside the API's prefix (vLLM keeps /tokenize and /health there); see `call`."""
        return self.call(method, self._server_path + path, body)

    def call(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        """Send, and read the JSON answer; text comes back as text where the server says it is, or says nothing (vLLM).

        Raises:
            ProviderBusyError: no connection, 408, 425, 429 or 5xx; ProviderSilentError where time ran out, PacedError
                where the server says when it takes more.
            ServerRestsError: a link or a timetable asks, and the server was silent too often lately.
            ProviderRefusedError: any other 4xx, or a redirect; ModelNotServedError where the model is at fault.
            AddressNotAllowedError: the server's address may not be used.
            ProviderAnswerError: the answer is no JSON, or has no end.
        """
        with self._wrap_faults(path), self._lend() as client:
            response = client.request(
                method,
                path,
                content=None if body is None else orjson.dumps(body),
                headers=self._headers,
                timeout=self._timeout,
            )
        if response.is_success:
            return self._read(response, path)
        raise self._refusal(response, path, (body or {}).get("model"))

    def stream(self, path: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Send, and yield the JSON of each event of the answer as it comes; see `call` for what it raises."""
        with (
            self._wrap_faults(path),
            self._lend() as client,
            client.stream(
                "POST", path, content=orjson.dumps(body), headers=self._headers, timeout=self._timeout
            ) as response,
        ):
            if not response.is_success:
                response.read()
                raise self._refusal(response, path, body.get("model"))
            for data in iterate_events(response.iter_bytes()):
                if data != b"[DONE]":
                    yield self._read_event(data, path)

    def _lend(self) -> AbstractContextManager[httpx.Client]:
        return _servers.find(self._origin, allow_private=self._allow_private).lend(self._timeout.pool)

    def _read_event(self, data: bytes, path: str) -> dict[str, Any]:
        try:
            event = orjson.loads(data)
        except orjson.JSONDecodeError:
            event = None
        if not isinstance(event, dict):
            raise ProviderAnswerError(
                f"{self.root}{path}: wanted an event of JSON, found {data[:80].decode(errors='replace')!r}"
            )
        return event

    @contextmanager
    def _wrap_faults(self, path: str) -> Iterator[None]:
        with self._break_circuit(), self._translate(path):
            yield

    @contextmanager
    def _break_circuit(self) -> Iterator[None]:
        """Leave a server alone that stays silent. Who waits within a scope does so for others; a person sees it."""
        if current_scope() is None:
            yield
            return
        project_id, origin = find_held_project(), str(self._origin)
        breaker.require(project_id, origin, timeout_s=self._timeout.read or _TOTAL_S)
        if project_id is not None and not connection.in_atomic_block:
            connection.close()  # into the pool: others need it while a link waits
        try:
            yield
        except ProviderSilentError:
            breaker.note_silence(project_id, origin)
            raise
        except ProviderBusyError as error:
            if error.http_status is None:
                breaker.note_unknown(project_id, origin)
            else:
                breaker.note_answer(project_id, origin)
            raise
        except BaseException:
            breaker.note_unknown(project_id, origin)
            raise
        else:
            breaker.note_answer(project_id, origin)

    @contextmanager
    def _translate(self, path: str) -> Iterator[None]:
        try:
            yield
        except BlockedAddressError as error:
            raise AddressNotAllowedError(f"{self.root}: {error}. {HOW_TO_ALLOW}") from None
        except AnswerTooLongError as error:
            raise ProviderAnswerError(f"{self.root}{path}: {error}") from error
        except RequestEndedError as error:
            wanted = ProviderSilentError if error.is_late else ProviderBusyError
            raise wanted(f"{self.root}{path} did not answer in time: {error}") from error
        except httpx.TimeoutException as error:
            raise ProviderSilentError(f"{self.root}{path} did not answer in time ({type(error).__name__})") from error
        except httpx.TransportError as error:
            raise ProviderBusyError(f"{self.root} cannot be reached: {type(error).__name__} {error}") from error

    def _read(self, response: httpx.Response, path: str) -> Any:
        kind = response.headers.get("Content-Type", "")
        if not response.content or not kind or kind.startswith("text/plain"):
            return response.text
        try:
            found = orjson.loads(response.content)
            return make_storable(found) if rb"\u0000" in response.content else found
        except orjson.JSONDecodeError as error:
            raise ProviderAnswerError(
                f"{self.root}{path}: wanted JSON, found {response.text[:80]!r} ({error})"
            ) from error

    def _refusal(self, response: httpx.Response, path: str, model: str | None) -> Exception:
        status = response.status_code
        words, server_code, is_about_model = _read_refusal(response, model)
        message = make_storable(f"{self.root}{path} answered {status}: {words}")
        if status in _BUSY_STATUSES or status >= 500:
            wait_s = read_retry_after(response.headers)
            if status == 429 and wait_s is not None and wait_s <= LONGEST_PACE_S:
                return PacedError(message, retry_after_s=wait_s, http_status=status)
            return ProviderBusyError(message, retry_after_s=wait_s, http_status=status)
        if status == 404 and is_about_model:
            return ModelNotServedError(message, server_code=server_code, http_status=status)
        return ProviderRefusedError(message, server_code=server_code, http_status=status)


def _read_refusal(response: httpx.Response, model: str | None) -> tuple[str, str, bool]:
    """The server's own words and code, and whether they are about the model asked for."""
    if response.is_redirect:
        return f"a redirect to {response.headers.get('Location', 'nowhere')!r}, which is not followed", "", False
    try:
        body = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        return response.text[:_WORDS_SHOWN] or response.reason_phrase, "", False
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return str(error)[:_WORDS_SHOWN], "", False
    words = str(error.get("message") or error.get("detail") or error)[:_WORDS_SHOWN]
    code = str(error.get("code") or "")
    is_about_model = (
        error.get("param") in {"model", "lora_name"}
        or code == "model_not_found"
        or (model is not None and model in words)
    )
    return words, code, is_about_model
