"""From bytes to rows: whole answers and streams say the same, and what cannot be read says why."""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.gateway.capture import Captured, capture
from apps.gateway.reading import read_events
from apps.gateway.record import Record
from apps.inference.prices import Rates
from tentalis.core.packing import pack_float32, unpack_bools, unpack_int32
from tests.apps.gateway.records import answer_stream, answer_whole, make_header, make_record
from tests.apps.gateway.upstream import Plan, logprob_of, make_choice, prompt_tokens_of

ASKED = [{"role": "user", "content": "What is new?"}]
TOOLS: dict[str, Any] = {"tool_calls": [["look_up", '{"what": "the news"}'], ["wait", "{}"]]}


def one(record: Record) -> Captured:
    (captured,) = capture(record)
    return captured


def stream_of(*chunks: Mapping[str, Any] | str, **header: Any) -> Captured:
    """A stream of these chunks, ended in order."""
    texts = [chunk if isinstance(chunk, str) else json.dumps(chunk) for chunk in [*chunks, "[DONE]"]]
    answer = "".join(f"data: {text}\n\n" for text in texts).encode()
    body = orjson.dumps({"model": "desk", "messages": ASKED, "stream": True})
    return one(Record(make_header(1, is_stream=True, **header), body, answer))


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("plan", [{}, {"reasoning": "They ask."}, TOOLS, {"reply": "Nothing.", **TOOLS}])
def test_tokens_words_and_calls_are_kept(is_stream: bool, plan: dict[str, Any]) -> None:
    captured = one(make_record(1, ASKED, is_stream=is_stream, **plan))
    wanted = make_choice(Plan(**plan), 0)
    assert (captured.text, captured.reasoning) == (wanted.text, wanted.reasoning)
    assert captured.tool_calls == wanted.tool_calls
    assert captured.finish_reason == wanted.finish_reason
    assert unpack_int32(captured.prompt_token_ids) == prompt_tokens_of(ASKED)
    assert unpack_int32(captured.token_ids) == wanted.token_ids
    assert captured.logprobs == pack_float32([logprob_of(token) for token in wanted.token_ids])
    assert unpack_bools(captured.sampled, len(wanted.token_ids)) == [True] * len(wanted.token_ids)
    assert (captured.prompt_tokens, captured.completion_tokens) == (len(prompt_tokens_of(ASKED)), len(wanted.token_ids))
    assert (captured.error, captured.is_truncated, captured.is_mixed) == ("", False, False)


@pytest.mark.parametrize("is_stream", [False, True])
def test_every_choice_is_a_row_of_its_own(is_stream: bool) -> None:
    captured = capture(make_record(1, ASKED, body={"n": 3}, is_stream=is_stream))
    assert [each.choice for each in captured] == [0, 1, 2]
    for each in captured:
        wanted = make_choice(Plan(), each.choice)
        assert each.text == wanted.text
        assert unpack_int32(each.token_ids) == wanted.token_ids
        assert unpack_int32(each.prompt_token_ids) == prompt_tokens_of(ASKED)
        assert each.completion_tokens == len(wanted.token_ids)


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("prompt", ["What is new?", [5, 6, 7]])
def test_completions_are_kept_as_what_a_user_said_or_as_tokens(is_stream: bool, prompt: Any) -> None:
    body = {"model": "desk", "prompt": prompt, "max_tokens": 9}
    answer = answer_stream(body) if is_stream else answer_whole(body)
    header = make_header(1, form="completions", api="completions", is_stream=is_stream)
    captured = one(Record(header, orjson.dumps(body), answer))
    wanted = make_choice(Plan(), 0)
    assert captured.messages == ([{"role": "user", "content": prompt}] if isinstance(prompt, str) else [])
    assert unpack_int32(captured.token_ids) == wanted.token_ids
    assert captured.logprobs == pack_float32([logprob_of(token) for token in wanted.token_ids])
    if isinstance(prompt, list):
        assert unpack_int32(captured.prompt_token_ids) == prompt
    assert captured.request == {"max_tokens": 9, "model": "desk"}


