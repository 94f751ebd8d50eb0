"""A world on a server of OpenEnv's protocol (openenv-core 0.3): whatever its actions are, they are tools here. Which
there are is asked in each episode: a server may have others for another seed, or for what was done.

What its models write is asked for by us, so that tokens are exact. What the server says is believed: its rewards are
the outcome, as the setting says what they are worth.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from random import Random
from typing import Any, ClassVar, Final

import orjson
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from tentalis.core.canon import content_hash
from tentalis.core.tool_calls import write_tool
from tentalis.core.world_servers import MOST_MESSAGE_BYTES, MOST_SEED, SUM, WorldServer
from tentalis.core.worlds import (
    AttemptDraft,
    EpisodeLimits,
    Observation,
    PanelItem,
    StateLostError,
    ToolCall,
    Verification,
    World,
)
from tentalis.outbound.sync import guarded_client

OPEN_S: Final = 10.0
ANSWER_S: Final = 120.0
HELD_OUT_EVERY: Final = 5
LOOK: Final = ("look", "look_around", "look_again")
"""What shows the observation again: the first that is no action of the server's."""
ACT: Final = "act"
TOOL_NAME: Final = "tool_name"
ANSWER: Final = "answer"
KNOWN_SEEDS: Final = 1_024
"""Whose tools are kept for who asks outside of an episode."""
ROUNDING: Final = 1e-9
"""Share of the range of rewards that is as good as nothing beside a bound: nine rewards of 1/9 are more than 1."""
THEIR_FAULT: Final = "VALIDATION_ERROR"
_SEED: Final = re.compile(r"\bseed (\d{1,10})\.?$")


class ServerFaultError(StateLostError):
    """The server is away, or does not keep to the protocol: it says nothing of who played."""


@dataclass
class _Play:
    """An episode at the server.

    Attributes:
        tools: that may be called next, as the chat API takes them; the first shows the observation again.
        seen: hash of all that was said in it: a state of another's is known by what it shows.
    """

    connection: ClientConnection
    held: ExitStack
    tools: Sequence[Mapping[str, Any]] = ()
    observation: Mapping[str, Any] = field(default_factory=dict)
    rewards: list[float] = field(default_factory=list)
    is_done: bool = False
    seen: str = ""


