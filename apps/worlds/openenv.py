"""A world behind OpenEnv's protocol (openenv-core 0.3): its clients play our episodes, and see what each is worth.

`/ws` holds a session: `reset`, `step`, `state` and `close` as JSON, answered by `observation`, `state` or `error`. An
action calls a tool, as OpenEnv's CallToolAction, asks for the tools, as its ListToolsAction, or gives the last word as
`{"answer": …}`. The reward stands with the end alone: in [0, 1], or null where nothing can be said, and why.
https://github.com/meta-pytorch/OpenEnv
"""

import asyncio
import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from apps.worlds.identity import name_world
from apps.worlds.serving import OutsideAction, OutsideResult, ServedEpisode
from tentalis.core.world_servers import MOST_SEED
from tentalis.core.worlds import World

MAX_SESSIONS: Final = 64
IDLE_S: Final = 900.0
SPLITS: Final = ("train", "held_out")
CALL, LIST, ANSWER = "call_tool", "list_tools", "answer"


class _RefusedError(Exception):
    """Of a message, with OpenEnv's code for it."""

    def __init__(self, message: str, code: str = "VALIDATION_ERROR") -> None:
        super().__init__(message)
        self.code = code


def make_app(world: World, *, most_sessions: int = MAX_SESSIONS) -> Starlette:
    """The server of one world. Each connection is a session with an episode of its own."""
    sessions: set[_Session] = set()

    async def talk(websocket: WebSocket) -> None:
        await websocket.accept()
        if len(sessions) >= most_sessions:
            words = f"wanted at most {most_sessions} sessions, found one more"
            await websocket.send_text(_write_error(words, "CAPACITY_REACHED"))
            await websocket.close()
            return
        session = _Session(world)
        sessions.add(session)
        try:
            await _converse(websocket, session)
        finally:
            await session.close()
            sessions.discard(session)

    async def say_health(_: Request) -> Response:
        return JSONResponse({"status": "healthy"})

    async def describe(_: Request) -> Response:
        about = f"{world.label}, a world of Tentalis: a {world.noun} an episode"
        return JSONResponse({"name": world.name, "description": about, "version": name_world(world)})

    async def tell_schemas(_: Request) -> Response:
        return JSONResponse({"action": ACTION, "observation": OBSERVATION, "state": STATE})

    return Starlette(
        routes=[
            Route("/health", say_health),
            Route("/metadata", describe),
            Route("/schema", tell_schemas),
            WebSocketRoute("/ws", talk),
        ]
    )


async def _converse(websocket: WebSocket, session: "_Session") -> None:
    with suppress(WebSocketDisconnect, TimeoutError):
        while True:
            async with asyncio.timeout(IDLE_S):
                text = await websocket.receive_text()
            try:
                message = _read_message(text)
                if message["type"] == "close":
                    break
                kind, data = await session.do(message["type"], message.get("data", {}))
                await websocket.send_text(json.dumps({"type": kind, "data": data}))
            except _RefusedError as error:
                await websocket.send_text(_write_error(str(error), error.code))
        await websocket.close()


def _read_message(text: str) -> Mapping[str, Any]:
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _RefusedError(f"wanted JSON: {error}", "INVALID_JSON") from None
    if not isinstance(message, dict) or not isinstance(message.get("data", {}), dict):
        raise _RefusedError("wanted an object with a type, and data that is one, found something else")
    if message.get("type") not in {"reset", "step", "state", "close"}:
        found = f"{message.get('type')!r:.80}"
        raise _RefusedError(f"type: wanted reset, step, state or close, found {found}", "UNKNOWN_TYPE")
    return message


def _write_error(words: str, code: str) -> str:
    return json.dumps({"type": "error", "data": {"message": words, "code": code}})