def test_several_prompts_of_one_request_keep_their_own() -> None:
    body = {"model": "desk", "prompt": ["one", "two"], "n": 2}
    choices = [
        {"index": place, "text": f"t{place}", "token_ids": [place], "prompt_token_ids": [7, place // 2],
         "logprobs": {"token_logprobs": [-0.5]}, "finish_reason": "stop"}
        for place in range(4)
    ]  # fmt: skip
    answer = orjson.dumps({"model": "base", "choices": choices, "usage": {"prompt_tokens": 4, "completion_tokens": 4}})
    captured = capture(Record(make_header(1, form="completions"), orjson.dumps(body), answer))
    assert [each.messages[0]["content"] for each in captured] == ["one", "one", "two", "two"]
    assert [unpack_int32(each.prompt_token_ids) for each in captured] == [[7, 0], [7, 0], [7, 1], [7, 1]]


@pytest.mark.parametrize("space", ["", " "])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_stream_is_read_however_its_lines_look(space: str, newline: str) -> None:
    plan = {"reasoning": "They ask.", **TOOLS}
    answer = answer_stream({"messages": ASKED}, space=space, newline=newline, **plan)
    record = Record(
        make_header(1, is_stream=True), orjson.dumps({"messages": ASKED}), f": hello{newline * 2}".encode() + answer
    )
    assert one(record)._replace(header=record.header) == one(make_record(1, ASKED, is_stream=True, **plan))._replace(
        header=record.header
    )


def test_events_without_an_empty_line_between_them_and_over_two_lines_are_read() -> None:
    assert read_events(b'data: {"a":1}\ndata: {"a":2}\ndata: [DONE]\n') == ([{"a": 1}, {"a": 2}, None], False)
    assert read_events(b'event: x\ndata: {"a":\ndata: 1}\n\n') == ([{"a": 1}], False)
    assert read_events(b'data: {"a":1}\n\ndata: {"a"') == ([{"a": 1}], True)


def test_a_stream_that_breaks_off_is_truncated_and_keeps_what_came() -> None:
    whole = answer_stream({"messages": ASKED})
    half = whole[: whole.index(b"word3") + 2]
    record = Record(make_header(1, is_stream=True), orjson.dumps({"messages": ASKED}), half)
    captured = one(record)
    assert captured.is_truncated
    assert captured.text == "word0 word1 word2"
    assert len(captured.token_ids) == len(captured.logprobs) == 12
    between = Record(record.header, record.request, whole[: whole.index(b"word3") - 200])
    assert one(between).is_truncated


def test_a_stream_that_ends_without_done_but_with_a_reason_is_whole() -> None:
    answer = answer_stream({"messages": ASKED}).replace(b"data: [DONE]\n\n", b"")
    record = Record(make_header(1, is_stream=True), orjson.dumps({"messages": ASKED}), answer)
    assert not one(record).is_truncated


def test_the_edge_knows_that_the_caller_went_away() -> None:
    assert one(make_record(1, ASKED, is_truncated=True)).is_truncated


def test_an_error_in_the_middle_of_a_stream_is_an_error() -> None:
    captured = stream_of(
        {"choices": [{"index": 0, "delta": {"content": "So"}}]}, {"error": {"message": "out of memory"}}
    )
    assert (captured.text, captured.error, captured.is_truncated) == ("So", "out of memory", True)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b'{"error": {"message": "too long", "code": 1}}', "too long"),
        (b'{"detail": "no such model"}', "no such model"),
        (b"<html>bad gateway</html>", "<html>bad gateway</html>"),
        (b"", "status 502"),
        (b"\xff\x00", "\ufffd\ufffd"),
    ],
)
def test_errors_are_kept_with_their_words(answer: bytes, words: str) -> None:
    captured = one(Record(make_header(1, status=502), orjson.dumps({"messages": ASKED}), answer))
    assert (captured.error, captured.messages, captured.text) == (words, ASKED, "")


