"""The ledger: one rollout an attempt, one batch a rollout, a reason for the rest."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from apps.accounts.models import Project
from apps.audit.models import AuditEntry
from apps.base.errors import ConflictError
from apps.feedback.models import Feedback, StepFeedback
from apps.inference.models import Exchange
from apps.outbox.models import Segment
from apps.pipeline import flow, trainings
from apps.rollouts import services
from apps.rollouts.files import write_batch
from apps.rollouts.models import Batch, Rollout, TrainingUse
from apps.rollouts.selectors import iterate_records, make_records, why_nothing_trains
from apps.tasks.models import Attempt, Task
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from tests.factories import add_call, make_attempt, make_judged_task, make_project, make_task, make_worker


def build(task: Task) -> None:
    services.build_rollouts([task.pk], by="ledger")


def test_every_attempt_becomes_one_rollout_in_one_batch_and_the_task_is_done(project: Project) -> None:
    task = make_judged_task(project, group_size=3)
    build(task)
    assert Rollout.objects.filter(task=task, is_usable=True).count() == 3
    assert TrainingUse.objects.count() == 3
    assert Task.objects.get(pk=task.pk).state == "done"


def test_a_group_of_eight_is_built_with_as_many_statements_as_one_of_two(project: Project) -> None:
    build(make_judged_task(project))  # opens the batch
    counts = []
    for group_size in (2, 8):
        task = make_judged_task(project, group_size=group_size)
        with CaptureQueriesContext(connection) as asked:
            build(task)
        counts.append(len(asked))
    assert counts[0] == counts[1], "a column that is looked at and not loaded is asked for attempt by attempt"


def test_what_an_earlier_base_model_answered_is_left_out_in_words_whatever_learns_from_it(project: Project) -> None:
    filled, late = make_judged_task(project), make_judged_task(project)
    build(filled)
    since = timezone.now()
    Worker.objects.update(base_since=since)
    new = make_judged_task(project)
    Exchange.objects.filter(attempt__task=new).update(created_at=since)
    build(late)
    build(new)
    left_out = Rollout.objects.filter(task=late)
    assert {one.is_usable for one in left_out} == {False}
    assert {one.unusable_reason.partition(" that ")[0] for one in left_out} == {
        "its tokens are those of the base model"
    }
    batch = Batch.objects.get()
    assert set(batch.uses.values_list("rollout__task", flat=True)) == {filled.pk, new.pk}
    assert {record.group_id for record in iterate_records(batch)} == {new.pk}


def test_building_twice_builds_once(project: Project) -> None:
    task = make_judged_task(project)
    build(task)
    build(task)
    assert Rollout.objects.count() == TrainingUse.objects.count() == 2


def test_a_rollout_cannot_be_in_two_batches_even_when_the_code_is_wrong(project: Project) -> None:
    build(make_judged_task(project))
    other = Batch.objects.create(project=project, worker=Worker.objects.get(), number=9, target_tasks=1, state="closed")
    with pytest.raises(IntegrityError), transaction.atomic():
        TrainingUse.objects.create(rollout=Rollout.objects.all()[0], batch=other)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"tokens": 0}, "no token ids"),
        ({"state": Attempt.State.FAILED, "error": "cut off"}, "cut off"),
        ({"outcome": None, "score": None}, "nobody judged it"),
    ],
)
def test_what_cannot_train_says_why_and_enters_no_batch(
    project: Project, values: dict[str, object], words: str
) -> None:
    task = make_task(project, state=Task.State.LEARNING, group_size=1)
    make_attempt(task, **values)  # type: ignore[arg-type]
    build(task)
    rollout = Rollout.objects.get()
    assert not rollout.is_usable
    assert words in rollout.unusable_reason
    assert not TrainingUse.objects.exists()
    assert any(words in finding.words for finding in why_nothing_trains(project))


def test_with_learning_off_nothing_trains_and_the_reason_says_so(db: None) -> None:
    project = make_project(learning_enabled=False)
    build(make_judged_task(project))
    assert set(Rollout.objects.values_list("unusable_reason", flat=True)) == {
        "learning is switched off for the project"
    }


def test_a_batch_takes_tasks_until_it_is_full_and_the_next_gets_a_new_one(db: None) -> None:
    project = make_project(batch_tasks=2)
    worker = make_worker(project)
    for _ in range(3):
        build(make_judged_task(project, worker))
    first, second = Batch.objects.order_by("number")
    assert (first.state, first.task_count, first.rollout_count) == ("closed", 2, 4)
    assert (second.state, second.task_count) == ("open", 1)


def test_a_batch_that_fills_follows_the_settings_and_trains_when_that_fills_it(db: None) -> None:
    project = make_project(batch_tasks=24)
    worker = make_worker(project)
    for _ in range(2):
        build(make_judged_task(project, worker))
    Project.objects.update(batch_tasks=10)
    assert (trainings.follow_batch_sizes(), trainings.follow_batch_sizes()) == (1, 0)
    assert (Batch.objects.get().target_tasks, Batch.objects.get().state) == (10, "open")
    Project.objects.update(batch_tasks=2)
    assert trainings.follow_batch_sizes() == 1
    assert (Batch.objects.get().target_tasks, Batch.objects.get().state) == (2, "closed")
    assert TrainingRun.objects.get().batch == Batch.objects.get()


def test_the_next_task_finds_the_size_of_the_settings_before_anybody_looked(db: None) -> None:
    project = make_project(batch_tasks=24)
    worker = make_worker(project)
    build(make_judged_task(project, worker))
    Project.objects.update(batch_tasks=2)
    build(make_judged_task(Project.objects.get(), worker))
    assert (Batch.objects.get().target_tasks, Batch.objects.get().state) == (2, "closed")


def test_the_task_that_fills_the_batch_starts_its_one_run(db: None) -> None:
    project = make_project(batch_tasks=1)
    task = make_judged_task(project)
    build(task)
    flow.train_when_full([task.pk])
    flow.train_when_full([task.pk])
    run = TrainingRun.objects.get()
    assert run.recipe_hash
    assert Segment.objects.filter(kind="train", subject_id=run.pk).count() == 1


def test_a_persons_score_of_a_step_lands_on_exactly_that_steps_tokens(project: Project) -> None:
    task = make_judged_task(project, group_size=1)
    attempt = task.attempts.get()
    feedback = Feedback.objects.create(project=project, task=task, source="human", author="user:bob", score=1.0)
    StepFeedback.objects.create(feedback=feedback, attempt=attempt, step=attempt.steps.all()[1], score=0.25)
    build(task)
    assert Rollout.objects.get().steps == [[0, 3, None, None], [3, 6, None, 0.25]]
    assert Rollout.objects.get().reward_source == "human"


def test_a_record_carries_the_exact_tokens_of_its_exchange(project: Project) -> None:
    task = make_judged_task(project, group_size=1)
    build(task)
    record = next(iterate_records(Batch.objects.get()))
    assert (record.prompt_token_ids, record.token_ids) == ([1, 2, 3], [10, 11, 12, 13, 14, 15])
    assert record.sampled == [True, True, False, True, True, True]
    assert record.logprobs == [-0.5, -0.5, 0.0, -0.5, -0.5, -0.5]
    assert record.group_id == task.pk


def test_a_batch_file_is_the_same_for_the_same_rows_and_leaves_no_staging(
    project: Project, settings: Settings, tmp_path: Path
) -> None:
    settings.ARTIFACTS = tmp_path
    build(make_judged_task(project))
    batch = Batch.objects.get()
    assert write_batch(batch) == write_batch(batch)
    (file,) = (tmp_path / "batches").iterdir()
    assert [json.loads(line)["schema"] for line in file.read_bytes().splitlines()] == ["tentalis.rollout/1"] * 2


def test_closing_an_empty_batch_is_refused(project: Project, worker: Worker) -> None:
    with pytest.raises(ConflictError, match="nothing to train on"):
        services.close_open_batch(worker, by="user:alice")


def test_a_project_without_tasks_is_told_so(project: Project) -> None:
    assert why_nothing_trains(project)[0].words == "No task was ever submitted."


@pytest.mark.django_db(transaction=True)
def test_tasks_that_end_at_once_share_one_batch_and_lose_no_rollout() -> None:
    project = make_project(batch_tasks=8)
    worker = make_worker(project)
    tasks = [make_judged_task(project, worker) for _ in range(8)]
    gate = threading.Barrier(8)

    def end(task: Task) -> None:
        gate.wait()
        build(task)
        connection.close()

    threads = [threading.Thread(target=end, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    batch = Batch.objects.get()
    assert (batch.state, batch.task_count, batch.rollout_count, TrainingUse.objects.count()) == ("closed", 8, 16, 16)
    assert AuditEntry.objects.filter(kind="batch.closed").count() == 1


@pytest.mark.parametrize(
    ("sampling", "words"),
    [
        ({"tells": "processed"}, ""),
        ({"temperature": 0.7, "tells": "processed"}, ""),
        (
            {"temperature": 0.7, "tells": "raw"},
            "sampled at temperature 0.7 by a server that tells log-probs at 1: start vLLM with --logprobs-mode "
            "processed_logprobs and say so on the model server, or have the project enforce plain sampling",
        ),
        (
            {"temperature": 0, "tells": "raw"},
            "sampled at temperature 0: the likeliest token each time, nothing was tried",
        ),
        (
            {"top_p": 0.5, "logit_bias": {"5": 2}},
            "sampled with top_p 0.5, logit_bias {'5': 2}: no policy that can be trained has that distribution",
        ),
    ],
)
def test_how_an_answer_was_sampled_decides_whether_a_policy_can_learn_from_it(
    project: Project, sampling: dict[str, Any], words: str
) -> None:
    task = make_judged_task(project)
    Exchange.objects.filter(attempt__task=task).update(sampling=sampling, finish_reason="length")
    build(task)
    assert set(Rollout.objects.values_list("unusable_reason", flat=True)) == {words}
    counted = [(one.words, one.count) for one in why_nothing_trains(project) if one.kind == "rollouts"]
    assert counted == ([(f"Attempts that no reward trains on: {words}.", Rollout.objects.count())] if words else [])
    if not words:
        records = list(iterate_records(Batch.objects.get()))
        assert {record.temperature for record in records} == {sampling.get("temperature", 1.0)}
        assert all(record.is_cut for record in records)


@pytest.mark.parametrize(
    ("prompt", "ends", "are_cut"),
    [
        ([1, 2, 3, *range(10, 16), 9], ("tool_calls", "length"), [True]),
        ([1, 2, 3, *range(10, 16), 9], ("length", "stop"), [False]),
        ([7, 8], ("tool_calls", "length"), [False, True]),
        ([7, 8], ("length", "stop"), [True, False]),
    ],
    ids=["one sequence, the last", "one sequence, the first", "two sequences, the last", "two sequences, the first"],
)
def test_a_sequence_is_cut_where_its_own_last_call_ran_out_of_length(
    project: Project, prompt: list[int], ends: tuple[str, str], are_cut: list[bool]
) -> None:
    task = make_task(project, state=Task.State.LEARNING, group_size=1)
    attempt = make_attempt(task)
    add_call(attempt, prompt, [20, 21])
    Exchange.objects.filter(attempt=attempt).update(finish_reason=ends[0])
    Exchange.objects.filter(further_of__attempt=attempt).update(finish_reason=ends[1])
    build(task)
    assert [record.is_cut for record in make_records(list(Rollout.objects.all()))] == are_cut


def test_who_learns_by_imitation_or_preference_does_not_mind_how_an_answer_was_sampled(project: Project) -> None:
    project.recipe = {"algorithm": "kto"}
    project.save()
    task = make_judged_task(project)
    Exchange.objects.filter(attempt__task=task).update(sampling={"top_p": 0.5})
    build(task)
    assert set(Rollout.objects.values_list("is_usable", flat=True)) == {True}


def test_why_tokens_are_not_exact_is_said_as_it_was(project: Project) -> None:
    task = make_judged_task(project, group_size=1)
    dropped = "5 token ids of 6 tokens by its usage: the log-probs were dropped"
    Exchange.objects.filter(attempt__task=task).update(logprobs=b"", error=dropped)
    build(task)
    assert Rollout.objects.get().unusable_reason == dropped
    other = make_judged_task(project, group_size=1)
    other.attempts.update(exchange=None)
    build(other)
    assert Rollout.objects.get(task=other).unusable_reason.startswith("no call of a model is known")
