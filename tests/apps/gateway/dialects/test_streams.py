"""However an answer is cut into chunks, clients put together the answer that they would have got whole."""

import json
from typing import Any, cast

import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import omit
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from apps.gateway.dialects import DIALECTS, UPSTREAMS, AnswerStream, UpstreamFailedError
from tests.apps.gateway.dialects.conversations import (
    ID,
    Json,
    chat_answers,
    cut_into_chunks,
    make_answer,
    read_events,
)

MESSAGE_EVENTS: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
RESPONSE_EVENTS: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def translate(stream: AnswerStream, chunks: list[Json]) -> list[Json]:
    return read_events(b"".join(map(stream.feed, chunks)) + stream.finish())


def read_as_anthropic(events: list[Json]) -> Json:
    """The Message that Anthropic's client puts together, every event checked against its types."""
    snapshot, buffers = None, dict[int, bytes]()
    for event in events:
        read = MESSAGE_EVENTS.validate_python(event)
        assert read.type == event["type"]
        snapshot = accumulate_event(event=read, current_snapshot=snapshot, json_bufs=buffers)
    assert snapshot is not None
    return cast(Json, snapshot.to_dict())


def read_as_openai(events: list[Json]) -> Json:
    """The Response that OpenAI's client puts together, every event checked against its types and the numbering."""
    state: ResponseStreamState[None] = ResponseStreamState(input_tools=omit, text_format=omit)
    seen: list[Any] = []
    for number, event in enumerate(events):
        assert event["sequence_number"] == number
        read = RESPONSE_EVENTS.validate_python(event)
        assert read.type == event["type"]
        seen += state.handle_event(read)
    snapshot = state._completed_response or seen[-1].response
    return cast(Json, snapshot.to_dict())


@settings(deadline=None)
@given(st.data())
def test_a_streamed_message_is_the_whole_one(data: st.DataObject) -> None:
    answer = data.draw(chat_answers())
    chunks = data.draw(cut_into_chunks(answer))
    whole = DIALECTS["messages"].from_chat(answer, {}, id=ID)
    events = translate(DIALECTS["messages"].make_stream({}, id=ID), chunks)
    assert read_as_anthropic(events) == Message.model_validate(whole).to_dict()
    assert [event["type"] for event in events[-2:]] == ["message_delta", "message_stop"]


@settings(deadline=None)
@given(st.data())
def test_every_block_begins_once_in_order_and_stops_once(data: st.DataObject) -> None:
    chunks = data.draw(cut_into_chunks(data.draw(chat_answers())))
    events = translate(DIALECTS["messages"].make_stream({}, id=ID), chunks)
    begun = [event["index"] for event in events if event["type"] == "content_block_start"]
    stopped = [event["index"] for event in events if event["type"] == "content_block_stop"]
    assert begun == list(range(len(begun)))
    assert sorted(stopped) == begun
    open_blocks: set[int] = set()
    for event in events:
        if event["type"] == "content_block_start":
            open_blocks.add(event["index"])
        elif event["type"] == "content_block_stop":
            open_blocks.remove(event["index"])
        elif event["type"] == "content_block_delta":
            assert event["index"] in open_blocks


@settings(deadline=None)
@given(st.data())
def test_a_streamed_response_is_the_whole_one(data: st.DataObject) -> None:
    answer = data.draw(chat_answers())
    chunks = data.draw(cut_into_chunks(answer))
    request = {"model": "m", "instructions": "be kind", "metadata": {"a": "b"}}
    whole = DIALECTS["responses"].from_chat(answer, request, id=ID)
    events = translate(DIALECTS["responses"].make_stream(request, id=ID), chunks)
    found = read_as_openai(events)
    for item in found["output"]:
        for part in item.get("content") or ():
            part.pop("parsed", None)
        item.pop("parsed_arguments", None)
    assert found == Response.model_validate(whole).to_dict()
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]


def test_a_streamed_call_of_a_custom_tool_is_the_whole_one() -> None:
    function = {"name": "apply_patch", "arguments": '{"input": "*** Begin"}'}
    call = {"id": "c", "type": "function", "function": function}
    answer = make_answer({"role": "assistant", "content": "so", "tool_calls": [call]}, finish="tool_calls")
    request = {"model": "m", "tools": [{"type": "custom", "name": "apply_patch"}]}
    pieces = [
        {"content": "so"},
        {"tool_calls": [{"index": 0, **call, "function": function | {"arguments": '{"input": "*** '}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": 'Begin"}'}}]},
    ]
    head = {key: answer[key] for key in ("id", "created", "model")}
    chunks = [head | {"choices": [{"index": 0, "delta": piece, "finish_reason": None}]} for piece in pieces]
    chunks.append(
        head | {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}], "usage": answer["usage"]}
    )
    events = translate(DIALECTS["responses"].make_stream(request, id=ID), chunks)
    whole = DIALECTS["responses"].from_chat(answer, request, id=ID)
    assert events[-1]["response"]["output"] == whole["output"]
    assert [event["delta"] for event in events if event["type"].endswith("input.delta")] == ["*** Begin"]
    for event in events:
        RESPONSE_EVENTS.validate_python(event)