class _Session:
    """What one connection plays."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._episode: ServedEpisode | None = None
        self._told: asyncio.Queue[OutsideResult] = asyncio.Queue()
        self._name, self._prompt, self._steps, self._is_over = "", "", 0, False
        self._tools: Sequence[Mapping[str, Any]] | None = None

    async def close(self) -> None:
        if self._episode is not None:
            episode, self._episode = self._episode, None
            await asyncio.to_thread(episode.leave)

    async def do(self, kind: str, data: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """What a message is answered with: its type and data."""
        if kind == "state":
            state = {"episode_id": self._name or None, "step_count": self._steps, "prompt": self._prompt}
            return kind, {**state, "world": name_world(self._world)}
        return "observation", await (self._reset(data) if kind == "reset" else self._step(data))

    async def _reset(self, data: Mapping[str, Any]) -> dict[str, Any]:
        prompt, seed, name = _choose_task(self._world, data)
        await self.close()
        self._name, self._prompt, self._steps, self._is_over = name, prompt, 0, False
        self._tools = None
        told: asyncio.Queue[OutsideResult] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def tell(one: OutsideResult) -> None:
            loop.call_soon_threadsafe(told.put_nowait, one)

        self._told = told
        self._episode = ServedEpisode(self._world, prompt=prompt, seed=seed, key=name, tell=tell)
        begun = await self._hear()
        metadata = {
            "tools": list(begun.tools),
            "messages": self._world.messages_for(prompt, ""),
            "world": name_world(self._world),
        }
        return _write_observation({"text": begun.text, "metadata": metadata}, begun)

    async def _step(self, data: Mapping[str, Any]) -> dict[str, Any]:
        action = {name: value for name, value in data.items() if name != "metadata"}
        kind = action.pop("type", ANSWER if ANSWER in action else CALL)
        if kind == LIST:
            known = self._world.tools(self._prompt) if self._tools is None else self._tools
            tools = [tool["function"] for tool in known]
            shown = [
                {
                    "name": one["name"],
                    "description": one.get("description", ""),
                    "input_schema": one.get("parameters", {}),
                }
                for one in tools
            ]
            return {"observation": {"tools": shown, "metadata": {}}, "reward": None, "done": self._is_over}
        if self._episode is None or self._is_over:
            found = "none was begun" if self._episode is None else "it is over"
            raise _RefusedError(f"step: wanted an episode under way, found that {found}: reset", "EXECUTION_ERROR")
        said = _read_action(kind, action)
        self._steps += 1
        self._episode.do(said)
        before = self._tools
        told = await self._hear()
        if said.tool:
            seen: dict[str, Any] = {"tool_name": said.tool, "result": told.text, "error": None}
        else:
            seen = {"text": told.text}
        changed = {} if self._tools == before else {"tools": list(told.tools)}
        return _write_observation({**seen, "metadata": {**_write_verdict(told), **changed}}, told)

    async def _hear(self) -> OutsideResult:
        told = await self._told.get()
        self._is_over = told.is_over
        if told.lost:
            raise _RefusedError(f"the episode is lost, and nothing is said of it: {told.lost}", "EXECUTION_ERROR")
        if not told.is_over:
            self._tools = told.tools
        return told


def _choose_task(world: World, data: Mapping[str, Any]) -> tuple[str, int, str]:
    """(prompt, seed, name) of what `reset` asks for: a task that is named, or one that follows from the seed."""
    if unknown := sorted(set(data) - {"seed", "episode_id", "prompt", "split"}):
        raise _RefusedError(f"reset: wanted seed, episode_id, prompt or split, found {', '.join(unknown)[:200]}")
    seed, name, prompt, split = (data.get(field) for field in ("seed", "episode_id", "prompt", "split"))
    split = split or SPLITS[0]
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MOST_SEED):
        raise _RefusedError(f"seed: wanted a whole number from 0, found {seed!r:.80}")
    if name is not None and not (isinstance(name, str) and 0 < len(name) <= 255):
        raise _RefusedError("episode_id: wanted a text of 1 to 255 characters, found something else")
    if split not in SPLITS:
        raise _RefusedError(f"split: wanted {' or '.join(SPLITS)}, found {split!r:.80}")
    seed = Random().randrange(2**31) if seed is None else seed
    if prompt is None:
        drawn = world.panel(1, seed) if split == SPLITS[1] else []
        prompt = drawn[0].prompt if drawn else None if split == SPLITS[1] else world.draw_prompt(Random(seed))
        if prompt is None:
            raise _RefusedError(f"prompt: {world.name} makes up no task of split {split}: wanted one, found none")
    if not isinstance(prompt, str):
        raise _RefusedError(f"prompt: wanted a text, found {type(prompt).__name__}")
    try:
        world.check_prompt(prompt)
    except ValueError as error:
        raise _RefusedError(str(error)) from None
    if world.is_held_out(prompt) and split != SPLITS[1]:
        raise _RefusedError("prompt: this task is held out, to be measured on alone: say so by split held_out")
    return prompt, seed, name or uuid.uuid4().hex


def _read_action(kind: Any, action: Mapping[str, Any]) -> OutsideAction:
    wanted = {CALL: {"tool_name", "arguments"}, ANSWER: {ANSWER}}.get(kind) if isinstance(kind, str) else None
    if wanted is None:
        raise _RefusedError(f"type: wanted {CALL}, {LIST} or {ANSWER}, found {kind!r:.80}")
    if unknown := sorted(set(action) - wanted):
        raise _RefusedError(f"{kind}: wanted {', '.join(sorted(wanted))}, found {', '.join(unknown)[:200]}")
    if kind == ANSWER:
        if not isinstance(action[ANSWER], str):
            raise _RefusedError(f"{ANSWER}: wanted a text, found {type(action[ANSWER]).__name__}")
        return OutsideAction(answer=action[ANSWER])
    tool, arguments = action.get("tool_name"), action.get("arguments", {})
    if not isinstance(tool, str) or not tool:
        raise _RefusedError(f"tool_name: wanted a name, found {tool!r:.80}")
    if not isinstance(arguments, dict):
        raise _RefusedError(f"arguments: wanted an object, found {type(arguments).__name__}")
    return OutsideAction(tool=tool, arguments=json.dumps(arguments, ensure_ascii=False))


def _write_observation(seen: dict[str, Any], told: OutsideResult) -> dict[str, Any]:
    reward = told.verification.outcome if told.is_over and told.verification else None
    return {"observation": seen, "reward": reward, "done": told.is_over}


def _write_verdict(told: OutsideResult) -> dict[str, Any]:
    return {"verification": told.verification.to_json()} if told.verification else {}


ACTION: Final[dict[str, Any]] = {
    "title": "Action",
    "type": "object",
    "properties": {
        "type": {"enum": [CALL, LIST, ANSWER]},
        "tool_name": {"type": "string"},
        "arguments": {"type": "object"},
        "answer": {"type": "string"},
    },
}
OBSERVATION: Final[dict[str, Any]] = {
    "title": "Observation",
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "tool_name": {"type": "string"},
        "result": {"type": "string"},
        "tools": {"type": "array"},
        "metadata": {"type": "object"},
    },
}
STATE: Final[dict[str, Any]] = {
    "title": "State",
    "type": "object",
    "properties": {
        "episode_id": {"type": ["string", "null"]},
        "step_count": {"type": "integer"},
        "prompt": {"type": "string"},
        "world": {"type": "string"},
    },
}
