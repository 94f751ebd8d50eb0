"""Rows as spans, in the words of OpenTelemetry's conventions (`tentalis.core.gen_ai`). Pure."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings

from apps.inference.models import Exchange
from apps.tasks.models import Attempt, Task
from apps.training.models import TrainingRun
from tentalis.core import gen_ai

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

_OURS_BY_KIND = {"": "tentalis", "engine": "tentalis", "xai": "x_ai", "kimi": "moonshot_ai", "gemini": "gcp.gemini"}
"""The conventions' names of model servers, where they are not those of our registry."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """One span, before the SDK makes its own of it.

    Args:
        trace, id, parent: what their ids are made of; parent "": it is a root.
        links: (trace, id) of spans elsewhere that it comes from.
        asks: whether it asks another server.
        error: what went wrong; "" for nothing.
    """

    trace: str
    id: str
    name: str
    start: datetime
    end: datetime
    parent: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    links: Sequence[tuple[str, str]] = ()
    asks: bool = False
    error: str = ""

    def make(self, resource: Any) -> "ReadableSpan":
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import Link, SpanKind, Status, StatusCode

        given = {name: value for name, value in self.attributes.items() if value not in (None, "", ())}
        return ReadableSpan(
            name=self.name,
            context=_make_context(self.trace, self.id),
            parent=_make_context(self.trace, self.parent) if self.parent else None,
            resource=resource,
            attributes=given,
            links=[Link(_make_context(trace, id)) for trace, id in self.links],
            kind=SpanKind.CLIENT if self.asks else SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, self.error[:300]) if self.error else Status(StatusCode.UNSET),
            start_time=_nano(self.start),
            end_time=_nano(max(self.start, self.end)),
            instrumentation_scope=InstrumentationScope("tentalis"),
        )


def of_task(task: Task, attempts: Sequence[Attempt]) -> Iterator[Span]:
    """A task that ended, and all below it but for the calls of models, which are told when they are stored."""
    trace = name_task(task.pk)
    about = {gen_ai.PROJECT: task.project.slug, gen_ai.WORKER: task.worker.name}
    yield Span(
        trace=trace,
        id=trace,
        name=f"task {task.environment}",
        start=task.created_at,
        end=task.updated_at,
        attributes=about
        | {
            gen_ai.TASK: str(task.pk),
            "tentalis.task.state": task.state,
            "tentalis.task.score": task.score,
            gen_ai.ERROR_TYPE: task.failed_link if task.state == Task.State.FAILED else "",
        },
        error=(task.failure or "it failed") if task.state == Task.State.FAILED else "",
    )
    for attempt in attempts:
        yield from _of_attempt(attempt, trace, about)


def _of_attempt(attempt: Attempt, trace: str, about: Mapping[str, str]) -> Iterator[Span]:
    id, end = name_attempt(attempt.pk), attempt.created_at
    yield Span(
        trace=trace,
        id=id,
        parent=trace,
        name=f"invoke_agent {attempt.worker.name}",
        start=end - timedelta(seconds=min(attempt.elapsed_s or 0.0, 7 * 86_400.0)),
        end=end,
        attributes={
            **about,
            gen_ai.OPERATION: "invoke_agent",
            gen_ai.PROVIDER: "tentalis",
            gen_ai.AGENT: attempt.worker.name,
            gen_ai.TASK: str(attempt.task_id),
            gen_ai.ADAPTER: attempt.adapter.name if attempt.adapter else "",
            "tentalis.attempt.index": attempt.index,
            "tentalis.attempt.score": attempt.score,
            "tentalis.attempt.outcome": attempt.outcome,
        },
        error=(attempt.error or "it failed") if attempt.state == Attempt.State.FAILED else "",
    )
    for step in attempt.steps.all():
        tool = step.tool_name
        yield Span(
            trace=trace,
            id=f"step {step.pk}",
            parent=id,
            name=f"execute_tool {tool}" if tool else f"step {step.kind}",
            start=end,
            end=end,
            attributes={
                **about,
                gen_ai.STEP: step.index,
                gen_ai.OPERATION: "execute_tool" if tool else "",
                gen_ai.TOOL_NAME: tool,
            },
        )
    for score in attempt.step_scores.all():
        yield Span(
            trace=trace,
            id=f"score {score.pk}",
            parent=f"step {score.step_id}" if score.step_id else id,
            name=f"evaluate {score.scorer}",
            start=score.created_at,
            end=score.created_at,
            attributes={
                **about,
                gen_ai.EVALUATION: score.scorer,
                gen_ai.SCORE: score.score,
                gen_ai.SCORE_LABEL: "unscored" if score.score is None else "",
                gen_ai.EXPLANATION: score.reason[:300],
            },
        )


def of_call(call: Exchange, made: tuple[int, int] | None) -> Span:
    """A call of a model.

    Args:
        made: the attempt that it made, and its task; None: no attempt.
    """
    task = made[1] if made is not None else call.task_id
    trace = name_task(task) if task is not None else f"session {call.session_id or f'of call {call.pk}'}"
    parent = name_attempt(made[0]) if made is not None else name_task(task) if task is not None else ""
    length = timedelta(milliseconds=min(call.latency_ms or 0.0, 86_400_000.0))
    kind = call.provider.kind if call.provider is not None else ""
    return Span(
        trace=trace,
        id=f"call {call.pk}",
        parent=parent,
        name=f"chat {call.model}",
        start=call.created_at,
        end=call.created_at + length,
        asks=True,
        attributes={
            gen_ai.PROJECT: call.project.slug,
            gen_ai.WORKER: call.worker_name,
            gen_ai.OPERATION: "text_completion" if call.api == "completions" else "chat",
            gen_ai.PROVIDER: _OURS_BY_KIND.get(kind, kind),
            gen_ai.REQUEST_MODEL: call.model,
            gen_ai.RESPONSE_MODEL: call.adapter_name or call.model,
            gen_ai.RESPONSE_ID: call.public_id.hex,
            gen_ai.ADAPTER: call.adapter_name,
            gen_ai.CONVERSATION: call.session.key if call.session is not None else "",
            gen_ai.FINISH_REASONS: (call.finish_reason,) if call.finish_reason else (),
            gen_ai.INPUT_TOKENS: call.prompt_tokens,
            gen_ai.OUTPUT_TOKENS: call.completion_tokens,
            gen_ai.CACHED_TOKENS: call.cached_tokens,
            gen_ai.FIRST_CHUNK_S: call.first_token_ms / 1000 if call.first_token_ms is not None else None,
            gen_ai.TASK: str(task) if task is not None else "",
            gen_ai.STEP: call.step_index,
            gen_ai.ERROR_TYPE: str(call.status) if call.status >= 400 else "",
            "tentalis.call.purpose": call.turn,
            "tentalis.cost.usd": float(call.cost_usd) if call.cost_usd is not None else None,
        },
        error=(call.error or f"status {call.status}") if call.status >= 400 else "",
    )


def of_run(run: TrainingRun, attempts: Sequence[tuple[int, int]], adapter: str) -> Span:
    """A training that ended, linked to the attempts it learned from.

    Args:
        attempts: (attempt, its task) of the batch. adapter: what came of it; "" for nothing.
    """
    end = run.finished_at or run.heartbeat_at or run.created_at
    failed = run.state in (TrainingRun.State.FAILED, TrainingRun.State.REFUSED)
    return Span(
        trace=f"run {run.pk}",
        id=f"run {run.pk}",
        name=f"train {run.worker.name}",
        start=run.started_at or run.created_at,
        end=end,
        attributes={
            gen_ai.PROJECT: run.project.slug,
            gen_ai.WORKER: run.worker.name,
            gen_ai.ADAPTER: adapter,
            "tentalis.run.id": run.pk,
            "tentalis.run.state": run.state,
            "tentalis.run.purpose": run.purpose,
            "tentalis.run.backend": run.backend,
            "tentalis.batch.attempts": len(attempts),
        },
        links=[(name_task(task), name_attempt(attempt)) for attempt, task in attempts[:MOST_LINKS]],
        error=(run.failure or str(run.state)) if failed else "",
    )


MOST_LINKS = 1_000


def name_task(pk: int) -> str:
    return f"task {pk}"


def name_attempt(pk: int) -> str:
    return f"attempt {pk}"


def _make_context(trace: str, id: str) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(_digest(trace, 16), _digest(f"span {id}", 8), is_remote=False, trace_flags=TraceFlags(1))


def _digest(name: str, size: int) -> int:
    """The same for the same row of this installation, and another elsewhere."""
    return int.from_bytes(hashlib.blake2b(name.encode(), key=_key(settings.SECRET_KEY), digest_size=size).digest()) or 1


def _key(secret: str) -> bytes:
    return hashlib.blake2b(secret.encode(), person=b"tentalis-spans", digest_size=32).digest()


def _nano(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1_000
