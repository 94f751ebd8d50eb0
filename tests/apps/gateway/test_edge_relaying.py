"""An answer on its way through: the same whatever pieces it comes in, and whatever servers make of the protocol."""

from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.gateway.asking import make_question
from apps.gateway.capture import capture
from apps.gateway.dialects import DIALECTS, UPSTREAMS
from apps.gateway.record import Record
from apps.gateway.relaying import Relay, UnboundedAnswerError, UnreadableAnswerError
from apps.gateway.retelling import NotAnAnswerError, tell_as_events
from apps.gateway.routing import Route
from apps.gateway.tables import Backend, Served
from apps.inference.provider_kinds import KINDS
from tentalis.core.limits import Limits
from tentalis.outbound.events import EventSplitter, iterate_events
from tests.apps.gateway.records import make_header
from tests.apps.gateway.upstream import Answer, Plan

Json = dict[str, Any]
ASKED: Json = {"model": "helper", "messages": [{"role": "user", "content": "hello"}]}


def make_relay(body: Json, *, kind: str = "vllm", api: str = "chat", passes_own: bool = False) -> Relay:
    backend = Backend(
        key=1,
        name="stub",
        kind=KINDS[kind],
        urls=("http://stub",),
        headers={},
        default_model="",
        trusts_private=False,
        timeout_s=1.0,
        limits=Limits(),
    )
    route = Route(backend, Served("base"), "helper", True)
    upstream = UPSTREAMS["messages"] if kind == "anthropic" else None
    dialect = DIALECTS[api]
    question = make_question(dialect.to_chat(body), route, "chat")
    return Relay(question, dialect, body, id="0" * 32, created=1, upstream=upstream, passes_own=passes_own)


def write_stream(plan: Plan, **asked: Any) -> bytes:
    """What the stub upstream would send."""
    wanted = {"return_token_ids": True, "logprobs": True, "stream_options": {"include_usage": True}}
    answer = Answer(ASKED | {"model": "base", "stream": True} | wanted | asked, plan, 1)
    end = plan.newline.encode() * 2
    space = b" " * plan.has_space
    events = [
        b"data:" + space + orjson.dumps(answer.stamp(chunk, place)) + end
        for place, chunk in enumerate(answer.write_chunks())
    ]
    return b": hello" + end + b"".join(events) + b"data:" + space + b"[DONE]" + end


def relay_stream(pieces: list[bytes], **options: Any) -> tuple[bytes, Relay]:
    relay = make_relay(ASKED | {"stream": True}, **options)
    out = b"".join(relay.feed(piece) for piece in pieces)
    return out + relay.finish(), relay


plans = st.builds(
    Plan,
    tokens=st.integers(1, 5),
    reasoning=st.sampled_from(["", "hm so"]),
    tool_calls=st.sampled_from([[], [["look", '{"a": "b\\n\\n"}']]]),
    newline=st.sampled_from(["\n", "\r\n", "\r"]),
    has_space=st.booleans(),
)


@given(plan=plans, cuts=st.lists(st.integers(0, 4000)), choices=st.integers(1, 3))
def test_a_stream_is_the_same_in_whatever_pieces_it_comes(plan: Plan, cuts: list[int], choices: int) -> None:
    whole = write_stream(plan, n=choices)
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    pieces = [whole[start:end] for start, end in pairwise(places)]
    out, relay = relay_stream(pieces)
    expected, _ = relay_stream([write_stream(Plan(**vars(plan) | {"newline": "\n", "has_space": True}), n=choices)])
    assert out == expected
    assert b"token_ids" not in out
    assert b'"logprob":' not in out
    assert b"".join(relay.kept) == whole
    assert relay.is_whole
    kept, is_merged = relay.record()
    header = make_header(1, "s", is_stream=True)
    merged = capture(Record({**header, "is_merged": is_merged}, b"{}", kept))
    raw = capture(Record(header, b"{}", whole))
    assert [one._replace(header=header) for one in merged] == [one._replace(header=header) for one in raw]
    assert is_merged or plan.newline == "\r"  # whose last event may go on
    assert relay.served == "base"
    assert relay.usage.completion > 0


