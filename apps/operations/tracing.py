"""What happened here as OpenTelemetry spans: task, attempts, steps, scores, calls of models, trainings.

They are made from the rows when something has ended, and not while it runs: the rows are the truth, so a killed process
leaves no hole in a tree. A collector that takes them hears each once; where none is named nothing is done at all.
Ids are made of the rows' keys: the same span is the same whoever tells it. No words are told, only figures and names.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import connection
from django.db.models import Max, Prefetch

from apps.adapters.models import Adapter
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry, ChainPlace, find_horizon
from apps.inference.models import TOLD_BY_A_SPAN, Exchange
from apps.operations.models import SpanCursor
from apps.operations.spans import Span, of_call, of_run, of_task
from apps.tasks.models import Attempt, FurtherExchange, Step, Task
from apps.training.models import TrainingRun

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

logger = logging.getLogger(__name__)

PAGE = 100
CALLS = 500
AT_ONCE = 512
TIMEOUT_S = 5.0
TASK_ENDED = (Kind.TASK_DONE, Kind.TASK_FAILED, Kind.TASK_CANCELLED)
RUN_ENDED = (Kind.RUN_SUCCEEDED, Kind.RUN_FAILED, Kind.RUN_REFUSED, Kind.RUN_CANCELLED)


class CollectorError(Exception):
    """The collector did not take them."""


@dataclass
class Bound:
    """Exchanges up to `exchange_id` are all there once every transaction before `xid` has ended."""

    exchange_id: int
    xid: int


_bounds: dict[str, Bound] = {}


def tell_spans() -> int:
    """Tell the collector of what ended since the last time; how many spans. What it does not take is told again."""
    endpoint = settings.TENTALIS["OTLP_ENDPOINT"]
    if not endpoint:
        return 0
    cursor = _find_cursor(endpoint)
    try:
        return _tell_ended(cursor) + _tell_calls(cursor)
    except CollectorError as error:
        logger.warning("spans wait: %s", error)
        return 0


def _find_cursor(endpoint: str) -> SpanCursor:
    """A collector that is new hears of what ends from now on."""
    known = SpanCursor.objects.filter(endpoint=endpoint).first()
    if known is not None:
        return known
    now = find_horizon()
    return SpanCursor.objects.create(endpoint=endpoint, epoch=now.epoch, xid=now.xid, exchange_id=_last_exchange())


def _tell_ended(cursor: SpanCursor) -> int:
    """Tasks and trainings that came to an end, a page at a time."""
    told = 0
    while True:
        place, horizon = ChainPlace(cursor.epoch, cursor.xid, cursor.entry_id), find_horizon()
        rows = AuditEntry.objects.behind(place).before(horizon).filter(kind__in=[*TASK_ENDED, *RUN_ENDED])
        page = list(rows.in_commit_order()[:PAGE])
        by_kind = {
            wanted: [entry.subject_id for entry in page if entry.kind in wanted] for wanted in (TASK_ENDED, RUN_ENDED)
        }
        told += _export([*_read_tasks(by_kind[TASK_ENDED]), *_read_runs(by_kind[RUN_ENDED])], cursor)
        end = ChainPlace(page[-1].epoch, page[-1].xid, page[-1].pk) if len(page) == PAGE else horizon
        if end != place:
            cursor.epoch, cursor.xid, cursor.entry_id = end
            cursor.save(update_fields=["epoch", "xid", "entry_id"])
        if len(page) < PAGE:
            return told


def _tell_calls(cursor: SpanCursor) -> int:
    """Calls of models that are stored. Those that came in as spans are not sent out as such again."""
    bound = _bounds.get(cursor.endpoint)
    if bound is None or bound.exchange_id <= cursor.exchange_id:
        last = _last_exchange()
        if last <= cursor.exchange_id:
            return 0
        bound = _bounds[cursor.endpoint] = Bound(last, _next_transaction())
    if find_horizon().xid < bound.xid:
        return 0  # one of a smaller number may yet be committed
    told = 0
    while cursor.exchange_id < bound.exchange_id:
        rows = Exchange.objects.filter(pk__gt=cursor.exchange_id, pk__lte=bound.exchange_id).order_by("pk")
        page = list(rows.select_related("project", "provider", "session").defer(*HEAVY)[:CALLS])
        told += _export(_read_calls(page), cursor)
        cursor.exchange_id = page[-1].pk if len(page) == CALLS else bound.exchange_id
        cursor.save(update_fields=["exchange_id"])
    return told


HEAVY = (
    "messages", "request", "text", "reasoning", "thinking_blocks", "tool_calls", "prompt_token_ids", "token_ids",
    "logprobs", "sampled", "top_token_ids", "top_logprobs",
)  # fmt: skip
"""What is not told and may be large."""


def _read_tasks(pks: Sequence[int | None]) -> list[Span]:
    tasks = Task.objects.filter(pk__in=set(pks)).select_related("project", "worker").order_by("pk")
    attempts = Attempt.objects.filter(task__in=tasks).select_related("adapter", "worker").order_by("task_id", "index")
    by_task: dict[int, list[Attempt]] = {}
    steps = Prefetch("steps", Step.objects.defer("text", "tool_result"))
    for attempt in attempts.defer("text", "answer", "score_details").prefetch_related(steps, "step_scores"):
        by_task.setdefault(attempt.task_id, []).append(attempt)
    return [span for task in tasks for span in of_task(task, by_task.get(task.pk, []))]


def _read_runs(pks: Sequence[int | None]) -> list[Span]:
    runs = TrainingRun.objects.filter(pk__in=set(pks)).select_related("project", "worker").order_by("pk")
    adapters = dict(Adapter.objects.filter(run_id__in=set(pks)).order_by("pk").values_list("run_id", "name"))
    used = Attempt.objects.order_by("pk").values_list("pk", "task_id")
    spans = []
    for run in runs:
        learnt = [] if run.batch_id is None else list(used.filter(rollout__training_use__batch_id=run.batch_id))
        spans.append(of_run(run, learnt, adapters.get(run.pk, "")))
    return spans


def _read_calls(calls: Sequence[Exchange]) -> list[Span]:
    """Under the attempt that each made, else the task it was made for, else in the trace of its session."""
    pks = [call.pk for call in calls]
    found = Attempt.objects.filter(exchange__in=pks).values_list("exchange_id", "pk", "task_id")
    further = FurtherExchange.objects.filter(exchange__in=pks).values_list(
        "exchange_id", "attempt_id", "attempt__task_id"
    )
    made = {exchange: (attempt, task) for exchange, attempt, task in [*found, *further]}
    return [of_call(call, made.get(call.pk)) for call in calls if call.api != TOLD_BY_A_SPAN and call.turn != "shadow"]


def _export(spans: Iterable[Span], cursor: SpanCursor) -> int:
    """Raises CollectorError."""
    from opentelemetry.sdk.trace.export import SpanExportResult

    made = [span.make(_resource()) for span in spans]
    exporter = _connect(cursor.endpoint, settings.TENTALIS["OTLP_HEADERS"])
    for start in range(0, len(made), AT_ONCE):
        if exporter.export(made[start : start + AT_ONCE]) is not SpanExportResult.SUCCESS:
            raise CollectorError(f"{cursor.endpoint} does not take them")
    return len(made)


@lru_cache(maxsize=1)
def _connect(endpoint: str, headers: str) -> "SpanExporter":
    """Raises no error: who is away is away when asked. Certificates and the like are said as everywhere, by OTEL_…"""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    said = dict(one.split("=", 1) for one in headers.split(",") if "=" in one)
    named = {name.strip().lower(): value.strip() for name, value in said.items()}
    return OTLPSpanExporter(endpoint, headers=named or None, timeout=TIMEOUT_S)


@lru_cache(maxsize=1)
def _resource() -> Any:
    from opentelemetry.sdk.resources import Resource

    return Resource({"service.name": "tentalis"})


def _last_exchange() -> int:
    return Exchange.objects.aggregate(last=Max("pk"))["last"] or 0


def _next_transaction() -> int:
    with connection.cursor() as asking:
        asking.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
        return int(asking.fetchone()[0])
