"""Ensembles over REST."""

import pytest

from apps.accounts.models import Project
from apps.workers.models import Ensemble
from tests.edges.caller import Caller
from tests.factories import make_worker


@pytest.fixture(autouse=True)
def _members(project: Project) -> None:
    for name in ("first", "second", "third"):
        make_worker(project, name, "desk")


BODY = {"project": "shop", "name": "duo", "members": ["first", "second"]}


def test_an_ensemble_from_its_making_to_its_end(as_alice: Caller) -> None:
    made = as_alice.post("ensembles", BODY)
    assert made.status == 201
    told = {name: made.body[name] for name in ("project", "name", "model", "members", "wait_s")}
    assert told == {**BODY, "model": "ensemble/duo", "wait_s": 30}
    path = f"ensembles/{made.body['id']}"
    assert as_alice.get(path).body == made.body
    assert as_alice.get("ensembles?project=shop&name=duo").body["results"] == [made.body]
    changed = as_alice.patch(path, {"members": ["third", "first"], "wait_s": 5})
    assert (changed.status, changed.body["members"], changed.body["wait_s"]) == (200, ["third", "first"], 5)
    assert as_alice.delete(path).status == 204
    assert not Ensemble.objects.exists()


def test_what_is_wrong_is_said_by_field(as_alice: Caller) -> None:
    refused = as_alice.post("ensembles", BODY | {"members": ["first"]})
    assert (refused.status, list(refused.body["errors"])) == (400, ["members"])
    assert as_alice.post("ensembles", {**BODY, "wait_s": 0}).status == 400
    assert as_alice.post("ensembles", BODY).status == 201
    assert as_alice.post("ensembles", BODY).status == 409


def test_who_may_only_look_changes_nothing_and_strangers_see_nothing(
    as_alice: Caller, as_bob: Caller, as_charlie: Caller
) -> None:
    path = f"ensembles/{as_alice.post('ensembles', BODY).body['id']}"
    assert as_bob.get(path).status == 200
    assert {as_bob.post("ensembles", BODY).status, as_bob.patch(path, {}).status, as_bob.delete(path).status} == {403}
    assert as_charlie.get(path).status == 404
    assert as_charlie.get("ensembles").body["results"] == []
    for one in (path, "ensembles/999999"):  # who may nowhere is told no more of this one than of none
        assert {as_charlie.patch(one, {}).status, as_charlie.delete(one).status} == {403}