@given(data=st.binary())
def test_any_bytes_at_all_are_cut_without_a_crash(data: bytes) -> None:
    splitter = EventSplitter()
    one_by_one = [payload for byte in data for payload in splitter.feed(bytes([byte]))]
    assert one_by_one == EventSplitter().feed(data)


@pytest.mark.parametrize(
    ("data", "payloads"),
    [
        (b"data: {}\n\n", [b"{}"]),
        (b"data:{}\n\n", [b"{}"]),
        (b"event: x\nid: 7\ndata: {}\n\n", [b"{}"]),
        (b": ping\n\ndata: 1\n\n", [b"1"]),
        (b"data: [1,\ndata: 2]\n\n", [b"[1,\n2]"]),
        (b"data: 1\r\n\r\ndata: 2\r\r", [b"1"]),
        (b"\n\n\ndata: 1\n\n", [b"1"]),
        (b"data: 1", []),
    ],
)
def test_events_are_read_however_they_are_written(data: bytes, payloads: list[bytes]) -> None:
    assert EventSplitter().feed(data) == payloads


@pytest.mark.parametrize(
    ("data", "payloads"),
    [
        (
            'data: {"a":"x\u2028y\x85z\x0b\x0c\x1c"}\n\ndata: [DONE]\n\n',
            ['{"a":"x\u2028y\x85z\x0b\x0c\x1c"}', "[DONE]"],
        ),
        ('data: {"a":1}\ndata: {"a":2}\ndata: [DONE]', ['{"a":1}', '{"a":2}', "[DONE]"]),
        (": ping\r\n\r\ndata: [1,\r\ndata: 2]\r\n\r\n", ["[1,\n2]"]),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_what_separates_lines_for_python_alone_separates_no_events(data: str, payloads: list[str], size: int) -> None:
    sent = data.encode()
    pieces = [sent[start : start + size] for start in range(0, len(sent), size)]
    assert [payload.decode() for payload in iterate_events(pieces)] == payloads


def test_a_stream_without_done_is_whole_when_every_choice_ended() -> None:
    data = write_stream(Plan(), n=2).removesuffix(b"data: [DONE]\n\n")
    relay = make_relay(ASKED | {"stream": True})
    relay.feed(data)
    assert relay.is_whole
    assert not relay.is_done
    cut = make_relay(ASKED | {"stream": True})
    cut.feed(data.rpartition(b'data: {"id":"stub-1"')[0].rpartition(b'data: {"id":"stub-1"')[0])
    assert not cut.is_whole


def test_an_event_that_is_no_json_fails_the_stream_behind_what_came_before() -> None:
    whole = write_stream(Plan(tokens=1))
    relay = make_relay(ASKED | {"stream": True})
    out = relay.feed(whole.removesuffix(b"data: [DONE]\n\n") + b"data: {broken\n\ndata: [DONE]\n\n")
    assert b"word0" in out
    assert relay.failure is not None
    assert "no JSON: b'{broken'" in relay.failure.message
    assert not relay.is_whole
    kept, is_merged = relay.record()
    [found] = capture(Record({**make_header(1, "s", is_stream=True), "is_merged": is_merged}, b"{}", kept))
    assert (found.text, found.is_truncated) == ("word0", True)


def test_an_event_without_data_is_passed_over() -> None:
    out, relay = relay_stream([b"data: \n\n" + write_stream(Plan(tokens=1))])
    assert b"word0" in out
    assert relay.is_whole


@pytest.mark.parametrize("api", ["chat", "messages"])
def test_halves_of_a_character_do_not_take_their_words_with_them(api: str) -> None:
    relay = make_relay((ASKED_MESSAGES if api == "messages" else ASKED) | {"stream": True}, api=api)
    pieces = [b"A", b"B\\ud83d", b"\\ude00C"]
    events = [b'{"model":"m","choices":[{"index":0,"delta":{"content":"%s"}}]}' % piece for piece in pieces]
    events += [b'{"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}', b"[DONE]"]
    out = relay.feed(b"".join(b"data: %s\n\n" % event for event in events)).decode()
    assert [word in out for word in ('"A"', '"B\ufffd"', '"\ufffdC"')] == [True] * 3
    assert relay.is_whole
    kept, is_merged = relay.record()
    header = make_header(1, "s", is_stream=True)
    for answer, merged in ((kept, is_merged), (b"".join(relay.kept), False)):
        [found] = capture(Record({**header, "is_merged": merged}, b"{}", answer))
        assert (found.text, found.error) == ("AB\ufffd\ufffdC", "")


@pytest.mark.parametrize("api", ["chat", "messages"])
def test_half_a_character_does_not_take_a_whole_answer_with_it(api: str) -> None:
    relay = make_relay(ASKED_MESSAGES if api == "messages" else ASKED, api=api)
    message = b'{"role":"assistant","content":"AB\\ud83d"}'
    raw = b'{"model":"m","choices":[{"index":0,"message":%s,"finish_reason":"stop"}]}' % message
    assert b'"AB' in relay.carry(raw)
    kept, is_merged = relay.record()
    [found] = capture(Record({**make_header(1, "s"), "is_merged": is_merged}, b"{}", kept))
    assert (found.text, found.error) == ("AB\ufffd", "")


def test_an_event_that_lies_too_deep_is_refused_whoever_reads_it() -> None:
    deep = b"[" * 300 + b"]" * 300
    relay = make_relay(ASKED | {"stream": True})
    with pytest.raises(UnboundedAnswerError):
        relay.feed(b'data: {"a": "\\ud83d", "b": %s}\n\n' % deep)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"<html>", "wanted JSON"),
        (b"[]", "wanted a JSON object"),
        (b'{"error": {"message": "no credit", "code": 402}}', "no credit"),
        (b'{"object": "error", "message": "no such model", "code": 404}', "no such model"),
        (b'{"object": "list"}', "no choices"),
        (b'{"choices": [], "error": {"message": "no credit", "code": 402}}', "no credit"),
        (
            b'{"choices": [{"message": {"content": "Half"}, "finish_reason": "error"}]}',
            "ended its answer with an error",
        ),
        (b'{"choices": [{"message": {"content": "Half"}, "error": {"message": "it went away"}}]}', "it went away"),
    ],
)
def test_what_is_no_answer_is_said_to_be_none(raw: bytes, words: str) -> None:
    with pytest.raises(UnreadableAnswerError, match=words):
        make_relay(ASKED).carry(raw)


