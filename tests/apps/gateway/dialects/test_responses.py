"""OpenAI's Responses, by hand."""

import json
from typing import Any

import pytest
from openai.types.responses import Response

from apps.gateway.dialects import DIALECTS, BadRequestError, fit_server
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
            {"role": "system", "content": "be brief\n\nbe kind", "name": "instructions:8"},
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
        "store": False,
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


HOSTED: list[Json] = [
    {"type": "local_shell_call", "call_id": "a", "action": {"type": "exec", "command": ["ls"]}},
    {"type": "local_shell_call_output", "call_id": "a", "output": "notes.txt"},
    {"type": "shell_call", "call_id": "b", "action": {"commands": ["pwd"]}},
    {"type": "shell_call_output", "call_id": "b", "output": [{"stdout": "/home", "stderr": ""}]},
    {"type": "apply_patch_call", "call_id": "c", "operation": {"type": "delete_file", "path": "x"}},
    {"type": "apply_patch_call_output", "call_id": "c", "status": "completed", "output": "done"},
    {"type": "computer_call", "call_id": "d", "action": {"type": "screenshot"}},
    {"type": "computer_call_output", "call_id": "d", "output": {"type": "computer_screenshot", "image_url": "data:x"}},
    {"type": "mcp_call", "id": "e", "server_label": "docs", "name": "find", "arguments": "{}", "output": "found"},
    {"type": "code_interpreter_call", "id": "f", "code": "1+1", "outputs": [{"type": "logs", "logs": "2"}]},
    {"type": "file_search_call", "id": "g", "queries": ["q"], "results": [{"filename": "a.md", "text": "words"}]},
]


def test_items_of_built_in_tools_are_calls_of_functions() -> None:
    chat = ask([{"role": "user", "content": "Go."}, *HOSTED])
    calls = [call["function"] for message in chat["messages"] for call in message.get("tool_calls") or ()]
    assert [call["name"] for call in calls] == [
        "local_shell",
        "shell",
        "apply_patch",
        "computer",
        "docs__find",
        "code_interpreter",
        "file_search",
    ]
    assert calls[0]["arguments"] == '{"type": "exec", "command": ["ls"]}'
    given = {message["tool_call_id"]: message["content"] for message in chat["messages"] if message["role"] == "tool"}
    assert given == {
        "a": "notes.txt",
        "b": '[{"stdout": "/home", "stderr": ""}]',
        "c": "done",
        "d": "",
        "e": "found",
        "f": "2",
        "g": "a.md\nwords",
    }
    assert {"type": "image_url", "image_url": {"url": "data:x"}} in chat["messages"][9]["content"]
    assert "dropped_items" not in chat


def test_items_that_say_nothing_here_are_left_out_with_a_note() -> None:
    kinds = ["web_search_call", "image_generation_call", "mcp_list_tools", "mcp_approval_response", "file_search_call"]
    chat = ask([{"role": "user", "content": "Go."}, *({"type": kind, "id": kind} for kind in kinds)])
    assert chat["messages"] == [{"role": "user", "content": "Go."}]
    assert chat["dropped_items"] == kinds
    for kind in ("vllm", "openai", "custom", "engine"):
        assert "dropped_items" not in fit_server(chat, kind=kind, reasoning_field="")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": [7]}, "input.0"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input.0"),
        ({"input": [{"type": "web_search_cal", "id": "ws_1"}]}, "input.0.type"),
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
        ({"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function"}]}]}, "tools.0.tools.0.name"),
        ({"tools": [{"type": "web_search"}], "tool_choice": "required"}, "tool_choice"),
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


@pytest.mark.parametrize("kind", ["web_search", "file_search", "local_shell", "mcp", "tool_search"])
def test_a_built_in_tool_is_left_out_with_a_note(kind: str) -> None:
    chat = ask(tools=[{"type": kind}, TOOL], tool_choice="auto")
    assert [tool["function"]["name"] for tool in chat["tools"]] == ["look"]
    assert chat["dropped_tools"] == [kind]
    assert "dropped_tools" not in fit_server(chat, kind="vllm", reasoning_field="")
    alone = ask(tools=[{"type": kind}], tool_choice="auto", parallel_tool_calls=True)
    assert alone.keys() == {"model", "messages", "dropped_tools"}
    assert ask(parallel_tool_calls=False).keys() == {"model", "messages"}
    assert ask(tools=[TOOL], parallel_tool_calls=False)["parallel_tool_calls"] is False
    echoed = DIALECT.from_chat(make_answer({"content": "hi"}), {"tools": [{"type": kind}, TOOL]}, id=ID)["tools"]
    assert echoed == [TOOL]


