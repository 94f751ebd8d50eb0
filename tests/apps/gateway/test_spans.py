"""Agents that ask models elsewhere tell of it by OpenTelemetry: the SDK's own exporter, JSON, three vocabularies."""

import gzip
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import orjson
import pytest
from google.protobuf.message import Message
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode, set_span_in_context

from apps.accounts.models import Project
from apps.gateway.capture import Captured, capture
from apps.gateway.span_bounds import has_more_messages
from apps.gateway.telling import JSON, PROTOBUF, read_json
from apps.inference.models import Session
from apps.workers.models import Worker
from tentalis.limits import LIMITS
from tests.apps.gateway.running import GatewayThread, make_agent_token
from tests.apps.gateway.test_writer import write
from tests.factories import make_task

ASKED = [{"role": "user", "parts": [{"type": "text", "content": "What is the weather in Paris?"}]}]
CALLED = {
    "role": "assistant",
    "parts": [
        {"type": "reasoning", "content": "I look."},
        {"type": "tool_call", "id": "c1", "name": "get_weather", "arguments": {"location": "Paris"}},
    ],
    "finish_reason": "tool_call",
}
TOLD = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "rainy, 57°F"}]}
SAID = {"role": "assistant", "parts": [{"type": "text", "content": "It rains."}], "finish_reason": "stop"}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-x"}


def make_spans(
    *calls: Mapping[str, Any], resource: Mapping[str, Any] | None = None, is_held: bool = True
) -> list[ReadableSpan]:
    """An agent's run: the span of the agent, and under it one of each call.

    Args:
        is_held: else each call stands alone in a trace of its own.
    """
    kept = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource.create(dict(resource or {})), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("an.agent")
    run = tracer.start_span("invoke_agent adder", attributes={"gen_ai.operation.name": "invoke_agent"})
    for attributes in calls:
        context = set_span_in_context(run) if is_held else None
        span = tracer.start_span("chat", context=context, attributes=_flatten(attributes))
        if (words := attributes.get("fails")) is not None:
            span.set_status(Status(StatusCode.ERROR, words))
        span.end()
    run.end()
    return list(kept.get_finished_spans())


def _flatten(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: json.dumps(value) if isinstance(value, list) and value and isinstance(value[0], dict) else value
        for name, value in attributes.items()
    }


def export(gateway: GatewayThread, token: str, spans: Sequence[ReadableSpan]) -> SpanExportResult:
    """By the SDK's own exporter, squeezed as it does."""
    exporter = OTLPSpanExporter(f"{gateway.url}/v1/traces", headers={"authorization": f"Bearer {token}"})
    try:
        return exporter.export(spans)
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]


def post(gateway: GatewayThread, token: str, body: bytes, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return gateway.client.post("/v1/traces", content=body, headers={"api-key": token, "content-type": PROTOBUF} | named)


def read(spans: Sequence[ReadableSpan]) -> bytes:
    return bytes(encode_spans(spans).SerializeToString())


def tell_run(**more: Any) -> list[ReadableSpan]:
    """A run of two calls with a tool between them."""
    conversation = {"gen_ai.conversation.id": "conv-7", "user.id": "carol", "gen_ai.agent.name": "helper"}
    first: dict[str, Any] = {**CHAT, **conversation, "gen_ai.input.messages": ASKED, "gen_ai.output.messages": [CALLED]}
    first |= {"gen_ai.usage.input_tokens": 30, "gen_ai.usage.output_tokens": 9, "gen_ai.request.temperature": 0.5}
    second = {**CHAT, **conversation, "gen_ai.input.messages": [*ASKED, CALLED, TOLD], "gen_ai.output.messages": [SAID]}
    instructions = {"gen_ai.system_instructions": [{"type": "text", "content": "Be brief."}]}
    return make_spans(first | instructions | more, second | instructions | more)


def test_a_run_becomes_a_session_with_its_calls(
    project: Project, gateway: GatewayThread, token: str, tmp_path: Any
) -> None:
    spans = tell_run()
    assert export(gateway, token, spans) is SpanExportResult.SUCCESS
    assert len(gateway.records) == 2
    write(tmp_path, gateway.records)
    session = Session.objects.get()
    assert (session.key, session.end_user, session.worker_name, session.agent) == (
        "conv-7",
        "carol",
        "helper",
        "agent:claw",
    )
    first, second = session.exchanges.order_by("id")
    assert [call["function"]["name"] for call in first.tool_calls] == ["get_weather"]
    assert (first.text, first.reasoning, first.finish_reason) == ("", "I look.", "tool_calls")
    assert (first.prompt_tokens, first.completion_tokens, first.request["temperature"]) == (30, 9, 0.5)
    assert (second.text, second.parent, second.api) == ("It rains.", first, "otlp")
    assert second.messages == [{"role": "tool", "tool_call_id": "c1", "content": "rainy, 57°F"}]
    assert first.messages[0] == {"role": "system", "content": "Be brief."}
    assert "not trained on" in second.token_fault
    assert not second.has_exact_tokens

    gateway.records.clear()
    assert export(gateway, token, spans) is SpanExportResult.SUCCESS
    assert gateway.records == []  # what comes again is kept once


def test_json_says_the_same(gateway: GatewayThread, token: str) -> None:
    batch = ExportTraceServiceRequest.FromString(read(tell_run()))
    said = {
        "resourceSpans": [
            {
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "traceId": span.trace_id.hex().upper(),
                                "spanId": span.span_id.hex(),
                                "parentSpanId": span.parent_span_id.hex(),
                                "startTimeUnixNano": str(span.start_time_unix_nano),
                                "endTimeUnixNano": str(span.end_time_unix_nano),
                                "kind": 3,
                                "aNewField": {"nobody": "knows"},
                                "attributes": [
                                    {"key": one.key, "value": {"stringValue": one.value.string_value}}
                                    for one in span.attributes
                                    if one.value.HasField("string_value")
                                ],
                            }
                            for span in batch.resource_spans[0].scope_spans[0].spans
                        ]
                    }
                ]
            }
        ]
    }
    answer = post(gateway, token, gzip.compress(json.dumps(said).encode()), content_type=JSON, content_encoding="gzip")
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, JSON)
    in_json = {record.header["id"] for record in gateway.records}
    gateway.records.clear()
    answer = post(gateway, token, batch.SerializeToString())
    assert answer.headers["content-type"] == PROTOBUF
    assert ExportTraceServiceResponse.FromString(answer.content).partial_success.error_message == ""
    assert {record.header["id"] for record in gateway.records} == in_json


