"""Model servers in use are looked at; one that is away shows on every page, in readiness and as an alarm."""

from collections.abc import Iterator

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from apps.accounts.models import Member, Project, Role, User
from apps.inference.models import Provider
from apps.operations import servers
from apps.operations.figures import measure
from apps.operations.models import ServerLook
from apps.operations.rules import find_troubles
from apps.workers.models import Worker
from tests.factories import make_user
from tests.fakes import FakeModelServer
from tests.local_server import find_free_port

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def box() -> Iterator[FakeModelServer]:
    with FakeModelServer() as server:
        yield server


@pytest.fixture
def provider(project: Project, box: FakeModelServer) -> Provider:
    """A server of the project's own, which a worker uses."""
    provider = Provider.objects.create(project=project, name="box", kind="vllm", base_url=box.url, allow_private=True)
    Worker.objects.create(project=project, name="adder", kind="chat", provider=provider, base_model="desk")
    return provider


def go_away(provider: Provider) -> None:
    Provider.objects.filter(pk=provider.pk).update(base_url=f"http://127.0.0.1:{find_free_port()}")


def open_page(user: User, name: str, project: Project | None) -> str:
    assert project is not None
    client = Client()
    client.force_login(user)
    return client.get(reverse(f"console:{name}", args=(project.slug,))).content.decode()


def test_a_server_that_answers_is_known_to(provider: Provider, alice: User) -> None:
    assert servers.look() == 0
    look = ServerLook.objects.get()
    assert (look.name, look.away_since, look.words, look.projects) == ("box", None, "", [provider.project_id])
    assert look.latency_ms is not None
    page = open_page(alice, "health", provider.project)
    for words in ("Model servers in use", "answers", "Postgres", "Redis", "Disk space"):
        assert words in page
    assert "is away since" not in page


def test_one_that_is_away_shows_on_every_page_until_it_is_back(
    provider: Provider, box: FakeModelServer, alice: User, client: Client
) -> None:
    go_away(provider)
    assert (servers.look(), servers.look()) == (1, 1)
    since = ServerLook.objects.get().away_since
    assert since is not None
    assert servers.look() == 1
    assert ServerLook.objects.get().away_since == since, "since the first look that found it so"
    for name in ("project", "task-list", "settings"):
        assert "The model server box is away since" in open_page(alice, name, provider.project), name
    assert "cannot be reached" in open_page(alice, "health", provider.project)
    ready = client.get("/readyz")
    assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
    assert ready.json()["reasons"][0].startswith("model server: box is away since ")
    assert "127.0.0.1" not in ready.content.decode(), "anybody may ask"
    other = Project.objects.create(slug="elsewhere", name="Elsewhere")
    namesake = Provider.objects.create(
        project=other, name="box", kind="vllm", base_url=provider.base_url, allow_private=True
    )
    Worker.objects.create(project=other, name="adder", kind="chat", provider=namesake, base_model="desk")
    go_away(namesake)
    assert servers.look() == 2
    ServerLook.objects.update(away_since=since.replace(year=since.year - 1))
    troubles = [one for one in find_troubles(measure()) if one.rule.name == "server.away"]
    assert [one.subject for one in troubles] == ["shop/box", "elsewhere/box"], "two servers, two alarms"
    Provider.objects.update(base_url=box.url)
    assert servers.look() == 0
    assert "is away since" not in open_page(alice, "project", provider.project)
    assert client.get("/readyz").json()["status"] == "ready"


def test_who_does_not_use_it_is_not_told(provider: Provider) -> None:
    other = Project.objects.create(slug="elsewhere", name="Elsewhere")
    go_away(provider)
    servers.look()
    charlie = make_user("charlie")
    Member.objects.create(project=other, user=charlie, role=Role.MANAGER)
    assert "is away since" not in open_page(charlie, "project", other)


def test_a_server_that_refuses_answers_and_one_that_nobody_uses_is_not_asked(
    provider: Provider, box: FakeModelServer
) -> None:
    box.mode = "refusing"
    assert servers.look() == 0
    assert "against the policy" in ServerLook.objects.get().words
    Worker.objects.update(is_active=False)
    box.requests.clear()
    assert servers.look() == 0
    assert not ServerLook.objects.exists()
    assert box.requests == []


def test_one_whose_words_cannot_be_stored_hides_no_other(provider: Provider, project: Project) -> None:
    with FakeModelServer(mode="broken", broken_words="out of memory \x00 at 0x1") as broken:
        other = Provider.objects.create(
            project=project, name="other", kind="vllm", base_url=broken.url, allow_private=True
        )
        Worker.objects.create(project=project, name="clerk", kind="chat", provider=other, base_model="desk")
        assert servers.look() == 1
    looks = {one.name: one for one in ServerLook.objects.all()}
    assert (looks["box"].away_since, looks["box"].words) == (None, "")
    assert "answered 500: out of memory \ufffd at 0x1" in looks["other"].words


def test_the_installations_engine_is_looked_at_where_a_worker_uses_it(project: Project, settings: Settings) -> None:
    settings.ENGINE_URL = f"http://127.0.0.1:{find_free_port()}"
    Worker.objects.create(project=project, name="clerk", kind="desk")
    assert servers.look() == 1
    assert [one.name for one in servers.find_away()] == [servers.OWN_NAME]
