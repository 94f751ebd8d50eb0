"""What a link keeps of a server that tells it to wait is asked no second time, and is gone with a person's erasure."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from apps.accounts.models import Member, Project, Role, User
from apps.erasure.erase import forget_person
from apps.inference.allowances import tell_redis
from apps.inference.errors import PacedError
from apps.inference.models import Provider
from apps.inference.services import client_for
from apps.outbox import services as outbox
from apps.outbox.models import Segment
from tests.factories import make_project, make_user
from tests.fakes import FakeModelServer
from tests.links import take_link

pytestmark = pytest.mark.django_db(transaction=True)
NAME = "Grace Hopper of Arlington"


@pytest.fixture
def server() -> Iterator[FakeModelServer]:
    with FakeModelServer(models=["mine"], reply=lambda prompt, index: f"a letter to {NAME}") as server:
        yield server


@pytest.fixture
def provider(server: FakeModelServer) -> Provider:
    """A server of the installation's, which all projects here may ask."""
    return Provider.objects.create(
        name="box", kind="vllm", base_url=server.url, allow_private=True, granted_to="everyone"
    )


@pytest.fixture
def owner(project: Project) -> User:
    owner = make_user("olivia")
    Member.objects.create(project=project, user=owner, role=Role.OWNER)
    return owner


@contextmanager
def working_link(project: Project) -> Iterator[None]:
    """A link of the project that this process does, from its beginning."""
    outbox.start("learn", subject_id=project.pk, project_id=project.pk)
    segment = Segment.objects.get(kind="learn", project_id=project.pk)
    Segment.objects.update(fence=None, lease_until=None)
    with outbox.hold(outbox.Hold(take_link(segment.pk, 0))):
        yield


def ask(server: FakeModelServer, project: Project, provider: Provider) -> int:
    """Have the server answer; how often it was asked for that."""
    before = len(server.requests)
    [answer] = client_for(provider, project.pk).chat([{"role": "user", "content": "Dear"}], model="mine", max_tokens=9)
    assert NAME in answer.text
    return len(server.requests) - before


def be_told_to_wait(server: FakeModelServer, project: Project, provider: Provider) -> None:
    server.mode = "busy"
    with pytest.raises(PacedError):
        client_for(provider, project.pk).chat([{"role": "user", "content": "More"}], model="mine", max_tokens=9)
    server.mode = "ok"


def count_kept(project: Project) -> int:
    """Answers that name the person, in any key of this Redis that is the project's."""

    def read(client: Any) -> list[str]:
        keys = client.scan_iter(match=f"tentalis:answers:{project.pk}:*")
        return [said for key in keys for said in client.lrange(key, 0, -1)]

    return sum(NAME in said for said in tell_redis(read))


def test_forgetting_a_person_drops_what_the_projects_links_keep_and_no_others(
    project: Project, provider: Provider, server: FakeModelServer, owner: User
) -> None:
    other = make_project("other")
    for each in (project, other):
        with working_link(each):
            assert ask(server, each, provider) == 1
            be_told_to_wait(server, each, provider)
        assert count_kept(each) == 1
    forget_person(project=project, by=owner, text=NAME)
    assert (count_kept(project), count_kept(other)) == (0, 1)
    for each, times in ((project, 1), (other, 0)):
        with working_link(each):
            assert ask(server, each, provider) == times


def test_a_link_that_was_answered_before_somebody_was_forgotten_keeps_nothing_of_it_afterwards(
    project: Project, provider: Provider, server: FakeModelServer, owner: User
) -> None:
    with working_link(project):
        ask(server, project, provider)
        forget_person(project=project, by=owner, text=NAME)
        be_told_to_wait(server, project, provider)
    assert count_kept(project) == 0
    with working_link(project):
        ask(server, project, provider)
        be_told_to_wait(server, project, provider)
    assert count_kept(project) == 1, "a link that began afterwards keeps what it was answered"