def write_chunk(content: str, finish: str | None = None, choice: Json | None = None, **more: Any) -> Json:
    delta: Json = {"index": 0, "delta": {"content": content}, "finish_reason": finish}
    return {"id": "x", "model": "base", "choices": [delta | (choice or {})]} | more


@pytest.mark.parametrize("api", ["chat", "messages", "responses"])
@pytest.mark.parametrize(
    ("last", "words"),
    [
        (write_chunk("", "error", error={"code": 502, "message": "the provider went away"}), "the provider went away"),
        (write_chunk("", choice={"error": {"message": "the provider went away"}}), "the provider went away"),
        (write_chunk("", "error"), "it ended its answer with an error"),
        ({"object": "error", "message": "out of memory", "code": 500}, "out of memory"),
    ],
    ids=["beside", "inside", "reason", "older"],
)
def test_a_failure_beside_a_streams_choices_is_one(api: str, last: Json, words: str) -> None:
    asked = {"responses": {"model": "helper", "input": "hi"}, "messages": ASKED_MESSAGES}.get(api, ASKED)
    relay = make_relay(asked | {"stream": True}, api=api)
    chunks = [write_chunk("Once "), write_chunk("upon"), last, write_chunk("", "stop")]
    out = relay.feed(b"".join(b"data: %s\n\n" % orjson.dumps(chunk) for chunk in chunks) + b"data: [DONE]\n\n")
    assert b"upon" in out
    assert relay.failure is not None
    assert relay.failure.message == words
    assert not relay.is_whole
    kept, is_merged = relay.record()
    for answer, merged in ((kept, is_merged), (b"".join(relay.kept), False)):
        [found] = capture(Record({**make_header(1, "s", is_stream=True), "is_merged": merged}, b"{}", answer))
        assert (found.text, found.error, found.is_truncated) == ("Once upon", words, True)


