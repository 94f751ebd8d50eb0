"""What two dialects can both say survives the way there and back, whatever is said."""

import copy
from typing import Any

from anthropic.types import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import Response

from apps.gateway.dialects import DIALECTS, UPSTREAMS
from tests.apps.gateway.dialects.conversations import (
    ID,
    Json,
    chat_answers,
    conversations,
    images,
    make_answer,
    names,
    texts,
)

schemas = st.fixed_dictionaries(
    {
        "type": st.just("object"),
        "properties": st.dictionaries(names, st.just({"type": "string"}), max_size=2),
    }
)
functions = st.fixed_dictionaries(
    {"name": names, "parameters": schemas}, optional={"description": texts, "strict": st.booleans()}
)
tools = st.lists(
    st.fixed_dictionaries({"type": st.just("function"), "function": functions}),
    min_size=1,
    max_size=3,
)
choices = st.sampled_from(["auto", "none", "required"]) | st.fixed_dictionaries(
    {"type": st.just("function"), "function": st.fixed_dictionaries({"name": names})}
)
requests = st.fixed_dictionaries(
    {"max_tokens": st.integers(1, 9999)},
    optional={
        "temperature": st.floats(0, 1),
        "top_p": st.floats(0, 1),
        "top_k": st.integers(1, 99),
        "stop": st.lists(texts, min_size=1, max_size=3),
        "user": texts,
        "tools": tools,
        "response_format": st.fixed_dictionaries(
            {
                "type": st.just("json_schema"),
                "json_schema": st.fixed_dictionaries(
                    {"name": st.just("output"), "schema": schemas, "strict": st.just(True)}
                ),
            }
        ),
    },
)


def sign(messages: list[Json]) -> list[Json]:
    """The same conversation with thoughts as Anthropic signs them: others it would not take back."""
    signed = copy.deepcopy(messages)
    for message in signed:
        if thought := message.get("reasoning_content"):
            block = {"type": "thinking", "thinking": thought, "signature": "c2lnbmVk"}
            message["thinking_blocks"] = [block]
    return signed


@settings(deadline=None)
@given(conversations(), requests, choices)
def test_a_chat_request_survives_the_way_to_anthropic_and_back(messages: list[Json], chosen: Json, choice: Any) -> None:
    chat = {"model": "m", "messages": sign(messages), **chosen}
    if "tools" in chat:
        chat |= {"tool_choice": choice} | ({} if choice == "none" else {"parallel_tool_calls": False})
    back = DIALECTS["messages"].to_chat(UPSTREAMS["messages"].from_chat(chat))
    for message in chat["messages"]:
        message.pop("thinking_blocks", None)
    assert back == chat


@settings(deadline=None)
@given(chat_answers())
def test_a_chat_answer_survives_being_a_message(answer: Json) -> None:
    message = answer["choices"][0]["message"]
    there = DIALECTS["messages"].from_chat(answer, {"model": "m"}, id=ID)
    Message.model_validate(there)
    back = UPSTREAMS["messages"].to_chat(there, created=1_700_000_000)
    assert back["choices"][0]["message"] == message
    assert back["choices"][0]["finish_reason"] == answer["choices"][0]["finish_reason"]
    wanted = copy.deepcopy(answer["usage"])
    wanted["prompt_tokens_details"]["cache_write_tokens"] = 0
    assert back["usage"] == wanted


@settings(deadline=None)
@given(conversations())
def test_a_conversation_held_in_messages_is_the_same_chat(messages: list[Json]) -> None:
    """The caller sends back the answers as it got them."""
    dialect = DIALECTS["messages"]
    sent: Json = {"model": "m", "max_tokens": 9, "messages": []}
    for message in messages:
        if message["role"] == "system":
            sent["system"] = message["content"]
        elif message["role"] == "assistant":
            answer = dialect.from_chat(make_answer(message), {}, id=ID)
            sent["messages"].append({"role": "assistant", "content": answer["content"]})
        else:
            there = UPSTREAMS["messages"].from_chat({"model": "m", "messages": [message]})
            sent["messages"] += there["messages"]
    assert dialect.to_chat(sent)["messages"] == messages


