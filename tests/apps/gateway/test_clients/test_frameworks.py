"""LangChain and smolagents."""

from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import SecretStr
from smolagents import OpenAIServerModel, Tool, ToolCallingAgent  # type: ignore[import-untyped]

from tests.apps.gateway.test_clients.conftest import Place

pytestmark = pytest.mark.django_db

CALL = ["weather", '{"city": "Zürich"}']


@tool
def weather(city: str) -> str:
    """The sky over a city."""
    return f"sun over {city}"


class Weather(Tool):  # type: ignore[misc]
    """The same for smolagents."""

    name = "weather"
    description = "The sky over a city."
    inputs = {"city": {"type": "string", "description": "its name"}}
    output_type = "string"

    def forward(self, city: str) -> str:
        return f"sun over {city}"


def make_model(name: str, place: Place) -> BaseChatModel:
    if name == "anthropic":
        return ChatAnthropic(
            model_name="helper",
            base_url=place.gateway.url,
            api_key=SecretStr(place.token),
            max_retries=0,
            timeout=30,
            stop=None,
        )
    return ChatOpenAI(
        model="helper",
        base_url=place.v1,
        api_key=SecretStr(place.token),
        max_retries=0,
        use_responses_api=name == "responses",
        stream_usage=True,
    )


@pytest.mark.parametrize("name", ["chat", "responses", "anthropic"])
def test_langchain_calls_a_tool_and_goes_on(place: Place, name: str) -> None:
    model = make_model(name, place).bind_tools([weather])
    place.upstream.plan(tool_calls=[CALL], reply="Let me see.", reasoning="Look it up.")
    messages: list[Any] = [HumanMessage("Weather in Zürich?")]
    answer = model.invoke(messages)
    assert isinstance(answer, AIMessage)
    assert [(call["name"], call["args"]) for call in answer.tool_calls] == [("weather", {"city": "Zürich"})]
    assert answer.text == "Let me see."
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["output_tokens"] > 0
    messages += [
        answer,
        *(ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"]) for call in answer.tool_calls),
    ]
    place.upstream.plan(tool_calls=[], reply="Sunny.", reasoning="")
    assert model.invoke(messages).text == "Sunny."
    sent = place.upstream.requests[-1]["body"]["messages"]
    assert [each["role"] for each in sent] == ["user", "assistant", "tool"]
    assert sent[2]["content"] == "sun over Zürich"


@pytest.mark.parametrize("name", ["chat", "responses", "anthropic"])
def test_langchain_streams_text_and_calls(place: Place, name: str) -> None:
    place.upstream.plan(tool_calls=[CALL], reply="Let me see.", reasoning="Look it up.")
    model = make_model(name, place).bind_tools([weather])
    whole: Any = None
    for chunk in model.stream("Weather in Zürich?"):
        whole = chunk if whole is None else whole + chunk
    assert whole.text == "Let me see."
    assert [(call["name"], call["args"]) for call in whole.tool_calls] == [("weather", {"city": "Zürich"})]
    assert whole.usage_metadata["output_tokens"] > 0


def test_a_smolagents_agent_works_through_the_gateway(place: Place) -> None:
    place.upstream.plan(tool_calls=[CALL], reply="")
    model = OpenAIServerModel(model_id="helper", api_base=place.v1, api_key=place.token)
    agent = ToolCallingAgent(tools=[Weather()], model=model, max_steps=2, verbosity_level=0)
    steps = agent.run("Weather in Zürich?", stream=True)
    next(step for step in steps if type(step).__name__ == "ActionStep")
    assert "sun over Zürich" in str(agent.memory.steps[-1].observations)
    place.upstream.plan(tool_calls=[["final_answer", '{"answer": "sunny"}']])
    assert agent.run("Weather in Zürich?") == "sunny"
