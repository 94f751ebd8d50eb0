"""Agents that speak the older routes: with tokens, checked, acting once, waiting without a connection."""

import threading
import time
from typing import Any

import pytest

from apps.accounts.models import Member, Project, Role, User
from apps.base.waiting import LongPollHub
from apps.feedback.models import Feedback, Review
from apps.inference.models import Exchange
from apps.outbox.models import Segment
from apps.pipeline import bridge
from apps.rollouts.models import Batch
from apps.tasks import waiting
from apps.tasks.models import Attempt, Task
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from tests.edges.caller import Caller
from tests.factories import make_task, make_user, make_worker


@pytest.fixture
def outside(project: Project) -> Worker:
    return make_worker(project, name="claw", kind=Worker.Kind.OUTSIDE)


@pytest.fixture
def agent(project: Project) -> User:
    user = make_user("claw-agent", is_agent=True)
    Member.objects.create(project=project, user=user, role=Role.AGENT)
    return user


@pytest.fixture
def as_agent(call_as: Any, agent: User) -> Caller:
    caller: Caller = call_as(agent)
    return caller


def assign(caller: Caller, **values: Any) -> Any:
    body = {"manager_id": "alice", "task_type": "chat", "prompt": "Say hello.", "metadata": {"ticket": 7}}
    return caller.post("bridge/tasks/assign", body | values)


def test_a_task_goes_from_assignment_to_a_judged_result(
    as_alice: Caller, as_agent: Caller, outside: Worker, project: Project
) -> None:
    made = assign(as_alice)
    assert (made.status, made.body["status"]) == (201, "queued")
    task = Task.objects.get(pk=made.body["task_id"])
    assert (task.worker, task.environment, task.metadata) == (outside, "chat", {"ticket": 7})
    body = {
        "task_id": made.body["task_id"],
        "worker_id": "claw",
        "prompt": "Say hello.",
        "result": "hello",
        "status": "success",
        "steps": ["think", "speak"],
        "elapsed_seconds": 1.5,
        "model_version": "v1",
        "task_type": "chat",
    }
    done = as_agent.post("bridge/tasks/result", body)
    assert (done.status, done.body) == (200, {"task_id": str(task.pk), "status": "scoring"})
    attempt = Attempt.objects.get(task=task)
    assert (attempt.answer, attempt.elapsed_s) == ("hello", 1.5)
    assert [step.text for step in attempt.steps.order_by("index")] == ["think", "speak"]
    assert Segment.objects.filter(kind="work", subject_id=task.pk, state="open").count() == 1
    again = as_agent.post("bridge/tasks/result", body)
    assert (again.status, again.body, again.headers["Idempotent-Replayed"]) == (200, done.body, "true")
    assert as_agent.post("bridge/tasks/result", body | {"result": "bye"}).status == 422
    assert Attempt.objects.count() == 1


def test_an_agent_that_could_not_do_it_says_so(as_alice: Caller, as_agent: Caller, outside: Worker) -> None:
    task_id = assign(as_alice).body["task_id"]
    body = {"task_id": task_id, "worker_id": "claw-agent", "result": "no such file", "status": "failed"}
    assert as_agent.post("bridge/tasks/result", body).body["status"] == "failed"
    task = Task.objects.get(pk=task_id)
    assert (task.failed_link, task.failure) == ("tasks.work", "no such file")
    late = {**body, "worker_id": "claw", "status": "success"}
    assert as_agent.post("bridge/tasks/result", late).status == 409


def test_a_judgement_closes_the_open_review_once(as_bob: Caller, review: Review) -> None:
    body = {
        "task_id": str(review.task_id),
        "worker_id": "echo",
        "manager_id": "bob",
        "score": 0.75,
        "step_scores": [1.0],
        "textual_feedback": "Polite.",
    }
    first, second = (as_bob.post("bridge/feedback", body) for _ in range(2))
    assert (first.status, second.status) == (201, 201)
    assert first.content == second.content
    given = Feedback.objects.get()
    assert (given.score, given.text, given.author, given.review_id) == (0.75, "Polite.", "user:bob", review.pk)
    assert [word.score for word in given.steps.all()] == [1.0]
    review.refresh_from_db()
    assert review.state == "closed"


