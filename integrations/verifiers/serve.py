"""`python serve.py ENVIRONMENT [--port 9100] [--arguments JSON]`: a `verifiers` environment behind OpenEnv's protocol.

Run it where the environment is installed, with verifiers 0.1 or 0.4 and `websockets`, and with the files beside it;
nothing of Tentalis is needed there. Verifiers plays and scores each episode itself, and the model that it asks is
whoever is connected. Tentalis then knows it as a world:

    TENTALIS_OPENENV='{"name": {"url": "http://127.0.0.1:9100"}}'

A seed is a row of the data set or a task of the task set, counted around; every fifth one is held out there. An answer
that calls no tool is told by `{"answer": …}`; where an environment goes on behind it, as one that talks does, it is
said by the tool `say`.
"""

import argparse
import asyncio
import importlib
import json
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import verifiers
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

FOLDS = 5
"""Rows are counted around in a multiple of so many, so that a row that is held out has seeds that are, alone."""
MAX_MESSAGE_BYTES = 2**22
SAY = "say"
ARGUMENTS = "a JSON object: of its load_environment (verifiers 0.1), or the configuration of its environment (0.4)"
ANSWER_SCHEMA = {
    "title": "Action",
    "type": "object",
    "properties": {
        "type": {"enum": ["call_tool", "list_tools", "answer"]},
        "tool_name": {"type": "string"},
        "arguments": {"type": "object"},
        "answer": {"type": "string"},
    },
}


class Refused(Exception):
    """Of a message, with OpenEnv's code for it."""

    def __init__(self, words: str, code: str = "VALIDATION_ERROR") -> None:
        super().__init__(words)
        self.code = code


