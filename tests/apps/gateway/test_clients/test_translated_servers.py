"""Clients of OpenAI before a server that speaks Anthropic's Messages only: the gateway itself is one."""

import time
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from anthropic import Anthropic
from openai import OpenAI
from openai.types.chat import ChatCompletionToolParam
from pytest_django import DjangoDbBlocker

from apps.inference.providers import create_provider
from tests.apps.gateway.running import make_chat_worker
from tests.apps.gateway.test_clients.conftest import WEATHER, Place
from tests.factories import make_user

pytestmark = pytest.mark.django_db

TOOL: ChatCompletionToolParam = {"type": "function", "function": {"name": "weather", "parameters": WEATHER}}
CALL = ["weather", '{"city": "Zürich"}']


@pytest.fixture(scope="module")
def far(running: Place, django_db_blocker: DjangoDbBlocker) -> str:
    """A worker whose server is the gateway's own /v1/messages, asked for `helper` there."""
    with django_db_blocker.unblock():
        provider = create_provider(
            project=running.project,
            name="far",
            kind="anthropic",
            base_url=running.gateway.url,
            api_key=running.token,
            allow_private=True,
            by=make_user("root", is_superuser=True),
        )
        worker = make_chat_worker(running.project, provider, "far")
        worker.base_model = "helper"
        worker.save()
    until = time.monotonic() + 120
    with OpenAI(base_url=running.v1, api_key=running.token) as client:
        while "far" not in [model.id for model in client.models.list()]:
            assert time.monotonic() < until, "the gateway does not hear of the new worker"
    return "far"


@pytest.fixture
def client(place: Place, far: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=place.v1, api_key=place.token, max_retries=0) as client:
        yield client


def test_chat_with_tools_and_back(place: Place, client: OpenAI) -> None:
    place.upstream.plan(tool_calls=[CALL, CALL], reply="Let me see.", reasoning="Look it up.")
    messages: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather?"}]
    with client.chat.completions.stream(
        model="far", messages=messages, tools=[TOOL], stream_options={"include_usage": True}
    ) as stream:
        streamed = stream.get_final_completion()
    whole = client.chat.completions.create(model="far", messages=messages, tools=[TOOL])
    assert streamed.usage == whole.usage
    for answer in (streamed, whole):
        message = answer.choices[0].message
        assert (message.content, answer.choices[0].finish_reason) == ("Let me see.", "tool_calls")
        assert message.to_dict()["reasoning_content"] == "Look it up."
        assert message.tool_calls is not None
        calls: Any = message.tool_calls
        assert [(call.function.name, call.function.arguments) for call in calls] == [tuple(CALL)] * 2
    place.upstream.plan(tool_calls=[], reply="Sunny.", reasoning="")
    message = whole.choices[0].message
    messages += [message, *({"role": "tool", "tool_call_id": call.id, "content": "sun"} for call in calls)]
    assert client.chat.completions.create(model="far", messages=messages).choices[0].message.content == "Sunny."
    sent = place.upstream.requests[-1]["body"]["messages"]
    assert [each["role"] for each in sent] == ["system", "user", "assistant", "tool", "tool"]


def test_responses(place: Place, client: OpenAI) -> None:
    place.upstream.plan(reasoning="Look outside.")
    with client.responses.stream(model="far", input="Weather?", instructions="Be brief.") as stream:
        stream.until_done()
        final = stream.get_final_response()
    assert final.output_text == "It is sunny."
    assert [item.type for item in final.output] == ["reasoning", "message"]
    assert final.usage is not None
    assert final.usage.output_tokens > 0


def test_messages_pass_as_they_are(place: Place, far: str) -> None:
    place.upstream.plan(tool_calls=[CALL], reasoning="Look it up.")
    hello: Any = [{"role": "user", "content": "hi"}]
    with Anthropic(base_url=place.gateway.url, api_key=place.token, max_retries=0) as client:
        whole = client.messages.create(model=far, max_tokens=99, messages=hello)
        with client.messages.stream(model=far, max_tokens=99, messages=hello) as stream:
            streamed = stream.get_final_message()
    assert [block.type for block in whole.content] == ["thinking", "text", "tool_use"]
    assert [block.to_dict() for block in streamed.content] == [block.to_dict() for block in whole.content]
    assert streamed.stop_reason == whole.stop_reason == "tool_use"


def test_its_errors_are_the_callers(place: Place, client: OpenAI) -> None:
    hello: Any = [{"role": "user", "content": "hi"}]
    with pytest.raises(openai.BadRequestError, match=r"one answer a request|at most 1"):
        client.chat.completions.create(model="far", messages=hello, n=2)
    place.upstream.plan(status=429, retry_after="7")
    with pytest.raises(openai.RateLimitError) as busy:
        client.chat.completions.create(model="far", messages=hello)
    assert busy.value.response.headers["retry-after"] == "7"
    place.upstream.plan(status=200, truncate_after=3)
    with pytest.raises(openai.APIError):
        list(client.chat.completions.create(model="far", messages=hello, stream=True))
    with (
        pytest.raises(anthropic.APIStatusError),
        Anthropic(base_url=place.gateway.url, api_key=place.token, max_retries=0) as other,
        other.messages.stream(model="far", max_tokens=9, messages=hello) as stream,
    ):
        stream.until_done()
