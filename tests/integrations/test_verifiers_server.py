"""The server of `verifiers` environments, with the package's names in place of it: what is shown of an episode of 0.1,
and of one of 0.4, which asks its model over HTTP."""

import asyncio
import importlib
import json
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import aiohttp
import pytest

ASKED = {"role": "user", "content": "What is two and two?"}
TOLD = [{"role": "tool", "content": "4", "tool_call_id": "call_0"}, {"role": "user", "content": "And twice that?"}]


class Environment:
    """One that answers with two messages, as `env_response` may in verifiers 0.1.14, and has each row's own tools."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.get_dataset = lambda: rows

    async def run_rollout(self, row: Mapping[str, Any], client: Any, *_: Any, **__: Any) -> dict[str, Any]:
        tool = SimpleNamespace(name=row["tool"], description="It adds.", parameters={"type": "object"})
        first = await client.get_response([ASKED], "m", {}, [tool])
        answered = {"role": "assistant", "content": first.message.content}
        second = await client.get_response([ASKED, answered, *TOLD], "m", {}, [])
        return {"reward": float(second.message.content == "8")}


def name_tools(told: Mapping[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in told["observation"]["metadata"]["tools"]]


class Seat:
    """What verifiers calls an agent's configuration."""


class Config:
    """An environment's, which has one agent."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.told = told

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        yield from {**self.told, "agent": Seat()}.items()


class ServedEnvironment:
    """One of 0.4, whose harness streams, and calls the tool that it was told to call."""

    def __init__(self, config: Any) -> None:
        self.config, self.taskset = config, range(7)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        yield

    async def run_episode(self, task: int, context: Any, *, on_trace: Any) -> Any:
        trace = SimpleNamespace(id=f"trace-{task}", errors=[], reward=0.0)
        on_trace(trace)
        tool = {"type": "function", "function": {"name": f"add_{task}", "description": "It adds.", "parameters": {}}}
        async with aiohttp.ClientSession(headers={"X-Session-ID": trace.id}) as http:

            async def ask(*messages: Mapping[str, Any]) -> Any:
                body = {"model": "m", "messages": messages, "tools": [tool], "stream": True}
                async with http.post(f"{context.client.base_url}/chat/completions", json=body) as told:
                    first, last = (await told.text()).strip().split("\n\n")
                assert last == "data: [DONE]"
                return json.loads(first.removeprefix("data: "))["choices"][0]

            called = (await ask(ASKED))["delta"]["tool_calls"][0]
            assert called["function"] == {"name": f"add_{task}", "arguments": '{"to": 2}'}
            answered = await ask(ASKED, {"role": "assistant", "content": "", "tool_calls": [called]}, TOLD[0])
        if answered["delta"]["content"] == "nothing":
            trace.errors.append(SimpleNamespace(type="TaskError", message="it has no answer"))
        trace.reward = float(answered["delta"]["content"] == "4")
        return SimpleNamespace(ok=not trace.errors, errors=[], traces=[trace])


def make_package(**told: Any) -> ModuleType:
    module = ModuleType("verifiers")
    vars(module).update(told)
    return module


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Any:
    """With neither form of the package, whose names each test puts there."""
    monkeypatch.setitem(sys.modules, "verifiers", make_package())
    for name in ("serve", "bridge_environments", "bridge_tasksets"):
        monkeypatch.delitem(sys.modules, f"integrations.verifiers.{name}", raising=False)
    return importlib.import_module("integrations.verifiers.serve")


def test_all_that_an_environment_answers_is_shown_and_the_tools_of_its_row(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("MultiTurnEnv", "SingleTurnEnv", "ToolEnv", "Client")
    told: dict[str, Any] = {name: type(name, (), {"__init__": lambda self, *_: None}) for name in names}
    told |= dict.fromkeys(("Response", "ResponseMessage", "Tool", "ToolCall", "Usage"), SimpleNamespace)
    for name in ("verifiers", "verifiers.clients", "verifiers.types"):
        monkeypatch.setitem(sys.modules, name, make_package(**told))
    bridge = importlib.import_module("integrations.verifiers.bridge_environments")

    async def play() -> list[dict[str, Any]]:
        session = server.Session(bridge.Environments(Environment([{"tool": f"add_{row}"} for row in range(5)])))
        steps = [("reset", {"seed": 1}), ("reset", {"seed": 3}), ("step", {"type": "list_tools"})]
        steps += [("step", {"answer": "4"}), ("step", {"answer": "8"})]
        return [(await session.do(kind, data))[1] for kind, data in steps]

    other, begun, listed, seen, over = asyncio.run(play())
    assert [name_tools(one) for one in (other, begun)] == [["add_1"], ["add_3"]]
    assert [tool["name"] for tool in listed["observation"]["tools"]] == ["add_3"]
    assert name_tools(seen) == []
    assert begun["observation"]["text"] == "What is two and two?"
    assert seen["observation"]["text"] == "tool: 4\n\nuser: And twice that?"
    assert (over["reward"], over["done"]) == (1.0, True)


def test_a_harness_that_asks_over_http_is_answered_by_who_plays_its_task(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {
        "AgentConfig": Seat,
        "default_agent_harness": lambda name: SimpleNamespace(id="bash"),
        "resolve_env_config": Config,
        "load_environment": ServedEnvironment,
        "SingleAgentEnv": ServedEnvironment,
        "ModelContext": SimpleNamespace,
        "EvalClientConfig": SimpleNamespace,
    }
    monkeypatch.setitem(sys.modules, "verifiers.v1", package := make_package(**told))
    monkeypatch.setitem(sys.modules, "verifiers", make_package(v1=package))
    bridge = importlib.import_module("integrations.verifiers.bridge_tasksets")
    episodes = bridge.load("sums", {"taskset": {"size": 7}, "agent": {"max_turns": 4}})
    assert episodes._environment.config.told == {
        "taskset": {"size": 7, "id": "sums"},
        "agent": {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}, "max_turns": 4},
    }

    async def play() -> list[dict[str, Any]]:
        sessions = [server.Session(episodes) for _ in range(2)]
        call = {"tool_name": "add_4", "arguments": {"to": 2}}
        other = {**call, "tool_name": "add_1"}
        async with episodes.serving():
            steps = [(0, "reset", {"seed": 4}), (1, "reset", {"seed": 6}), (0, "step", call), (1, "step", other)]
            steps += [(0, "step", {"answer": "4"})]
            seen = [(await sessions[place].do(kind, data))[1] for place, kind, data in steps]
            with pytest.raises(server.Refused, match="TaskError: it has no answer"):
                await sessions[1].do("step", {"answer": "nothing"})
            return seen

    first, second, result, _, over = asyncio.run(play())
    assert [name_tools(one) for one in (first, second)] == [["add_4"], ["add_1"]]
    assert (first["observation"]["text"], result["observation"]["text"]) == ("What is two and two?", "4")
    assert (over["reward"], over["done"]) == (1.0, True)
