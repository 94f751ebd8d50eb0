"""The client against the real application, over a real connection that sometimes breaks."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from pytest_django.live_server_helper import LiveServer

from apps.accounts.models import Project
from apps.outbox.models import Segment
from apps.tasks.models import Task
from tentalis.client import (
    AsyncClient,
    BadRequestError,
    Client,
    ClientError,
    ConflictError,
    NotFoundError,
    NotSignedInError,
    TooManyRequestsError,
    UnreachableError,
)
from tentalis.client.retries import Retries
from tests.factories import make_task

TASK: dict[str, Any] = {"project": "shop", "prompt": "Say hello.", "environment": "chat"}


class Flaky(httpx.HTTPTransport):
    """A connection on which some answers get lost after the request was done."""

    def __init__(self, lose: Callable[[int], bool]) -> None:
        super().__init__()
        self.lose, self.sent = lose, 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        self.sent += 1
        if self.lose(self.sent):
            response.close()
            raise httpx.ReadError("the line went dead", request=request)
        return response


def test_a_task_is_submitted_and_read(client_of_alice: Client) -> None:
    task = client_of_alice.submit_task(**TASK, group_size=2, metadata={"a": 1}, seed=3)
    assert client_of_alice.get_task(task["id"]) == task
    assert (task["group_size"], task["metadata"], task["seed"]) == (2, {"a": 1}, 3)
    assert client_of_alice.cancel_task(task["id"])["state"] == "cancelled"


def test_lost_answers_are_asked_for_again_and_act_once(token: str, live_server: LiveServer) -> None:
    line = Flaky(lambda sent: sent % 3 != 0)
    with Client(live_server.url, token, transport=line, sleep=lambda _: None) as client:
        ids = [client.submit_task(**{**TASK, "prompt": f"Say {n}."})["id"] for n in range(5)]
    assert line.sent == 15
    assert len(set(ids)) == Task.objects.count() == Segment.objects.count() == 5


def test_a_line_that_stays_dead_is_named(token: str, live_server: LiveServer) -> None:
    waits: list[float] = []
    line = Flaky(lambda _: True)
    with (
        Client(live_server.url, token, transport=line, sleep=waits.append) as client,
        pytest.raises(UnreachableError, match=rf"{live_server.url} cannot be reached: the line went dead"),
    ):
        client.submit_task(**TASK)
    assert line.sent == 5
    assert len(waits) == 4
    assert all(0.1 <= wait <= 5 for wait in waits)
    assert Task.objects.count() == 1


def test_nobody_there_is_named(token: str) -> None:
    with (
        Client("http://127.0.0.1:9", token, retries=Retries(attempts=1)) as client,
        pytest.raises(UnreachableError, match=r"http://127\.0\.0\.1:9 cannot be reached"),
    ):
        client.whoami()


def test_every_row_is_iterated_over_pages(client_of_alice: Client) -> None:
    project = Project.objects.get()
    wanted = [make_task(project).pk for _ in range(7)]
    rows = client_of_alice.iterate(client_of_alice.list_tasks, limit=3, project="shop")
    assert [row["id"] for row in rows] == wanted[::-1]


def test_refusals_are_typed_and_keep_the_problems_words(client_of_alice: Client, live_server: LiveServer) -> None:
    with pytest.raises(BadRequestError, match="wanted one of chat") as bad:
        client_of_alice.submit_task(**{**TASK, "environment": "moon"})
    assert (bad.value.status, bad.value.code, list(bad.value.errors)) == (400, "bad_input", ["environment"])
    assert bad.value.request_id
    with pytest.raises(NotFoundError):
        client_of_alice.get_task(999)
    with pytest.raises(ConflictError, match="holds no rollout"):
        client_of_alice.train(project="shop")
    with Client(live_server.url, "tnt_x") as stranger, pytest.raises(NotSignedInError):
        stranger.whoami()


def test_being_asked_to_wait_is_waited_for_and_then_told(live_server: LiveServer, transactional_db: None) -> None:
    from apps.base.counting import forget_callers

    forget_callers()
    waits: list[float] = []
    with Client(live_server.url, sleep=waits.append, retries=Retries(attempts=2, cap_s=90)) as client:
        for _ in range(10):
            with pytest.raises(NotSignedInError):
                client.login(username="x", password="y", name="z")
        with pytest.raises(TooManyRequestsError):
            client.login(username="x", password="y", name="z")
    assert len(waits) == 1
    assert 1 <= waits[0] <= 61
    forget_callers()


def test_an_export_is_saved_whole_or_not_at_all(client_of_alice: Client, tmp_path: Path) -> None:
    target = tmp_path / "rollouts.parquet"
    size = client_of_alice.download("rollouts/export", target, format="parquet")
    assert target.stat().st_size == size > 100
    with pytest.raises(NotFoundError):
        client_of_alice.download("adapters/9/download", tmp_path / "a.zip")
    with pytest.raises(ClientError, match="cannot be written"):
        client_of_alice.download("rollouts/export", tmp_path / "none" / "r.jsonl")
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (httpx.Response(301, headers={"Location": "https://shop.example/"}), "sends on to 'https://shop.example/'"),
        (httpx.Response(200, text="<html>"), "is it the platform?"),
        (httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=httpx.ByteStream(b"no gzip")), "decompress"),
        (httpx.Response(403, json={"code": 7, "errors": ["of a gate in between"]}), "403 Forbidden: .*of a gate"),
    ],
)
def test_what_somebody_else_answers_is_an_error_in_words_and_no_empty_export(
    answer: httpx.Response, words: str, tmp_path: Path
) -> None:
    once = Retries(attempts=1)
    with Client("http://127.0.0.1:1", transport=httpx.MockTransport(lambda _: answer), retries=once) as client:
        with pytest.raises(ClientError, match=words):
            client.list_tasks()
        if answer.status_code >= 300:
            with pytest.raises(ClientError, match=words):
                client.download("audit/export", tmp_path / "audit.jsonl")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8000", "ftp://x", "http://", "http://[::1", "file:///etc/passwd", "http://x?y", "http://a:b@c"],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ClientError, match="wanted an address"):
        Client(url)


def test_a_token_with_a_line_break_is_refused() -> None:
    with pytest.raises(ClientError, match="wanted a token"):
        Client("http://127.0.0.1:1", "tnt_a\r\nX-Evil: 1")


def test_the_async_client_does_the_same(token: str, live_server: LiveServer) -> None:
    async def work() -> tuple[Any, list[Any]]:
        async with AsyncClient(live_server.url, token) as client:
            tasks = await asyncio.gather(*(client.submit_task(**{**TASK, "prompt": f"Say {n}."}) for n in range(3)))
            rows = [row["id"] async for row in client.iterate(client.list_tasks, limit=2)]
            with pytest.raises(NotFoundError):
                await client.get_task(999_999)
        return tasks, rows

    tasks, rows = asyncio.run(work())
    assert sorted(task["id"] for task in tasks) == sorted(rows)


@pytest.mark.parametrize("attempt", range(1, 8))
def test_waits_double_up_to_their_cap(attempt: int) -> None:
    longest = min(5.0, 0.2 * 2 ** (attempt - 1))
    assert longest / 2 <= Retries().wait_s(attempt, None) <= longest
    assert Retries().wait_s(attempt, "2") == 2.0
    assert Retries().wait_s(attempt, "9999") == 5.0
