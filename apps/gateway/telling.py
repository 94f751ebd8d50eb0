"""Spans over OTLP/HTTP: what agents that ask their models elsewhere tell of it becomes sessions here."""

import asyncio
import base64
import binascii
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from uuid import UUID

from django.db.utils import Error as DatabaseError
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from apps.gateway.asking import read_object
from apps.gateway.bodies import Body
from apps.gateway.edge import Edge
from apps.gateway.errors import RefusalError
from apps.gateway.exchange import UNRECORDED
from apps.gateway.record import SpoolError
from apps.gateway.span_bounds import has_more_messages
from apps.gateway.spans import Told, read_calls
from apps.gateway.tables import Caller
from apps.inference.models import Exchange
from apps.tasks.models import Task
from apps.workers.models import Worker
from tentalis.inbound.http1 import Request, Response
from tentalis.limits import LIMITS

logger = logging.getLogger(__name__)
T = TypeVar("T")

PROTOBUF, JSON = "application/x-protobuf", "application/json"
WORDLESS = (
    "{count} calls came without their messages, so nobody can review them: let your instrumentation write them into "
    "its spans (OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only, and before version 1.0 "
    "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental too)"
)
SMALLER = "let your exporter send fewer at a time (OTEL_BSP_MAX_EXPORT_BATCH_SIZE)"
_reading = ThreadPoolExecutor(1, thread_name_prefix="read-spans")
"""One batch at a time: read, it is several times as large."""


async def take_spans(edge: Edge, request: Request, caller: Caller) -> Response:
    """Record the models' calls of a batch, each once however often it comes; an answer as OTLP wants it.

    Raises:
        RefusalError: it is no batch of spans, too large, or cannot be kept at the moment.
    """
    content_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if content_type not in (PROTOBUF, JSON):
        message = f"wanted the Content-Type {PROTOBUF} or {JSON}, found {content_type[:80] or 'none'}"
        raise RefusalError(message, status=415, code="unsupported_media_type")
    arriving, is_admitted = Body(edge, caller, most_bytes=LIMITS.spans_body_bytes), False
    try:
        raw = await arriving.read(request)
        edge.admit()
        is_admitted = True
        edge.budgets.admit_request(caller, time.time())
        read = read_protobuf if content_type == PROTOBUF else read_json
        workers = await _ask(edge, lambda: _list_workers(caller))
        told = await asyncio.get_running_loop().run_in_executor(_reading, lambda: _read_all(read(raw), caller, workers))
        fresh = await _ask(edge, lambda: _find_fresh(caller, told)) if told else []
        for one in fresh:
            edge.spool.append(one.header, one.request, one.answer)
    except SpoolError as error:
        logger.error("spans are not recorded: %s", error)
        raise RefusalError(UNRECORDED, status=503, code="unavailable", retry_after_s=5) from error
    finally:
        edge.in_flight -= is_admitted
        arriving.let_go()
    answer = ExportTraceServiceResponse()
    if wordless := sum(not one.has_words for one in fresh):
        answer.partial_success.error_message = WORDLESS.format(count=wordless)
    is_json = content_type == JSON
    body = json_format.MessageToJson(answer, indent=None).encode() if is_json else answer.SerializeToString()
    return Response(body, {"Content-Type": content_type})


def read_protobuf(raw: bytes) -> TracesData:
    """A batch in OTLP's binary form. Raises RefusalError, before any of it is made where that would be too much."""
    if has_more_messages(raw, TracesData.DESCRIPTOR, LIMITS.spans_values):
        raise _refuse(f"wanted at most {LIMITS.spans_values:,} values in a batch, found more: {SMALLER}")
    try:
        batch: TracesData = TracesData.FromString(raw)
        return batch
    except DecodeError:
        raise _refuse("wanted an ExportTraceServiceRequest in protobuf, found something else") from None


def read_json(raw: bytes) -> TracesData:
    """A batch in OTLP's JSON, whose ids are hexadecimal where protobuf's own JSON has base64. Raises RefusalError."""
    body = read_object(raw)
    try:
        for part in _list(body, "resourceSpans"):
            for scope in _list(part, "scopeSpans"):
                for span in _list(scope, "spans"):
                    for one in (span, *_list(span, "links")):
                        _spell_ids(one)
        batch = TracesData()
        json_format.ParseDict(body, batch, ignore_unknown_fields=True)
        return batch
    except (json_format.ParseError, binascii.Error, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise _refuse(f"wanted an ExportTraceServiceRequest in JSON, found: {str(error)[:300]}") from None


def _read_all(data: TracesData, caller: Caller, workers: frozenset[str]) -> list[Told]:
    """By when they began: what goes on from another comes behind it. Raises RefusalError: they are too many."""
    count = sum(len(scope.spans) for part in data.resource_spans for scope in part.scope_spans)
    if count > LIMITS.spans_per_batch:
        raise _refuse(f"wanted at most {LIMITS.spans_per_batch:,} spans in a batch, found {count:,}: {SMALLER}")
    found = {one.id: one for one in read_calls(data, caller, workers=workers, now=time.time())}
    return sorted(found.values(), key=lambda one: one.header["at"])


def _list_workers(caller: Caller) -> frozenset[str]:
    return frozenset(Worker.objects.filter(project_id=caller.project).values_list("name", flat=True))


def _find_fresh(caller: Caller, told: list[Told]) -> list[Told]:
    """Those that are not stored yet, without tasks that the project does not have."""
    stored = set(Exchange.objects.filter(public_id__in=[one.id for one in told]).values_list("public_id", flat=True))
    wanted = {task for one in told if (task := one.header["task"]) is not None}
    known = set(Task.objects.filter(project_id=caller.project, pk__in=wanted).values_list("pk", flat=True))
    for one in told:
        if one.header["task"] not in known:
            one.header["task"] = None
    return [one for one in told if UUID(one.id) not in stored]


async def _ask(edge: Edge, question: Callable[[], T]) -> T:
    """Raises RefusalError where the database is away."""
    try:
        return await edge.config.ask(question)
    except DatabaseError as error:
        message = "the database is away: send them again"
        raise RefusalError(message, status=503, code="unavailable", retry_after_s=5) from error


def _spell_ids(one: dict[str, Any]) -> None:
    for name in ("traceId", "spanId", "parentSpanId"):
        if one.get(name):
            one[name] = base64.b64encode(bytes.fromhex(one[name])).decode()


def _list(one: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return one.get(name) or []


def _refuse(message: str) -> RefusalError:
    return RefusalError(message, status=400, code="invalid_spans")
