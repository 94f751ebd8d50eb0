"""What serves is watched: another model's answers hold training up, and a canary that alarms is taken back."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter, Deployment
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.evals.models import Evaluation
from apps.inference.models import Exchange, Provider
from apps.pipeline import canary_trials, watching
from apps.pipeline.beat import SERVERS_TIMETABLE
from apps.tasks.models import Attempt, FurtherExchange
from apps.workers.models import Worker
from tentalis.core.packing import pack_float32
from tests.apps.adapters.test_canary import TruthfulServer
from tests.apps.adapters.test_deployment import deploy, make_adapter
from tests.factories import add_call, make_attempt, make_measured, make_task, make_worker

pytestmark = pytest.mark.django_db

PROFILE = {
    "answers": 100,
    "broken_tag_rate": 0.0,
    "missing_end_rate": 0.0,
    "entropy_nats": 1.9,
    "length_tokens": 5.0,
    "self_overlap": 0.0,
}


@pytest.fixture
def server() -> Iterator[TruthfulServer]:
    with TruthfulServer() as server:
        server.encode(" ".join(f"word{number}" for number in range(40)))  # so that it knows the tokens of our attempts
        yield server


@pytest.fixture
def served(project: Project, server: TruthfulServer) -> Worker:
    """A worker with version 1 in service, version 2 found safe, and a panel both were let in by."""
    provider = Provider.objects.create(
        project=project, name="box", kind="vllm", base_url=server.url, allow_private=True
    )
    worker = make_worker(project, "chatty", Worker.Kind.CHAT, provider=provider, base_model="desk")
    for version in (1, 2):
        adapter = make_adapter(worker, version)
        make_measured(worker, adapter, [1.0], profile=PROFILE)
        server.models.append(adapter.name)
    deploy(worker, Adapter.objects.get(version=1))
    return worker


def answer(worker: Worker, version: int, *, times: int = 1, group: int = 1, **changes: Any) -> list[Attempt]:
    """Answers whose log-probs recompute: the server says a token's is minus an eighth of its number.

    Args:
        group: of them to a task.
    """
    attempts: list[Attempt] = []
    adapter = Adapter.objects.get(worker=worker, version=version)
    while len(attempts) < times:
        if len(attempts) % group == 0:
            task = make_task(worker.project, worker, group_size=group)
        attempt = make_attempt(task, len(attempts) % group, adapter=adapter)
        told = [-token / 8 if token != 12 else 0.0 for token in range(10, 16)]
        values = {"adapter_name": adapter.name, "finish_reason": "stop", "logprobs": pack_float32(told)}
        Exchange.objects.filter(pk=attempt.exchange_id or 0).update(**values | changes)
        attempts.append(Attempt.objects.get(pk=attempt.pk))
    return attempts


def test_it_is_on_the_timetable() -> None:
    assert "watch what serves" in {entry.name for entry in SERVERS_TIMETABLE.entries}


def test_answers_as_on_the_panel_raise_no_alarm(served: Worker) -> None:
    answer(served, 1, times=50)
    with CaptureQueriesContext(connection) as asked:
        assert watching.watch_served() == 0
    of_answers = [one for one in asked.captured_queries if one["sql"].startswith('SELECT "tasks_attempt"')]
    assert len(of_answers) == 2, "whether there is a new one, and those that are looked at"
    deployment = Deployment.objects.get()
    assert (deployment.trouble, deployment.watched_id) == ("", Attempt.objects.latest("pk").pk)


def test_logprobs_of_another_model_are_trouble_until_they_come_out_again(served: Worker) -> None:
    answer(served, 1, logprobs=pack_float32([-0.1] * 6))
    watching.watch_served()
    assert "another model answered" in Deployment.objects.get().trouble
    assert AuditEntry.objects.filter(kind=Kind.DEPLOYMENT_TROUBLED).count() == 1
    answer(served, 1, times=3)
    watching.watch_served()
    assert Deployment.objects.get().trouble == ""
    assert AuditEntry.objects.filter(kind=Kind.DEPLOYMENT_SETTLED).count() == 1


def test_a_server_that_does_not_know_the_adapter_is_trouble(served: Worker, server: TruthfulServer) -> None:
    answer(served, 1)
    server.models.remove("chatty@v1")
    watching.watch_served()
    assert Deployment.objects.get().trouble == "the model server does not know chatty@v1"


def test_a_canary_whose_answers_fall_apart_is_taken_back_and_quarantined(served: Worker, alice: User) -> None:
    canary_trials.start_canary(adapter=Adapter.objects.get(version=2), percent=50, by=alice)
    answer(served, 2, times=50, finish_reason="length")
    watching.watch_served()
    deployment = Deployment.objects.get()
    adapter = Adapter.objects.get(version=2)
    assert (deployment.canary, adapter.state) == (None, "quarantined")
    assert "no end in 100.0% of answers" in adapter.suspicion
    assert AuditEntry.objects.get(kind=Kind.CANARY_ENDED).payload["outcome"] == "harm"


def test_many_answers_to_a_few_tasks_are_few(served: Worker, alice: User) -> None:
    """Sixteen tries at each of four tasks, which are too long for any answer, say nothing of the canary."""
    canary_trials.start_canary(adapter=Adapter.objects.get(version=2), percent=50, by=alice)
    answer(served, 2, times=64, group=16, finish_reason="length")
    assert watch_canary() == (True, "")


def call_tools(worker: Worker, **last: Any) -> Sequence[int]:
    """50 answers by version 2, of six calls each, as one in service gives them that version 2's panel was like.

    Args:
        last: fields of the last call, where they are not those of a good one.
    Returns:
        Ids of the attempts.
    """
    Evaluation.objects.filter(adapter__version=2).update(profile=PROFILE | {"length_tokens": 15.0, "entropy_nats": 0.9})
    attempts = answer(worker, 2, times=50, finish_reason="tool_calls")
    for attempt in attempts:
        for place in range(1, 6):
            add_call(attempt, [1, 2, 3], [30 + place, 40 + place], place=place)
    ends = FurtherExchange.objects.filter(attempt__in=attempts, place=5).values("exchange")
    Exchange.objects.filter(pk__in=ends).update(**{"finish_reason": "stop"} | last)
    return [attempt.pk for attempt in attempts]


def watch_canary() -> tuple[bool, str]:
    """Whether version 2 is still tried out, and why it is under suspicion."""
    watching.watch_served()
    return Deployment.objects.get().canary is not None, Adapter.objects.get(version=2).suspicion


def test_a_canary_that_calls_tools_is_looked_at_over_all_its_calls(served: Worker, alice: User) -> None:
    canary_trials.start_canary(adapter=Adapter.objects.get(version=2), percent=50, by=alice)
    call_tools(served)
    assert watch_canary() == (True, "")


def test_a_canary_whose_last_call_is_cut_off_is_taken_back(served: Worker, alice: User) -> None:
    canary_trials.start_canary(adapter=Adapter.objects.get(version=2), percent=50, by=alice)
    call_tools(served, finish_reason="length")
    is_tried, why = watch_canary()
    assert not is_tried
    assert why.startswith("no end in 100.0% of answers")


def test_a_canary_that_limits_must_end_is_taken_back(served: Worker, alice: User) -> None:
    canary_trials.start_canary(adapter=Adapter.objects.get(version=2), percent=50, by=alice)
    told = {"outcome": None, "details": {"turns": 6, "ended_by": "turns"}}
    Attempt.objects.filter(pk__in=call_tools(served)).update(verification=told)
    is_tried, why = watch_canary()
    assert not is_tried
    assert why.startswith("no end in 100.0% of answers")


def test_what_a_world_lost_says_nothing_of_the_canary(served: Worker, alice: User) -> None:
    canary_trials.start_canary(adapter=Adapter.objects.get(version=2), percent=50, by=alice)
    told = {"outcome": None, "infrastructure": "the sandbox is away"}
    Attempt.objects.filter(pk__in=call_tools(served, finish_reason="length")).update(verification=told)
    assert watch_canary() == (True, "")