def test_a_trace_without_a_conversation_is_a_session(project: Project, gateway: GatewayThread, token: str) -> None:
    task = make_task(project)
    spans = make_spans(
        {**CHAT, "gen_ai.input.messages": ASKED, "tentalis.task.id": task.pk, "tentalis.step.index": 2},
        {**CHAT, "gen_ai.input.messages": ASKED, "tentalis.task.id": task.pk + 99},
    )
    export(gateway, token, spans)
    headers = [record.header for record in gateway.records]
    assert {header["session"] for header in headers} == {format(spans[0].context.trace_id, "032x")}
    assert [(header["task"], header["step"]) for header in headers] == [(task.pk, 2), (None, None)]


def test_calls_that_no_span_holds_are_joined_by_what_they_repeat(
    project: Project, gateway: GatewayThread, token: str, tmp_path: Any
) -> None:
    first = {**CHAT, "gen_ai.input.messages": ASKED, "gen_ai.output.messages": [CALLED]}
    second = {**CHAT, "gen_ai.input.messages": [*ASKED, CALLED, TOLD], "gen_ai.output.messages": [SAID]}
    for call in (first, first, second, {**first, "user.id": "carol"}, {**CHAT, "gen_ai.usage.input_tokens": 5}):
        export(gateway, token, make_spans(call, is_held=False))
    write(tmp_path, gateway.records)
    found = [
        (one.end_user, one.is_named, *one.exchanges.values_list("text", flat=True)) for one in Session.objects.all()
    ]
    assert sorted(found) == [("", False, ""), ("", False, "", "It rains."), ("", True, ""), ("carol", False, "")]


SKY = {"type": "image_url", "image_url": {"url": "https://a.test/sky.png"}}
OPENINFERENCE = {
    "openinference.span.kind": "LLM",
    "llm.invocation_parameters": '{"temperature": 0.1, "model": "gpt-x"}',
    "session.id": "phoenix-1",
    "llm.input_messages.0.message.role": "system",
    "llm.input_messages.0.message.content": "Be brief.",
    "llm.input_messages.1.message.role": "user",
    "llm.input_messages.1.message.contents.0.message_content.type": "text",
    "llm.input_messages.1.message.contents.0.message_content.text": "Weather?",
    "llm.input_messages.1.message.contents.1.message_content.type": "image",
    "llm.input_messages.1.message.contents.1.message_content.image.image.url": "https://a.test/sky.png",
    "llm.input_messages.10.message.role": "tool",
    "llm.input_messages.10.message.tool_call_id": "c0",
    "llm.input_messages.10.message.content": "rain",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "get_weather",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"a": 1}',
    "llm.token_count.prompt": 12,
    "llm.token_count.completion": 3,
    "llm.finish_reason": "tool_calls",
    "llm.tools.0.tool.json_schema": '{"type": "function", "function": {"name": "get_weather"}}',
}
TRACELOOP = {
    "llm.request.type": "chat",
    "gen_ai.system": "OpenAI",
    "gen_ai.request.model": "gpt-x",
    "gen_ai.request.temperature": 0.1,
    "traceloop.association.properties.session_id": "loop-1",
    "gen_ai.prompt.0.role": "system",
    "gen_ai.prompt.0.content": "Be brief.",
    "gen_ai.prompt.1.role": "user",
    "gen_ai.prompt.1.content": (
        '[{"type": "text", "text": "Weather?"}, {"type": "image_url", "image_url": {"url": "https://a.test/sky.png"}}]'
    ),
    "gen_ai.prompt.2.role": "tool",
    "gen_ai.prompt.2.tool_call_id": "c0",
    "gen_ai.prompt.2.content": "rain",
    "gen_ai.completion.0.role": "assistant",
    "gen_ai.completion.0.finish_reason": "tool_calls",
    "gen_ai.completion.0.tool_calls.0.id": "c1",
    "gen_ai.completion.0.tool_calls.0.name": "get_weather",
    "gen_ai.completion.0.tool_calls.0.arguments": '{"a": 1}',
    "gen_ai.usage.prompt_tokens": 12,
    "gen_ai.usage.completion_tokens": 3,
    "llm.request.functions.0.name": "get_weather",
}


