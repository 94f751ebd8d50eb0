"""The search by REST: what the console finds, as far as role and token allow."""

from collections.abc import Callable

import pytest

from apps.accounts.models import Project, User
from apps.feedback.models import Feedback
from apps.workers.models import Worker
from tests.edges.caller import Caller
from tests.factories import make_task

pytestmark = pytest.mark.django_db


def test_what_is_found_is_told_as_far_as_the_token_reaches(
    project: Project, worker: Worker, alice: User, as_charlie: Caller, call_as: Callable[..., Caller]
) -> None:
    task = make_task(project, worker, prompt="Send two brass lamps.", state="done")
    said = Feedback.objects.create(project=project, task=task, source="human", author="user:bob", text="Brass is dear")
    whole, narrow = call_as(alice), call_as(alice, scopes=["tasks:read"])
    found = whole.get("search?project=shop&q=brass").body
    hits = [(group["kind"], [hit["id"] for hit in group["hits"]]) for group in found["results"]]
    assert (hits, found["jump"]) == ([("task", [task.pk]), ("feedback", [said.pk])], None)
    assert found["results"][0]["hits"][0]["text"] == "Send two brass lamps."
    assert [group["kind"] for group in narrow.get("search?project=shop&q=brass").body["results"]] == ["task"]
    jump = whole.get(f"search?project=shop&q=task+{task.pk}").body["jump"]
    assert (jump["kind"], jump["id"]) == ("task", task.pk)
    assert as_charlie.get("search?project=shop&q=brass").status == 404


@pytest.mark.parametrize(
    ("query", "field"),
    [("project=shop", "q"), ("q=x", "project"), ("project=shop&q=" + 301 * "x", "q"), ("project=shop&q=x&of=1", "of")],
)
def test_what_cannot_be_looked_for_is_refused_by_name(
    project: Project, as_alice: Caller, query: str, field: str
) -> None:
    answer = as_alice.get(f"search?{query}")
    assert (answer.status, list(answer.body["errors"])) == (400, [field])
