"""A model server that is away holds tasks up and fails none of them; what a server refuses fails at once."""

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import DurationField, ExpressionWrapper, F
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.console.selectors.dashboard import glance
from apps.inference import allowances
from apps.inference.models import Provider
from apps.outbox.models import Segment
from apps.outbox.selectors import find_server_wait
from apps.pipeline import flow
from apps.pipeline.sets import find_work_sets
from apps.rollouts.selectors import why_nothing_trains
from apps.tasks import services
from apps.tasks.models import Task
from apps.workers.models import Worker
from tests.fakes import FakeModelServer
from tests.links import run_link
from tests.local_server import find_free_port

pytestmark = pytest.mark.django_db(transaction=True)
GONE = "cannot be reached"


@pytest.fixture
def server() -> Iterator[FakeModelServer]:
    with FakeModelServer(models=["mine"]) as server:
        yield server


@pytest.fixture
def provider(project: Project) -> Provider:
    """A server of the project's own that nobody has started."""
    return Provider.objects.create(
        project=project,
        name="box",
        kind="vllm",
        base_url=f"http://127.0.0.1:{find_free_port()}",
        allow_private=True,
    )


@pytest.fixture
def task(project: Project, provider: Provider, alice: User) -> Task:
    worker = Worker.objects.create(project=project, name="adder", kind="chat", provider=provider, base_model="mine")
    return flow.submit(project=project, worker=worker, prompt="1 + 1", environment="chat", by=alice, group_size=2)


def find_segment(task: Task) -> Segment:
    return Segment.objects.get(kind="work", subject_id=task.pk)


def try_to_work(task: Task) -> bool:
    return run_link(lambda pk: services.work_tasks([pk], by="worker"), find_segment(task).pk, 0)


def try_in_vain(task: Task) -> None:
    assert not try_to_work(task)


def find_wait_s(task: Task) -> float:
    """Seconds until the task's server is asked again."""
    wait = ExpressionWrapper(F("run_after") - Now(), output_field=DurationField())
    return float(Segment.objects.filter(subject_id=task.pk).values_list(wait, flat=True).get().total_seconds())


def let_pass(**time: Any) -> None:
    """Move the clock: what was, was so much earlier."""
    since = timedelta(**time)
    Segment.objects.update(
        created_at=F("created_at") - since, run_after=F("run_after") - since, away_since=F("away_since") - since
    )


def test_a_server_that_is_away_for_half_an_hour_costs_no_task(
    task: Task, provider: Provider, server: FakeModelServer
) -> None:
    for _ in range(10):
        try_in_vain(task)
        let_pass(minutes=3)
    task.refresh_from_db()
    assert (find_segment(task).state, task.state, task.failure) == ("open", "working", "")
    Provider.objects.filter(pk=provider.pk).update(base_url=server.url)
    try_to_work(task)
    task.refresh_from_db()
    assert (task.state, task.attempts.count()) == ("scoring", 2)
    assert find_segment(task).away_since is None
    assert find_server_wait(task.project_id) is None


