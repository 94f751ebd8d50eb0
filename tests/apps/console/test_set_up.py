"""From a new project to its first review: what each page says, what it makes, and that none ends in a wall."""

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import ApiToken, Member, Project, Role, User
from apps.adapters.models import Adapter
from apps.feedback.models import Review
from apps.inference.models import Exchange, Provider, Session
from apps.tasks.models import Task
from apps.workers.models import Worker
from tentalis.core.packing import pack_int32
from tests.apps.console.builders import sign_in
from tests.factories import make_task, make_user, make_worker
from tests.fakes import FakeModelServer

pytestmark = pytest.mark.django_db


def path(name: str, *args: object) -> str:
    return reverse(f"console:{name}", args=("shop", *args))


def read(answer: Any) -> str:
    return str(answer.content.decode())


@pytest.fixture
def owner(project: Project) -> Client:
    user = make_user("olga")
    Member.objects.create(project=project, user=user, role=Role.OWNER)
    return sign_in(user)


def make_provider(project: Project, server: FakeModelServer, kind: str = "vllm", **values: Any) -> Provider:
    return Provider.objects.create(
        project=project, name="box", kind=kind, base_url=server.url, allow_private=True, api_key_sealed=b"", **values
    )


# --- connect ---------------------------------------------------------------------------------------------------------


def test_an_empty_project_says_on_each_way_what_is_missing(owner: Client) -> None:
    page = read(owner.get(path("connect")))
    for words in ("No model server yet", "a worker with a model is missing", "No call has arrived yet"):
        assert words in page
    assert "No task has arrived yet" in page
    assert f"{path('provider-new')}?kind=vllm" in page
    assert f"{path('worker-new')}?kind=outside" in page
    assert f'class="button" href="{path("task-import")}"' not in page, "nobody could do the tasks"


def test_a_token_is_made_there_for_an_agent_and_stands_in_the_snippets_once(owner: Client, project: Project) -> None:
    make_worker(project, kind="desk", name="desk")
    answer = owner.post(path("connect-token"), {"purpose": "agent", "username": "claw"})
    text = answer.context["made"]["text"]
    assert (answer.status_code, read(answer).count(f"API_KEY={text}")) == (201, 2)
    token = ApiToken.objects.get()
    assert (token.user.username, token.user.is_agent, token.project) == ("claw@shop", True, project)
    assert token.scopes == ["feedback:write", "gateway:use", "sessions:read"]
    again = owner.post(path("connect-token"), {"purpose": "tasks", "username": "claw"})
    assert again.context["made"]["name"] == "claw@shop"
    assert again.context["made"]["text"] in read(again)
    assert "tasks:write" in ApiToken.objects.latest("pk").scopes
    assert text not in read(owner.get(path("connect")))
    refused = owner.post(path("connect-token"), {"purpose": "agent", "username": "no spaces"})
    assert refused.status_code == 400


def test_who_may_make_no_agent_is_told_who_may(alice: User) -> None:
    client = sign_in(alice)
    assert "An owner of the project makes agents" in read(client.get(path("connect")))
    assert client.post(path("connect-token"), {"purpose": "agent", "username": "claw"}).status_code == 403


@pytest.mark.parametrize("tells", [True, False])
def test_the_first_call_is_told_by_whom_for_what_and_whether_it_teaches(
    owner: Client, project: Project, tells: bool
) -> None:
    session = Session.objects.create(project=project, key="s", agent="agent:claw@shop")
    told = pack_int32([1, 2]) if tells else b""
    Exchange.objects.create(
        project=project, session=session, agent="agent:claw@shop", token="abc", model="m", worker_name="adder",
        text="7", token_ids=told, prompt_token_ids=told, status=200,
    )  # fmt: skip
    page = read(owner.get(path("connect")))
    assert "agent:claw@shop asked for adder" in page
    assert ("it can be learned from" in page) is tells
    assert ("told no token ids" in page) is not tells


def test_a_failed_call_is_told_with_its_error(owner: Client, project: Project) -> None:
    session = Session.objects.create(project=project, key="s", agent="agent:claw")
    Exchange.objects.create(project=project, session=session, token="abc", model="m", status=502, error="it is away")
    assert "It failed with status 502: it is away" in read(owner.get(path("connect")))


def test_the_first_task_is_told(owner: Client, project: Project) -> None:
    worker = make_worker(project, kind=Worker.Kind.OUTSIDE, name="claw")
    task = make_task(project, worker=worker, state=Task.State.QUEUED)
    page = read(owner.get(path("connect")))
    assert f"Task {task.pk} arrived from user:" in page
    assert "waits for your agent" in page


