"""Alive is answered without Django, and a loop that is stuck ends its process."""

import asyncio
import threading
from typing import Any

from tentalis.inbound.alive import STUCK_EXIT, AnswersAlive, LoopWatch


async def ask(app: AnswersAlive, method: str, path: str) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app({"type": "http", "method": method, "path": path}, None, send)
    return sent


async def test_alive_is_answered_before_everything_else_and_nothing_else_is() -> None:
    async def other(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 418, "headers": []})

    app = AnswersAlive(other)
    start, body = await ask(app, "GET", "/healthz")
    assert (start["status"], body["body"]) == (200, b'{"status": "alive"}')
    assert (await ask(app, "HEAD", "/healthz"))[1]["body"] == b""
    assert [(await ask(app, *one))[0]["status"] for one in (("POST", "/healthz"), ("GET", "/healthz/x"))] == [418, 418]


def test_a_loop_that_is_stuck_ends_its_process_and_one_that_runs_does_not() -> None:
    ended: list[int] = []
    is_ended = threading.Event()

    def end(code: int) -> None:
        ended.append(code)
        is_ended.set()

    async def run_then_stick() -> None:
        LoopWatch(0.4, end).begin()
        await asyncio.sleep(0.05)
        is_ended.wait(60)

    asyncio.run(run_then_stick())
    assert ended == [STUCK_EXIT]
