"""What is set up before a first review, by REST: as the console's pages do it."""

from typing import Any

import pytest

from apps.accounts.models import Member, Project, Role, User
from apps.inference.models import Provider
from apps.tasks.models import Task
from tests.apps.console.test_set_up import talk
from tests.apps.feedback.reviewers import build_colluders
from tests.apps.workers.base_files import write_base
from tests.edges.caller import Caller
from tests.factories import make_project, make_user, make_worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def as_owner(project: Project, call_as: Any) -> Caller:
    user = make_user("olga")
    Member.objects.create(project=project, user=user, role=Role.OWNER)
    caller: Caller = call_as(user)
    return caller


def test_who_judges_is_read_and_chosen_and_the_rest_of_the_policy_stays(
    as_owner: Caller, as_alice: Caller, project: Project
) -> None:
    make_worker(project)
    Project.objects.update(review_policy={"patience_s": 60})
    usual = {
        "who": "human",
        "rate": 1.0,
        "human_rate": 1.0,
        "model": "",
        "is_model_missing": True,
        "standing": "",
        "left_open": 0,
    }
    assert as_alice.get("projects/shop/judges").body == usual
    assert as_alice.patch("projects/shop/judges", {"who": "none"}).status == 403
    said = {"who": "both", "rate": 0.25, "model": "box/judge"}
    changed = as_owner.patch("projects/shop/judges", said)
    assert changed.body == {**usual, **said, "is_model_missing": False, "standing": "not probed"}
    project.refresh_from_db()
    assert project.review_policy == {"patience_s": 60, **said}
    refused = as_owner.patch("projects/shop/judges", {"rate": 0})
    assert (refused.status, list(refused.body["errors"])) == (400, ["rate"])
    assert as_owner.patch("projects/shop/judges", {}).body == changed.body


def test_what_was_asked_in_sessions_is_listed_and_becomes_tasks_all_or_none(
    as_owner: Caller, call_as: Any, project: Project
) -> None:
    make_worker(project)
    good, middle = talk(project, "s1", "What is 3 + 4? Write to ann@shop.io."), talk(project, "s2", "Hi", "Hi", "5?")
    rows = as_owner.get("sessions/asked?project=shop").body["results"]
    assert [(row["session"], row["obstacle"] == "") for row in rows] == [(middle.pk, False), (good.pk, True)]
    assert rows[1]["words"] == "What is 3 + 4? Write to [EMAIL]."
    assert list(as_owner.get("sessions/asked").body["errors"]) == ["project"]
    body = {"project": "shop", "environment": "chat", "sessions": [good.pk, middle.pk]}
    for sessions, words in (([good.pk, middle.pk], "begins in the middle"), ([good.pk + 999], "conversations of shop")):
        refused = as_owner.post("tasks/from-sessions", {**body, "sessions": sessions})
        assert (refused.status, words in refused.body["errors"]["sessions"][0]) == (400, True), refused
    assert not Task.objects.exists()
    made = as_owner.post("tasks/from-sessions", {**body, "sessions": [good.pk]})
    assert (made.status, made.body["count"]) == (201, 1), made
    assert Task.objects.get().metadata == {"from_session": good.pk}
    again = as_owner.post("tasks/from-sessions", {**body, "sessions": [good.pk]})
    assert "it is a task already" in again.body["detail"]


def test_an_agent_makes_tasks_of_its_own_sessions_alone(call_as: Any, project: Project) -> None:
    make_worker(project)
    theirs = talk(project, "s1", "What is 3 + 4?")
    agent = make_user("other", is_agent=True)
    Member.objects.create(project=project, user=agent, role=Role.AGENT)
    caller = call_as(User.objects.get(pk=agent.pk))
    assert caller.get("sessions/asked?project=shop").body["results"] == []
    body = {"project": "shop", "environment": "chat", "sessions": [theirs.pk]}
    assert caller.post("tasks/from-sessions", body).status == 400
    assert not Task.objects.exists()


def test_base_weights_are_compared_again(as_alice: Caller, as_bob: Caller, project: Project, tmp_path: Any) -> None:
    box = Provider.objects.create(project=project, name="box", kind="vllm", base_url="http://127.0.0.1:1")
    root = write_base(tmp_path / "base")
    worker = make_worker(project, "adder", "chat", provider=box, base_model="m", base_directory=str(root))
    assert as_alice.get(f"workers/{worker.pk}").body["base_compared"] == {}
    assert as_bob.post(f"workers/{worker.pk}/compare").status == 403
    found = as_alice.post(f"workers/{worker.pk}/compare").body["base_compared"]
    assert (found["model"], found["is_good"], "could not be asked" in found["words"]) == ("m", True, True), found
    (root / "config.json").unlink()
    found = as_alice.post(f"workers/{worker.pk}/compare").body["base_compared"]
    assert (found["is_good"], found["fingerprint"]) == (False, "")
    assert as_alice.get(f"workers/{worker.pk}").body["base_compared"] == found


def test_who_favours_whom_is_looked_at_by_managers_and_read_by_who_reads_the_audit(
    as_owner: Caller, as_alice: Caller, call_as: Any, project: Project
) -> None:
    before = as_alice.get("projects/shop/favours").body
    assert before == {"screened_at": None, "raters": 0, "lines": 0, "reason": "", "groups": []}
    build_colluders(project)
    looked = as_alice.post("projects/shop/favours", {})
    assert looked.status == 200
    [group] = looked.body["groups"]
    assert (group["raters"], group["line"]) == (["user:hugo", "user:ines"], "bad")
    assert as_owner.get("projects/shop/favours").body == looked.body
    as_hugo = call_as(User.objects.get(username="hugo"))
    assert as_hugo.get("projects/shop/favours").status == 403
    assert as_hugo.post("projects/shop/favours", {}).status == 403
    stranger = make_user("stranger")
    Member.objects.create(project=make_project("other"), user=stranger, role=Role.MANAGER)
    assert call_as(stranger).get("projects/shop/favours").status == 404
    assert call_as(stranger).post("projects/shop/favours", {}).status == 404