def test_a_server_is_tested_in_words_and_its_workers_base_weights_are_compared(
    owner: Client, project: Project, tmp_path: Path
) -> None:
    with FakeModelServer(models=["adder-base"]) as server:
        provider = make_provider(project, server, default_model="adder-base")
        make_worker(project, kind=Worker.Kind.CHAT, name="adder", provider=provider)
        page = read(owner.post(path("connect-server", provider.pk)))
        for words in ("It serves adder-base", "tells token ids and log-probs", "loads adapters while it runs"):
            assert words in page
        assert "has no base weights" in page
        assert path("worker-change", "adder") in page
        Worker.objects.update(base_directory=str(tmp_path))
        assert "found no readable config.json" in read(owner.post(path("connect-server", provider.pk)))
    assert "✗" in read(owner.post(path("connect-server", provider.pk))), "it is not running any more"


def test_what_tells_no_tokens_is_said_to_be_not_trainable_before_anything_is_made(
    owner: Client, project: Project
) -> None:
    form = read(owner.get(path("provider-new")))
    assert form.index("can be trained") < form.index('value="vllm"') < form.index("cannot be trained")
    assert form.index("cannot be trained") < form.index('value="openai"')
    with FakeModelServer(models=["m"], is_plain=True) as server:
        provider = make_provider(project, server, kind="custom", default_model="m")
        assert "tells no token ids" in read(owner.get(path("connect")))
        assert "box (tells no tokens: cannot be trained)" in read(owner.get(f"{path('worker-new')}?kind=chat"))
        page = read(owner.post(path("connect-server", provider.pk)))
    assert "nothing of them trains" in page
    assert "It loads no adapters" in page


def test_only_the_fields_of_the_chosen_kind_of_server_are_asked(owner: Client) -> None:
    def fields(query: str) -> set[str]:
        return set(owner.get(path("provider-new") + query).context["form"].fields)

    assert "tells_processed" in fields("?kind=vllm")
    assert not {"tells_processed", "more_urls"} & fields("?kind=anthropic")
    assert owner.get(path("provider-new") + "?kind=vllm").context["form"].fields["base_url"].required
    refused = owner.post(path("provider-new") + "?kind=vllm", {"name": "box", "kind": "vllm", "base_url": ""})
    assert (refused.status_code, "base_url" in refused.context["form"].errors) == (400, True)
    assert owner.get(path("provider-new") + "?kind=nonsense").status_code == 200


# --- tasks out of sessions -------------------------------------------------------------------------------------------


def talk(project: Project, key: str, *said: str, **values: Any) -> Session:
    session = Session.objects.create(project=project, key=key, agent="agent:claw")
    roles = ("user", "assistant")
    messages = [{"role": roles[place % 2], "content": words} for place, words in enumerate(said)]
    Exchange.objects.create(
        project=project,
        session=session,
        model="m",
        **{"messages": messages, "text": "It is 7.", "status": 200} | values,
    )
    return session


def test_what_was_asked_first_in_a_session_becomes_a_task_once(owner: Client, project: Project) -> None:
    worker = make_worker(project)
    asked = talk(project, "s1", "What is 3 + 4? Write to ann@shop.io.")
    middle = talk(project, "s2", "Hello", "Hi", "And 5 + 5?")
    failed = talk(project, "s3", "Nothing came", status=502)
    page = read(owner.get(path("task-from-sessions")))
    assert "What is 3 + 4? Write to [EMAIL]." in page
    assert "begins in the middle" in page
    assert "no call of it was answered" in page
    body = {"worker": worker.pk, "environment": "chat", "group_size": 3}
    assert owner.post(path("task-from-sessions"), body).status_code == 400
    for other in (middle, failed):
        assert owner.post(path("task-from-sessions"), body | {"sessions": [other.pk]}).status_code == 400
    answer = owner.post(path("task-from-sessions"), body | {"sessions": [asked.pk]})
    assert answer.headers["Location"] == path("task-list")
    task = Task.objects.get()
    assert (task.prompt, task.group_size) == ("What is 3 + 4? Write to [EMAIL].", 3)
    assert task.metadata == {"from_session": asked.pk}
    assert "it is a task already" in read(owner.get(path("task-from-sessions")))


def test_without_sessions_or_workers_it_says_where_they_come_from(owner: Client, project: Project) -> None:
    assert path("connect") in read(owner.get(path("task-from-sessions")))
    make_worker(project)
    assert "No conversation has been recorded yet" in read(owner.get(path("task-from-sessions")))