def take(gateway: GatewayThread, token: str, *calls: Mapping[str, Any]) -> list[Captured]:
    export(gateway, token, make_spans(*calls))
    return [captured for record in gateway.records for captured in capture(record)]


def test_other_vocabularies_say_the_same(gateway: GatewayThread, token: str) -> None:
    by_key = {found.header["session"]: found for found in take(gateway, token, OPENINFERENCE, TRACELOOP)}
    assert by_key.keys() == {"phoenix-1", "loop-1"}
    for found in by_key.values():
        assert found.messages == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Weather?"}, SKY]},
            {"role": "tool", "tool_call_id": "c0", "content": "rain"},
        ]
        assert found.finish_reason == "tool_calls"
        [call] = found.tool_calls
        assert (call["id"], call["function"]) == ("c1", {"name": "get_weather", "arguments": '{"a": 1}'})
        assert (found.prompt_tokens, found.completion_tokens, found.header["asked"]) == (12, 3, "gpt-x")
        assert found.request["temperature"] == 0.1
        assert found.request["tools"][0]["function"]["name"] == "get_weather"


def test_what_failed_is_kept_as_such_and_what_has_no_words_is_said(gateway: GatewayThread, token: str) -> None:
    spans = make_spans(
        {**CHAT, "gen_ai.input.messages": ASKED, "error.type": "429", "fails": "slow down"},
        {**CHAT, "gen_ai.usage.input_tokens": 5},
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_weather"},
    )
    answer = post(gateway, token, read(spans))
    failed, wordless = [captured for record in gateway.records for captured in capture(record)]
    assert (failed.header["status"], failed.error) == (429, "slow down")
    assert (wordless.prompt_tokens, wordless.messages, wordless.text) == (5, [], "")
    said = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert said.rejected_spans == 0
    assert said.error_message.startswith("1 calls came without their messages")


def test_what_is_no_batch_is_refused_in_words(gateway: GatewayThread, token: str) -> None:
    for body, content_type, status, words in (
        (b"\xff\xff", PROTOBUF, 400, "in protobuf"),
        (b'{"resourceSpans": 7}', JSON, 400, "in JSON"),
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "zz"}]}]}]}', JSON, 400, "in JSON"),
        (b'{"resourceSpans": [7]}', JSON, 400, "in JSON"),
        (b"[" * 5_000, JSON, 400, ""),
        (b"hello", "text/plain", 415, "found text/plain"),
    ):
        answer = post(gateway, token, body, content_type=content_type)
        assert (answer.status_code, words in answer.json()["error"]["message"]) == (status, True), answer.text
    assert gateway.records == []


