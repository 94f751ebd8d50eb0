"""Ensembles made, changed and removed."""

from typing import Any

import pytest

from apps.accounts.models import Project, User
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, ConflictError, NotAllowedError, NotFoundError
from apps.workers.ensembles import change_ensemble, create_ensemble, delete_ensemble
from apps.workers.models import Ensemble, Worker
from apps.workers.services import delete_worker
from tests.factories import make_project, make_worker


@pytest.fixture
def members(project: Project) -> list[Worker]:
    return [make_worker(project, name, "desk") for name in ("first", "second", "third")]


def make(project: Project, alice: User, **values: Any) -> Ensemble:
    given: dict[str, Any] = {"name": "duo", "members": ["second", "first"]}
    return create_ensemble(project=project, by=alice, **given | values)


def test_an_ensemble_is_made_changed_and_removed_and_the_audit_says_so(
    project: Project, alice: User, members: list[Worker]
) -> None:
    made = make(project, alice)
    assert (made.model, made.members, made.wait_s) == ("ensemble/duo", ["second", "first"], 30)
    change_ensemble(ensemble=made, by=alice, members=["second", "third"], wait_s=30)
    change_ensemble(ensemble=made, by=alice)
    delete_ensemble(ensemble=made, by=alice)
    entries = AuditEntry.objects.filter(subject_type="ensemble", subject_id=made.pk).order_by("id")
    assert [entry.kind for entry in entries] == ["ensemble.created", "ensemble.changed", "ensemble.deleted"]
    assert entries[1].payload == {"before": {"members": ["second", "first"]}, "after": {"members": ["second", "third"]}}
    assert Worker.objects.count() == 3
    with pytest.raises(NotFoundError, match="removed meanwhile"):
        change_ensemble(ensemble=made, by=alice, wait_s=5)


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"name": "Not A Name"}, "name", "Lower-case letters"),
        ({"members": ["first"]}, "members", "wanted 2 to 8 workers, each once; found first"),
        ({"members": []}, "members", "found none"),
        ({"members": ["first", "first"]}, "members", "each once"),
        ({"members": [f"w{number}" for number in range(9)]}, "members", "wanted 2 to 8"),
        ({"members": ["first", 7]}, "members", "wanted names of workers"),
        ({"members": ["first", "nobody"]}, "members", "shop has no worker nobody"),
        ({"members": ["first", "theirs"]}, "members", "shop has no worker theirs"),
        ({"members": ["first", "parrot"]}, "members", "parrot asks no model: it is of kind echo"),
        ({"members": ["first", "ensemble/duo"]}, "members", "an ensemble is no member of another"),
        ({"wait_s": 0}, "wait_s", "wanted whole seconds from 1 to 600, found 0"),
        ({"wait_s": 601}, "wait_s", "found 601"),
    ],
)
def test_what_cannot_be_an_ensemble_is_said_by_field(
    project: Project, alice: User, members: list[Worker], values: dict[str, Any], field: str, words: str
) -> None:
    make_worker(project, "parrot", "echo")
    make_worker(make_project("other"), "theirs", "desk")
    with pytest.raises(BadInputError) as found:
        make(project, alice, **values)
    assert words in found.value.errors[field][0]
    assert not Ensemble.objects.exists()


def test_a_name_is_taken_once_in_a_project(project: Project, alice: User, members: list[Worker]) -> None:
    make(project, alice)
    with pytest.raises(ConflictError, match="the name duo is taken in shop"):
        make(project, alice)


def test_only_who_may_change_workers_may(project: Project, alice: User, bob: User, members: list[Worker]) -> None:
    made = make(project, alice)
    for act in (
        lambda: make(project, bob, name="other"),
        lambda: change_ensemble(ensemble=made, by=bob, wait_s=1),
        lambda: delete_ensemble(ensemble=made, by=bob),
    ):
        with pytest.raises(NotAllowedError):
            act()


def test_a_member_is_not_removed_before_it_is_taken_out(project: Project, alice: User, members: list[Worker]) -> None:
    made = make(project, alice)
    with pytest.raises(ConflictError, match="first cannot be removed: it is a member of duo; take it out of there"):
        delete_worker(worker=members[0], by=alice)
    change_ensemble(ensemble=made, by=alice, members=["second", "third"])
    delete_worker(worker=members[0], by=alice)
    assert not Worker.objects.filter(name="first").exists()