@pytest.mark.parametrize(
    "answer",
    [b"<html>it works</html>", b"{}", b"[]", b"7", b'{"choices": []}', b'{"choices": [7]}', b'{"choices": 7}',
     b'{"choices": [{"index": "x"}]}', b'{"choices": [{"message": []}]}', b'{"choices": [{"message": {"content": 7}}]}',
     b'{"choices": [{"text": 7}]}', b'{"choices": [{"logprobs": {"content": [7]}}]}'],
)  # fmt: skip
def test_an_answer_nobody_can_read_is_stored_as_that(answer: bytes) -> None:
    captured = one(Record(make_header(1), orjson.dumps({"messages": ASKED}), answer))
    assert captured.messages == ASKED
    assert captured.error or captured.is_truncated or captured.text == "7"


@given(st.binary(max_size=200) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["choices", "index", "delta", "message", "content", "tool_calls", "function", "arguments", "id",
                         "logprobs", "logprob", "token_ids", "usage", "prompt_tokens", "error", "model", "prompt",
                         "messages", "prompt_token_ids", "finish_reason", "text", "reasoning"]), inner, max_size=5),
    max_leaves=20,
).map(lambda value: json.dumps(value).encode()), st.booleans())  # fmt: skip
@settings(deadline=None, max_examples=300)
def test_no_bytes_at_all_stop_the_writer(data: bytes, is_stream: bool) -> None:
    answer = b"data: " + data + b"\n\n" if is_stream else data
    for request in (data, orjson.dumps({"messages": ASKED})):
        for captured in capture(Record(make_header(1, is_stream=is_stream), request, answer)):
            assert len(captured.logprobs) in (0, len(captured.token_ids))
            assert isinstance(captured.text, str)


def test_a_caller_that_asks_nothing_readable_is_stored_with_the_reason() -> None:
    captured = one(Record(make_header(1), b"hello", answer_whole({"messages": ASKED})))
    assert captured.error == "the request is no JSON object"
    assert captured.text.startswith("word0")


def test_token_ids_and_log_probs_that_do_not_match_are_not_trained_on() -> None:
    choice = {"index": 0, "delta": {"content": "Hi"}, "token_ids": [1, 2], "logprobs": {"content": [{"logprob": -1}]}}
    captured = stream_of({"choices": [choice], "prompt_token_ids": [9]})
    assert unpack_int32(captured.token_ids) == [1, 2]
    assert captured.logprobs == b""
    assert captured.error == "2 token ids and 1 log-probs: the log-probs were dropped"


def test_a_server_that_tells_no_tokens_is_kept_with_its_usage() -> None:
    usage = {"prompt_tokens": 30, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 20}}
    chunk = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}], "usage": usage}
    captured = stream_of(chunk)
    assert (captured.prompt_tokens, captured.completion_tokens, captured.cached_tokens) == (30, 5, 20)
    assert (captured.token_ids, captured.logprobs, captured.sampled) == (b"", b"", b"")
    deepseek = stream_of(chunk | {"usage": {"prompt_tokens": 30, "prompt_cache_hit_tokens": 7}})
    assert deepseek.cached_tokens == 7


def test_cost_is_counted_once_for_the_prompt_and_less_for_what_was_cached() -> None:
    rates = Rates(input=Decimal(2), output=Decimal(10), cached_input=Decimal("0.5"))
    record = make_record(1, ASKED, body={"n": 2})
    answer = orjson.loads(record.answer)
    answer["usage"]["prompt_tokens_details"] = {"cached_tokens": 2}
    captured = capture(record._replace(answer=orjson.dumps(answer)), lambda header: rates)
    read, made = captured[0].prompt_tokens, captured[0].completion_tokens
    assert captured[0].cost_usd == (Decimal(read - 2) * 2 + 2 * Decimal("0.5") + made * 10) / 1_000_000
    assert captured[1].cost_usd == Decimal(captured[1].completion_tokens * 10) / 1_000_000
    assert capture(record, lambda header: None)[0].cost_usd is None


