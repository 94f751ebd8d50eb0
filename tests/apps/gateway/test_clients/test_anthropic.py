"""The `anthropic` package."""

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from anthropic import Anthropic
from anthropic.types import ToolParam

from tests.apps.gateway.test_clients.conftest import WEATHER, Place

pytestmark = pytest.mark.django_db

TOOL: ToolParam = {"name": "weather", "description": "the sky", "input_schema": WEATHER}
CALL = ["weather", '{"city": "Zürich"}']


@pytest.fixture
def client(place: Place) -> Iterator[Anthropic]:
    with Anthropic(base_url=place.gateway.url, api_key=place.token, max_retries=0) as client:
        yield client


def test_messages(place: Place, client: Anthropic) -> None:
    place.upstream.plan(reasoning="Look outside.")
    message = client.messages.create(
        model="helper",
        max_tokens=99,
        system="Be brief.",
        messages=[{"role": "user", "content": "Weather?"}],
        thinking={"type": "enabled", "budget_tokens": 1024},
        metadata={"user_id": "carol"},
    )
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert message.content[1].text == "It is sunny."
    assert (message.stop_reason, message.role) == ("end_turn", "assistant")
    assert message.usage.input_tokens > 0
    assert message.usage.output_tokens > 0
    sent = place.upstream.requests[-1]["body"]
    assert sent["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather?"}]


def test_streamed_messages(place: Place, client: Anthropic) -> None:
    place.upstream.plan(reasoning="Look outside.")
    with client.messages.stream(
        model="helper", max_tokens=99, messages=[{"role": "user", "content": "Weather?"}]
    ) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == "It is sunny."
    assert [block.type for block in final.content] == ["thinking", "text"]
    assert final.usage.input_tokens > 0
    assert final.usage.output_tokens > 0


def test_tools_streamed_and_back(place: Place, client: Anthropic) -> None:
    place.upstream.plan(tool_calls=[CALL, CALL], reply="Let me see.")
    messages: list[Any] = [{"role": "user", "content": "Weather?"}]
    with client.messages.stream(model="helper", max_tokens=99, messages=messages, tools=[TOOL]) as stream:
        message = stream.get_final_message()
    assert message.stop_reason == "tool_use"
    uses = [block for block in message.content if block.type == "tool_use"]
    assert [use.input for use in uses] == [{"city": "Zürich"}] * 2
    place.upstream.plan(tool_calls=[], reply="Sunny.")
    results = [{"type": "tool_result", "tool_use_id": use.id, "content": "sun"} for use in uses]
    messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
    answer = client.messages.create(
        model="helper", max_tokens=99, messages=messages, tools=[TOOL], tool_choice={"type": "auto"}
    )
    assert answer.content[0].text == "Sunny."
    sent = place.upstream.requests[-1]["body"]["messages"]
    assert [each["role"] for each in sent] == ["user", "assistant", "tool", "tool"]
    assert sent[1]["tool_calls"][0]["function"] == {"name": "weather", "arguments": CALL[1]}


def test_models(client: Anthropic) -> None:
    assert "helper" in [model.id for model in client.models.list()]


def test_errors_are_the_clients_own(place: Place, client: Anthropic) -> None:
    hello: Any = [{"role": "user", "content": "hi"}]
    with pytest.raises(anthropic.NotFoundError) as missing:
        client.messages.create(model="nobody", max_tokens=9, messages=hello)
    assert missing.value.type == "not_found_error"
    with pytest.raises(anthropic.BadRequestError, match=r"messages\.0\.content") as bad:
        unreadable: Any = [{"role": "user"}]
        client.messages.create(model="helper", max_tokens=9, messages=unreadable)
    assert bad.value.type == "invalid_request_error"
    with pytest.raises(anthropic.BadRequestError, match="bash_20250124"):
        tools: Any = [{"type": "bash_20250124", "name": "bash"}]
        client.messages.create(model="helper", max_tokens=9, messages=hello, tools=tools)
    with pytest.raises(anthropic.AuthenticationError):
        client.with_options(api_key="tnt_nobody_x").messages.create(model="helper", max_tokens=9, messages=hello)
    with pytest.raises(anthropic.NotFoundError):
        client.messages.count_tokens(model="nobody", messages=hello)
    place.upstream.plan(status=429, retry_after="7")
    with pytest.raises(anthropic.RateLimitError) as busy:
        client.messages.create(model="helper", max_tokens=9, messages=hello)
    assert busy.value.response.headers["retry-after"] == "7"
    assert busy.value.type == "rate_limit_error"
    place.upstream.plan(status=500)
    with pytest.raises(anthropic.InternalServerError) as broken:
        client.messages.create(model="helper", max_tokens=9, messages=hello)
    assert broken.value.type in {"api_error", "overloaded_error"}


def test_a_stream_that_breaks_off_is_an_error(place: Place, client: Anthropic) -> None:
    place.upstream.plan(truncate_after=2)
    hello: Any = [{"role": "user", "content": "hi"}]
    with (
        pytest.raises(anthropic.APIStatusError, match=r"went away|broke off") as caught,
        client.messages.stream(model="helper", max_tokens=9, messages=hello) as stream,
    ):
        stream.until_done()
    assert caught.value.type == "api_error"
