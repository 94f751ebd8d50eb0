"""The server of `verifiers` environments, with the package's names in place of it: what is shown of an episode."""

import asyncio
import importlib
import sys
from collections.abc import Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ASKED = {"role": "user", "content": "What is two and two?"}
TOLD = [{"role": "tool", "content": "4", "tool_call_id": "call_0"}, {"role": "user", "content": "And twice that?"}]


class Environment:
    """One that answers with two messages, as `env_response` may in verifiers 0.1.14, and has each row's own tools."""

    async def run_rollout(self, row: Mapping[str, Any], client: Any, *_: Any, **__: Any) -> dict[str, Any]:
        tool = SimpleNamespace(name=row["tool"], description="It adds.", parameters={"type": "object"})
        first = await client.get_response([ASKED], "m", {}, [tool])
        answered = {"role": "assistant", "content": first.message.content}
        second = await client.get_response([ASKED, answered, *TOLD], "m", {}, [])
        return {"reward": float(second.message.content == "8")}


def name_tools(told: Mapping[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in told["observation"]["metadata"]["tools"]]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Any:
    names = ("MultiTurnEnv", "SingleTurnEnv", "ToolEnv", "Client")
    told: dict[str, Any] = {name: type(name, (), {"__init__": lambda self, *_: None}) for name in names}
    told |= dict.fromkeys(("Response", "ResponseMessage", "Tool", "ToolCall", "Usage"), SimpleNamespace)
    for name in ("verifiers", "verifiers.clients", "verifiers.types"):
        module = ModuleType(name)
        vars(module).update(told)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "integrations.verifiers.serve", raising=False)
    return importlib.import_module("integrations.verifiers.serve")


def test_all_that_an_environment_answers_is_shown_and_the_tools_of_its_row(server: Any) -> None:
    async def play() -> list[dict[str, Any]]:
        session = server.Session(Environment(), [{"tool": f"add_{row}"} for row in range(5)])
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
