"""Anthropic's Messages, by hand."""

from typing import Any

import pytest

from apps.gateway.dialects import DIALECTS, UPSTREAMS, BadRequestError
from tests.apps.gateway.dialects.conversations import ID, PIXEL, Json, make_answer

DIALECT = DIALECTS["messages"]
HELLO = {"role": "user", "content": "hello"}


def ask(*messages: Json, **fields: Any) -> Json:
    return DIALECT.to_chat({"model": "m", "max_tokens": 9, "messages": list(messages) or [HELLO], **fields})


def test_a_whole_request_in_chat() -> None:
    chat = ask(
        {"role": "user", "content": [{"type": "text", "text": "Weather?", "cache_control": {"type": "ephemeral"}}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Look it up.", "signature": "c2ln"},
                {"type": "text", "text": "One moment."},
                {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Zürich", "days": 2}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "sunny"}]},
                {"type": "text", "text": "And tomorrow?"},
            ],
        },
        system=[{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}],
        tools=[{"name": "weather", "description": "the sky", "input_schema": {"type": "object"}}],
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
        stop_sequences=["END"],
        temperature=0.5,
        top_k=5,
        metadata={"user_id": "alice"},
        stream=True,
    )
    call = {"name": "weather", "arguments": '{"city": "Zürich", "days": 2}'}
    assert chat == {
        "model": "m",
        "max_tokens": 9,
        "messages": [
            {"role": "system", "content": "Be brief.\n\nBe kind."},
            {"role": "user", "content": "Weather?"},
            {
                "role": "assistant",
                "content": "One moment.",
                "reasoning_content": "Look it up.",
                "tool_calls": [{"id": "toolu_1", "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": "toolu_1", "content": "sunny"},
            {"role": "user", "content": "And tomorrow?"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "weather", "description": "the sky", "parameters": {"type": "object"}},
            }
        ],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "stop": ["END"],
        "temperature": 0.5,
        "top_k": 5,
        "user": "alice",
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_an_image_in_a_tool_result_is_shown_by_the_user() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    content = [{"type": "text", "text": "the screen"}, {"type": "image", "source": source}]
    result = {"type": "tool_result", "tool_use_id": "t", "content": content, "is_error": True}
    assert ask({"role": "user", "content": [result]})["messages"] == [
        {"role": "tool", "tool_call_id": "t", "content": "Error: the screen"},
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}],
        },
    ]


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a\nb"}, "title": "T"},
            "T\na\nb",
        ),
        (
            {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "c"}]}},
            "c",
        ),
        (
            {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x"}]},
            "t\ns\nx",
        ),
    ],
)
def test_documents_of_text_are_text(block: Json, part: str) -> None:
    assert ask({"role": "user", "content": [block]})["messages"][0]["content"] == part


def test_a_pdf_is_a_file() -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
    chat = ask({"role": "user", "content": [{"type": "document", "source": source, "title": "a.pdf"}]})
    file = {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}
    assert chat["messages"][0]["content"] == [{"type": "file", "file": file}]
    assert UPSTREAMS["messages"].from_chat(chat)["messages"][0]["content"][0]["source"] == source


def test_an_answer_to_go_on_with_is_gone_on_with() -> None:
    chat = ask(HELLO, {"role": "assistant", "content": "The best answer is ("})
    assert (chat["continue_final_message"], chat["add_generation_prompt"]) == (True, False)


@pytest.mark.parametrize(
    ("thinking", "effort"),
    [
        ({"type": "enabled", "budget_tokens": 1024}, "low"),
        ({"type": "enabled", "budget_tokens": 4096}, "medium"),
        ({"type": "enabled", "budget_tokens": 32000}, "high"),
        ({"type": "adaptive"}, None),
        ({"type": "disabled"}, None),
    ],
)
def test_a_budget_for_thoughts_is_an_effort(thinking: Json, effort: str | None) -> None:
    assert ask(thinking=thinking).get("reasoning_effort") == effort