def test_an_agents_word_stands_beside_the_review(as_agent: Caller, review: Review) -> None:
    body = {"task_id": review.task_id, "worker_id": "echo", "score": 0.5}
    assert as_agent.post("bridge/feedback", body).status == 201
    assert Feedback.objects.get().source == "outside"
    review.refresh_from_db()
    assert review.state == "open"


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("tasks/assign", {"manager_id": "bob", "task_type": "chat", "prompt": "x"}, "manager_id"),
        ("tasks/assign", {"task_type": "coding", "prompt": "x"}, "task_type"),
        ("tasks/assign", {"task_type": "chat", "prompt": ""}, "prompt"),
        ("tasks/assign", {"task_type": "chat", "prompt": "x", "metadata": {"worker": "nobody"}}, "metadata"),
        ("tasks/assign", {"task_type": "chat", "prompt": "x", "metadata": {"worker": 7}}, "metadata"),
        ("tasks/result", {"task_id": "seven", "worker_id": "echo", "result": "", "status": "success"}, "task_id"),
        ("tasks/result", {"task_id": True, "worker_id": "echo", "result": "", "status": "success"}, "task_id"),
        ("tasks/result", {"worker_id": "other", "result": "", "status": "success"}, "worker_id"),
        ("tasks/result", {"worker_id": "echo", "result": "", "status": "maybe"}, "status"),
        ("feedback", {"worker_id": "echo", "manager_id": "bob", "score": 1}, "manager_id"),
        ("feedback", {"worker_id": "other", "score": 1}, "worker_id"),
        ("feedback", {"worker_id": "echo", "score": 1.5}, "score"),
        ("feedback", {"worker_id": "echo", "step_scores": [None]}, "score"),
        ("sessions/log", {"session_id": "s", "worker_id": "w", "messages": []}, "messages"),
        (
            "sessions/log",
            {"session_id": "s", "worker_id": "w", "messages": [{"role": "user", "content": "hi"}]},
            "messages",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_field(
    as_alice: Caller, worker: Worker, project: Project, path: str, body: dict[str, Any], field: str
) -> None:
    task = make_task(project, worker)
    given = {"task_id": task.pk} | body if path in {"tasks/result", "feedback"} else body
    answer = as_alice.post(f"bridge/{path}", given)
    assert answer.status == 400, answer
    assert answer.is_problem
    assert any(name.split(".")[0] == field for name in answer.body["errors"]), answer


def test_a_task_of_elsewhere_and_none_are_the_same_404(as_charlie: Caller, project: Project) -> None:
    task = make_task(project)
    answers = [as_charlie.get(f"bridge/tasks/{pk}/status?wait=0") for pk in (task.pk, 999_999, 10**30)]
    assert {answer.status for answer in answers} == {404}
    assert {answer.body["detail"] for answer in answers} == {"No such thing here, or none that you may see."}


@pytest.mark.django_db(transaction=True)
def test_a_result_is_waited_for_and_comes_as_soon_as_it_is_there(call_as: Any, alice: User, project: Project) -> None:
    caller: Caller = call_as(alice)
    task = make_task(project)
    began = time.monotonic()
    asked = caller.get(f"bridge/tasks/{task.pk}/status?wait=1")
    assert (asked.status, asked.body["status"]) == (200, "queued")
    assert 1 <= time.monotonic() - began < 20
    assert caller.get(f"bridge/tasks/{task.pk}/status?wait=31").status == 400
    Task.objects.filter(pk=task.pk).update(state="done", answer="hi", score=0.5)
    shown = caller.get(f"bridge/tasks/{task.pk}/status")
    assert shown.body == {"task_id": str(task.pk), "status": "done", "result": "hi", "score": 0.5, "failure": ""}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("path", "boards"),
    [("bridge/tasks/{}/status", bridge.boards), ("tasks/{}?wait=20&seen=queued", waiting.boards)],
    ids=["bridge", "task"],
)
def test_who_waits_hears_when_it_is_done(
    call_as: Any, alice: User, project: Project, path: str, boards: LongPollHub
) -> None:
    caller: Caller = call_as(alice)
    task = make_task(project)
    heard: list[Any] = []

    def ask() -> None:
        from django.db import connections

        try:
            heard.append(Caller(caller.token).get(path.format(task.pk)))
        finally:
            connections.close_all()

    thread = threading.Thread(target=ask)
    thread.start()
    deadline = time.monotonic() + 120
    while boards.count < 1 and time.monotonic() < deadline:
        threading.Event().wait(0.02)
    Task.objects.filter(pk=task.pk).update(state="in_review", answer="hi")
    began = time.monotonic()
    thread.join(25)
    assert "hi" in (heard[0].body.get("result"), heard[0].body.get("answer"))
    assert time.monotonic() - began < 10