def test_an_older_error_that_comes_whole_in_place_of_a_stream_keeps_its_status_and_words() -> None:
    with pytest.raises(NotAnAnswerError, match="no such model") as caught:
        tell_as_events(b'{"object": "error", "message": "no such model", "type": "NotFoundError", "code": 404}')
    assert caught.value.status == 404


def test_what_a_failed_answer_used_is_known() -> None:
    relay = make_relay(ASKED)
    answer = write_chunk("", choice={"message": {"content": "Half"}}, error="it broke", usage={"completion_tokens": 7})
    with pytest.raises(UnreadableAnswerError, match="it broke"):
        relay.carry(orjson.dumps(answer))
    assert (relay.usage.completion, relay.served) == (7, "base")


def test_an_answer_that_nothing_is_hidden_from_goes_through_byte_for_byte_but_for_its_id() -> None:
    raw = b'{ "id": "x-7", "choices": [ {"index": 0, "message": {"content": "\\u00e4 x-7"}} ],  "model": "m" }'
    named = raw.replace(b'"x-7"', b'"chatcmpl-%s"' % (b"0" * 32))
    assert make_relay(ASKED, kind="custom").carry(raw) == named
    twice = raw.replace(b'"m"', b'"x-7"')  # which of them is the id cannot be told by its bytes
    assert make_relay(ASKED, kind="custom").carry(twice) == twice


MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "hi"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 2},
}
EVENTS: list[Json] = [
    {"type": "message_start", "message": MESSAGE | {"content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]
ASKED_MESSAGES = ASKED | {"max_tokens": 5}


def test_a_caller_of_messages_gets_a_servers_own_message_and_chat_is_recorded() -> None:
    raw = orjson.dumps(MESSAGE)
    relay = make_relay(ASKED_MESSAGES, kind="anthropic", api="messages", passes_own=True)
    assert relay.carry(raw) == raw.replace(b'"msg_1"', b'"msg_%s"' % (b"0" * 32))
    kept = orjson.loads(relay.kept[0])
    assert kept["choices"][0]["message"]["content"] == "hi"
    assert (relay.served, relay.usage.completion) == ("claude", 2)


def test_a_caller_of_messages_gets_a_servers_own_events_the_last_one_when_it_is_recorded() -> None:
    relay = make_relay(ASKED_MESSAGES | {"stream": True}, kind="anthropic", api="messages", passes_own=True)
    data = b"".join(b"event: %s\ndata: %s\n\n" % (event["type"].encode(), orjson.dumps(event)) for event in EVENTS)
    out = relay.feed(data)
    assert relay.is_done
    assert b"message_stop" not in out
    assert out + relay.finish() == data.replace(b'"msg_1"', b'"msg_%s"' % (b"0" * 32))
    assert b'"content":"hi"' in b"".join(relay.kept)
    assert b"".join(relay.kept).endswith(b"data: [DONE]\n\n")


def test_a_caller_of_chat_gets_chat_from_a_server_of_messages() -> None:
    relay = make_relay(ASKED | {"max_tokens": 5, "stream": True}, kind="anthropic")
    data = b"".join(b"event: %s\ndata: %s\n\n" % (event["type"].encode(), orjson.dumps(event)) for event in EVENTS)
    out = relay.feed(data) + relay.finish()
    assert b'"content":"hi"' in out
    assert out.endswith(b"data: [DONE]\n\n")
    assert relay.is_whole
