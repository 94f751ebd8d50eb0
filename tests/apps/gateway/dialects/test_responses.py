"""OpenAI's Responses, by hand."""

from typing import Any

import pytest
from openai.types.responses import Response

from apps.gateway.dialects import DIALECTS, BadRequestError
from tests.apps.gateway.dialects.conversations import ID, Json, make_answer

DIALECT = DIALECTS["responses"]
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": True}


def ask(input: Any = "hello", **fields: Any) -> Json:
    return DIALECT.to_chat({"model": "m", "input": input, **fields})


def test_a_whole_request_in_chat() -> None:
    chat = ask(
        [
            {"role": "developer", "content": "be kind"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Look it up."}]},
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "One moment.", "annotations": []}],
            },
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": "{}"},
            {"type": "function_call", "id": "fc_2", "call_id": "call_2", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "sunny"},
            {"type": "function_call_output", "call_id": "call_2", "output": [{"type": "input_text", "text": "rain"}]},
        ],
        instructions="be brief",
        tools=[TOOL],
        tool_choice="auto",
        max_output_tokens=50,
        reasoning={"effort": "low", "summary": "auto"},
        text={"verbosity": "low"},
        include=["message.output_text.logprobs"],
        stream=True,
        store=False,
        truncation="auto",
        prompt_cache_key="k",
    )
    calls = [
        {"id": name, "type": "function", "function": {"name": "look", "arguments": "{}"}}
        for name in ("call_1", "call_2")
    ]
    function = {"name": "look", "parameters": {"type": "object"}, "strict": True}
    assert chat == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "be brief", "name": "instructions"},
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "Weather?"},
            {
                "role": "assistant",
                "reasoning_content": "Look it up.",
                "content": "One moment.",
                "tool_calls": calls,
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
            {"role": "tool", "tool_call_id": "call_2", "content": "rain"},
        ],
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "auto",
        "max_tokens": 50,
        "reasoning_effort": "low",
        "verbosity": "low",
        "logprobs": True,
        "top_logprobs": 0,
        "prompt_cache_key": "k",
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_second_answer_is_a_message_of_its_own() -> None:
    items = [
        {"role": "assistant", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
    ]
    messages = ask(items)["messages"]
    assert [message.get("content") for message in messages] == ["one", "two", None]
    assert messages[2]["reasoning_content"] == "hm"


def test_only_allowed_tools_are_offered() -> None:
    other = {"type": "function", "name": "other"}
    choice = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "other"}]}
    chat = ask(tools=[TOOL, other], tool_choice=choice)
    assert chat["tools"] == [{"type": "function", "function": {"name": "other"}}]
    assert chat["tool_choice"] == "required"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": [7]}, "input.0"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input.0"),
        ({"input": [{"type": "web_search_call", "id": "ws_1"}]}, "input.0.type"),
        ({"input": [{"role": "robot", "content": "x"}]}, "input.0.role"),
        ({"input": [{"role": "user", "content": 7}]}, "input.0.content"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
            "input.0.content.0.image_url",
        ),
        ({"input": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "input.0.content.0.type"),
        ({"input": [{"type": "function_call", "call_id": "c", "name": "x"}]}, "input.0.arguments"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "input.0.call_id"),
        ({"model": None}, "model"),
        ({"instructions": ["x"]}, "instructions"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"background": True}, "background"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"tools": [{"type": "web_search"}]}, "tools.0.type"),
        ({"tools": [{"type": "function"}]}, "tools.0.name"),
        ({"tools": [TOOL], "tool_choice": {"type": "file_search"}}, "tool_choice.type"),
        ({"text": {"format": {"type": "grammar"}}}, "text.format.type"),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema"),
        ({"reasoning": "deep"}, "reasoning"),
        ({"previous_response_id": "resp_unknown"}, "previous_response_id"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_path(fields: Json, param: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        DIALECT.to_chat({"model": "m", "input": "hello", **fields})
    assert caught.value.param == param
    assert caught.value.status == 400


@pytest.mark.parametrize("kind", ["web_search", "file_search", "code_interpreter", "mcp", "computer", "custom"])
def test_a_built_in_tool_is_refused_by_its_name(kind: str) -> None:
    with pytest.raises(BadRequestError, match=f"the built-in tool {kind} is not offered here"):
        ask(tools=[{"type": kind}])


def test_an_unknown_answer_to_go_on_from_is_refused_as_openai_does() -> None:
    body = {"model": "m", "input": "hello", "previous_response_id": "resp_1"}
    assert DIALECT.previous_id(body) == "resp_1"
    with pytest.raises(BadRequestError, match="Previous response with id 'resp_1' not found") as caught:
        DIALECT.to_chat(body)
    assert caught.value.code == "previous_response_not_found"
    assert DIALECT.to_chat(body, earlier=[])["messages"] == [{"role": "user", "content": "hello"}]


def test_an_answer_repeats_its_requests_settings() -> None:
    request = {
        "model": "m",
        "input": "hello",
        "instructions": "be brief",
        "max_output_tokens": 50,
        "metadata": {"a": "b"},
        "parallel_tool_calls": False,
        "previous_response_id": "resp_0",
        "reasoning": {"effort": "low"},
        "store": False,
        "temperature": 0.5,
        "text": {"format": {"type": "json_object"}},
        "tool_choice": "required",
        "tools": [TOOL],
    }
    response = DIALECT.from_chat(make_answer({"role": "assistant", "content": "{}"}), request, id=ID)
    Response.model_validate(response)
    assert {key: response[key] for key in request if key not in ("input", "model", "reasoning")} == {
        key: value for key, value in request.items() if key not in ("input", "model", "reasoning")
    }
    assert response["reasoning"] == {"effort": "low", "summary": None}
    assert (response["id"], response["model"]) == (f"resp_{ID}", "desk@v3")
    assert (response["status"], response["error"], response["incomplete_details"]) == ("completed", None, None)


def test_an_answer_that_was_cut_is_incomplete() -> None:
    response = DIALECT.from_chat(make_answer({"content": "Once"}, finish="length"), {"model": "m"}, id=ID)
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["output"][0]["status"] == "incomplete"


def test_log_probs_come_with_their_bytes() -> None:
    top = {"token": "ü", "logprob": -0.5, "bytes": None}
    content = [{"token": "ü", "logprob": -0.5, "bytes": [195, 188], "top_logprobs": [top]}]
    answer = make_answer({"content": "ü"}, logprobs={"content": content})
    response = DIALECT.from_chat(answer, {"model": "m"}, id=ID)
    Response.model_validate(response)
    said = {"token": "ü", "logprob": -0.5, "bytes": [195, 188]}
    assert response["output"][0]["content"][0]["logprobs"] == [said | {"top_logprobs": [said]}]