def test_whose_turn_comes_later_waits_however_long_and_nobody_is_called_away(
    task: Task, provider: Provider, server: FakeModelServer
) -> None:
    Provider.objects.filter(pk=provider.pk).update(base_url=server.url, requests_per_minute=1)
    minute = int(time.time() // 60)
    counts = [allowances.name_count(f"provider:{provider.pk}:requests_per_minute", minute + n) for n in range(10)]
    allowances.tell_redis(lambda client: client.mset(dict.fromkeys(counts, 1)))
    for _ in range(2):
        try_in_vain(task)
        assert 0 < find_wait_s(task) <= 180.0
        let_pass(days=2)
    segment = find_segment(task)
    assert (segment.state, segment.attempts, segment.away_since, server.requests) == ("open", 0, None, [])
    assert [error["type"] for error in segment.errors] == ["NextMinuteError"]
    assert find_server_wait(task.project_id) is None
    allowances.tell_redis(lambda client: client.delete(*counts))
    assert try_to_work(task)


def test_a_server_that_says_when_is_not_asked_before(task: Task, provider: Provider, server: FakeModelServer) -> None:
    Provider.objects.filter(pk=provider.pk).update(base_url=server.url)
    server.mode, server.retry_after = "busy", "300"
    try_in_vain(task)
    assert 290.0 < find_wait_s(task) <= 450.0
    assert find_segment(task).away_since is not None


def test_a_server_whose_words_cannot_be_stored_is_waited_for_too(
    task: Task, provider: Provider, server: FakeModelServer
) -> None:
    Provider.objects.filter(pk=provider.pk).update(base_url=server.url)
    server.mode, server.broken_words = "broken", "out of memory \x00 at 0x1"
    try_in_vain(task)
    segment = find_segment(task)
    assert (segment.state, segment.attempts, segment.fence) == ("open", 0, None)
    assert segment.away_since is not None
    assert "answered 500: out of memory \ufffd at 0x1" in segment.errors[-1]["message"]


def test_who_waits_says_so_and_why_on_the_task_the_dashboard_and_in_why(task: Task, project: Project) -> None:
    client = Client()
    client.login(username="alice", password="alice-has-a-password")
    try_in_vain(task)
    waits = find_server_wait(project.pk)
    assert waits is not None
    assert (waits.count, GONE in waits.reason) == (1, True)
    assert GONE in client.get(reverse("console:task", args=(project.slug, task.pk))).content.decode()
    said = [alarm.words for alarm in glance(project).alarms]
    assert any("1 job waits and goes on by itself" in words and GONE in words for words in said)
    assert not any("tried again" in words for words in said), "one alarm is enough"
    assert any(GONE in finding.words for finding in why_nothing_trains(project))


def test_as_time_goes_by_it_is_asked_less_often(task: Task) -> None:
    try_in_vain(task)
    first_s = find_wait_s(task)
    let_pass(minutes=20)
    try_in_vain(task)
    assert first_s <= 15.0 < 50.0 < find_wait_s(task) <= 180.0


def test_when_patience_is_over_the_task_fails_with_the_reason(task: Task, settings: Any) -> None:
    settings.TENTALIS = settings.TENTALIS | {"SERVER_PATIENCE_SECONDS": 600.0, "MAX_ATTEMPTS": 2}
    try_in_vain(task)
    let_pass(seconds=601)
    try_in_vain(task)
    let_pass(seconds=601)
    try_in_vain(task)
    task.refresh_from_db()
    assert (task.state, task.failed_link, GONE in task.failure) == ("failed", "tasks.work", True)
    assert len(find_segment(task).errors) == 3, "the wait is one, each try that counts another"


def test_time_a_task_waited_before_takes_nothing_from_the_patience(task: Task) -> None:
    let_pass(days=3)
    for _ in range(8):
        try_in_vain(task)
        let_pass(minutes=4)
    assert find_segment(task).state == "open"


def test_what_a_server_refuses_fails_at_once(task: Task, provider: Provider, server: FakeModelServer) -> None:
    server.mode = "refusing"
    Provider.objects.filter(pk=provider.pk).update(base_url=server.url)
    try_in_vain(task)
    task.refresh_from_db()
    assert (task.state, "against the policy" in task.failure) == ("failed", True)


def test_where_a_server_has_a_limit_by_the_minute_each_task_waits_alone(
    task: Task, provider: Provider, alice: User
) -> None:
    Worker.objects.filter(pk=task.worker_id).update(sampling={"max_tokens": 64})
    more = flow.submit(project=task.project, worker=task.worker, prompt="1 + 2", environment="chat", by=alice)
    Project.objects.update(review_policy={"who": "none"}, weight_profiles={"chat": {"effort": 1.0}})
    assert find_work_sets([task.pk, more.pk]) == [[task.pk, more.pk]]
    Provider.objects.filter(pk=provider.pk).update(tokens_per_minute=1_000)
    assert find_work_sets([task.pk, more.pk]) == [[task.pk], [more.pk]]


def test_a_task_is_worked_alone_where_a_model_or_a_program_is_waited_for_and_for_no_other_grader(
    task: Task, alice: User
) -> None:
    Worker.objects.filter(pk=task.worker_id).update(sampling={"max_tokens": 64})
    more = flow.submit(project=task.project, worker=task.worker, prompt="1 + 2", environment="chat", by=alice)
    Project.objects.update(review_policy={"who": "none"}, weight_profiles={"chat": {"effort": 1.0}})
    together, alone = [[task.pk, more.pk]], [[task.pk], [more.pk]]
    for spec, found in (
        ({"check": "grader", "name": "number", "reference": 3}, together),
        ({"check": "scorer", "name": "outcome"}, together),
        ({"check": "grader", "name": "code", "reference": {"cases": [{"input": "", "output": "3"}]}}, alone),
        ({"check": "grader", "name": "rubric_judge", "reference": "Is it kind?"}, alone),
        ({"check": "judge"}, alone),
    ):
        Task.objects.filter(pk=task.pk).update(checks={"all": [spec]})
        assert find_work_sets([task.pk, more.pk]) == found, spec