def test_an_answer_of_two_adapters_is_mixed() -> None:
    chunks: list[dict[str, Any]] = [{"model": "a@v1", "choices": [{"index": 0, "delta": {"content": "x"}}]}] * 2
    assert not stream_of(*chunks).is_mixed
    assert stream_of(*chunks, chunks[0] | {"model": "a@v2"}).is_mixed


def test_calls_that_are_all_numbered_0_are_told_apart_by_their_ids() -> None:
    def call(**delta: Any) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, **delta}]}}]}

    captured = stream_of(
        call(id="a", type="function", function={"name": "f", "arguments": '{"x":'}),
        call(id="a", function={"arguments": "1}"}),
        call(id="b", type="function", function={"name": "g", "arguments": ""}),
        call(function={"arguments": "{}"}),
    )
    assert [(each["id"], each["function"]["name"], each["function"]["arguments"]) for each in captured.tool_calls] == [
        ("a", "f", '{"x":1}'),
        ("b", "g", "{}"),
    ]


def test_the_older_way_to_call_a_function_is_kept_as_a_call() -> None:
    message = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    answer = orjson.dumps({"choices": [{"index": 0, "message": message}]})
    captured = one(Record(make_header(1), orjson.dumps({"messages": ASKED}), answer))
    assert captured.tool_calls == [{"type": "function", "function": {"name": "f", "arguments": "{}"}}]


def test_what_was_asked_besides_the_conversation_is_kept() -> None:
    body = {"messages": ASKED, "model": "desk", "stream": True, "temperature": 0.5, "seed": 7, "$same": ["seed"]}
    record = Record(make_header(1, model="desk", asked="desk@v3"), orjson.dumps(body), answer_whole(body))
    assert one(record).request == {"temperature": 0.5, "seed": 7, "model": "desk"}


@pytest.mark.parametrize("is_stream", [False, True])
def test_an_answer_whose_tokens_do_not_add_up_to_its_usage_is_not_exact(is_stream: bool) -> None:
    record = make_record(1, ASKED, is_stream=is_stream)
    whole = one(record)
    told = f'"completion_tokens":{whole.completion_tokens}'.encode()
    answer = record.answer.replace(b'"completion_tokens": ', b'"completion_tokens":')
    assert told in answer
    counted = answer.replace(told, f'"completion_tokens":{whole.completion_tokens + 1}'.encode())
    captured = one(record._replace(answer=counted))
    tokens = whole.completion_tokens
    assert captured.error == f"{tokens} token ids of {tokens + 1} tokens by its usage: the log-probs were dropped"
    assert (len(captured.token_ids), captured.logprobs) == (4 * tokens, b"")


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("kind", ["image_url", "input_audio", "file"])
def test_what_was_shown_more_than_text_is_kept_and_its_tokens_are_not_exact(kind: str, is_stream: bool) -> None:
    shown = {"role": "user", "content": [{"type": "text", "text": "What is this?"}, {"type": kind, kind: {}}]}
    later = [shown, {"role": "assistant", "content": "A cat."}, {"role": "user", "content": "Thanks. What is new?"}]
    for asked in ([shown], later):
        captured = one(make_record(1, asked, is_stream=is_stream))
        assert (captured.text, captured.logprobs) == (make_choice(Plan(), 0).text, b"")
        assert captured.error == f"it was shown more than text ({kind}), and text alone is trained on"
    in_parts = {"role": "user", "content": [{"type": "text", "text": "What is new?"}]}
    assert one(make_record(1, [in_parts], is_stream=is_stream)).error == ""
