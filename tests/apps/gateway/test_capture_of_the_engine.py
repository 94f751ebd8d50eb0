"""Real answers of the real engine are captured token for token, in both of its dialects, streamed or not."""

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from anthropic import Anthropic
from openai import OpenAI

from apps.accounts.models import Project
from apps.gateway.capture import capture
from apps.gateway.record import Record
from tentalis.core.packing import pack_float32, unpack_int32
from tests.apps.gateway.records import make_header
from tests.apps.gateway.running import GatewayThread, make_agent_token, make_chat_worker, make_provider
from tests.engine_process import run_engine
from tests.gpu_workers.templated import make_reciting_model

pytestmark = pytest.mark.torch
ASKED = [{"role": "user", "content": "Order: 3 mug"}]
TOLD = {"n": 2, "max_tokens": 12, "seed": 5, "temperature": 1.0, "return_token_ids": True}


def ask(url: str, body: dict[str, Any]) -> bytes:
    request = urllib.request.Request(url, orjson.dumps(body), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        found: bytes = response.read()
        return found


@pytest.mark.parametrize(
    ("path", "prompt"),
    [("chat/completions", {"messages": ASKED, "logprobs": True}), ("completions", {"prompt": "Order:", "logprobs": 0})],
)
def test_a_stream_and_a_whole_answer_are_captured_alike(desk_engine: str, path: str, prompt: dict[str, Any]) -> None:
    body = {"model": "desk"} | prompt | TOLD
    request = orjson.dumps({"model": "desk"} | {name: value for name, value in prompt.items() if name != "logprobs"})
    whole = ask(f"{desk_engine}/v1/{path}", body)
    streamed = ask(f"{desk_engine}/v1/{path}", body | {"stream": True, "stream_options": {"include_usage": True}})
    found = capture(Record(make_header(1), request, whole))
    again = capture(Record(make_header(1, is_stream=True), request, streamed))
    assert len(found) == len(again) == 2
    answer = json.loads(whole)
    for one, other, choice in zip(found, again, answer["choices"], strict=True):
        assert other._replace(header=one.header) == one
        assert unpack_int32(one.token_ids) == choice["token_ids"]
        entries = choice["logprobs"].get("content")
        told = [entry["logprob"] for entry in entries] if entries else choice["logprobs"]["token_logprobs"]
        assert one.logprobs == pack_float32(told)
        assert unpack_int32(one.prompt_token_ids) == (answer.get("prompt_token_ids") or choice["prompt_token_ids"])
        assert one.text == (choice["message"]["content"] if "message" in choice else choice["text"])
        assert (one.finish_reason, one.error, one.is_truncated) == (choice["finish_reason"], "", False)
    assert found[0].prompt_tokens == answer["usage"]["prompt_tokens"]
    assert sum(one.completion_tokens for one in found) == answer["usage"]["completion_tokens"]


TOOL: dict[str, Any] = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
CALL = '{"name": "weather", "arguments": {"city": "Bern"}}'
HELLO: list[Any] = [{"role": "user", "content": "Weather?"}]


@pytest.fixture(scope="module")
def calling() -> Iterator[tuple[str, str]]:
    """Address and name of a model that says a word, and calls a tool."""
    directory = make_reciting_model("Let me", " see. ", "<tool_call>", CALL, "</tool_call>")
    with run_engine(str(directory)) as address:
        yield address, directory.name


def test_an_agents_tools_reach_the_engine_and_its_calls_the_agent(
    transactional_db: None, project: Project, calling: tuple[str, str]
) -> None:
    url, model = calling
    make_chat_worker(project, make_provider(project, f"{url}/v1", kind="engine"), base_model=model)
    token = make_agent_token(project)
    with (
        GatewayThread() as gateway,
        OpenAI(base_url=f"{gateway.url}/v1", api_key=token, max_retries=0) as openai,
        Anthropic(base_url=gateway.url, api_key=token, max_retries=0) as anthropic,
    ):
        asked: dict[str, Any] = {"model": "helper", "messages": HELLO, "tools": [TOOL]}
        whole: Any = openai.chat.completions.create(**asked, tool_choice="auto", parallel_tool_calls=True).choices[0]
        with openai.chat.completions.stream(**asked) as stream:
            streamed: Any = stream.get_final_completion().choices[0]
        for choice in (whole, streamed):
            (call,) = choice.message.tool_calls
            assert (choice.finish_reason, choice.message.content) == ("tool_calls", "Let me see.")
            assert (call.function.name, json.loads(call.function.arguments)) == ("weather", {"city": "Bern"})
        offered: Any = [{"name": "weather", "input_schema": {"type": "object"}}]
        said: dict[str, Any] = {"model": "helper", "messages": HELLO, "tools": offered, "max_tokens": 99}
        message = anthropic.messages.create(**said)
        with anthropic.messages.stream(**said) as events:
            again = events.get_final_message()
        for one in (message, again):
            assert [block.type for block in one.content] == ["text", "tool_use"]
            assert (one.stop_reason, one.content[1].input) == ("tool_use", {"city": "Bern"})
        result = {"role": "tool", "tool_call_id": whole.message.tool_calls[0].id, "content": "sunny"}
        openai.chat.completions.create(**asked | {"messages": [*HELLO, whole.message, result]})
    first, *others = [one for record in gateway.records for one in capture(record)]
    assert len(unpack_int32(first.token_ids)) == 6
    for other in others:
        assert other.token_ids == first.token_ids
        assert [call["function"] for call in other.tool_calls] == [call["function"] for call in first.tool_calls]
    assert [one.prompt_token_ids for one in others[:3]] == [first.prompt_token_ids] * 3
    assert len(others[3].prompt_token_ids) > len(first.prompt_token_ids)


def test_a_model_without_a_place_for_tools_answers_all_the_same(
    transactional_db: None, project: Project, desk_engine: str
) -> None:
    make_chat_worker(project, make_provider(project, f"{desk_engine}/v1", kind="engine"), base_model="desk")
    token = make_agent_token(project)
    with GatewayThread() as gateway:
        given: dict[str, Any] = {"max_tokens": 3, "tools": [TOOL], "tool_choice": "auto", "prompt_cache_key": "k"}
        assert gateway.chat("helper", token=token, **given).status_code == 200
        said = {"model": "helper", "messages": HELLO, "tools": [{"name": "weather", "input_schema": {}}]}
        headers = {"Authorization": f"Bearer {token}"}
        assert gateway.client.post("/v1/messages/count_tokens", json=said, headers=headers).status_code == 200
        refused = gateway.chat("helper", token=token, tools=[TOOL], tool_choice="required")
    assert "this engine makes no model call" in refused.json()["error"]["message"]