def test_an_output_schema_is_a_response_format() -> None:
    chat = ask(output_config={"effort": "max", "format": {"type": "json_schema", "schema": {"type": "object"}}})
    assert chat["reasoning_effort"] == "high"
    assert chat["response_format"]["json_schema"] == {"name": "output", "schema": {"type": "object"}, "strict": True}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": "9"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"model": ""}, "model"),
        ({"model": 7}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": ["hello"]}, "messages.0"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages.0.content.0.text"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, "messages.0.content.0.tool_use_id"),
        ({"messages": [{"role": "user", "content": [{"type": "server_tool_use"}]}]}, "messages.0.content.0.type"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "file"}}]}]},
            "messages.0.content.0.source.type",
        ),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n"}]}]},
            "messages.0.content.0.input",
        ),
        ({"system": 7}, "system"),
        ({"system": [{"type": "image"}]}, "system.0.type"),
        ({"tools": {"name": "x"}}, "tools"),
        ({"tools": [{"name": "x"}]}, "tools.0.input_schema"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools.0"),
        (
            {
                "tools": [{"type": "web_search_20250305", "name": "web_search"}],
                "tool_choice": {"type": "tool", "name": "web_search"},
            },
            "tool_choice.name",
        ),
        (
            {"tools": [{"type": "web_search_20250305", "name": "web_search"}], "tool_choice": {"type": "any"}},
            "tool_choice.type",
        ),
        ({"tool_choice": {"type": "sometimes"}}, "tool_choice.type"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
        ({"thinking": {"type": "deeply"}}, "thinking.type"),
        ({"output_config": {"format": {"type": "xml"}}}, "output_config.format.type"),
        ({"mcp_servers": [{"url": "https://example.org"}]}, "mcp_servers"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_path(fields: Json, param: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        DIALECT.to_chat({"model": "m", "max_tokens": 9, "messages": [HELLO], **fields})
    assert caught.value.param == param
    assert param in str(caught.value)
    assert caught.value.status == 400


def test_a_built_in_tool_is_refused_by_its_name() -> None:
    with pytest.raises(BadRequestError, match="bash_20250124"):
        ask(tools=[{"type": "bash_20250124", "name": "bash"}])


def test_what_anthropics_servers_run_is_left_out_with_a_note() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    look = {"name": "look", "input_schema": {"type": "object"}}
    chat = ask(tools=[search, look], tool_choice={"type": "auto"})
    assert [tool["function"]["name"] for tool in chat["tools"]] == ["look"]
    assert chat["dropped_tools"] == ["web_search"]
    described = UPSTREAMS["messages"].describe({"model": "m", "max_tokens": 9, "messages": [HELLO], "tools": [search]})
    assert described["tools"] == [search]


@pytest.mark.parametrize("kind", ["auto", "none"])
@pytest.mark.parametrize("tools", [[], [{"type": "web_search_20250305", "name": "web_search"}]])
def test_nothing_is_chosen_among_no_tools(kind: str, tools: list[Json]) -> None:
    chat = ask(tools=tools, tool_choice={"type": kind, "disable_parallel_tool_use": True})
    assert not chat.keys() & {"tools", "tool_choice", "parallel_tool_calls"}
    with pytest.raises(BadRequestError, match="no tool that could be called") as caught:
        ask(tools=tools, tool_choice={"type": "any"})
    assert caught.value.param == "tool_choice.type"


def test_a_tool_that_was_found_is_told_in_words() -> None:
    found = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "tool_reference", "tool_name": "Read"}]}
    assert ask({"role": "user", "content": [found]})["messages"][0]["content"] == "Tool found: Read"


def test_a_line_that_changes_with_each_request_is_not_the_system_prompts() -> None:
    def read(nonce: str) -> Json:
        line = f"x-anthropic-billing-header: cc_version=2.1; cch={nonce};"
        blocks = [{"type": "text", "text": line}, {"type": "text", "text": "Be brief."}]
        late = {"role": "system", "content": [{"type": "text", "text": "Mind the list."}]}
        return ask(HELLO, late, system=blocks)

    assert read("00a1") == read("ffe2")
    assert read("00a1")["messages"] == [
        {"role": "system", "content": "Be brief."},
        HELLO,
        {"role": "user", "content": "<system-reminder>\nMind the list.\n</system-reminder>"},
    ]


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ({"finish": "stop"}, ("end_turn", None)),
        ({"finish": "stop", "stop_reason": "END"}, ("stop_sequence", "END")),
        ({"finish": "stop", "stop_reason": 151645}, ("end_turn", None)),
        ({"finish": "length"}, ("max_tokens", None)),
        ({"finish": "content_filter"}, ("refusal", None)),
    ],
)
def test_why_an_answer_ended(choice: Json, reason: tuple[str, str | None]) -> None:
    message = DIALECT.from_chat(make_answer({"role": "assistant", "content": "hi"}, **choice), {}, id=ID)
    assert (message["stop_reason"], message["stop_sequence"]) == reason


def test_calls_end_an_answer_whatever_the_server_says() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": ""}}
    answer = make_answer({"role": "assistant", "content": None, "tool_calls": [call]}, finish="stop")
    message = DIALECT.from_chat(answer, {}, id=ID)
    assert message["stop_reason"] == "tool_use"
    assert message["content"] == [{"type": "tool_use", "id": "c", "name": "look", "input": {}}]