@pytest.mark.parametrize("arguments", [['{"x": 1}'], ['{"x"', ": 1}"], [""]], ids=["whole", "cut", "none"])
def test_parallel_calls_that_share_an_index_are_calls_of_their_own(arguments: list[str]) -> None:
    deltas: list[Json] = []
    for id, name in (("call_a", "look"), ("call_b", "tell")):
        deltas.append({"index": 0, "id": id, "type": "function", "function": {"name": name, "arguments": ""}})
        deltas += [{"index": 0, "id": id, "function": {"arguments": piece}} for piece in arguments]
    chunks: list[Json] = [{"choices": [{"delta": {"tool_calls": [delta]}}]} for delta in deltas]
    chunks.append({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})
    wanted = json.loads("".join(arguments) or "{}")
    message = read_as_anthropic(events := translate(DIALECTS["messages"].make_stream({"model": "m"}, id=ID), chunks))
    blocks = [(block["id"], block["name"], block["input"]) for block in message["content"]]
    assert blocks == [("call_a", "look", wanted), ("call_b", "tell", wanted)]
    assert sorted(event["index"] for event in events if event["type"] == "content_block_stop") == [0, 1]
    assert message["stop_reason"] == "tool_use"
    response = read_as_openai(events := translate(DIALECTS["responses"].make_stream({"model": "m"}, id=ID), chunks))
    calls = [(item["call_id"], item["name"], item["arguments"]) for item in response["output"]]
    assert calls == [("call_a", "look", "".join(arguments)), ("call_b", "tell", "".join(arguments))]
    assert sum(event["type"] == "response.output_item.done" for event in events) == 2


@settings(deadline=None)
@given(st.data())
def test_what_the_deltas_of_a_response_say_is_what_its_items_say(data: st.DataObject) -> None:
    chunks = data.draw(cut_into_chunks(data.draw(chat_answers())))
    events = translate(DIALECTS["responses"].make_stream({"model": "m"}, id=ID), chunks)
    output = events[-1]["response"]["output"]
    said: dict[str, str] = {}
    for event in events:
        if event["type"].endswith(".delta"):
            assert event["item_id"] == output[event["output_index"]]["id"]
            said[event["item_id"]] = said.get(event["item_id"], "") + event["delta"]
    for item in output:
        parts = item.get("content") or [{"text": item.get("arguments", "")}]
        assert said.get(item["id"], "") == "".join(part["text"] for part in parts)
    done = [event["item"]["id"] for event in events if event["type"] == "response.output_item.done"]
    assert sorted(done) == sorted(item["id"] for item in output)


@settings(deadline=None)
@given(st.data())
def test_a_streamed_message_of_a_server_is_the_whole_one(data: st.DataObject) -> None:
    """Chat, to Messages, and back, streamed both ways."""
    answer = data.draw(chat_answers())
    events = translate(DIALECTS["messages"].make_stream({}, id=ID), data.draw(cut_into_chunks(answer)))
    upstream = UPSTREAMS["messages"].make_stream(created=1_700_000_000)
    chunks = [chunk for event in events for chunk in upstream.feed(event)]
    assert upstream.is_done
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    for chunk in chunks:
        state.handle_chunk(ChatCompletionChunk.model_validate(chunk))
    snapshot = state.current_completion_snapshot
    whole = UPSTREAMS["messages"].to_chat(DIALECTS["messages"].from_chat(answer, {}, id=ID), created=1_700_000_000)
    found, wanted = snapshot.choices[0].message.to_dict(), dict(whole["choices"][0]["message"])
    assert (found.get("content") or None) == (wanted.get("content") or None)
    assert found.get("reasoning_content") == wanted.get("reasoning_content")
    calls = cast(list[Json], found.get("tool_calls") or [])
    assert [(call["id"], call["function"]["name"]) for call in calls] == [
        (call["id"], call["function"]["name"]) for call in wanted.get("tool_calls") or ()
    ]
    assert [call["function"]["arguments"] for call in calls] == [
        call["function"]["arguments"] for call in wanted.get("tool_calls") or ()
    ]
    assert snapshot.choices[0].finish_reason == whole["choices"][0]["finish_reason"]
    assert snapshot.usage is not None
    assert snapshot.usage.to_dict() == whole["usage"]
    ChatCompletion.model_validate(whole)