class Session:
    """One connection: an episode at a time."""

    def __init__(self, episodes: Any) -> None:
        """Args:
        episodes: of `bridge_environments` or `bridge_tasksets`.
        """
        self._episodes = episodes
        self._episode: asyncio.Task[float] | None = None
        self._asked: asyncio.Queue[tuple[Sequence[Any], Sequence[dict[str, Any]]] | None] = asyncio.Queue()
        self._said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._steps, self._row = 0, 0
        self._tools: list[dict[str, Any]] | None = None  # as the chat API takes them

    async def close(self) -> None:
        if self._episode is not None:
            self._episode.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._episode
            self._episode = None

    async def do(self, kind: str, data: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        if kind == "state":
            return "state", {"episode_id": str(self._row), "step_count": self._steps}
        if kind == "reset":
            return "observation", await self._reset(data)
        if kind == "step":
            return "observation", await self._step(dict(data))
        raise Refused(f"type: wanted reset, step, state or close, found {kind!r:.80}", "UNKNOWN_TYPE")

    async def _reset(self, data: dict[str, Any]) -> dict[str, Any]:
        seed = data.get("seed") or 0
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise Refused(f"seed: wanted a whole number from 0, found {seed!r:.80}")
        await self.close()
        self._asked, self._said, self._steps = asyncio.Queue(), asyncio.Queue(), 0
        self._row, self._tools = seed % (len(self._episodes) // FOLDS * FOLDS), None
        self._episode = asyncio.create_task(self._episodes.play(self._row, self._ask))
        self._episode.add_done_callback(lambda _: self._asked.put_nowait(None))
        return await self._hear()

    async def _ask(self, prompt: Sequence[Any], tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
        self._asked.put_nowait((prompt, tools))
        return await self._said.get()

    async def _step(self, action: dict[str, Any]) -> dict[str, Any]:
        kind = action.get("type", "answer" if "answer" in action else "call_tool")
        if kind == "list_tools":
            functions = [tool["function"] for tool in self._tools or ()]
            tools = [
                {"name": one["name"], "description": one.get("description"), "input_schema": one.get("parameters", {})}
                for one in functions
            ]
            return {"observation": {"tools": tools}, "reward": None, "done": False}
        if self._episode is None or self._episode.done():
            raise Refused("step: wanted an episode under way, found none: reset", "EXECUTION_ERROR")
        said: dict[str, Any]
        name, arguments = action.get("tool_name"), action.get("arguments", {})
        if kind == "answer" and isinstance(action.get("answer"), str):
            said = {"content": action["answer"]}
        elif kind == "call_tool" and name == SAY and self._list_say() and isinstance(arguments.get("text"), str):
            said = {"content": arguments["text"]}
        elif kind == "call_tool" and isinstance(name, str) and isinstance(arguments, dict):
            call = {"id": f"call_{self._steps}", "name": name, "arguments": json.dumps(arguments)}
            said = {"content": "", "tool_calls": [call]}
        else:
            raise Refused("step: wanted an answer, or a tool_name and arguments, found something else")
        self._steps += 1
        self._said.put_nowait(said)
        return await self._hear()

    def _list_say(self) -> list[dict[str, Any]]:
        if not self._episodes.talks:
            return []
        schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        return [{"type": "function", "function": {"name": SAY, "description": "Say something.", "parameters": schema}}]

    async def _hear(self) -> dict[str, Any]:
        """What the environment shows next, or what the episode came to."""
        asked = await self._asked.get()
        if asked is not None:
            prompt, offered = asked
            tools = [*offered, *self._list_say()]
            told = {"metadata": {"tools": tools}} if tools != self._tools else {}
            self._tools = tools
            shown = _write_messages(_list_new(prompt) if self._steps else prompt)
            return {"observation": {"text": shown, **told}, "reward": None, "done": False}
        assert self._episode is not None
        try:
            reward = self._episode.result()
        except Exception as error:
            raise Refused(f"{type(error).__name__}: {error}", "EXECUTION_ERROR") from error
        return {"observation": {"text": ""}, "reward": reward, "done": True}


def _list_new(messages: Sequence[Any]) -> Sequence[Any]:
    """What stands behind the model's last answer."""
    answers = (place for place in reversed(range(len(messages))) if messages[place]["role"] == "assistant")
    return messages[next(answers, -1) + 1 :]


def _write_messages(messages: Sequence[Any]) -> str:
    """As they are read: texts, each with who said it where there are several."""
    told = []
    for message in messages:
        role, content = message["role"], message["content"]
        text = content if isinstance(content, str) else json.dumps(content, default=str)
        told.append(text if len(messages) == 1 else f"{role}: {text}")
    return "\n\n".join(told)


async def run(episodes: Any, port: int) -> None:
    if len(episodes) < FOLDS:
        raise SystemExit(f"wanted an environment of at least {FOLDS} rows, found {len(episodes)}")

    async def talk(connection: ServerConnection) -> None:
        session = Session(episodes)
        try:
            async for text in connection:
                try:
                    message = json.loads(text)
                    if message.get("type") == "close":
                        break
                    kind, data = await session.do(message.get("type"), message.get("data", {}))
                except Refused as error:
                    kind, data = "error", {"message": str(error), "code": error.code}
                except (ValueError, AttributeError) as error:
                    kind, data = "error", {"message": f"wanted an object as JSON: {error}", "code": "INVALID_JSON"}
                await connection.send(json.dumps({"type": kind, "data": data}))
        except ConnectionClosed:
            pass
        finally:
            await session.close()

    def answer(connection: ServerConnection, request: Any) -> Any:
        told = {"/health": {"status": "healthy"}, "/schema": {"action": ANSWER_SCHEMA}}.get(request.path)
        if told is not None:
            return connection.respond(HTTPStatus.OK, json.dumps(told))
        return None if request.path == "/ws" else connection.respond(HTTPStatus.NOT_FOUND, "")

    async with (
        episodes.serving(),
        serve(talk, "127.0.0.1", port, process_request=answer, max_size=MAX_MESSAGE_BYTES) as server,
    ):
        print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)  # noqa: T201
        await server.serve_forever()


def load(name: str, arguments: dict[str, Any]) -> Any:
    """The episodes of an environment, in the form of the verifiers that is installed."""
    form = "bridge_environments" if hasattr(verifiers, "load_environment") else "bridge_tasksets"
    return importlib.import_module(form).load(name, arguments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("environment")
    parser.add_argument("--port", type=int, default=9100, help="0: any; the first line says which")
    parser.add_argument("--arguments", type=json.loads, default={}, help=ARGUMENTS)
    options = parser.parse_args()
    asyncio.run(run(load(options.environment, options.arguments), options.port))


if __name__ == "__main__":
    main()