def test_arguments_that_are_no_object_are_kept_as_they_came() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": '}}
    answer = make_answer({"role": "assistant", "content": None, "tool_calls": [call]})
    assert DIALECT.from_chat(answer, {}, id=ID)["content"][0]["input"] == {"unparsed": '{"at": '}


@pytest.mark.parametrize(
    ("thinking", "kinds"),
    [
        (None, ["thinking", "text"]),
        ({"type": "adaptive"}, ["thinking", "text"]),
        ({"type": "disabled"}, ["text"]),
        ({"type": "enabled", "budget_tokens": 1024, "display": "omitted"}, ["text"]),
    ],
)
def test_thoughts_are_shown_unless_the_caller_said_no(thinking: Json | None, kinds: list[str]) -> None:
    answer = make_answer({"role": "assistant", "content": "hi", "reasoning_content": "hm"})
    message = DIALECT.from_chat(answer, {"thinking": thinking}, id=ID)
    assert [block["type"] for block in message["content"]] == kinds


def test_tokens_from_the_cache_are_counted_beside_the_input() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
        "completion_tokens_details": {"reasoning_tokens": 4},
    }
    message = DIALECT.from_chat(make_answer({"content": "hi"}, usage=usage), {}, id=ID)
    assert message["usage"] == {
        "input_tokens": 10,
        "cache_creation_input_tokens": 30,
        "cache_read_input_tokens": 60,
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 4},
    }


class TestServer:
    """A server that speaks Messages."""

    def ask(self, **fields: Any) -> Json:
        return UPSTREAMS["messages"].from_chat({"model": "m", "messages": [HELLO], **fields})

    def test_what_messages_must_say_and_chat_need_not(self) -> None:
        assert self.ask() == {"model": "m", "messages": [HELLO], "max_tokens": 4096}
        assert self.ask(max_completion_tokens=7)["max_tokens"] == 7

    def test_results_and_what_the_user_says_behind_them_are_one_turn(self) -> None:
        calls = [{"id": name, "type": "function", "function": {"name": "look", "arguments": ""}} for name in ("a", "b")]
        messages = [
            {"role": "developer", "content": "be kind"},
            HELLO,
            {"role": "assistant", "content": None, "tool_calls": calls, "reasoning_content": "unsigned"},
            {"role": "tool", "tool_call_id": "a", "content": "1"},
            {"role": "tool", "tool_call_id": "b", "content": "2"},
            {"role": "user", "content": "so?"},
        ]
        request = self.ask(messages=messages)
        assert request["system"] == "be kind"
        assert request["messages"] == [
            HELLO,
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": name, "name": "look", "input": {}} for name in ("a", "b")],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "1"},
                    {"type": "tool_result", "tool_use_id": "b", "content": "2"},
                    {"type": "text", "text": "so?"},
                ],
            },
        ]

    def test_it_is_not_told_to_think_over_a_call_whose_thoughts_were_lost(self) -> None:
        """OpenAI's clients do not send thoughts back; the server refuses a thinking turn without them."""
        thinking = {"type": "enabled", "budget_tokens": 1024}
        call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        messages: list[Json] = [HELLO, {"role": "assistant", "content": None, "tool_calls": [call]}]
        messages.append({"role": "tool", "tool_call_id": "a", "content": "1"})
        assert "thinking" not in self.ask(messages=messages, thinking=thinking)
        messages[1]["thinking_blocks"] = [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}]
        assert self.ask(messages=messages, thinking=thinking)["thinking"] == thinking

    def test_settings_in_its_words(self) -> None:
        request = self.ask(temperature=1.7, stop="END", reasoning_effort="minimal", user="alice", seed=1, stream=True)
        assert request["temperature"] == 1.0
        assert request["stop_sequences"] == ["END"]
        assert request["output_config"] == {"effort": "low"}
        assert request["metadata"] == {"user_id": "alice"}
        assert request["stream"] is True
        assert "seed" not in request

    @pytest.mark.parametrize(
        ("fields", "param"),
        [
            ({"n": 2}, "n"),
            ({"response_format": {"type": "json_object"}}, "response_format.type"),
            ({"messages": [{"role": "function", "content": "x"}]}, "messages.0.role"),
            ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "messages.0.content.0.type"),
            ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools.0.type"),
        ],
    )
    def test_what_it_cannot_do_is_refused(self, fields: Json, param: str) -> None:
        with pytest.raises(BadRequestError) as caught:
            self.ask(**fields)
        assert caught.value.param == param
