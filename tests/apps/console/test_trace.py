"""What a feedback changed, and from an adapter back to who taught it."""

import re

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import Member, Project, Role, User
from apps.adapters.models import Adapter
from apps.console.selectors.comparing import compare_attempts, find_family, find_versions
from apps.console.selectors.trace import find_movement, trace_feedback
from apps.feedback.claims import claim
from apps.feedback.models import Feedback, StepFeedback
from apps.reports.lineage import find_contribution, find_origins
from apps.rollouts.models import Batch, Rollout, TrainingUse
from apps.tasks.models import Attempt, Task
from tests.e2e.scenery import Scene
from tests.factories import make_attempt, make_measured, make_task, make_user, make_worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(scene: Scene) -> Client:
    client = Client()
    client.force_login(scene.alice)
    return client


def path(name: str, *args: object) -> str:
    return reverse(f"console:{name}", args=("desk", *args))


def judge(task: Task, author: str = "user:bob", **values: object) -> Feedback:
    return Feedback.objects.create(project=task.project, task=task, source="human", author=author, **values)


def learn(task: Task, rewards: list[float | None], batch: Batch | None) -> list[Rollout]:
    rollouts = []
    for index, reward in enumerate(rewards):
        attempt = make_attempt(task, index, outcome=0.5)
        rollout = Rollout.objects.create(
            project=task.project, worker=task.worker, task=task, attempt=attempt, is_usable=True, reward=reward,
            reward_source="human",
        )  # fmt: skip
        if batch is not None:
            TrainingUse.objects.create(rollout=rollout, batch=batch)
        rollouts.append(rollout)
    return rollouts


def test_a_feedback_leads_to_its_batch_run_adapter_verdict_and_the_tasks_that_moved(
    scene: Scene, client: Client
) -> None:
    page = client.get(path("feedback", scene.reviewed.feedback.get().pk)).content.decode()
    first = Adapter.objects.get(version=1)
    for found in (path("run", first.run_id), path("adapter", first.pk), path("adapter-people", first.pk)):
        assert f'href="{found}"' in page
    assert "Batch 1: 24 of 24 tasks" in page
    assert first.verdicts.get().words in page
    assert " better" in page


def test_rewards_are_weighed_against_each_other_and_say_where_they_pull(scene: Scene) -> None:
    task = make_task(scene.project, scene.worker)
    learn(task, [1.0, 0.0, 0.5, None], None)
    feedback, rollout = judge(task), Rollout.objects.filter(task=task).order_by("attempt__index")[0]
    StepFeedback.objects.create(
        feedback=feedback, attempt=rollout.attempt, step=rollout.attempt.steps.get(index=1), score=0.0
    )
    Rollout.objects.filter(pk=rollout.pk).update(steps=[[0, 3, 0.8, None], [3, 6, None, 0.0]])
    trace = trace_feedback(scene.project, feedback.pk, user=scene.alice)
    assert trace is not None
    assert [[(step.number, step.by) for step in one.steps] for one in trace.rollouts] == [[(2, -0.5)], [], [], []]
    assert [one.pull for one in trace.rollouts] == ["more", "less", "none", "unknown"]
    assert [one.change for one in trace.rollouts] == [0.5, -0.5, 0.0, None]
    assert trace.rollouts[0].advantage == pytest.approx(1.2247, abs=1e-3)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("none", "Waiting until the task's reviews are closed"),
        ("open", "Waiting in batch 5: 15 of 24 tasks"),
        ("unusable", "None of its attempts can be trained on"),
        ("retracted", "Retracted: not used"),
    ],
)
def test_what_is_not_there_yet_is_said(scene: Scene, client: Client, state: str, words: str) -> None:
    task = make_task(scene.project, scene.worker, state="in_review")
    feedback = judge(task)
    batch = Batch.objects.get(worker=scene.worker, state="open")
    if state == "retracted":
        Feedback.objects.filter(pk=feedback.pk).update(retracted_at=timezone.now(), retracted_by="user:bob")
    elif state != "none":
        learn(task, [1.0], batch if state == "open" else None)
    assert words in client.get(path("feedback", feedback.pk)).content.decode()


