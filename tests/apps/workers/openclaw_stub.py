"""An OpenClaw's gateway as far as we use it, in a thread; what its agent asks a model for is said by the test."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self

from tests.local_server import LocalHandler, LocalServer

TOKEN = "gw-secret"


@dataclass(frozen=True)
class Run:
    """One agent run as it was asked for."""

    session_key: str
    agent: str
    model: str
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        return str(self.body["messages"][-1]["content"])


@dataclass
class StubOpenClaw:
    """Speaks `POST /v1/chat/completions` as OpenClaw 2026.9 does.

    Args:
        answer: what a run ends with; what it does on the way (asking a model, say) happens in here.
        mode: "ok"; "silent" takes the run and never answers; "dying" takes it and hangs up; "limited" 429.
    """

    answer: Callable[[Run], str] = lambda run: f"done: {run.prompt}"
    mode: Literal["ok", "silent", "dying", "limited"] = "ok"
    runs: list[Run] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._closing = threading.Event()
        owner = self

        class Handler(LocalHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                owner._handle(self)

        self._server = LocalServer(Handler)
        self.url = f"{self._server.url}/v1"

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closing.set()
        self._server.__exit__(kind, error, at)

    def _handle(self, handler: LocalHandler) -> None:
        body = json.loads(handler.read())
        status, answer = self._serve(handler, body)
        if status == 0:
            handler.close_connection = True
            return
        handler.answer(status, json.dumps(answer).encode(), Content_Type="application/json")

    def _serve(self, handler: LocalHandler, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if handler.headers.get("Authorization") != f"Bearer {TOKEN}":
            return 401, {"error": {"message": "Unauthorized", "type": "unauthorized"}}
        key = handler.headers.get("x-openclaw-session-key", "")
        if key.startswith(("subagent:", "cron:", "acp:")):
            return 400, {"error": {"message": f"session key {key} is reserved", "type": "invalid_request_error"}}
        if self.mode == "limited":
            return 429, {"error": {"message": "too many runs", "type": "rate_limit"}}
        run = Run(key, body["model"].removeprefix("openclaw/"), handler.headers.get("x-openclaw-model", ""), body)
        self.runs.append(run)
        if self.mode == "silent":
            self._closing.wait()
        if self.mode != "ok":
            return 0, {}
        message = {"role": "assistant", "content": self.answer(run)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return 200, {"id": "chatcmpl_1", "object": "chat.completion", "model": body["model"], "choices": [choice]}
