"""The same request sent twice acts once and is answered the same."""

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.utils import timezone

from apps.accounts.models import ApiToken, Project, User
from apps.api.idempotency import KEPT, REPLAYED, answer_once, drop_old_answers
from apps.api.models import IdempotencyKey
from apps.outbox.models import Segment
from apps.tasks.models import Task
from apps.workers.models import Worker
from tests.edges.caller import Answer, Caller

BODY = {"project": "shop", "prompt": "Say hello.", "environment": "chat"}


def test_the_second_sending_gets_the_first_answer(as_alice: Caller, worker: Worker) -> None:
    key = str(uuid.uuid4())
    first, second = (as_alice.post("tasks", BODY, key=key) for _ in range(2))
    assert (first.status, second.status) == (201, 201)
    assert first.content == second.content
    assert second.headers["Location"] == first.headers["Location"]
    assert REPLAYED not in first.headers
    assert second.headers[REPLAYED] == "true"
    assert Task.objects.count() == Segment.objects.count() == 1


def test_a_body_of_the_same_meaning_is_the_same_request(as_alice: Caller, worker: Worker) -> None:
    as_alice.post("tasks", b'{"project":"shop","prompt":"Say hello.","environment":"chat"}', key="k")
    other = as_alice.post("tasks", b'{ "environment": "chat", "prompt": "Say hello.", "project": "shop" }', key="k")
    assert other.headers[REPLAYED] == "true"


@pytest.mark.parametrize(
    ("path", "body"), [("tasks", {**BODY, "prompt": "Say goodbye."}), ("projects", {"slug": "lab", "name": "Lab"})]
)
def test_another_request_under_the_key_is_refused(as_alice: Caller, worker: Worker, path: str, body: Any) -> None:
    as_alice.post("tasks", BODY, key="k")
    answer = as_alice.post(path, body, key="k")
    assert (answer.status, answer.body["code"]) == (422, "idempotency_key_reused")
    assert Task.objects.count() == 1


def test_keys_of_two_people_do_not_meet(as_alice: Caller, as_bob: Caller, worker: Worker) -> None:
    assert as_alice.post("tasks", BODY, key="k").body["id"] != as_bob.post("tasks", BODY, key="k").body["id"]


def test_a_refused_request_keeps_nothing_and_may_be_corrected(as_alice: Caller, worker: Worker) -> None:
    assert as_alice.post("tasks", {**BODY, "environment": "moon"}, key="k").status == 400
    assert not IdempotencyKey.objects.exists()
    assert as_alice.post("tasks", BODY, key="k").status == 201


def test_a_removal_is_repeated_without_a_404(as_alice: Caller) -> None:
    token = as_alice.post("tokens", {"name": "x"}).body
    first, second = (as_alice.delete(f"tokens/{token['id']}", key="k") for _ in range(2))
    assert (first.status, second.status, second.content) == (204, 204, b"")
    assert second.headers[REPLAYED] == "true"


def test_a_secret_is_shown_once_and_never_stored(as_alice: Caller) -> None:
    first, second = (as_alice.post("tokens", {"name": "x"}, key="k") for _ in range(2))
    assert first.body["token"].startswith("tnt_")
    assert second.body == {**first.body, "token": None}
    secret = first.body["token"].rsplit("_", 1)[1]
    assert secret not in IdempotencyKey.objects.get().body
    assert ApiToken.objects.filter(name="x").count() == 1


@pytest.mark.parametrize("key", ["", "x" * 256, "naïve", "tab\there"])
def test_an_unusable_key_is_refused(as_alice: Caller, worker: Worker, key: str) -> None:
    answer = as_alice.send("POST", "tasks", BODY, headers={"Idempotency-Key": key})
    assert answer.status == 400
    assert "Idempotency-Key" in answer.body["detail"]
    assert not Task.objects.exists()


def test_answers_are_forgotten_after_their_time(as_alice: Caller, worker: Worker) -> None:
    as_alice.post("tasks", BODY, key="k")
    IdempotencyKey.objects.update(created_at=timezone.now() - KEPT - timedelta(minutes=1))
    again = as_alice.post("tasks", {**BODY, "prompt": "Another."}, key="k")
    assert again.status == 201
    assert drop_old_answers() == 0
    IdempotencyKey.objects.update(created_at=timezone.now() - KEPT - timedelta(minutes=1))
    as_alice.post("tasks", BODY, key="another")
    assert IdempotencyKey.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_twenty_sendings_at_once_make_one_task(call_as: Any, alice: User, worker: Worker) -> None:
    token = call_as(alice).token
    barrier = threading.Barrier(20)

    def send(_: int) -> Answer:
        barrier.wait()
        try:
            return Caller(token).post("tasks", BODY, key="k")
        finally:
            connections.close_all()

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(send, range(20)))
    assert {answer.status for answer in answers} <= {201, 409}
    made = [answer for answer in answers if answer.status == 201]
    assert sum(REPLAYED not in answer.headers for answer in made) == 1
    assert len({answer.content for answer in made}) == 1
    assert all(answer.body["code"] == "still_running" for answer in answers if answer.status == 409)
    assert Task.objects.count() == Segment.objects.filter(kind="work").count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_first_request_still_running_answers_409_with_a_wait(call_as: Any, alice: User, worker: Worker) -> None:
    caller = call_as(alice)
    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        _hold_key(alice, "k")

        def send() -> Answer:
            try:
                return Caller(caller.token).post("tasks", BODY, key="k")
            finally:
                connections.close_all()

        answer = pool.submit(send).result()
    assert (answer.status, answer.body["code"], answer.headers["Retry-After"]) == (409, "still_running", "1")
    assert not Task.objects.exists()
    assert caller.post("tasks", BODY, key="k").status == 201


def _hold_key(user: User, key: str) -> None:
    """What the first request under the key does before its work."""
    import hashlib

    name = f"{user.pk}:{hashlib.sha256(key.encode()).hexdigest()}"
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], signed=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [number])


@pytest.mark.django_db(transaction=True)
def test_a_failure_after_the_effect_takes_the_effect_back(alice: User, project: Project) -> None:
    class Request:
        method = "POST"
        data: Any = None

        def get_full_path(self) -> str:
            return "/api/v1/tasks"

    def work_and_break() -> Any:
        Project.objects.create(slug="half", name="half")
        raise RuntimeError("lost power")

    with pytest.raises(RuntimeError, match="lost power"):
        answer_once(Request(), alice, "k", work_and_break, frozenset())  # type: ignore[arg-type]
    assert not Project.objects.filter(slug="half").exists()
    assert not IdempotencyKey.objects.exists()