class OpenEnvWorld(World):
    """Episodes that a server begins by a seed, which stands at the end of the prompt."""

    name = ""
    label = ""
    profile: ClassVar = {"outcome": 1.0}

    def __init__(self, name: str, server: WorldServer) -> None:
        self.name = name  # type: ignore[misc]
        self.label = server.label or name.replace("_", " ").capitalize()  # type: ignore[misc]
        self.version = content_hash(vars(server))[:8]  # type: ignore[misc]
        self.keeps_nothing = not server.acts_outside  # type: ignore[misc]
        self.limits = EpisodeLimits(turns=server.turns)  # type: ignore[misc]
        self.chance = server.chance  # type: ignore[misc]
        self._server = server
        self._tools_of = lru_cache(KNOWN_SEEDS)(self._ask_tools)

    def say_limits(self) -> Sequence[str]:
        return ["text that ends with the seed of the episode: seed 17"]

    def check_prompt(self, prompt: str) -> None:
        super().check_prompt(prompt)
        _read_seed(prompt)

    def draw_prompt(self, rng: Random) -> str:
        while self.is_held_out(prompt := self._write_prompt(rng.randrange(MOST_SEED))):
            pass
        return prompt

    def is_held_out(self, prompt: str) -> bool:
        return _read_seed(prompt) % HELD_OUT_EVERY == 0

    def panel(self, size: int, seed: int) -> list[PanelItem]:
        rng = Random(seed)
        seeds = [HELD_OUT_EVERY * rng.randrange(MOST_SEED // HELD_OUT_EVERY) for _ in range(size)]
        return [PanelItem(prompt=self._write_prompt(one), seed=rng.randrange(2**31)) for one in seeds]

    def _write_prompt(self, seed: int) -> str:
        return f"{self.label}: {LOOK[0]} first, then go on until it is done. seed {seed}"

    def tools(self, prompt: str) -> Sequence[Mapping[str, Any]]:
        """What its episode begins with, asked once for a seed; while the server cannot be asked, any object is one."""
        try:
            return self._tools_of(_read_seed(prompt))
        except ServerFaultError:
            return [_write_looking(()), write_tool(ACT, "Act.", {"type": "object"})]

    def tools_now(self, prompt: str, state: _Play) -> Sequence[Mapping[str, Any]]:
        return state.tools

    def _ask_tools(self, seed: int) -> Sequence[Mapping[str, Any]]:
        play = self._begin(seed)
        self.close(play)
        return play.tools

    @property
    def _has_tools(self) -> bool:
        return TOOL_NAME in self._schema.get("properties", {})

    @cached_property
    def _schema(self) -> Mapping[str, Any]:
        """Of the server's actions."""
        url = re.sub(r"^ws", "http", self._server.url).rstrip("/")
        try:
            with guarded_client(allow_private=True) as client:
                answer = client.get(f"{url}/schema").raise_for_status()
                schema: Any = answer.json()["action"]
        except Exception as error:
            raise ServerFaultError(f"{self.name}: its server does not say what its actions are: {error}") from error
        if not isinstance(schema, dict):
            raise ServerFaultError(f"{self.name}: wanted a schema of its actions, found {schema!r:.80}")
        return schema

    def reset(self, prompt: str, seed: int | None) -> _Play:
        return self._begin(_read_seed(prompt))

    def _begin(self, seed: int) -> _Play:
        play = self._open()
        try:
            self._take(play, self._ask(play, "reset", {"seed": seed}))
            if not play.tools:
                play.tools = self._list_tools(play)
            play.seen = content_hash([play.seen, list(play.tools)])
        except BaseException:
            self.close(play)
            raise
        return play

    def _list_tools(self, play: _Play) -> Sequence[Mapping[str, Any]]:
        """Of a server without tools, its one action."""
        if not self._has_tools:
            schema = self._schema
            properties = {name: one for name, one in schema.get("properties", {}).items() if name != "metadata"}
            required = [name for name in schema.get("required", ()) if name in properties]
            wanted = {**schema, "properties": properties, "required": required}
            return [_write_looking(()), write_tool(ACT, str(schema.get("description", "")), wanted)]
        listed = self._ask(play, "step", {"type": "list_tools"})
        tools = listed["observation"].get("tools") if isinstance(listed, dict) else None
        if not isinstance(tools, list) or not all(isinstance(one, dict) and "name" in one for one in tools):
            raise ServerFaultError(f"{self.name}: its server lists no tools")
        return _with_looking(
            [write_tool(one["name"], one.get("description") or "", one.get("input_schema", {})) for one in tools]
        )

    def act(self, state: _Play, call: ToolCall, key: str) -> Observation:
        arguments = json.loads(call.arguments or "{}")
        if call.name == state.tools[0]["function"]["name"]:
            return Observation(text=_show(state.observation), ends=state.is_done)
        action = arguments
        if self._has_tools:
            action = {"type": "call_tool", TOOL_NAME: call.name, "arguments": arguments}
        said = self._ask(state, "step", action)
        if isinstance(said, str):
            return Observation(text=f"error: {said}")
        self._take(state, said)
        rewards = {"reward": state.rewards[-1]} if said.get("reward") is not None else {}
        return Observation(text=_show(state.observation), ends=state.is_done, details=rewards)

    def hash_state(self, state: _Play) -> str:
        return state.seen

    def close(self, state: _Play) -> None:
        state.held.close()

    def verify_state(self, prompt: str, reference: Any, state: _Play, draft: AttemptDraft) -> Verification:
        """The server's reward. A last word is told it where it takes one. What is left before it says that it is done
        is worth what was given so far; nothing yet is a reward of 0."""
        if not state.is_done and draft.answer and ANSWER in self._schema.get("properties", {}):
            said = self._ask(state, "step", {ANSWER: draft.answer})
            if not isinstance(said, str):
                self._take(state, said)
        server = self._server
        given = [*state.rewards] or [0.0]
        reward = sum(given) if server.reward == SUM else given[-1]
        share = (reward - server.low) / (server.high - server.low)
        outcome = next((bound for bound in (0.0, 1.0) if abs(share - bound) <= ROUNDING), share)
        if not 0 <= outcome <= 1:
            raise ServerFaultError(f"reward: wanted {server.low} to {server.high}, found {reward}")
        details = {"rewards": state.rewards, "done": state.is_done}
        return Verification(outcome=outcome, step_scores=[None] * len(draft.steps), details=details)

    # the connection

    def _open(self) -> _Play:
        url = re.sub(r"^http", "ws", self._server.url).rstrip("/")
        held = ExitStack()
        try:
            opened = connect(f"{url}/ws", open_timeout=OPEN_S, max_size=MOST_MESSAGE_BYTES, proxy=None)
            return _Play(held.enter_context(opened), held)
        except (OSError, TimeoutError, WebSocketException) as error:
            raise ServerFaultError(f"{self.name}: no server answers at {self._server.url}: {error}") from None

    def _ask(self, play: _Play, kind: str, data: Mapping[str, Any]) -> dict[str, Any] | str:
        """What the server observes; its words where it finds fault with the action."""
        try:
            play.connection.send(json.dumps({"type": kind, "data": data}))
            text = play.connection.recv(timeout=ANSWER_S)
            told = orjson.loads(text)
            answer, said = told["type"], told["data"]
            if answer == "error" and said.get("code") == THEIR_FAULT:
                return str(said.get("errors") or said["message"])
            if answer != "observation":
                raise ServerFaultError(f"{self.name}: its server says {said.get('message', answer)!r:.300}")
            if not isinstance(said["observation"], dict):
                raise TypeError("observation: wanted an object")
            return dict(said)
        except (OSError, TimeoutError, WebSocketException) as error:
            raise ServerFaultError(f"{self.name}: its server is gone: {error}") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ServerFaultError(f"{self.name}: its server does not speak OpenEnv: {error}") from None

    def _take(self, play: _Play, said: dict[str, Any] | str) -> None:
        if isinstance(said, str):
            raise ServerFaultError(f"{self.name}: its server refuses to begin: {said:.300}")
        play.observation, play.is_done = said["observation"], bool(said.get("done"))
        reward = said.get("reward")
        if reward is not None:
            if not isinstance(reward, int | float):
                raise ServerFaultError(f"{self.name}: reward: wanted a number, found {reward!r:.80}")
            play.rewards.append(float(reward))
        if self._has_tools and (tools := _read_tools(play.observation)) is not None:
            play.tools = _with_looking(tools)
        play.seen = content_hash([play.seen, play.observation, play.rewards, play.is_done])


def _read_seed(prompt: str) -> int:
    found = _SEED.search(prompt.strip())
    if found is None or int(found[1]) > MOST_SEED:
        raise ValueError(f"a prompt here ends with its seed, such as seed 17; found {prompt.strip()[-40:]!r}")
    return int(found[1])


def _read_tools(observation: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """Those that there are from here on, as a server of ours says it; None where nothing is said of it."""
    metadata = observation.get("metadata")
    told = metadata.get("tools") if isinstance(metadata, dict) else None
    if not isinstance(told, list) or not all(isinstance(one, dict) for one in told):
        return None
    functions = [one.get("function") for one in told]
    return told if all(isinstance(one, dict) and "name" in one for one in functions) else None


def _with_looking(tools: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    return [_write_looking([tool["function"]["name"] for tool in tools]), *tools]


def _write_looking(taken: Sequence[str]) -> dict[str, Any]:
    name = next(one for one in LOOK if one not in taken)
    return write_tool(name, "What is seen, without doing anything.", {"type": "object", "properties": {}})


def _show(observation: Mapping[str, Any]) -> str:
    """As its model reads it: the text of what is a text, else JSON."""
    seen = {name: value for name, value in observation.items() if name not in ("metadata", "tool_name")}
    texts = [value for name, value in seen.items() if value is not None and value != ""]
    if len(texts) == 1 and isinstance(texts[0], str):
        return texts[0]
    return json.dumps(seen, ensure_ascii=False, sort_keys=True)
