"""Environments of verifiers 0.1, whose packages have `load_environment()`."""

import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import verifiers
from verifiers.clients import Client
from verifiers.types import Response, ResponseMessage, Tool, ToolCall, Usage

Ask = Callable[[Sequence[Any], Sequence[dict[str, Any]]], Awaitable[dict[str, Any]]]


def load(name: str, arguments: dict[str, Any]) -> "Environments":
    """Args:
    arguments: of its `load_environment`.
    """
    return Environments(verifiers.load_environment(name, **arguments))


class Environments:
    """The episodes of one environment, a row of its data set each.

    Attributes:
        talks: it may go on behind words, for it has neither tools nor ends with one answer.
    """

    def __init__(self, environment: Any) -> None:
        self._environment = environment
        self._rows = environment.get_dataset()
        self.talks = isinstance(environment, verifiers.MultiTurnEnv) and not isinstance(
            environment, verifiers.SingleTurnEnv | verifiers.ToolEnv
        )

    def __len__(self) -> int:
        return len(self._rows)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        yield

    async def play(self, row: int, ask: Ask) -> float:
        """Its reward. Raises RuntimeError where verifiers says that it failed."""
        told = await self._environment.run_rollout(
            dict(self._rows[row]), Connected(ask), "tentalis", {}, state_columns=["error"]
        )
        if told.get("error"):
            raise RuntimeError(str(told["error"]))
        return float(told["reward"])


class Connected(Client):  # type: ignore[misc]
    """The model: it answers what the one who is connected says."""

    def __init__(self, ask: Ask) -> None:
        super().__init__(None)
        self._ask = ask

    async def get_response(
        self, prompt: Any, model: str, sampling_args: Any, tools: list[Tool] | None = None, **rest: Any
    ) -> Response:
        said = await self._ask(prompt, [_write_tool(tool) for tool in tools or ()])
        calls = [ToolCall(**call) for call in said.get("tool_calls", ())]
        message = ResponseMessage(
            content=said.get("content", ""),
            tool_calls=calls or None,
            finish_reason="tool_calls" if calls else "stop",
            is_truncated=False,
        )
        usage = Usage(prompt_tokens=0, reasoning_tokens=0, completion_tokens=0, total_tokens=0)
        return Response(id=uuid.uuid4().hex, created=int(time.time()), model=model, usage=usage, message=message)

    def setup_client(self, config: Any) -> Any:
        return config

    async def to_native_tool(self, tool: Tool) -> Any:
        return tool

    async def to_native_prompt(self, messages: Any) -> tuple[Any, dict[str, Any]]:
        return messages, {}

    async def get_native_response(self, *args: Any, **rest: Any) -> Any:
        raise NotImplementedError

    async def raise_from_native_response(self, response: Any) -> None:
        return None

    async def from_native_response(self, response: Any) -> Any:
        return response

    async def close(self) -> None:
        return None


def _write_tool(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}