def test_parts_that_are_no_text_stay_what_they_are(gateway: GatewayThread, token: str) -> None:
    parts = [
        {"type": "uri", "modality": "image", "uri": "https://a.test/" + "x" * 300},
        {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "iVBORw0K"},
        {"type": "blob", "modality": "audio", "mime_type": "audio/wav", "content": "UklGRg=="},
        {"type": "file", "modality": "document", "file_id": "file-1"},
    ]
    [found] = take(gateway, token, {**CHAT, "gen_ai.input.messages": [{"role": "user", "parts": parts}]})
    assert found.messages[0]["content"] == [
        {"type": "image_url", "image_url": {"url": "https://a.test/" + "x" * 300}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0K"}},
        {"type": "file", "file": {"file_data": "data:audio/wav;base64,UklGRg=="}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]


CROWDS = {
    "resources": (b"", b"\x0a"),
    "resources whose tag is written at length": (b"", b"\x8a\x00"),
    "spans": (b"\x0a\x12", b"\x12"),
    "attributes": (b"\x0a\x12\x12", b"\x4a"),
    "values in a value": (b"\x0a\x12\x12\x4a\x12\x2a", b"\x0a"),
}
"""Where there can be many, as small as can be: the tags of what holds them, and theirs."""


def make_crowd(path: bytes, tag: bytes, count: int) -> bytes:
    """So many messages in all."""
    body = (tag + b"\0") * (count - len(path))
    for outer in reversed(path):
        body = bytes([outer]) + encode_number(len(body)) + body
    return body


def encode_number(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + encode_number(value >> 7)


def count_messages(message: Message) -> int:
    """Those in it, at any depth."""
    held = [value for field, value in message.ListFields() if field.message_type is not None]
    inner = [one for value in held for one in ([value] if isinstance(value, Message) else value)]
    return len(inner) + sum(map(count_messages, inner))


@pytest.mark.parametrize("crowd", CROWDS)
def test_what_a_batch_would_become_is_counted_from_its_bytes(crowd: str) -> None:
    path, tag = CROWDS[crowd]
    raw = make_crowd(path, tag, 51)
    assert count_messages(TracesData.FromString(raw)) == 51
    assert has_more_messages(raw, TracesData.DESCRIPTOR, 50)
    assert not has_more_messages(raw, TracesData.DESCRIPTOR, 51)
    assert not has_more_messages(raw[:-1], TracesData.DESCRIPTOR, 60)


def test_a_batch_as_it_comes_is_counted_right() -> None:
    raw = read(tell_run())
    count = count_messages(TracesData.FromString(raw))
    assert has_more_messages(raw, TracesData.DESCRIPTOR, count - 1)
    assert not has_more_messages(raw, TracesData.DESCRIPTOR, count)


def test_too_many_spans_or_values_are_refused_with_how_many_are_taken(gateway: GatewayThread, token: str) -> None:
    for crowd, count, words in (
        (
            "spans",
            LIMITS.spans_per_batch + 3,
            "wanted at most 10,000 spans in a batch, found 10,001: let your exporter",
        ),
        (
            "attributes",
            LIMITS.spans_values + 1,
            "wanted at most 400,000 values in a batch, found more: let your exporter",
        ),
    ):
        answer = post(gateway, token, make_crowd(*CROWDS[crowd], count))
        assert (answer.status_code, answer.json()["error"]["message"][: len(words)]) == (400, words)
    assert gateway.records == []


def test_odd_values_are_read_as_far_as_they_say_something(gateway: GatewayThread, token: str) -> None:
    odd: list[Mapping[str, Any]] = [
        {
            **CHAT,
            "gen_ai.input.messages": "not json",
            "gen_ai.usage.input_tokens": -4,
            "gen_ai.conversation.id": "x" * 900,
        },
        {**CHAT, "gen_ai.input.messages": '[{"role": 7, "parts": "none"}, 5]', "gen_ai.output.messages": '["a"]'},
        {**CHAT, "gen_ai.input.messages": "[" * 200, "gen_ai.usage.output_tokens": 1e300},
        {**CHAT, f"gen_ai.prompt.{'9' * 5_000}.content": "far"},
        {**CHAT, "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0": "both", "gen_ai.prompt.0.content": "a\0b"},
    ]
    found = take(gateway, token, *odd)
    assert len(found) == len(odd)
    assert all(one.prompt_tokens == one.completion_tokens == 0 for one in found)

    gateway.records.clear()
    batch = TracesData.FromString(read(make_spans(CHAT, CHAT)))
    first, second = [one for one in batch.resource_spans[0].scope_spans[0].spans if one.name == "chat"]
    first.start_time_unix_nano, second.start_time_unix_nano = 1, 2**63
    before = time.time()
    assert post(gateway, token, batch.SerializeToString()).status_code == 200
    old, future = sorted(record.header["at"] for record in gateway.records)
    assert before - 31 * 86_400 < old < before - 29 * 86_400
    assert before <= future <= time.time()


def test_limits_hold(project: Project, helper: Worker) -> None:
    token = make_agent_token(project, "thrifty", requests_per_minute=1)
    with GatewayThread() as gateway:
        body = read(make_spans(CHAT))
        statuses = [post(gateway, token, body).status_code for _ in range(2)]
    assert statuses == [200, 429]


def test_ids_of_json_are_hexadecimal() -> None:
    raw = orjson.dumps(
        {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "0" * 31 + "7", "spanId": "ab" * 8}]}]}]}
    )
    [span] = read_json(raw).resource_spans[0].scope_spans[0].spans
    assert (span.trace_id, span.span_id) == (bytes(15) + b"\x07", b"\xab" * 8)
