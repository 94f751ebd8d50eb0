"""What happened here, told to a collector: whole trees, once, and nothing where none is named."""

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from apps.accounts.models import Project
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.inference.models import Exchange, Session
from apps.operations import tracing
from apps.operations.models import SpanCursor
from apps.operations.tracing import tell_spans
from apps.rollouts.models import Batch, Rollout, TrainingUse
from apps.scoring.models import StepScore
from apps.tasks.models import Task
from apps.training.models import TrainingRun
from tests.factories import make_judged_task, make_project, make_task

pytestmark = pytest.mark.django_db(transaction=True)


class Collector(HTTPServer):
    """Takes spans, or answers 400 while it is told to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.spans: list[Span] = []
        self.headers: list[Any] = []
        self.refuses = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1/traces"

    def take(self) -> dict[str, Span]:
        """By name, those that came since the last time."""
        found, self.spans = {span.name: span for span in self.spans}, []
        return found


class Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
        self.server.headers.append(self.headers)
        if not self.server.refuses:
            batch = ExportTraceServiceRequest.FromString(body)
            self.server.spans += [
                span for part in batch.resource_spans for scope in part.scope_spans for span in scope.spans
            ]
        self.send_response(400 if self.server.refuses else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        told = {"OTLP_ENDPOINT": server.url, "OTLP_HEADERS": "X-Key=secret, x-other=1"}
        with override_settings(TENTALIS=settings.TENTALIS | told):
            tell_spans()  # from here on
            yield server
        server.shutdown()
        tracing._connect.cache_clear()
        tracing._bounds.clear()


def finish(project: Project, **values: Any) -> Task:
    """A task with two attempts of two steps, scored, that came to its end."""
    task = make_judged_task(project, **values)
    for attempt in task.attempts.all():
        attempt.task = task
        StepScore.objects.create(attempt=attempt, step=attempt.steps.first(), scorer="rubric", score=0.5)
        StepScore.objects.create(attempt=attempt, step=None, scorer="effort", score=None, reason="no words")
    Task.objects.filter(pk=task.pk).update(state=Task.State.DONE)
    record(Kind.TASK_DONE, subject=task, by="test")
    return task


def read(span: Span) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value") or "string_value") for one in span.attributes}


def test_a_task_is_one_unbroken_tree(project: Project, collector: Collector) -> None:
    task = finish(project, prompt="SECRET WORDS")
    assert tell_spans() == 1 + 2 + 4 + 4 + 2
    spans = collector.spans
    ids = {span.span_id for span in spans}
    assert len(ids) == len(spans)
    assert len({span.trace_id for span in spans}) == 1
    [root] = [span for span in spans if not span.parent_span_id]
    assert (root.name, read(root)["tentalis.task.id"], read(root)["tentalis.task.state"]) == (
        "task chat",
        str(task.pk),
        "done",
    )
    assert all(span.parent_span_id in ids for span in spans if span is not root)
    by_id = {span.span_id: span for span in spans}
    for span in spans:
        about = read(span)
        above = by_id[span.parent_span_id].name if span.parent_span_id else ""
        if span.name == "evaluate rubric":
            assert (above, about["gen_ai.evaluation.score.value"]) == ("step step", 0.5)
        elif span.name == "evaluate effort":
            assert (above, about["gen_ai.evaluation.score.label"]) == ("invoke_agent echo", "unscored")
        elif span.name == "chat desk":
            assert above == "invoke_agent echo"
            assert (about["gen_ai.operation.name"], about["gen_ai.request.model"]) == ("chat", "desk")
        assert about["tentalis.project"] == "shop"
        assert span.end_time_unix_nano >= span.start_time_unix_nano > 0
    assert not any("SECRET" in str(span) for span in spans)
    assert collector.headers[0]["x-key"] == "secret"

    assert tell_spans() == 0  # once


def test_what_a_collector_does_not_take_is_told_again(project: Project, collector: Collector) -> None:
    collector.refuses = True
    finish(project)
    assert tell_spans() == 0
    collector.refuses = False
    assert tell_spans() == 13
    assert tell_spans() == 0


def test_calls_of_sessions_are_told_and_those_that_came_as_spans_are_not(
    project: Project, collector: Collector
) -> None:
    session = Session.objects.create(project=project, key="talk", agent="agent:claw")
    calls: dict[str, Any] = {"project": project, "session": session, "latency_ms": 1500.0}
    Exchange.objects.create(
        **calls, model="big", prompt_tokens=7, completion_tokens=3, finish_reason="stop", api="chat"
    )
    Exchange.objects.create(**calls, model="bad", status=502, error="it is down", api="chat")
    Exchange.objects.create(**calls, model="told", api="otlp")
    elsewhere = make_task(make_project("elsewhere"))
    Exchange.objects.create(project=elsewhere.project, model="forit", task_id=elsewhere.pk, step_index=2)
    assert tell_spans() == 3
    found = collector.take()
    big, bad = found["chat big"], found["chat bad"]
    assert (big.trace_id, big.parent_span_id, big.kind) == (bad.trace_id, b"", Span.SPAN_KIND_CLIENT)
    about = read(big)
    assert (about["gen_ai.usage.input_tokens"], about["gen_ai.usage.output_tokens"]) == (7, 3)
    assert (about["gen_ai.conversation.id"], big.end_time_unix_nano - big.start_time_unix_nano) == (
        "talk",
        1_500_000_000,
    )
    assert (bad.status.message, read(bad)["error.type"]) == ("it is down", "502")
    Task.objects.filter(pk=elsewhere.pk).update(state=Task.State.CANCELLED)
    record(Kind.TASK_CANCELLED, subject=elsewhere, by="test")
    assert tell_spans() == 1
    root = collector.take()["task chat"]
    assert (found["chat forit"].parent_span_id, found["chat forit"].trace_id) == (root.span_id, root.trace_id)


def test_a_training_is_linked_to_what_it_learned_from(project: Project, collector: Collector) -> None:
    task = finish(project)
    batch = Batch.objects.create(project=project, worker=task.worker, number=1, state="closed", target_tasks=1)
    for attempt in task.attempts.all():
        said = {"project": project, "worker": task.worker, "task": task, "attempt": attempt, "is_usable": True}
        TrainingUse.objects.create(rollout=Rollout.objects.create(**said, reward=0.5), batch=batch)
    run = TrainingRun.objects.create(
        project=project, worker=task.worker, batch=batch, recipe={}, recipe_hash="0" * 64, state="failed", failure="no"
    )
    record(Kind.RUN_FAILED, subject=run, by="test")
    tell_spans()
    trained = next(span for span in collector.spans if span.name == "train echo")
    attempts = {(span.trace_id, span.span_id) for span in collector.spans if span.name == "invoke_agent echo"}
    assert {(link.trace_id, link.span_id) for link in trained.links} == attempts
    assert (trained.status.message, read(trained)["tentalis.run.state"]) == ("no", "failed")


def test_where_nobody_is_named_nothing_is_done(project: Project, django_assert_num_queries: Any) -> None:
    finish(project)
    with django_assert_num_queries(0):
        assert tell_spans() == 0
    assert not SpanCursor.objects.exists()
