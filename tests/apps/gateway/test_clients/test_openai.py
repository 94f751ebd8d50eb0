"""The `openai` package."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import openai
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionToolParam
from openai.types.responses import FunctionToolParam
from pydantic import BaseModel

from apps.inference.models import Exchange
from tests.apps.gateway.test_clients.conftest import WEATHER, Place
from tests.apps.gateway.test_edge import wait_for

pytestmark = pytest.mark.django_db

TOOL: ChatCompletionToolParam = {"type": "function", "function": {"name": "weather", "parameters": WEATHER}}
FUNCTION: FunctionToolParam = {"type": "function", "name": "weather", "parameters": WEATHER, "strict": True}
CALL = ["weather", '{"city": "Zürich"}']


@pytest.fixture
def client(place: Place) -> Iterator[OpenAI]:
    with OpenAI(base_url=place.v1, api_key=place.token, max_retries=0) as client:
        yield client


def test_chat(client: OpenAI) -> None:
    answer = client.chat.completions.create(model="helper", messages=[{"role": "user", "content": "Weather?"}])
    assert answer.choices[0].message.content == "It is sunny."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.completion_tokens > 0


def test_streamed_chat(client: OpenAI) -> None:
    with client.chat.completions.stream(
        model="helper", messages=[{"role": "user", "content": "Weather?"}], stream_options={"include_usage": True}
    ) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.content == "It is sunny."
    assert final.usage is not None


def test_chat_with_tools_and_back(place: Place, client: OpenAI) -> None:
    place.upstream.plan(tool_calls=[CALL], reply="Let me see.")
    messages: list[Any] = [{"role": "user", "content": "Weather?"}]
    with client.chat.completions.stream(model="helper", messages=messages, tools=[TOOL]) as stream:
        message = stream.get_final_completion().choices[0].message
    assert message.tool_calls is not None
    assert [(call.function.name, call.function.arguments) for call in message.tool_calls] == [tuple(CALL)]
    place.upstream.plan(tool_calls=[], reply="Sunny.")
    messages += [message, {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sun"}]
    answer = client.chat.completions.create(model="helper", messages=messages, tools=[TOOL])
    assert answer.choices[0].message.content == "Sunny."
    assert [each["role"] for each in place.upstream.requests[-1]["body"]["messages"]] == ["user", "assistant", "tool"]


def test_completions(client: OpenAI) -> None:
    answer = client.completions.create(model="helper", prompt="The weather is", max_tokens=20, logprobs=0)
    assert answer.choices[0].text == "It is sunny."
    assert answer.choices[0].logprobs is not None
    pieces = client.completions.create(model="helper", prompt="The weather is", stream=True)
    assert "".join(piece.choices[0].text for piece in pieces) == "It is sunny."


def test_models(client: OpenAI) -> None:
    assert "helper" in [model.id for model in client.models.list()]
    assert client.models.retrieve("helper").id == "helper"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nobody")


def test_responses(place: Place, client: OpenAI) -> None:
    place.upstream.plan(reasoning="Look outside.")
    answer = client.responses.create(model="helper", input="Weather?", instructions="Be brief.", max_output_tokens=99)
    assert answer.output_text == "It is sunny."
    assert [item.type for item in answer.output] == ["reasoning", "message"]
    assert answer.status == "completed"
    assert answer.usage is not None
    assert answer.usage.output_tokens > 0
    sent = place.upstream.requests[-1]["body"]
    assert sent["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather?"}]
    assert sent["max_tokens"] == 99


def test_a_response_goes_on_from_another(place: Place, client: OpenAI) -> None:
    first = client.responses.create(model="helper", input="Weather?", instructions="Be brief.")
    place.upstream.plan(reply="Rain.")
    second = client.responses.create(model="helper", input="Tomorrow?", previous_response_id=first.id)
    assert second.output_text == "Rain."
    assert second.previous_response_id == first.id
    assert place.upstream.requests[-1]["body"]["messages"] == [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "It is sunny."},
        {"role": "user", "content": "Tomorrow?"},
    ]
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="helper", input="x", previous_response_id="resp_unknown")
    assert (caught.value.code, caught.value.param) == ("previous_response_not_found", "previous_response_id")


def test_streamed_responses_with_tools_and_back(place: Place, client: OpenAI) -> None:
    place.upstream.plan(tool_calls=[CALL, CALL], reply="Let me see.", reasoning="Look it up.")
    items: list[Any] = [{"role": "user", "content": "Weather?"}]
    with client.responses.stream(model="helper", input=items, tools=[FUNCTION]) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert kinds.count("response.function_call_arguments.done") == 2
    calls = [item for item in final.output if item.type == "function_call"]
    assert [call.arguments for call in calls] == [CALL[1], CALL[1]]
    place.upstream.plan(tool_calls=[], reply="Sunny.", reasoning="")
    items += final.output
    items += [{"type": "function_call_output", "call_id": call.call_id, "output": "sun"} for call in calls]
    assert client.responses.create(model="helper", input=items, tools=[FUNCTION]).output_text == "Sunny."
    answer = place.upstream.requests[-1]["body"]["messages"][1]
    assert (answer["content"], answer["reasoning_content"]) == ("Let me see.", "Look it up.")
    assert len(answer["tool_calls"]) == 2


def test_a_parsed_response(place: Place, client: OpenAI) -> None:
    class Weather(BaseModel):
        city: str

    place.upstream.plan(reply='{"city":"Zürich"}')
    answer = client.responses.parse(model="helper", input="Where?", text_format=Weather)
    assert answer.output_parsed == Weather(city="Zürich")
    wanted = place.upstream.requests[-1]["body"]["response_format"]["json_schema"]
    assert (wanted["name"], wanted["strict"]) == ("Weather", True)


def test_a_response_is_retrieved(place: Place, client: OpenAI) -> None:
    place.upstream.plan(reasoning="hm", tool_calls=[["look", "{}"]])
    tool: Any = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}
    given = client.responses.create(model="helper", input="Look!", tools=[tool])
    wait_for(lambda: Exchange.objects.filter(public_id=UUID(given.id.removeprefix("resp_"))).exists())
    again = client.responses.retrieve(given.id)
    assert (again.id, again.status, again.output_text) == (given.id, given.status, given.output_text)
    assert [item.type for item in again.output] == [item.type for item in given.output]
    assert again.usage == given.usage
    [asked] = client.responses.input_items.list(given.id)
    assert (asked.type, asked.content[0].text) == ("message", "Look!")
    client.responses.delete(given.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(given.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve("resp_" + "0" * 32)


def test_tools_as_codex_sends_them(place: Place, client: OpenAI) -> None:
    place.upstream.plan(tool_calls=[["apply_patch", '{"input": "*** Begin"}'], ["agents__spawn", "{}"]])
    spawn: Any = {"type": "function", "name": "spawn", "parameters": {"type": "object"}, "strict": False}
    tools: Any = [
        {"type": "web_search"},
        {"type": "custom", "name": "apply_patch"},
        {"type": "namespace", "name": "agents", "description": "others", "tools": [spawn]},
    ]
    whole = client.responses.create(model="helper", input="x", tools=tools)
    with client.responses.stream(model="helper", input="x", tools=tools) as stream:
        streamed = stream.get_final_response()
    for answer in (whole, streamed):
        patch, call = answer.output[-2:]
        assert (patch.type, patch.input if patch.type == "custom_tool_call" else "") == (
            "custom_tool_call",
            "*** Begin",
        )
        assert call.type == "function_call"
        assert (call.namespace, call.name) == ("agents", "spawn")
    with pytest.raises(openai.BadRequestError, match="web_search") as caught:
        client.responses.create(model="helper", input="x", tools=tools[:1], tool_choice="required")
    assert caught.value.param == "tool_choice"


def test_errors_are_the_clients_own(place: Place, client: OpenAI) -> None:
    hello: Any = [{"role": "user", "content": "hi"}]
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="nobody", messages=hello)
    assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError) as bad:
        unreadable: Any = [{"role": "user", "content": 7}]
        client.responses.create(model="helper", input=unreadable)
    assert bad.value.param == "input.0.content"
    with pytest.raises(openai.AuthenticationError) as stranger:
        client.with_options(api_key="tnt_nobody_x").models.list()
    assert stranger.value.code == "invalid_api_key"
    place.upstream.plan(status=429, retry_after="7")
    for is_stream in (False, True):
        with pytest.raises(openai.RateLimitError) as busy:
            client.chat.completions.create(model="helper", messages=hello, stream=is_stream)
        assert busy.value.response.headers["retry-after"] == "7"
    place.upstream.plan(status=500)
    with pytest.raises(openai.InternalServerError):
        client.responses.create(model="helper", input="hi")


def test_a_stream_that_breaks_off_is_an_error_in_either_api(place: Place, client: OpenAI) -> None:
    place.upstream.plan(truncate_after=2)
    hello: Any = [{"role": "user", "content": "hi"}]
    with pytest.raises(openai.APIError, match=r"went away|broke off"):
        list(client.chat.completions.create(model="helper", messages=hello, stream=True))
    events = list(client.responses.create(model="helper", input="hi", stream=True))
    last = events[-1]
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert last.response.error.code == "server_error"
    with pytest.raises(openai.APIError):
        list(client.completions.create(model="helper", prompt="hi", stream=True))