# --- who judges ------------------------------------------------------------------------------------------------------


def test_who_judges_is_said_in_one_place_and_the_rest_of_the_policy_stays(owner: Client, project: Project) -> None:
    make_worker(project)
    Project.objects.update(review_policy={"patience_s": 60})
    page = read(owner.get(path("who-judges")))
    assert "No model is configured" in page
    answer = owner.post(path("who-judges"), {"who": "both", "share": 25, "human_share": 10, "model": "box/judge"})
    assert answer.status_code == 302
    project.refresh_from_db()
    wanted = {"who": "both", "rate": 0.25, "human_rate": 0.1, "model": "box/judge"}
    assert project.review_policy == {"patience_s": 60} | wanted
    page = read(owner.get(path("who-judges")))
    assert 'value="25"' in page
    assert "No model is configured" not in page
    assert owner.post(path("who-judges"), {"who": "both", "share": 0}).status_code == 400
    Review.objects.create(project=project, task=make_task(project), audience=Review.Audience.HUMAN)
    assert "not asked any more" not in read(owner.get(path("who-judges")))
    page = read(owner.post(path("who-judges"), {"who": "none", "share": 100}, follow=True))
    assert "1 open review is of somebody who is not asked any more" in page


def test_a_manager_may_look_who_judges_and_not_change_it(alice: User, project: Project) -> None:
    client = sign_in(alice)
    assert "Only an owner can change this" in read(client.get(path("who-judges")))
    assert client.post(path("who-judges"), {"who": "none", "share": 5}).status_code == 403


def test_what_is_added_from_connect_leads_back_to_it(owner: Client) -> None:
    sent = {"name": "box", "kind": "vllm", "base_url": "https://models.example/v1"}
    added = owner.post(f"{path('provider-new')}?kind=vllm&then=connect", sent)
    assert added.headers["Location"] == path("connect")
    link = f"{path('worker-new')}?kind=chat&amp;provider={Provider.objects.get().pk}&amp;then=connect"
    assert link in read(owner.get(path("connect")))
    form = owner.get(link.replace("&amp;", "&")).context["form"]
    assert form["provider"].value() == Provider.objects.get().pk
    sent = {"name": "adder", "kind": "chat", "provider": str(Provider.objects.get().pk), "base_model": "m"}
    added = owner.post(f"{path('worker-new')}?kind=chat&then=connect", sent)
    assert added.headers["Location"] == path("connect")


# --- pages that stay empty -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["project", "returns"])
def test_pages_of_what_is_measured_say_what_is_missing_for_a_worker_outside_the_desk(
    owner: Client, project: Project, page: str
) -> None:
    worker = make_worker(project, kind=Worker.Kind.OUTSIDE, name="claw")
    said = "Nothing is measured of this worker yet"
    why = "its agent chooses the model itself"
    found = read(owner.get(path(page)))
    assert said in found
    assert why in found
    Worker.objects.filter(pk=worker.pk).update(base_model="desk")
    found = read(owner.get(path(page)))
    assert said in found
    assert "no held-out tasks in this environment" in found
    assert why not in found
    Worker.objects.filter(pk=worker.pk).update(kind="desk")
    assert said not in read(owner.get(path(page)))


def test_an_adapter_that_nothing_can_measure_says_so(owner: Client, project: Project) -> None:
    worker = make_worker(project, kind=Worker.Kind.OUTSIDE, name="claw")
    adapter = Adapter.objects.create(
        project=project,
        worker=worker,
        version=1,
        line_version=1,
        name="shop.claw@v1-0",
        sha256="0" * 64,
        uri="file:///none",
        manifest={},
    )
    assert "Nothing is measured of this worker yet" in read(owner.get(path("adapter", adapter.pk)))


@pytest.mark.parametrize(("base", "server"), [("desk", "the installation's own"), ("", "none")])
def test_every_page_says_the_same_of_the_model_that_an_agent_elsewhere_thinks_with(
    owner: Client, project: Project, base: str, server: str
) -> None:
    make_worker(project, kind=Worker.Kind.OUTSIDE, name="claw", base_model=base)
    cell = re.compile(r"Model server(?:\"|</dt><dd)>(?:<span class=\"muted\">)?([^<]+)<")
    for page in (path("worker-list"), path("worker", "claw")):
        assert [unescape(found) for found in cell.findall(read(owner.get(page)))] == [server], page
    assert ("a worker with a model is missing" not in read(owner.get(path("connect")))) is bool(base)