AGENTS: Json = {
    "type": "namespace",
    "name": "multi_agent",
    "description": "others",
    "tools": [{"type": "function", "name": "spawn", "parameters": {"type": "object"}, "defer_loading": True}],
}
PATCH: Json = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: begin"},
}


def test_tools_of_a_namespace_and_custom_tools_are_functions() -> None:
    chat = ask(tools=[AGENTS, PATCH, TOOL], tool_choice={"type": "custom", "name": "apply_patch"})
    first, second = (tool["function"] for tool in chat["tools"][:2])
    assert first == {"name": "multi_agent__spawn", "parameters": {"type": "object"}}
    assert (second["name"], second["description"]) == ("apply_patch", "Edits files.\n\nstart: begin")
    assert second["parameters"]["required"] == ["input"]
    assert chat["tool_choice"]["function"] == {"name": "apply_patch"}
    long = AGENTS | {"name": "n" * 80}
    assert len(ask(tools=[long])["tools"][0]["function"]["name"]) == 64


def test_their_calls_go_back_under_the_callers_names_and_come_again() -> None:
    said = "*** Begin Patch\n*** End Patch"
    calls = [
        {"id": "a", "type": "function", "function": {"name": "multi_agent__spawn", "arguments": '{"task": "x"}'}},
        {"id": "b", "type": "function", "function": {"name": "apply_patch", "arguments": json.dumps({"input": said})}},
        {"id": "c", "type": "function", "function": {"name": "apply_patch", "arguments": said}},
        {"id": "d", "type": "function", "function": {"name": "look", "arguments": "{}"}},
    ]
    request = {"model": "m", "tools": [AGENTS, PATCH, TOOL]}
    answer = make_answer({"role": "assistant", "content": None, "tool_calls": calls}, finish="tool_calls")
    response = DIALECT.from_chat(answer, request, id=ID)
    Response.model_validate(response)
    spawn, patch, bare, look = response["output"]
    assert (spawn["type"], spawn["namespace"], spawn["name"]) == ("function_call", "multi_agent", "spawn")
    assert (patch["type"], patch["name"], patch["input"]) == ("custom_tool_call", "apply_patch", said)
    assert bare["input"] == said
    assert "namespace" not in look
    outputs = [{"type": "custom_tool_call_output", "call_id": "b", "output": "done"}]
    messages = ask([{"role": "user", "content": "go"}, spawn, patch, look, *outputs])["messages"]
    assert messages[1]["tool_calls"] == [calls[0], calls[1], calls[3]]
    assert messages[2] == {"role": "tool", "tool_call_id": "b", "content": "done"}


def test_later_system_messages_are_reminders_where_they_stand() -> None:
    items = [
        {"role": "developer", "content": "be kind"},
        {"role": "developer", "content": "be quick"},
        {"role": "user", "content": "hi"},
        {"role": "developer", "content": [{"type": "input_text", "text": "the plan is over"}]},
    ]
    first = ask(items)["messages"]
    assert first == [
        {"role": "system", "content": "be kind\n\nbe quick"},
        {"role": "user", "content": "hi"},
        {"role": "user", "content": "<system-reminder>\nthe plan is over\n</system-reminder>"},
    ]
    more = [{"role": "assistant", "content": "hello"}, {"role": "developer", "content": "stop"}]
    assert ask([*items, *more])["messages"][: len(first)] == first


def test_a_later_request_inherits_what_stood_behind_the_instructions() -> None:
    earlier = ask([{"role": "developer", "content": "be kind"}], instructions="be brief")["messages"]
    body = {"model": "m", "input": "so?", "previous_response_id": "resp_1", "instructions": "be long"}
    assert DIALECT.to_chat(body, earlier=earlier)["messages"] == [
        {"role": "system", "content": "be long\n\nbe kind", "name": "instructions:7"},
        {"role": "user", "content": "so?"},
    ]


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
