"""Task sets of verifiers 0.4 (`verifiers.v1`): a harness plays a task, and asks its model over HTTP.

That model is a server of ours, which knows each episode by the id of its trace, `X-Session-ID`. Needs `uv` for
verifiers' own harnesses.
"""

import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

import verifiers.v1 as vf
from aiohttp import web

Ask = Callable[[Sequence[Any], Sequence[dict[str, Any]]], Awaitable[dict[str, Any]]]
MOST_TASKS = 10_000
"""Of a task set, whose tasks may go on for ever."""
MOST_BODY_BYTES = 2**26
SESSION = "X-Session-ID"
USAGE = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


def load(name: str, arguments: dict[str, Any]) -> "Tasksets":
    """Args:
        arguments: the configuration of its environment (`EnvConfig`), as in verifiers' `[env]`. Where it names neither
            the agent's harness nor its runtime, the agent has the task's own tools alone (`null`), beside us.

    Raises:
        SystemExit: it is an environment of several agents.
    """
    told = {**arguments, "taskset": {**arguments.get("taskset", {}), "id": name}}
    seat = _find_seat(told)
    own = vf.default_agent_harness(name).id
    usual = {"harness": {"id": "null" if own == "bash" else own}, "runtime": {"type": "subprocess"}}
    config = vf.resolve_env_config({**told, seat: {**usual, **told.get(seat, {})}})
    return Tasksets(vf.load_environment(config))


def _find_seat(told: dict[str, Any]) -> str:
    seats = [name for name, value in vf.resolve_env_config(dict(told)) if isinstance(value, vf.AgentConfig)]
    if len(seats) != 1:
        raise SystemExit(f"wanted an environment of one agent, found {', '.join(seats) or 'none'}")
    return str(seats[0])


class Tasksets:
    """The episodes of one environment, a task each.

    Attributes:
        talks: it may go on behind words, for it has a way of its own to play.
    """

    def __init__(self, environment: Any) -> None:
        self._environment = environment
        self._tasks = list(islice(environment.taskset, MOST_TASKS))
        self._asking: dict[str, Ask] = {}
        self._url = ""
        self.talks = not isinstance(environment, vf.SingleAgentEnv)

    def __len__(self) -> int:
        return len(self._tasks)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """With what episodes share, and the model that they ask."""
        app = web.Application(client_max_size=MOST_BODY_BYTES)
        app.router.add_post("/v1/chat/completions", self._answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self._url = "http://{}:{}/v1".format(*runner.addresses[0][:2])
            async with self._environment.serving():
                yield
        finally:
            await runner.cleanup()

    async def play(self, row: int, ask: Ask) -> float:
        """Its reward. Raises RuntimeError where verifiers says that it failed."""
        traces: list[str] = []

        def begin(trace: Any) -> None:
            traces.append(trace.id)
            self._asking[trace.id] = ask

        model = vf.ModelContext(model="tentalis", client=vf.EvalClientConfig(base_url=self._url, api_key_var="NONE"))
        try:
            episode = await self._environment.run_episode(self._tasks[row], model, on_trace=begin)
        finally:
            for trace in traces:
                del self._asking[trace]
        faults = [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
        if faults or not episode.ok:
            raise RuntimeError("; ".join(f"{one.type}: {one.message}" for one in faults) or "it did not end")
        return float(episode.traces[-1].reward)

    async def _answer(self, request: web.Request) -> web.Response:
        """What the one who is connected says, as a chat completion; in one piece where a stream is wanted."""
        ask = self._asking.get(request.headers.get(SESSION, ""))
        if ask is None:
            return web.json_response({"error": {"message": f"{SESSION}: no such episode"}}, status=404)
        body = await request.json()
        said = await ask(body["messages"], body.get("tools", []))
        calls = [
            {
                "index": place,
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": call["arguments"]},
            }
            for place, call in enumerate(said.get("tool_calls", ()))
        ]
        message = {"role": "assistant", "content": said.get("content", "")} | ({"tool_calls": calls} if calls else {})
        is_streamed = bool(body.get("stream"))
        choice = {
            "index": 0,
            "delta" if is_streamed else "message": message,
            "finish_reason": "tool_calls" if calls else "stop",
        }
        told = {
            "id": uuid.uuid4().hex,
            "object": "chat.completion.chunk" if is_streamed else "chat.completion",
            "created": int(time.time()),
            "model": body["model"],
            "choices": [choice],
            "usage": USAGE,
        }
        if not is_streamed:
            return web.json_response(told)
        return web.Response(text=f"data: {json.dumps(told)}\n\ndata: [DONE]\n\n", content_type="text/event-stream")
