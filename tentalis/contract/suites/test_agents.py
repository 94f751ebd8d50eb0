"""What is asked of a kind of worker, and of an agent of another framework: it asks where it is told, and a try knows
nothing of another."""

import asyncio
import inspect
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from tentalis.contract.scripted_model import Asked, ScriptedModel
from tentalis.core.worlds import AgentKind
from tentalis.plugin_process import FlowConfig, FlowTask, is_flow

GROUP = "tentalis.agents"


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(lambda asked: f"You said: {asked.said}") as server:
        yield server


def run(flow: Any, task: FlowTask, config: FlowConfig) -> Any:
    flow = flow() if inspect.isclass(flow) else flow
    return asyncio.run(flow.arun(task, config)) if hasattr(flow, "arun") else flow.run(task, config)


def make_try(model: ScriptedModel, number: int, *, stream: bool) -> tuple[FlowTask, FlowConfig]:
    prompt = f"Say the number {number}."
    task = FlowTask(prompt=prompt, system_prompt="", messages=[{"role": "user", "content": prompt}])
    session = f"try-{number}"
    url = f"{model.url}/sessions/{session}/v1"
    config = FlowConfig(base_url=url, api_key=f"key-{number}", model="worker", session=session, stream=stream)
    return task, config


def test_a_kind_makes_its_agent_under_its_own_name(point: EntryPoint) -> None:
    found = point.load()
    if is_flow(found):
        pytest.skip("it is an agent of another framework")
    assert isinstance(found, AgentKind)
    assert found.name == point.name
    assert found.make is not None


@pytest.mark.parametrize("stream", [False, True])
def test_it_asks_where_it_is_told_with_its_key_for_its_model(
    point: EntryPoint, model: ScriptedModel, *, stream: bool
) -> None:
    flow = point.load()
    if not is_flow(flow):
        pytest.skip("it is no agent of another framework")
    made = run(flow, *make_try(model, 1, stream=stream))
    assert made is None or isinstance(made, str) or hasattr(made, "answer")
    assert model.asked, "it asked its model nothing"
    assert {one.path.partition("/v1")[0] for one in model.asked} == {"/sessions/try-1"}
    assert {(one.key, one.model) for one in model.asked} == {("key-1", "worker")}
    assert any("Say the number 1." in one.everything for one in model.asked)
    if stream:
        assert all(one.stream for one in model.asked)


def test_a_try_knows_nothing_of_another(point: EntryPoint, model: ScriptedModel) -> None:
    flow = point.load()
    if not is_flow(flow):
        pytest.skip("it is no agent of another framework")
    for number in (1, 2):
        run(flow, *make_try(model, number, stream=False))
    second: list[Asked] = [one for one in model.asked if one.path.startswith("/sessions/try-2")]
    assert second
    assert not [one for one in second if "Say the number 1." in one.everything]
