"""Forgetting a person stays in its project, answers kept for other projects included."""

from typing import Any

import pytest
from django.db import connection

from apps.accounts.models import Member, Project, Role, User
from apps.api.models import IdempotencyKey
from apps.inference import allowances
from apps.inference.allowances import tell_redis
from apps.inference.models import Session
from apps.tasks.models import Task
from apps.workers.models import Worker
from tests.apps.conversations.talk import Talk, user
from tests.edges.caller import Caller
from tests.factories import make_project, make_user

BODY = {"project": "shop", "prompt": "Say hello to Grace Hopper.", "environment": "chat"}


@pytest.fixture
def neighbour(db: None, call_as: Any) -> Caller:
    """An owner of another project, where Grace is known too."""
    lab = make_project("lab")
    olivia = make_user("olivia")
    Member.objects.create(project=lab, user=olivia, role=Role.OWNER)
    Talk(lab, end_user="Grace Hopper").ask(user("Hello"), answer="Hello.")
    caller: Caller = call_as(olivia)
    return caller


@pytest.mark.parametrize("subject", [{"end_user": "Grace Hopper"}, {"text": "Grace Hopper"}, {"text": '"shop"'}])
def test_a_neighbour_who_forgets_somebody_makes_no_request_of_ours_act_twice(
    as_alice: Caller, worker: Worker, neighbour: Caller, subject: dict[str, str]
) -> None:
    first = as_alice.post("tasks", BODY, key="k")
    assert neighbour.post("projects/lab/forget", {**subject, "dry_run": False}).status == 200
    assert as_alice.post("tasks", BODY, key="k").content == first.content
    assert Task.objects.count() == 1


def test_a_letter_is_nobody(neighbour: Caller) -> None:
    answer = neighbour.post("projects/lab/forget", {"end_user": "e", "dry_run": False})
    assert (answer.status, list(answer.body["errors"])) == (400, ["end_user"])


def test_a_forgotten_answer_is_empty_and_its_request_is_not_done_again(
    as_alice: Caller, worker: Worker, project: Project, alice: User
) -> None:
    Member.objects.filter(user=alice).update(role=Role.OWNER)
    as_alice.post("tasks", BODY, key="k")
    as_alice.post("tasks", {**BODY, "prompt": "Say hello to Ada."}, key="other")
    assert as_alice.post("projects/shop/forget", {"text": "grace hopper", "dry_run": False}).status == 200
    again = as_alice.post("tasks", BODY, key="k")
    assert (again.status, again.body["code"]) == (409, "answer_forgotten")
    assert as_alice.post("tasks", {**BODY, "prompt": "Say hello to Ada."}, key="other").status == 201
    assert [task.prompt for task in Task.objects.all()] == ["Say hello to Ada."]
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM api_idempotencykey kept WHERE kept::text ILIKE '%%grace%%'")
        assert cursor.fetchone() == (0,)


def test_a_name_is_no_part_of_another_name(as_alice: Caller, worker: Worker, project: Project, alice: User) -> None:
    Member.objects.filter(user=alice).update(role=Role.OWNER)
    as_alice.post("tasks", {**BODY, "metadata": {"for": "Ada Lovelace"}}, key="k")
    as_alice.post("tasks", {**BODY, "metadata": {"for": "Ada"}}, key="l")
    assert as_alice.post("projects/shop/forget", {"end_user": "Ada", "dry_run": False}).status == 200
    assert list(IdempotencyKey.objects.order_by("id").values_list("is_forgotten", flat=True)) == [False, True]


def test_answers_know_their_project(as_alice: Caller, worker: Worker, project: Project, review: Any) -> None:
    for number, (path, body) in enumerate(
        [
            ("tasks", BODY),
            (f"reviews/{review.pk}/claim", {}),
            (f"tasks/{review.task_id}/cancel", {}),
            ("skills", {"project": "shop", "name": "greet", "description": "Greets.", "body": "Say hello."}),
        ]
    ):
        answer = as_alice.post(path, body, key=str(number))
        assert answer.status < 300, (path, answer.body)
    assert set(IdempotencyKey.objects.values_list("project", flat=True)) == {project.pk}


@pytest.mark.django_db(transaction=True)
def test_who_cannot_be_forgotten_whole_while_redis_is_away_is_by_the_same_request_afterwards(
    neighbour: Caller, settings: Any
) -> None:
    def keep_an_answer(client: Any) -> None:
        client.rpush(key, "a letter to Grace Hopper")

    def is_kept() -> bool:
        return bool(tell_redis(lambda client: client.exists(key)))

    key = f"tentalis:answers:{Project.objects.get(slug='lab').pk}:1:0"
    tell_redis(keep_an_answer)
    body, address = {"end_user": "Grace Hopper", "dry_run": False}, settings.REDIS_URL
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    allowances._connect.cache_clear()
    try:
        away = neighbour.post("projects/lab/forget", body, key="k")
    finally:
        settings.REDIS_URL = address
        allowances._connect.cache_clear()
    assert (away.status, away.body["code"]) == (503, "provider_busy")
    assert not IdempotencyKey.objects.exists()
    assert Session.objects.filter(end_user="Grace Hopper").exists()
    assert is_kept()

    done = neighbour.post("projects/lab/forget", body, key="k")
    assert (done.status, "Idempotent-Replayed" in done.headers) == (200, False)
    assert not Session.objects.filter(end_user="Grace Hopper").exists()
    assert not is_kept()
