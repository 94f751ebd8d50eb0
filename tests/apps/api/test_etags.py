"""What did not change is not sent again, and a change is made to what was seen or not at all."""

from typing import Any

import pytest

from apps.accounts.models import Member, Project
from apps.adapters.models import Adapter
from apps.workers.models import Worker
from tests.edges.caller import Caller


@pytest.fixture
def as_owner(call_as: Any, project: Project, alice: Any) -> Caller:
    Member.objects.filter(project=project, user=alice).update(role="owner")
    caller: Caller = call_as(alice)
    return caller


def test_the_same_answer_is_not_sent_twice(as_owner: Caller) -> None:
    first = as_owner.get("projects/shop")
    etag = first.headers["ETag"]
    again = as_owner.get("projects/shop", **{"If-None-Match": f'"other", {etag}'})
    assert (again.status, again.content, again.headers["ETag"]) == (304, b"", etag)
    as_owner.patch("projects/shop", {"name": "Other"})
    changed = as_owner.get("projects/shop", **{"If-None-Match": etag})
    assert (changed.status, changed.body["name"]) == (200, "Other")
    assert changed.headers["ETag"] != etag


def test_a_change_of_what_somebody_changed_meanwhile_is_refused(as_owner: Caller) -> None:
    seen = as_owner.get("projects/shop").headers["ETag"]
    as_owner.patch("projects/shop", {"rubric": "Be kind."})
    late = as_owner.send("PATCH", "projects/shop", {"rubric": "Be quick."}, headers={"If-Match": seen})
    assert (late.status, late.body["code"]) == (412, "changed_meanwhile")
    assert Project.objects.get(slug="shop").rubric == "Be kind."
    now = as_owner.get("projects/shop").headers["ETag"]
    done = as_owner.send("PATCH", "projects/shop", {"rubric": "Be quick."}, headers={"If-Match": now})
    assert done.status == 200
    assert done.headers["ETag"] == as_owner.get("projects/shop").headers["ETag"]
    assert as_owner.send("PATCH", "projects/shop", {"name": "x"}, headers={"If-Match": "*"}).status == 200


def test_a_keyed_change_is_answered_again_though_its_tag_is_old_by_then(as_owner: Caller) -> None:
    headers = {"If-Match": as_owner.get("projects/shop").headers["ETag"], "Idempotency-Key": "k"}
    first, second = (as_owner.send("PATCH", "projects/shop", {"name": "New"}, headers=headers) for _ in range(2))
    assert (first.status, second.status) == (200, 200)
    assert first.content == second.content


def test_weights_that_one_has_are_not_sent_again(as_owner: Caller, project: Project, worker: Worker) -> None:
    adapter = Adapter.objects.create(
        project=project, worker=worker, name="echo@v1-0", version=1, line_version=1, uri="file:///nowhere",
        sha256="a" * 64, manifest={},
    )  # fmt: skip
    answer = as_owner.get(f"adapters/{adapter.pk}/download", **{"If-None-Match": f'"{adapter.sha256}"'})
    assert (answer.status, answer.content) == (304, b"")
