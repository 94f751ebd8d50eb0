"""Words on an answer by whatever its caller has of it: what the gateway said, what the answer said, its own name."""

from typing import Any
from urllib.parse import quote

import pytest

from apps.accounts.models import Member, Project, Role
from apps.feedback.models import Feedback
from apps.inference.models import Exchange
from tests.apps.conversations.talk import Talk, user
from tests.edges.caller import Caller
from tests.factories import make_project, make_user, make_worker

KEY = "chat/Zürich 7"


@pytest.fixture
def answer(project: Project) -> Exchange:
    """Of the agent `claw`, in a session with a key of its own choosing."""
    make_worker(project, "helper")
    return Talk(project, KEY).ask(user("Refund order 17."), answer="Order 71 is refunded.")


@pytest.mark.parametrize("form", ["{pk}", "{hex}", "{uuid}", "chatcmpl-{hex}", "cmpl-{hex}", "msg_{hex}", "resp_{hex}"])
def test_every_id_of_an_answer_names_it(as_alice: Caller, answer: Exchange, form: str) -> None:
    name = form.format(pk=answer.pk, hex=answer.public_id.hex, uuid=answer.public_id)
    said = as_alice.post(f"exchanges/{name}/feedback", {"score": 0, "text": "Wrong order."})
    assert said.status == 201, said
    assert Feedback.objects.get(pk=said.body["id"]).text == "Wrong order."
    assert as_alice.get(f"exchanges/{name}").body["id"] == answer.pk


def test_a_session_is_named_by_its_callers_key(as_alice: Caller, answer: Exchange) -> None:
    said = as_alice.post(f"sessions/{quote(KEY, safe='')}/feedback", {"score": 1})
    assert said.status == 201, said
    assert Feedback.objects.get(pk=said.body["id"]).task.pk == said.body["task"]


def test_a_key_of_several_sessions_is_asked_by_number(as_alice: Caller, answer: Exchange, project: Project) -> None:
    other = Talk(project, "other")
    other.session.key, other.session.agent = KEY, "agent:another"
    other.session.save()
    said = as_alice.post(f"sessions/{quote(KEY, safe='')}/feedback", {"score": 1})
    assert said.status == 400
    assert str(other.session.pk) in said.body["detail"]


@pytest.mark.thorough
def test_nobody_elses_are_found(answer: Exchange, project: Project, call_as: Any) -> None:
    outsider = make_user("outsider")
    Member.objects.create(project=make_project("elsewhere"), user=outsider, role=Role.OWNER)
    another = make_user("another", is_agent=True)
    Member.objects.create(project=project, user=another, role=Role.AGENT)
    for caller in (call_as(outsider), call_as(another)):
        for path in (
            f"exchanges/msg_{answer.public_id.hex}",
            f"exchanges/{answer.pk}",
            f"sessions/{quote(KEY, safe='')}",
        ):
            assert caller.post(f"{path}/feedback", {"score": 0}).status == 404
    assert not Feedback.objects.exists()


@pytest.mark.parametrize("path", ["exchanges/nothing", "exchanges/msg_7", "sessions/nobody"])
def test_what_is_no_id_is_not_found(as_alice: Caller, project: Project, path: str) -> None:
    said = as_alice.post(f"{path}/feedback", {"score": 0})
    assert (said.status, said.is_problem) == (404, True)