def test_held_out_tasks_that_moved_are_counted_against_the_parent_on_the_same_panel(
    scene: Scene, client: Client
) -> None:
    worker = make_worker(scene.project, "other")
    parent, child = (
        Adapter.objects.create(
            project=scene.project, worker=worker, name=f"other@v{n}", version=n, line_version=n, uri="x", manifest={}
        )
        for n in (1, 2)
    )
    Adapter.objects.filter(pk=child.pk).update(parent=parent)
    for adapter, panel, outcomes in (
        (None, "desk/4/0", [0.0, 0.0, 0.0, 0.0]),
        (parent, "desk/4/0", [1.0, 0.0, 1.0, 0.0]),
        (child, "desk/4/0", [1.0, 1.0, 0.0, 0.5]),
    ):
        make_measured(worker, adapter, outcomes, items=panel)
    movement = find_movement(Adapter.objects.select_related("parent").get(pk=child.pk))
    assert movement is not None
    assert movement.reference == parent
    assert [(item.number, item.before, item.after) for item in movement.gained] == [(2, 0.0, 1.0), (4, 0.0, 0.5)]
    assert [item.number for item in movement.lost] == [3]
    assert movement.same == 1
    assert movement.found is not None
    assert movement.found.points == "+12.5 points [−40.8, +57.4]"  # by 0, 1, −1 and 0.5
    page = client.get(path("adapter-moved", child.pk)).content.decode()
    assert f"<strong>{movement.found.points}</strong>" in page
    assert "not significant" in page
    assert all(item.text for item in movement.gained), "the desk draws its panels again by name"


def test_two_panels_are_never_compared(scene: Scene) -> None:
    worker = make_worker(scene.project, "other")
    adapter = Adapter.objects.create(
        project=scene.project, worker=worker, name="other@v1", version=1, line_version=1, uri="x", manifest={}
    )
    for one, panel in ((None, "old"), (adapter, "new")):
        make_measured(worker, one, [1.0], items=panel)
    assert find_movement(adapter) is None


def test_from_an_adapter_back_to_every_person_and_feedback(scene: Scene) -> None:
    first, second = Adapter.objects.get(version=1), Adapter.objects.get(version=2)
    judge(scene.reviewed, "user:alice", score=0.2)
    gone = judge(scene.reviewed, "user:mallory", score=1.0)
    Feedback.objects.filter(pk=gone.pk).update(retracted_at=timezone.now())
    found = find_origins(first, user=scene.alice, with_ancestors=False)
    assert {person.author: (person.feedback, person.tasks, person.step_words) for person in found.people} == {
        "user:alice": (1, 1, 0),
        "user:bob": (1, 1, 1),
    }
    whole = find_origins(second, user=scene.alice, with_ancestors=True)
    assert [adapter.version for adapter in whole.adapters] == [2, 1]
    assert {person.author: person.feedback for person in whole.people} == {"user:bob": 2, "user:alice": 1}
    assert [
        one.author for one in find_origins(first, user=scene.alice, with_ancestors=False, author="user:alice").feedback
    ] == ["user:alice"]


def test_from_any_served_answer_it_is_three_clicks_to_the_feedback_behind_it(scene: Scene, client: Client) -> None:
    pages = [path("task", scene.in_review.pk)]
    for wanted in (r"/adapters/\d+/$", r"/adapters/\d+/people/(\?.*)?$", r"/feedback/\d+/$"):
        links = re.findall(r'href="([^"]+)"', client.get(pages[-1]).content.decode())
        pages.append(next(link for link in links if re.search(wanted, link)))
    assert client.get(pages[-1]).status_code == 200
    assert len(pages) - 1 == 3


def test_who_judges_a_task_blindly_is_not_told_first(scene: Scene, client: Client) -> None:
    Project.objects.filter(pk=scene.project.pk).update(review_policy={"blind": True})
    feedback = judge(scene.in_review, "user:bob", text="The second is right.")
    left, right = scene.in_review.attempts.order_by("index")[:2]
    compare = f"{path('attempt-compare')}?left={left.pk}&right={right.pk}"
    pages = [path("feedback", feedback.pk), path("task-versions", scene.in_review.pk), compare]
    assert [client.get(page).status_code for page in pages] == [200, 200, 200]
    claim(review=scene.review, by=scene.alice)
    for page in pages:
        assert client.get(page).headers.get("Location") == path("review", scene.review.pk), page


