"""Submitting, doing, handing in, cancelling."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from apps.accounts.models import Project, User
from apps.base.errors import BadInputError, ConflictError, IllegalMoveError, NotAllowedError, NotFoundError
from apps.inference.models import Exchange
from apps.outbox.models import Segment
from apps.pipeline import flow
from apps.tasks import services
from apps.tasks.drafts import load_attempts, rebuild_draft
from apps.tasks.models import Attempt, Step, Task
from apps.tasks.services import MAX_NESTED
from apps.workers.models import Worker
from apps.worlds.registry import WORLDS
from tests.factories import add_call, make_attempt, make_task, make_user, make_worker

pytestmark = pytest.mark.django_db(transaction=True)


def submit(project: Project, by: User, **values: Any) -> Task:
    defaults: dict[str, Any] = {"prompt": "Say hello.", "environment": "chat"}
    return flow.submit(project=project, by=by, **defaults | values)


def test_a_submitted_task_is_queued_and_its_work_is_in_the_outbox(
    project: Project, worker: Worker, alice: User
) -> None:
    task = submit(project, alice)
    assert (task.state, task.worker, task.group_size) == ("queued", worker, 8)
    assert Segment.objects.get(subject_id=task.pk).links[0] == "tasks.work"


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"prompt": "  "}, "prompt", "found none"),
        ({"prompt": "x" * 100_001}, "prompt", "found 100,001"),
        ({"prompt": "a\x00b"}, "prompt", "NUL"),
        ({"environment": "moon"}, "environment", f"wanted one of {', '.join(WORLDS.names)}, found 'moon'"),
        ({"environment": "desk"}, "prompt", "ticket"),
        ({"group_size": 0}, "group_size", "found 0"),
        ({"group_size": 65}, "group_size", "found 65"),
        ({"metadata": {"x": "y" * 30_000}}, "metadata", "at most 20,000"),
    ],
)
def test_bad_input_names_the_field_and_leaves_nothing(
    project: Project, worker: Worker, alice: User, values: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(BadInputError) as caught:
        submit(project, alice, **values)
    assert words in caught.value.errors[field][0]
    assert not Task.objects.exists()
    assert not Segment.objects.exists()


def test_a_worker_or_parent_of_another_project_is_refused(project: Project, worker: Worker, alice: User) -> None:
    other = make_project_without_members("other")
    stranger = make_worker(other, "stranger")
    with pytest.raises(BadInputError, match="stranger"):
        submit(project, alice, worker=stranger)
    with pytest.raises(BadInputError, match="parent"):
        submit(project, alice, worker=worker, parent=make_task(other, stranger))


def test_work_that_is_split_again_and_again_is_refused_and_none_is_part_of_itself(
    project: Project, worker: Worker, alice: User
) -> None:
    task = first = make_task(project, worker)
    for _ in range(MAX_NESTED - 1):
        task = make_task(project, worker, parent=task)
    deepest = submit(project, alice, worker=worker, parent=task)
    with pytest.raises(BadInputError, match="at most 32 tasks above each other"):
        submit(project, alice, worker=worker, parent=deepest)
    for above in (first, deepest):
        with pytest.raises(IntegrityError, match="task_is_part_of_an_earlier_one"), transaction.atomic():
            Task.objects.filter(pk=first.pk).update(parent=above)


def test_who_may_not_submit_is_told_and_a_stranger_learns_nothing(
    project: Project, worker: Worker, charlie: User
) -> None:
    viewer = make_user("victor")
    project.members.create(user=viewer, role="viewer")
    with pytest.raises(NotAllowedError):
        submit(project, viewer)
    with pytest.raises(NotFoundError, match="no project shop"):
        submit(project, charlie)


def test_with_several_workers_one_must_be_named(project: Project, worker: Worker, alice: User) -> None:
    make_worker(project, "second")
    with pytest.raises(BadInputError, match="found echo, "):
        submit(project, alice)


def test_work_writes_the_group_its_steps_and_exchanges_at_once(project: Project, worker: Worker) -> None:
    task = make_task(project, worker, group_size=3)
    services.work_tasks([task.pk], by="worker")
    assert Attempt.objects.filter(task=task, state="answered").count() == 3
    assert Step.objects.filter(attempt__task=task).count() == 3
    assert Task.objects.get(pk=task.pk).state == "scoring"


def test_work_done_twice_is_done_once(project: Project, worker: Worker) -> None:
    task = make_task(project, worker)
    services.work_tasks([task.pk], by="worker")
    services.work_tasks([task.pk], by="worker")
    assert Attempt.objects.filter(task=task).count() == 2


def test_an_outside_agents_result_takes_the_place_of_our_work(project: Project, worker: Worker, alice: User) -> None:
    task = submit(project, alice)
    flow.submit_own_attempt(task=task, steps=[{"text": "looked it up"}], answer="42", by=alice)
    assert Task.objects.get(pk=task.pk).state == "scoring"
    assert Attempt.objects.get(task=task).answer == "42"
    services.work_tasks([task.pk], by="worker")
    assert Attempt.objects.filter(task=task).count() == 1


def test_a_result_for_a_task_that_has_one_is_refused(project: Project, worker: Worker, alice: User) -> None:
    task = submit(project, alice)
    flow.submit_own_attempt(task=task, steps=[], answer="42", by=alice)
    with pytest.raises(ConflictError, match="found scoring"):
        flow.submit_own_attempt(task=task, steps=[], answer="43", by=alice)
    assert Segment.objects.filter(subject_id=task.pk, state="open").count() == 1


@pytest.mark.parametrize("step", [{"text": 5}, {"text": "x", "colour": "red"}, {}])
def test_a_step_that_is_none_is_named(project: Project, worker: Worker, alice: User, step: dict[str, Any]) -> None:
    task = submit(project, alice)
    with pytest.raises(BadInputError, match=r"steps\[0\]"):
        flow.submit_own_attempt(task=task, steps=[step], answer="", by=alice)
    assert Task.objects.get(pk=task.pk).state == "queued"


@pytest.mark.parametrize(("first", "last"), [("tool_calls", "length"), ("length", "stop")])
def test_an_answer_of_several_calls_ended_as_its_last_call_did(project: Project, first: str, last: str) -> None:
    task = make_task(project)
    attempt = make_attempt(task)
    Exchange.objects.filter(attempt=attempt).update(finish_reason=first)
    draft = rebuild_draft(Attempt.objects.get(), [])
    assert (draft.finish_reason, draft.ended) == (first, first != "length")
    for place, reason in enumerate(["stop", last], start=1):
        add_call(attempt, [7, 8], [20, 21], place=place)
        Exchange.objects.filter(further_of__place=place).update(finish_reason=reason)
    for one in (Attempt.objects.get(), load_attempts([task])[task.pk][0]):
        draft = rebuild_draft(one, one.ordered_steps)
        assert (draft.finish_reason, draft.ended) == (last, last != "length")


def test_a_cancelled_task_is_worked_on_no_more(project: Project, worker: Worker, alice: User) -> None:
    task = submit(project, alice)
    flow.cancel(task=task, by=alice)
    services.work_tasks([task.pk], by="worker")
    assert (Task.objects.get(pk=task.pk).state, Attempt.objects.count()) == ("cancelled", 0)
    assert not Segment.objects.filter(state="open").exists()
    with pytest.raises(IllegalMoveError, match="found cancelled"):
        flow.cancel(task=task, by=alice)


def make_project_without_members(slug: str) -> Project:
    return Project.objects.create(slug=slug, name=slug)


def test_two_projects_may_name_their_workers_alike(project: Project) -> None:
    make_worker(project, "same")
    make_worker(make_project_without_members("other"), "same")
    assert Worker.objects.filter(name="same").count() == 2