@settings(deadline=None)
@given(st.data())
def test_a_streamed_completion_is_the_whole_one(data: st.DataObject) -> None:
    answer = data.draw(chat_answers())
    request = {"model": "m", "prompt": "hi", "stream_options": {"include_usage": True}}
    whole = DIALECTS["completions"].from_chat(answer, request, id=ID)
    Completion.model_validate(whole)
    events = translate(DIALECTS["completions"].make_stream(request, id=ID), data.draw(cut_into_chunks(answer)))
    choices = [choice for event in events for choice in event["choices"]]
    assert "".join(choice["text"] for choice in choices) == whole["choices"][0]["text"]
    assert choices[-1]["finish_reason"] == whole["choices"][0]["finish_reason"]
    assert [event["usage"] for event in events if "usage" in event] == [whole["usage"]]
    assert {event["id"] for event in events} == {whole["id"]}


BYTES = [
    {"token": "so ", "bytes": [115, 111, 32], "logprob": -0.5, "top_logprobs": []},
    {"token": "\ufffd", "bytes": [240, 159], "logprob": -0.1, "top_logprobs": []},
    {"token": "\ufffd", "bytes": [152, 128], "logprob": -0.2, "top_logprobs": []},
    {"token": "", "bytes": [], "logprob": -0.3, "top_logprobs": []},
]
"""Tokens of which the second is the first half of the third's character, and the last ends the answer."""


