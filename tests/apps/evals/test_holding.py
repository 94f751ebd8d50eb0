"""What is held out trains nothing: every door between work and training asks the same question."""

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import Project, User
from apps.calibration.models import Comparison, Rater
from apps.console.exports.sources import SOURCES
from apps.evals.holding import HELD_OUT, find_held_out
from apps.evals.models import Item, Taskset
from apps.evals.services import keep_own_work
from apps.feedback.hints import extract_hints
from apps.feedback.models import Feedback, Hint, StepFeedback
from apps.rollouts.contents import describe_taught
from apps.rollouts.examples import put_items
from apps.rollouts.models import Batch, Demonstration, PreferencePair, Rollout, TrainingUse
from apps.rollouts.services import build_rollouts
from apps.scoring.labelling import choose_splits
from apps.scoring.models import StepLabel
from apps.tasks.models import Task
from apps.training.audits import find_words
from apps.training.contamination import find_leaks
from apps.training.labelled import iterate_records
from tentalis.core.near_duplicates import hash_words, list_bands
from tests.factories import make_judged_task

pytestmark = pytest.mark.django_db

KEPT, OPEN = "How long does a parcel to Rome take?", "How much is a parcel to Rome?"


def hold_out(project: Project, prompt: str, environment: str = "chat") -> None:
    item = Item(prompt=prompt, content_hash=hash_words(prompt), bands=list_bands(prompt), source="by hand")
    keep_own_work(project, environment, [item])


def make_taught_task(project: Project, prompt: str) -> Task:
    """Judged by a person in every way that something could be learnt from."""
    task = make_judged_task(project, prompt=prompt, group_size=2)
    first, second = task.attempts.order_by("index")
    for attempt, said in ((first, 0.1), (second, 1.0)):
        attempt.text = attempt.answer = f"{prompt} {said}"
        attempt.save()
    given = Feedback.objects.create(
        project=project,
        task=task,
        source="human",
        author="user:alice",
        score=0.9,
        text="Name the number of days.",
        preferred_attempt=second,
    )
    StepFeedback.objects.create(feedback=given, attempt=first, step=first.steps.get(index=0), score=0.2)
    StepFeedback.objects.create(feedback=given, attempt=second, score=1.0)
    StepLabel.objects.create(attempt=second, step=second.steps.get(index=0), source="verified", value=1.0)
    rater, _ = Rater.objects.get_or_create(project=project, handle="agent:verdict", defaults={"kind": "manager"})
    Comparison.objects.create(
        project=project, rater=rater, attempt=second, said=1.0, truth=1.0, source="verified", counts=True
    )
    return task


def learn(task: Task) -> None:
    extract_hints([task.pk])
    build_rollouts([task.pk], by="ledger")


def test_a_held_out_task_goes_through_no_door(project: Project, alice: User) -> None:
    hold_out(project, KEPT.upper())
    kept, taught = make_taught_task(project, KEPT), make_taught_task(project, OPEN)
    for task in (kept, taught):
        learn(task)

    assert find_held_out([kept, taught]) == {kept.pk}
    assert set(Rollout.objects.filter(task=kept).values_list("is_usable", "unusable_reason")) == {(False, HELD_OUT)}
    learns = {taught.pk}
    assert set(TrainingUse.objects.values_list("rollout__task", flat=True)) == learns
    assert set(PreferencePair.objects.values_list("task", flat=True)) == learns
    assert set(Demonstration.objects.values_list("task", flat=True)) == learns
    assert set(Hint.objects.exclude(text="").values_list("task", flat=True)) == learns
    assert Hint.objects.get(task=kept).reason == HELD_OUT
    assert choose_splits([kept])[kept.pk] == "test"
    assert kept.pk not in {record.group_id for record in iterate_records(kept.worker)}
    words = find_words(project.pk, "agent:verdict", limit=10)
    assert {word.task_id: word.is_reserved for word in words} == {kept.pk: True, taught.pk: False}

    for name in ("preferences", "sft", "kto", "stepwise", "rollouts"):
        left: set[int] = set()
        rows = list(SOURCES[name].rows(project, {}, alice, left))
        assert rows, name
        assert KEPT not in json.dumps(rows, default=str), name
        assert left == {kept.pk}, name
    told = {row["id"]: row["held_out"] for row in SOURCES["tasks"].rows(project, {}, alice, set())}
    assert told == {kept.pk: True, taught.pk: False}


def test_what_is_held_out_later_leaves_what_is_not_learnt_yet(project: Project) -> None:
    task = make_taught_task(project, KEPT)
    learn(task)
    batch = Batch.objects.get()
    assert not find_leaks([batch], (), world=None).held_out
    hold_out(project, KEPT)
    assert find_leaks([Batch.objects.get()], (), world=None).held_out == describe_taught(batch).held_out == 2
    gathered = Batch.objects.create(
        project=project, worker=task.worker, number=9, kind="pairs", state="closed", target_tasks=1
    )
    assert put_items(gathered, "pairs") == (0, {HELD_OUT: 1})


def test_words_quoted_in_another_task_are_a_leak(project: Project) -> None:
    task = make_taught_task(project, f"Somebody asked: {KEPT} Say it kindly.")
    learn(task)
    hold_out(project, KEPT)
    assert find_leaks(Batch.objects.all(), (), world=None).held_out == 2


def test_the_question_costs_a_query_a_set_and_none_where_nothing_is_held_out(project: Project) -> None:
    tasks = [make_judged_task(project, prompt=f"Question {n}?", group_size=1) for n in range(5)]
    with CaptureQueriesContext(connection) as queries:
        assert find_held_out(tasks) == set()
    assert len(queries) == 0
    hold_out(project, "Question 3?")
    with CaptureQueriesContext(connection) as queries:
        assert find_held_out(tasks) == {tasks[3].pk}
    assert len(queries) == 1


def test_items_hold_out_their_own_environment_and_project_alone(project: Project) -> None:
    task = make_judged_task(project, prompt=KEPT, group_size=1)
    hold_out(project, KEPT, environment="moon")
    Taskset.objects.create(project=project, name="trained", environment="chat").items.create(
        split="train", prompt=KEPT, content_hash=hash_words(KEPT), bands=list_bands(KEPT)
    )
    assert find_held_out([task]) == set()
