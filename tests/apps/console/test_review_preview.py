"""What a hint preview costs: a model is asked when somebody says so, once for the same words, one call at a time."""

from collections.abc import Iterator
from threading import Event, Thread

import pytest
from django.core.cache import cache
from django.db import connections
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from apps.accounts.models import Project
from apps.inference.models import Provider
from apps.tasks.models import Task
from tests.apps.feedback.builders import make_chat_task
from tests.factories import make_user
from tests.fakes import FakeModelServer

HINT = "[HINT]Name the price with its currency.[/HINT]"
WORDS = {"text": "The price has no currency."}
ASKING = {**WORDS, "preview": "1"}


@pytest.fixture
def model(settings: Settings) -> Iterator[FakeModelServer]:
    cache.clear()
    with FakeModelServer(reply=lambda prompt, index: HINT, is_plain=True, models=["boss"]) as server:
        changes = {"LLM_MODEL": "boss", "INFERENCE_BACKEND": "openai", "INFERENCE_BASE_URL": server.url}
        settings.TENTALIS = settings.TENTALIS | changes
        yield server
    cache.clear()


@pytest.fixture
def task(project: Project) -> Task:
    make_user("bob")
    return make_chat_task(project, answers=("It costs 4",))


def preview(task: Task, data: dict[str, str], name: str = "bob") -> str:
    client = Client()
    client.force_login(make_user(name))
    path = reverse("console:feedback-preview", args=(task.project.slug, task.pk))
    return client.post(path, data).content.decode()


@pytest.mark.django_db
def test_a_pause_in_typing_asks_no_model_and_says_what_asking_costs(model: FakeModelServer, task: Task) -> None:
    page = preview(task, WORDS)
    assert "one model call" in page
    assert model.requests == []


@pytest.mark.django_db
def test_the_button_asks_once_and_the_same_words_are_remembered(model: FakeModelServer, task: Task) -> None:
    for data in (ASKING, ASKING, WORDS):
        page = preview(task, data)
        assert "Name the price with its currency." in page
        assert "read by the model boss" in page
    assert len(model.requests) == 1
    assert "one model call" in preview(task, {"text": "Other words."})
    preview(task, ASKING | {"text": "Other words."})
    assert len(model.requests) == 2


@pytest.mark.django_db
def test_the_reviewers_own_words_need_no_model_where_none_is_configured(task: Task) -> None:
    page = preview(task, WORDS)
    assert "The price has no currency." in page
    assert "written by the reviewer" in page


@pytest.mark.django_db
def test_a_project_names_the_model_that_writes_its_hints(model: FakeModelServer, task: Task) -> None:
    Provider.objects.create(
        project=task.project, name="box", kind="custom", base_url=f"{model.url}/v1", allow_private=True
    )
    for name, asked in (("box/org/boss", "org/boss"), ("elsewhere/boss", "elsewhere/boss")):
        cache.clear()
        Project.objects.update(review_policy={"hint_model": name})
        model.models = [asked]
        assert f"read by the model {name}" in preview(task, ASKING)
        assert model.requests[-1].body["model"] == asked


@pytest.mark.django_db
def test_a_model_that_does_not_answer_is_asked_again_next_time(model: FakeModelServer, task: Task) -> None:
    model.mode = "broken"
    page = preview(task, ASKING)
    assert "could not be asked" in page
    assert WORDS["text"] in page  # which are the hint then
    model.mode = "ok"
    assert "Name the price with its currency." in preview(task, ASKING)


@pytest.mark.django_db(transaction=True)
def test_nobody_has_two_calls_under_way(model: FakeModelServer, task: Task) -> None:
    arrived, may_answer = Event(), Event()

    def reply(prompt: str, index: int) -> str:
        arrived.set()
        assert may_answer.wait(120)
        return HINT

    def ask() -> None:
        pages.append(preview(task, ASKING))
        connections.close_all()

    model.reply = reply
    pages: list[str] = []
    first = Thread(target=ask)
    first.start()
    assert arrived.wait(120)
    assert "still working" in preview(task, ASKING | {"text": "Other words."})
    may_answer.set()
    first.join(20)
    assert "Name the price" in pages[0]
    assert len(model.requests) == 1
    assert "Name the price" in preview(task, ASKING | {"text": "Other words."})