def say_as_item(message: Json) -> Json:
    """A user's, system's or tool's message as a Responses item."""
    if message["role"] == "tool":
        output = message["content"]
        return {"type": "function_call_output", "call_id": message["tool_call_id"], "output": output}
    content = message["content"]
    if isinstance(content, list):
        content = [
            {"type": "input_text", "text": part["text"]}
            if part["type"] == "text"
            else {"type": "input_image", "image_url": part["image_url"]["url"]}
            for part in content
        ]
    return {"role": message["role"], "content": content}


@settings(deadline=None)
@given(conversations())
def test_a_conversation_held_in_responses_is_the_same_chat(messages: list[Json]) -> None:
    """The caller sends back the output items as it got them."""
    dialect = DIALECTS["responses"]
    items: list[Json] = []
    for message in messages:
        if message["role"] != "assistant":
            items.append(say_as_item(message))
            continue
        response = dialect.from_chat(make_answer(message), {"model": "m"}, id=ID)
        Response.model_validate(response)
        items += response["output"]
    assert dialect.to_chat({"model": "m", "input": items})["messages"] == messages


@settings(deadline=None)
@given(conversations(), texts)
def test_a_conversation_goes_on_from_an_answer_by_its_id(messages: list[Json], instructions: str) -> None:
    """The instructions of the earlier request are not inherited; everything else is."""
    dialect = DIALECTS["responses"]
    earlier = dialect.to_chat(
        {"model": "m", "instructions": instructions, "input": [say_as_item({"role": "user", "content": "hello"})]}
    )["messages"]
    answer = {"role": "assistant", "content": "hello!"}
    items = [say_as_item(message) for message in messages if message["role"] in ("user", "system")]
    body = {"model": "m", "input": items, "previous_response_id": "resp_1", "instructions": "be brief"}
    chat = dialect.to_chat(body, earlier=[*earlier, answer])
    assert [message["content"] for message in chat["messages"][:3]] == ["be brief", "hello", "hello!"]
    said = [message for message in messages if message["role"] in ("user", "system")]
    assert [message["role"] for message in chat["messages"][3:]] == ["user"] * len(said)
    for message, wanted in zip(chat["messages"][3:], said, strict=True):
        if wanted["role"] == "user":
            assert message == wanted
        else:
            assert message["content"] == f"<system-reminder>\n{wanted['content']}\n</system-reminder>"


@settings(deadline=None)
@given(requests, choices)
def test_settings_of_a_responses_request_are_those_of_the_chat(chosen: Json, choice: Any) -> None:
    for key in ("top_k", "stop"):
        chosen.pop(key, None)
    chat: Json = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **chosen}
    body: Json = {"model": "m", "input": "hi", "max_output_tokens": chat["max_tokens"]}
    body |= {key: chosen[key] for key in ("temperature", "top_p", "user") if key in chosen}
    if "tools" in chat:
        chat["tool_choice"] = choice
        body["tools"] = [{"type": "function", **tool["function"]} for tool in chat["tools"]]
        named = isinstance(choice, dict)
        body["tool_choice"] = {"type": "function", "name": choice["function"]["name"]} if named else choice
    if "response_format" in chat:
        body["text"] = {"format": {"type": "json_schema", **chat["response_format"]["json_schema"]}}
    assert DIALECTS["responses"].to_chat(body) == chat


@settings(deadline=None)
@given(st.lists(images, min_size=1, max_size=2), texts)
def test_what_a_tool_shows_is_shown_by_the_user_behind_all_results(urls: list[str], text: str) -> None:
    shown = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    parts = [{"type": "input_image", "image_url": url} for url in urls]
    items = [
        {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"},
        {"type": "function_call", "call_id": "b", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": text}, *parts]},
        {"type": "function_call_output", "call_id": "b", "output": "nothing"},
    ]
    messages = DIALECTS["responses"].to_chat({"model": "m", "input": items})["messages"]
    assert [message["role"] for message in messages] == ["assistant", "tool", "tool", "user"]
    assert messages[1]["content"] == text
    assert messages[3]["content"] == shown
