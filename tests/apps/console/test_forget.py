"""The page on which a person is forgotten."""

from django.test import Client
from django.urls import reverse

from apps.accounts.models import Project
from apps.inference.models import Session
from tests.apps.conversations.talk import Talk, user
from tests.factories import make_user


def test_it_looks_first_and_deletes_with_a_tick(client: Client, project: Project) -> None:
    owner = make_user("olivia")
    project.members.create(user=owner, role="owner")
    Talk(project, end_user="Grace <b>Hopper").ask(user("What is two and two?"), answer="It is four.")
    client.force_login(owner)
    path = reverse("console:forget", args=(project.slug,))
    assert client.get(path).status_code == 200
    looked = client.post(path, {"end_user": "Grace <b>Hopper"})
    assert "1 sessions" in looked.content.decode()
    assert "<b>Hopper" not in looked.content.decode()
    assert Session.objects.count() == 1
    assert client.post(path, {"end_user": "Grace <b>Hopper", "is_sure": "on"}).status_code == 302
    assert not Session.objects.exists()
    assert "Erased so far" in client.get(path).content.decode()
    assert client.post(path, {"end_user": "a", "text": "bcd"}).status_code == 400
    assert client.post(path, {"text": "nobody said this"}).content.decode().count("No data found.") == 1


def test_managers_forget_nobody(client: Client, project: Project) -> None:
    client.force_login(make_user("alice"))
    assert client.post(reverse("console:forget", args=(project.slug,)), {"end_user": "Grace"}).status_code == 403
