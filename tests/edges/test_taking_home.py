"""Who may take what home: each role the columns of each export that permissions.toml says."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoDbBlocker

from apps.accounts.models import Project, Role
from apps.console.exports.sources import SOURCES
from apps.feedback.models import Feedback, StepFeedback
from apps.rollouts.models import Rollout
from apps.tasks.models import Task
from apps.workers.models import Worker
from tests.edges.caller import Caller
from tests.edges.test_other_doors import columns_said, make_others, user_of
from tests.edges.test_permissions import token_of
from tests.factories import make_judged_task
from tests.support.standing import standing

CANARY = "SAID-IN-SHOP"


@pytest.fixture(scope="module")
def standing_shop(standing_ids: dict[str, Any], django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    with standing(add_rows, django_db_blocker):
        yield


@pytest.fixture
def full(standing_shop: None, db: None) -> Project:
    """With a row for every export."""
    return Project.objects.get(slug="shop")


def add_rows() -> None:
    project = Project.objects.get(slug="shop")
    task = make_judged_task(project, Worker.objects.get(project=project, is_active=True), prompt=CANARY, group_size=2)
    first, second = task.attempts.order_by("index")
    type(second).objects.filter(pk=second.pk).update(text="another answer")
    said = {"project": project, "task": task, "source": "human", "author": "user:bob", "text": CANARY}
    feedback = Feedback.objects.create(**said, score=0.9, preferred_attempt=first, edited_answer=CANARY)
    StepFeedback.objects.create(feedback=feedback, attempt=first, step=first.steps.earliest("index"), score=1.0)
    Rollout.objects.create(
        project=project, worker=task.worker, task=task, attempt=first, is_usable=True, reward=0.5
    )  # fmt: skip


def take(client: Client, slug: str, name: str, format: str, **headers: Any) -> tuple[int, bytes]:
    said = {"format": format, "plain": "on"}
    answer: Any = client.post(reverse("console:export", args=(slug, name)), said, **headers)
    return answer.status_code, b"".join(answer.streaming_content) if answer.streaming else b""


def read_columns(data: bytes, format: str) -> set[str]:
    if format == "csv":
        return set(next(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""))))
    return {column for line in data.splitlines() for column in json.loads(line)}


@pytest.mark.parametrize("role", Role.values)
def test_each_role_takes_home_the_columns_it_may_and_no_other(full: Project, role: str) -> None:
    client = Client()
    client.force_login(user_of(role))
    wrong = []
    for source in SOURCES.values():
        wanted = columns_said(source.name, role)
        for format in set(source.formats) - {"parquet"}:
            status, data = take(client, full.slug, source.name, format)
            found = read_columns(data, format) if status == 200 else set()
            if status != (200 if wanted else 403) or found != wanted:
                wrong.append((source.name, format, status, sorted(found ^ wanted)))
    assert wrong == []


@pytest.mark.parametrize("role", Role.values)
def test_a_tasks_reference_is_told_by_rest_to_who_takes_it_home_and_to_nobody_else(full: Project, role: str) -> None:
    Task.objects.filter(project=full).update(reference={"answer": CANARY + "-REFERENCE"})
    caller = Caller(token_of(user_of(role)))
    task = Task.objects.filter(project=full).latest("id").pk
    answers = {
        "one": caller.get(f"tasks/{task}"),
        "list": caller.get("tasks?project=shop"),
        "attempts": caller.get(f"tasks/{task}/attempts"),
        "reviews": caller.get("reviews?project=shop"),
        "audit": caller.get("audit?project=shop"),
    }
    told = {name for name, answer in answers.items() if f"{CANARY}-REFERENCE" in str(answer.body)}
    may = "reference" in columns_said("tasks", role)
    assert told == ({"one", "list"} if may else set())
    assert "reference" in answers["one"].body


def test_nobody_else_takes_anything_home(full: Project) -> None:
    outsider = make_others(full)["outsider"]
    stranger, neighbour = Client(), Client()
    neighbour.force_login(outsider)
    bearer = {"HTTP_AUTHORIZATION": f"Bearer {token_of(user_of('owner'))}"}
    for name in SOURCES:
        assert take(neighbour, full.slug, name, "jsonl") == (404, b""), name
        assert take(stranger, full.slug, name, "jsonl") == (302, b""), name
        assert take(stranger, full.slug, name, "jsonl", **bearer) == (302, b""), name
        status, data = take(neighbour, "elsewhere", name, "jsonl")
        assert (status, CANARY.encode() in data) == (200, False), name