def test_a_task_whose_state_is_another_than_the_one_seen_is_not_waited_for(
    as_alice: Caller, as_charlie: Caller, project: Project
) -> None:
    task, ended = make_task(project), make_task(project, state=Task.State.DONE)
    for path in (f"{task.pk}?wait=30&seen=working", f"{ended.pk}?wait=30&seen=done", f"{task.pk}?wait=0"):
        answer = as_alice.get(f"tasks/{path}")
        assert (answer.status, answer.body["id"]) == (200, int(path.partition("?")[0]))

    for query, field in (("wait=31", "wait"), ("wait=-1", "wait"), ("seen=asleep", "seen"), ("until=done", "until")):
        answer = as_alice.get(f"tasks/{task.pk}?{query}")
        assert (answer.status, list(answer.body["errors"])) == (400, [field])
    assert as_charlie.get(f"tasks/{task.pk}?wait=30").status == 404


def test_a_logged_talk_is_kept_once_and_trains_nothing(as_agent: Caller, as_alice: Caller, project: Project) -> None:
    talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    body = {"session_id": "talk-1", "worker_id": "claw", "messages": talk, "model_version": "v1"}
    first, second = (as_agent.post("bridge/sessions/log", body) for _ in range(2))
    assert first.status == 201
    assert first.content == second.content
    exchange = Exchange.objects.get()
    assert (exchange.text, exchange.messages, exchange.has_exact_tokens) == ("hello", talk[:1], False)
    assert exchange.session is not None
    assert exchange.session.key == "talk-1"
    longer = [*talk, {"role": "user", "content": "and?"}, {"role": "assistant", "content": "bye"}]
    assert as_agent.post("bridge/sessions/log", body | {"messages": longer}).status == 201
    assert Exchange.objects.count() == 2
    assert as_alice.post("bridge/sessions/log", body).status == 201
    assert Exchange.objects.filter(session=exchange.session).count() == 2  # hers is a session of her own


def test_the_training_status_is_the_rows(as_agent: Caller, project: Project, worker: Worker) -> None:
    nothing = as_agent.get("bridge/training/status").body
    assert nothing == {
        "is_training": False,
        "queued": 0,
        "tasks_collected": 0,
        "tasks_wanted": 0,
        "last_run": None,
    }
    batch = Batch.objects.create(project=project, worker=worker, number=1, state="closed", target_tasks=1)
    Batch.objects.create(project=project, worker=worker, number=2, state="open", target_tasks=24, task_count=5)
    TrainingRun.objects.create(
        project=project, worker=worker, batch=batch, recipe={}, recipe_hash="0" * 64, state="running", metrics=[{}, {}]
    )
    found = as_agent.get("bridge/training/status").body
    assert (found["is_training"], found["tasks_collected"], found["tasks_wanted"]) == (True, 5, 24)
    assert (found["last_run"]["state"], found["last_run"]["updates"]) == ("running", 2)


def test_it_says_that_it_is_alive_to_anybody_and_nothing_else(anonymous: Caller) -> None:
    assert anonymous.get("bridge/health").body == {"status": "ok"}
    for path in ("bridge/tasks/1/status", "bridge/training/status"):
        assert anonymous.get(path).status == 401
    unknown = anonymous.get("bridge/tasks/list")
    assert (unknown.status, unknown.is_problem) == (404, True)