def write_bytes(*places: int) -> tuple[Json, list[Json]]:
    """An answer of some of these tokens, whole and as chunks of one token each."""
    texts = ["so ", "", "\U0001f600", ""]
    entries = [BYTES[place] for place in places]
    said = "".join(texts[place] for place in places)
    whole = make_answer({"role": "assistant", "content": said}, logprobs={"content": entries})
    chunks: list[Json] = [{"choices": [{"delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}]
    for place in places:
        choice = {"delta": {"content": texts[place]}, "logprobs": {"content": [BYTES[place]]}, "finish_reason": None}
        chunks.append({"choices": [choice]})
    chunks.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    return whole, chunks


@pytest.mark.parametrize("places", [(0, 1, 2, 3), (1, 2, 0), (0, 3)])
def test_tokens_without_text_keep_their_log_probs_in_a_streamed_response(places: tuple[int, ...]) -> None:
    whole, chunks = write_bytes(*places)
    request = {"model": "m", "top_logprobs": 1}
    events = translate(DIALECTS["responses"].make_stream(request, id=ID), chunks)
    found = events[-1]["response"]["output"][0]["content"][0]
    assert found == DIALECTS["responses"].from_chat(whole, request, id=ID)["output"][0]["content"][0]
    deltas = [event for event in events if event["type"] == "response.output_text.delta"]
    assert [entry for event in deltas for entry in event["logprobs"]] == found["logprobs"]
    assert len(found["logprobs"]) == len(places)
    read_as_openai(events)


@pytest.mark.parametrize("places", [(0, 1, 2, 3), (1, 2, 0), (0, 3)])
def test_log_probs_of_a_streamed_completion_are_the_whole_ones(places: tuple[int, ...]) -> None:
    whole, chunks = write_bytes(*places)
    request = {"model": "m", "prompt": "hi", "logprobs": 1}
    wanted = DIALECTS["completions"].from_chat(whole, request, id=ID)["choices"][0]["logprobs"]
    events = translate(DIALECTS["completions"].make_stream(request, id=ID), chunks)
    told = [logprobs for event in events for choice in event["choices"] if (logprobs := choice["logprobs"])]
    for name, values in wanted.items():
        assert [value for logprobs in told for value in logprobs[name]] == values, name


def test_usage_of_a_completion_is_streamed_only_if_asked_for() -> None:
    stream = DIALECTS["completions"].make_stream({"model": "m"}, id=ID)
    assert stream.feed({"choices": [], "usage": {"prompt_tokens": 1}}) == b""


@pytest.mark.parametrize("name", ["messages", "responses"])
def test_an_answer_that_says_nothing_is_still_whole(name: str) -> None:
    events = translate(DIALECTS[name].make_stream({"model": "m"}, id=ID), [])
    read: Any = {"messages": read_as_anthropic, "responses": read_as_openai}[name]
    found = read(events)
    assert found["id"] == DIALECTS[name].answer_id(ID)
    assert (found.get("content") or found.get("output") or []) == []


def test_a_message_that_breaks_off_ends_with_an_error_event() -> None:
    stream = DIALECTS["messages"].make_stream({}, id=ID)
    stream.feed({"choices": [{"delta": {"content": "Once upon"}}]})
    assert read_events(stream.fail(status=502, message="the server went away", code="upstream_error")) == [
        {
            "type": "error",
            "error": {
                "type": "api_error",
                "message": "the server went away",
                "details": {"error_code": "upstream_error"},
            },
        }
    ]


def test_a_response_that_breaks_off_fails_with_what_was_said() -> None:
    stream = DIALECTS["responses"].make_stream({"model": "m"}, id=ID)
    begun = stream.feed({"choices": [{"delta": {"content": "Once upon"}}]})
    events = read_events(begun + stream.fail(status=502, message="the server went away"))
    found = RESPONSE_EVENTS.validate_python(events[-1])
    assert found.type == "response.failed"
    assert found.response.status == "failed"
    assert found.response.error.message == "the server went away"
    assert found.response.output_text == "Once upon"
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


@pytest.mark.parametrize("name", DIALECTS)
def test_a_ping_changes_nothing_for_a_reader_of_events(name: str) -> None:
    ping = DIALECTS[name].make_stream({}, id=ID).ping()
    assert ping.endswith(b"\n\n")
    assert all(event == {"type": "ping"} for event in read_events(ping.replace(b": ping\n\n", b"", name != "messages")))


def test_a_second_thought_is_an_item_of_its_own() -> None:
    """Thoughts between calls: ids stay unique, or OpenAI's client refuses the stream."""
    deltas: list[Json] = [{"reasoning_content": "hm"}, {"content": "a"}, {"reasoning_content": "oh"}, {"content": "b"}]
    chunks = [{"choices": [{"delta": delta, "finish_reason": None}]} for delta in deltas]
    found = read_as_openai(translate(DIALECTS["responses"].make_stream({"model": "m"}, id=ID), chunks))
    assert [item["type"] for item in found["output"]] == ["reasoning", "message", "reasoning", "message"]
    assert len({item["id"] for item in found["output"]}) == 4


def test_a_refusal_is_a_part_of_its_own_in_a_response_and_a_reason_in_a_message() -> None:
    answer = make_answer({"role": "assistant", "content": None, "refusal": "I will not."})
    chunks: list[Json] = [
        {"choices": [{"delta": {"refusal": "I will"}}]},
        {"choices": [{"delta": {"refusal": " not."}, "finish_reason": "stop"}]},
        {"choices": [], "usage": answer["usage"]},
    ]
    response = DIALECTS["responses"].from_chat(answer, {"model": "m"}, id=ID)
    streamed = read_as_openai(translate(DIALECTS["responses"].make_stream({"model": "m"}, id=ID), chunks))
    assert streamed["output"] == Response.model_validate(response).to_dict()["output"]
    assert response["output"][0]["content"] == [{"type": "refusal", "refusal": "I will not."}]
    message = DIALECTS["messages"].from_chat(answer, {"model": "m"}, id=ID)
    assert (message["stop_reason"], message["content"][0]["text"]) == ("refusal", "I will not.")
    found = read_as_anthropic(translate(DIALECTS["messages"].make_stream({"model": "m"}, id=ID), chunks))
    assert (found["stop_reason"], found["content"]) == ("refusal", message["content"])


def test_signed_thoughts_reach_the_caller_signed() -> None:
    upstream = UPSTREAMS["messages"].make_stream(created=1)
    stream = DIALECTS["messages"].make_stream({}, id=ID)
    sent: list[Json] = [
        {"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 3}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking", "data": "eA=="}},
        {"type": "content_block_stop", "index": 1},
        {"type": "ping"},
        {"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "yes"}},
        {"type": "content_block_stop", "index": 2},
        {"type": "message_delta", "delta": {"stop_reason": "stop_sequence", "stop_sequence": "."}, "usage": {}},
        {"type": "message_stop"},
    ]
    chunks = [chunk for event in sent for chunk in upstream.feed(event)]
    found = read_as_anthropic(translate(stream, chunks))
    assert found["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "eA=="},
        {"type": "text", "text": "yes"},
    ]
    assert (found["stop_reason"], found["stop_sequence"]) == ("stop_sequence", ".")


def test_a_call_without_arguments_has_an_empty_object_for_chat_clients() -> None:
    upstream = UPSTREAMS["messages"].make_stream(created=1)
    block = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    upstream.feed({"type": "content_block_start", "index": 0, "content_block": block})
    chunks = upstream.feed({"type": "content_block_stop", "index": 0})
    assert chunks[0]["choices"][0]["delta"]["tool_calls"] == [{"index": 0, "function": {"arguments": "{}"}}]


def test_a_servers_error_event_is_an_error_with_its_status() -> None:
    upstream = UPSTREAMS["messages"].make_stream(created=1)
    with pytest.raises(UpstreamFailedError, match="Overloaded") as caught:
        upstream.feed({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    assert (caught.value.status, caught.value.code) == (529, "overloaded_error")
    assert not upstream.is_done
