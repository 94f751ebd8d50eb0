"""Requests end with the scope they are made in: when its time is over, or when another thread cancels it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest

from tentalis.outbound.scopes import CancelScope, RequestEndedError, ScopedThreadPool, current_scope
from tentalis.outbound.sync import guarded_client

PATIENCE_S = 60.0
"""Longer than any test may take: what ends within it did not end by the client's own time limit."""


class Dripping:
    """A server of one header line after the other, and no end: never silent for long, and never done."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.is_asked = threading.Event()
        self.is_left = threading.Event()
        self._over = threading.Event()
        self.drips = True
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self._listener.accept()[0],), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            self.is_asked.set()
            while self.drips and not self._over.wait(0.02):
                connection.sendall(b"X-Wait: 1\r\n")
            connection.settimeout(PATIENCE_S)
            if not self.drips and connection.recv(1) == b"":
                self.is_left.set()

    def close(self) -> None:
        self._over.set()
        self._listener.close()


@pytest.fixture
def server() -> Iterator[Dripping]:
    found = Dripping()
    yield found
    found.close()


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with guarded_client(allow_private=True, timeout=httpx.Timeout(PATIENCE_S)) as found:
        yield found


def test_an_answer_that_drips_for_ever_ends_with_its_scope(server: Dripping, client: httpx.Client) -> None:
    with CancelScope(0.3), pytest.raises(RequestEndedError) as caught:
        client.get(server.url)
    assert caught.value.is_late


def test_a_thread_that_waits_for_a_silent_server_is_woken_and_the_server_hears_of_it(
    server: Dripping, client: httpx.Client
) -> None:
    server.drips = False
    scope = CancelScope()
    ends: list[Exception] = []

    def ask() -> None:
        with scope:
            try:
                client.get(server.url)
            except httpx.TransportError as error:
                ends.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert server.is_asked.wait(PATIENCE_S)
    scope.cancel("the task was cancelled")
    thread.join(PATIENCE_S / 2)
    assert [(type(end), getattr(end, "is_late", None)) for end in ends] == [(RequestEndedError, False)]
    assert server.is_left.wait(PATIENCE_S / 2)


def test_nothing_is_asked_any_more_in_a_scope_that_was_cancelled(server: Dripping, client: httpx.Client) -> None:
    with CancelScope() as scope:
        scope.cancel("over")
        with pytest.raises(RequestEndedError, match="over"):
            client.get(server.url)
    assert not server.is_asked.is_set()


def test_a_scope_within_another_ends_with_either(server: Dripping, client: httpx.Client) -> None:
    with CancelScope() as outer, CancelScope(PATIENCE_S):
        outer.cancel("the outer one is over")
        with pytest.raises(RequestEndedError, match="outer"):
            client.get(server.url)
    with CancelScope(0.1), CancelScope(PATIENCE_S), pytest.raises(RequestEndedError):
        client.get(server.url)


def test_work_given_to_a_pool_belongs_to_the_scope_it_was_given_in() -> None:
    with CancelScope() as scope, ScopedThreadPool(2) as pool:
        assert list(pool.map(lambda _: current_scope(), range(4))) == [scope] * 4
    assert current_scope() is None


def test_outside_any_scope_a_request_has_its_own_time_only(server: Dripping, client: httpx.Client) -> None:
    server.drips = False
    with pytest.raises(httpx.ReadTimeout):
        client.get(server.url, timeout=0.1)
