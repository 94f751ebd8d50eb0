"""Who works on a task just now: told to who may know, and to no blind reviewer of another."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import Member, Project, Role, User
from apps.feedback.models import Feedback, Review
from apps.supervision.models import Proposal
from apps.tasks.models import Task
from tests.apps.feedback.builders import make_chat_task
from tests.factories import make_user

pytestmark = pytest.mark.django_db
HERE = "has it open now"


@pytest.fixture
def task(project: Project) -> Task:
    Member.objects.create(project=project, user=make_user("dora"), role=Role.REVIEWER)
    return make_chat_task(project, answers=("first", "second"), state=Task.State.IN_REVIEW)


def hold(task: Task, by: User, purpose: str = "work", minutes: int = 5) -> Review:
    return Review.objects.create(
        project=task.project,
        task=task,
        audience="human",
        purpose=purpose,
        claimed_by=by,
        lease_until=timezone.now() + timedelta(minutes=minutes),
    )


def look(user: User, name: str, *args: object) -> str:
    client = Client()
    client.force_login(user)
    return client.get(reverse(f"console:{name}", args=("shop", *args))).content.decode()


def test_a_colleague_at_work_is_seen_and_one_who_left_is_not(task: Task) -> None:
    held = hold(task, make_user("dora"))
    assert f"dora {HERE}" in look(make_user("bob"), "task", task.pk)
    assert HERE not in look(make_user("dora"), "task", task.pk)
    Review.objects.filter(pk=held.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
    assert HERE not in look(make_user("bob"), "task", task.pk)


@pytest.mark.parametrize("purpose", ["second", "gold", "appeal"])
def test_only_managers_learn_that_somebody_judges_for_another_reason(task: Task, purpose: str) -> None:
    hold(task, make_user("dora"), purpose)
    assert f"dora {HERE}" in look(make_user("alice"), "task", task.pk)
    assert "dora" not in look(make_user("bob"), "task", task.pk)


def test_blind_reviewers_do_not_see_each_other(task: Task) -> None:
    hold(task, make_user("dora"))
    own = hold(task, make_user("bob"), "gold")
    for page in (look(make_user("bob"), "review", own.pk), look(make_user("bob"), "task", task.pk)):
        assert HERE not in page
        assert "dora" not in page


def test_a_tasks_page_keeps_others_words_from_who_may_be_asked_blindly(task: Task) -> None:
    Feedback.objects.create(
        project=task.project, task=task, source="human", author="user:dora", score=0.9, text="It is perfect."
    )
    assert "It is perfect." in look(make_user("bob"), "task", task.pk)
    Review.objects.create(project=task.project, task=task, audience="human", purpose="second")
    assert "It is perfect." not in look(make_user("bob"), "task", task.pk)
    assert "It is perfect." in look(make_user("alice"), "task", task.pk)


def test_task_and_review_list_what_was_asked_before_it_was_done(task: Task) -> None:
    proposal = Proposal.objects.create(
        project=task.project,
        task=task,
        proposed_by=make_user("claw", is_agent=True),
        kind="tool",
        tool="refund",
        action={"kind": "tool", "tool": "refund", "arguments": {"order": 7}},
        deadline_at=timezone.now() + timedelta(hours=1),
    )
    own = hold(task, make_user("bob"))
    path = reverse("console:proposal", args=("shop", proposal.pk))
    for page in (look(make_user("bob"), "task", task.pk), look(make_user("bob"), "review", own.pk)):
        assert path in page
        assert "Call refund" in page


def test_the_constitution_stands_beside_the_rubric(task: Task) -> None:
    Project.objects.filter(pk=task.project_id).update(constitution="Never promise what the shop cannot keep.")
    own = hold(task, make_user("bob"))
    assert "Never promise what the shop cannot keep." in look(make_user("bob"), "review", own.pk)
