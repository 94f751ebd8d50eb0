"""Ensembles on the workers' page: made, changed and removed by a small form."""

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.workers.models import Ensemble, Worker
from tests.factories import make_worker


@pytest.fixture
def _members(project: Project) -> None:
    for name in ("first", "second"):
        make_worker(project, name, "desk")


def path(page: str, *args: object) -> str:
    return reverse(f"console:{page}", args=["shop", *args])


@pytest.mark.usefixtures("_members")
def test_an_ensemble_from_its_making_to_its_end(client: Client, project: Project, alice: User) -> None:
    make_worker(project, "asks-none", "echo")
    client.force_login(alice)
    asked = client.get(path("ensemble-new")).content.decode()
    assert [f'value="{name}"' in asked for name in ("first", "second", "asks-none")] == [True, True, False]
    given = {"name": "duo", "members": ["first", "second"], "wait_s": "30"}
    refused = client.post(path("ensemble-new"), given | {"members": ["first"]})
    assert (refused.status_code, "wanted 2 to 8 workers" in refused.content.decode()) == (400, True)
    assert client.post(path("ensemble-new"), given).status_code == 302
    page = client.get(path("worker-list")).content.decode()
    assert "ensemble/duo" in page
    assert path("ensemble-change", "duo") in page
    make_worker(project, "third", "desk")
    Worker.objects.filter(name="second").update(is_active=False)
    change = client.get(path("ensemble-change", "duo")).content.decode()
    assert change.count(" checked") == 2, "a member that is switched off is a member"
    changed = {"members": ["first", "third"], "wait_s": "5"}
    assert client.post(path("ensemble-change", "duo"), changed).status_code == 302
    made = Ensemble.objects.get()
    assert (made.members, made.wait_s) == (["first", "third"], 5)
    assert path("ensemble-remove", "duo") in change
    question = client.get(path("ensemble-remove", "duo")).content.decode()
    assert "Delete ensemble/duo?" in question
    assert "what they answered: first, third" in question
    assert Ensemble.objects.exists()
    assert client.post(path("ensemble-remove", "duo")).status_code == 302
    assert not Ensemble.objects.exists()


@pytest.mark.usefixtures("_members")
def test_who_may_only_look_is_offered_nothing_and_another_projects_is_not_found(
    client: Client, project: Project, bob: User, charlie: User
) -> None:
    Ensemble.objects.create(project=project, name="duo", members=["first", "second"])
    client.force_login(bob)
    page = client.get(path("worker-list")).content.decode()
    assert "ensemble/duo" in page
    assert path("ensemble-new") not in page
    assert client.post(path("ensemble-remove", "duo")).status_code == 403
    client.force_login(charlie)
    assert client.get(path("ensemble-change", "duo")).status_code == 404
    assert client.post(path("ensemble-remove", "duo")).status_code == 404
    assert Ensemble.objects.exists()