def test_a_reviewer_sees_what_their_own_feedback_did(scene: Scene) -> None:
    bob = make_user("bob")
    waiting = judge(make_task(scene.project, scene.worker, state="in_review"))
    found = find_contribution(list(Feedback.objects.filter(author=bob.handle).select_related("task__worker")))
    stages = {fate.feedback.pk: fate.stage for fate in found.fates}
    assert stages[waiting.pk] == "waits"
    assert stages[scene.reviewed.feedback.get().pk] == "learned"
    assert "failed" in stages.values(), "the last run of the scene failed"
    assert [adapter.version for adapter, _, _ in found.adapters] == [3, 2, 1]
    client = Client()
    client.force_login(bob)
    page = client.get(path("my-feedback")).content.decode()
    assert path("feedback", waiting.pk) in page


def test_the_same_task_is_found_on_every_version_that_tried_it(scene: Scene) -> None:
    task = make_task(scene.project, scene.worker, prompt="Once more")
    again = make_task(scene.project, scene.worker, prompt="Once more", parent=task)
    equal = make_task(scene.project, scene.worker, prompt="Once more")
    make_task(scene.project, scene.worker, prompt="Something else", parent=task)
    make_attempt(task, 0, outcome=0.2, answer="old")
    make_attempt(again, 0, outcome=0.9, answer="new", adapter=scene.adapter)
    make_attempt(again, 1, outcome=0.7, adapter=scene.adapter)
    family = find_family(task)
    assert {one.pk for one in family} == {task.pk, again.pk, equal.pk}
    base, newest = find_versions(family)
    assert (base.number, base.best.answer, base.score) == (0, "old", 0.2)
    assert (newest.number, newest.best.answer) == (3, "new")
    assert newest.score == pytest.approx(0.8)


def test_trying_a_task_again_submits_it_as_its_child(scene: Scene, client: Client) -> None:
    worker = make_worker(scene.project, "echo")
    task = make_task(scene.project, worker, prompt="Say it.", group_size=3)
    answer = client.post(path("task-again", task.pk))
    again = Task.objects.get(parent=task)
    assert answer.headers["Location"] == path("task", again.pk)
    assert (again.prompt, again.worker, again.group_size, again.state) == ("Say it.", worker, 3, "queued")


def test_who_may_not_submit_is_not_offered_another_try(scene: Scene) -> None:
    vera = make_user("vera")
    Member.objects.create(project=scene.project, user=vera, role=Role.VIEWER)
    client = Client()
    client.force_login(vera)
    assert (
        path("task-again", scene.reviewed.pk)
        not in client.get(path("task-versions", scene.reviewed.pk)).content.decode()
    )
    assert client.post(path("task-again", scene.reviewed.pk)).status_code == 403


def test_two_attempts_stand_side_by_side_with_what_differs_marked(scene: Scene, client: Client) -> None:
    left, right = scene.reviewed.attempts.order_by("index")[:2]
    page = client.get(path("attempt-compare"), {"left": left.pk, "right": right.pk}).content.decode()
    assert "<del>38</del><ins>41</ins>" in page
    view = compare_attempts(scene.project, left.pk, right.pk)
    assert view is not None
    assert (view.is_same_task, view.has_same_answer, len(view.steps)) == (True, False, 4)
    assert "<del>" not in view.steps[0].diff


def test_what_an_agent_wrote_stays_text_in_a_comparison(scene: Scene, client: Client) -> None:
    left, right = scene.reviewed.attempts.order_by("index")[:2]
    Attempt.objects.filter(pk=left.pk).update(answer="<script>alert(1)</script>\u202egnp.exe")
    page = client.get(path("attempt-compare"), {"left": left.pk, "right": right.pk}).content.decode()
    assert "<script>alert" not in page
    assert "\u202e" not in page
    assert "U+202E" in page


@pytest.mark.parametrize("query", ["", "left=1", "left=x&right=1", "left=999999&right=999998"])
def test_a_comparison_without_two_attempts_is_not_found(client: Client, query: str) -> None:
    assert client.get(f"{path('attempt-compare')}?{query}").status_code == 404


def test_nothing_of_another_project_is_found(scene: Scene, client: Client, project: Project, alice: User) -> None:
    foreign = make_task(project)
    feedback = judge(foreign)
    one, other = make_attempt(foreign, 0), make_attempt(foreign, 1)
    own = scene.reviewed.attempts.earliest("index")
    for found in (
        path("feedback", feedback.pk),
        path("task-versions", foreign.pk),
        f"{path('attempt-compare')}?left={one.pk}&right={other.pk}",
        f"{path('attempt-compare')}?left={own.pk}&right={other.pk}",
    ):
        assert client.get(found).status_code == 404, found
    assert client.post(path("task-again", foreign.pk)).status_code == 404
