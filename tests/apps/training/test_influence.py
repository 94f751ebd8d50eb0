"""What a manager's feedback did to the work: gains where it was heard beside gains where it was not."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import Project
from apps.adapters.models import Adapter
from apps.feedback.models import Feedback, Hint
from apps.rollouts.models import Batch, Demonstration, PreferencePair, Rollout, TrainingUse
from apps.tasks.models import Attempt, Task
from apps.training.influence import find_influence, name_kind
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from tentalis.core.desk import Ticket
from tests.factories import make_attempt, make_task

BOSS = "agent:rubric:chat"


def work(project: Project, kind: str, outcomes: list[float], adapter: Adapter | None) -> list[int]:
    """Task ids of one task an outcome."""
    ids = []
    for outcome in outcomes:
        task = make_task(project, metadata={"kind": kind})
        make_attempt(task, outcome=outcome, adapter=adapter)
        ids.append(task.pk)
    return ids


@pytest.fixture
def adapter(project: Project, worker: Worker) -> Adapter:
    """Trained on a batch of two kinds of task, of which the manager hinted at one."""
    heard = work(project, "refunds", [0.0, 0.0, 1.0, 0.0], None)
    others = work(project, "letters", [0.0, 1.0, 1.0, 0.0], None)
    batch = Batch.objects.create(project=project, worker=worker, number=1, target_tasks=8, state="closed")
    for pk in heard + others:
        attempt = Attempt.objects.get(task=pk)
        hint = None
        if pk in heard:
            said = Feedback.objects.create(project=project, task_id=pk, source="ai", author=BOSS, text="be brief")
            hint = Hint.objects.create(task_id=pk, feedback=said, text="be brief", source="llm")
        rollout = Rollout.objects.create(
            project=project, worker=worker, task_id=pk, attempt=attempt, hint=hint, is_usable=True, reward=0.5
        )
        TrainingUse.objects.create(rollout=rollout, batch=batch)
    run = TrainingRun.objects.create(
        project=project, worker=worker, batch=batch, recipe={}, recipe_hash="0" * 64, state="succeeded"
    )
    return Adapter.objects.create(
        project=project, worker=worker, name="echo@v1-0", version=1, line_version=1, run_id=run.pk, uri="file:///x",
        sha256="0" * 64, manifest={},
    )  # fmt: skip


def test_the_kind_that_was_hinted_at_gained_more(project: Project, adapter: Adapter) -> None:
    """Refunds .25 -> .75 (+.5) under the hint, letters .5 -> .5 (0) without."""
    work(project, "refunds", [1.0, 1.0, 0.0, 1.0], adapter)
    work(project, "letters", [1.0, 0.0], adapter)
    found = find_influence(project, BOSS, before_run=None)
    assert found.value == 0.5
    assert found.low < 0.5 < found.high
    assert find_influence(project, "agent:rubric:desk", before_run=None).value is None


def say(project: Project, task: int, author: str, *, source: str = "outside", **values: Any) -> Feedback:
    return Feedback.objects.create(project=project, task_id=task, source=source, author=author, **values)


def pair(batch: Batch, task: int, said: Feedback | None) -> None:
    """Of the task's two attempts the second is better, by somebody's word or by their rewards."""
    first, *others = Attempt.objects.filter(task=task).order_by("index")
    second = others[0] if others else make_attempt(first.task, 1, outcome=None)
    PreferencePair.objects.create(
        project=batch.project, worker=batch.worker, task_id=task, source="choice" if said else "attempts", batch=batch,
        feedback=said, chosen=second, rejected=first, digest=f"{task} {said}",
    )  # fmt: skip


def reward(task: int, source: str) -> None:
    """What the rollouts of the task got their reward from."""
    for attempt in Attempt.objects.filter(task=task):
        Rollout.objects.update_or_create(
            attempt=attempt,
            defaults={"reward_source": source, "reward": 0.5, "hint": None},
            create_defaults={
                "project": attempt.task.project, "worker": attempt.worker, "task": attempt.task, "is_usable": True,
                "reward": 0.5, "reward_source": source,
            },
        )  # fmt: skip


def test_of_pairs_only_what_they_say_is_heard(project: Project, adapter: Adapter) -> None:
    """Pairs of letters by the manager, of refunds by another: letters 0 - refunds .5 = -.5.

    The same batch's rollouts of refunds bear the manager's hints and were not learnt from.
    """
    batch = Batch.objects.get()
    Batch.objects.update(kind="pairs")
    for task in Task.objects.all():
        is_letter = task.metadata["kind"] == "letters"
        pair(batch, task.pk, say(project, task.pk, BOSS if is_letter else "agent:other"))
    work(project, "refunds", [1.0, 1.0, 0.0, 1.0], adapter)
    work(project, "letters", [1.0, 0.0], adapter)
    assert find_influence(project, BOSS, before_run=None).value == -0.5
    assert find_influence(project, "agent:other", before_run=None).value == 0.5


def test_a_kind_is_heard_from_half_of_its_tasks_on(project: Project, adapter: Adapter) -> None:
    """Refunds: the manager's word in 2 of 4 tasks with pairs, a third task has none: heard. Letters: 1 of 4."""
    batch = Batch.objects.get()
    Batch.objects.update(kind="pairs")
    by_kind = {kind: list(Task.objects.filter(metadata__kind=kind).order_by("pk")) for kind in ("refunds", "letters")}
    for kind, mine in (("refunds", 2), ("letters", 1)):
        for number, task in enumerate(by_kind[kind]):
            pair(batch, task.pk, say(project, task.pk, BOSS if number < mine else "user:alice", source="human"))
    work(project, "refunds", [1.0, 1.0, 0.0, 1.0], adapter)
    work(project, "letters", [1.0, 0.0], adapter)
    assert find_influence(project, BOSS, before_run=None).value == 0.5


def test_a_pair_of_rewards_is_the_word_of_whose_rewards_they_are(project: Project, adapter: Adapter) -> None:
    """Rewards of refunds are people's, of letters the world's; alice spoke of all, and what she took back is nobody's.

    Alice was heard on refunds alone: .5 - 0; bob's word on them was taken back.
    """
    batch = Batch.objects.get()
    Batch.objects.update(kind="pairs")
    for task in Task.objects.all():
        say(project, task.pk, "user:alice", source="human")
        say(project, task.pk, "user:bob", source="human", retracted_at=task.created_at)
        pair(batch, task.pk, None)
        reward(task.pk, "human" if task.metadata["kind"] == "refunds" else "verified")
    work(project, "refunds", [1.0, 1.0, 0.0, 1.0], adapter)
    work(project, "letters", [1.0, 0.0], adapter)
    assert find_influence(project, "user:alice", before_run=None).value == 0.5
    assert find_influence(project, "user:bob", before_run=None).value is None
    assert find_influence(project, BOSS, before_run=None).value is None


def test_of_demonstrations_edits_and_good_attempts_are_heard(project: Project, adapter: Adapter) -> None:
    """Alice edited the refunds; bob's rewards made the letters good: hers .5 - 0, his 0 - .5."""
    batch = Batch.objects.get()
    Batch.objects.update(kind="demonstrations")
    for task in Task.objects.all():
        is_letter = task.metadata["kind"] == "letters"
        said = say(project, task.pk, "user:bob" if is_letter else "user:alice", source="human")
        reward(task.pk, "human" if is_letter else "verified")
        Demonstration.objects.create(
            project=project, worker=batch.worker, task=task, batch=batch, attempt=task.attempts.get(), digest="0",
            source="attempt" if is_letter else "edit", feedback=None if is_letter else said,
            text="" if is_letter else "better",
        )  # fmt: skip
    work(project, "refunds", [1.0, 1.0, 0.0, 1.0], adapter)
    work(project, "letters", [1.0, 0.0], adapter)
    assert find_influence(project, "user:alice", before_run=None).value == 0.5
    assert find_influence(project, "user:bob", before_run=None).value == -0.5
    assert find_influence(project, BOSS, before_run=None).value is None


def test_the_number_of_queries_does_not_grow(project: Project, adapter: Adapter) -> None:
    Batch.objects.update(kind="pairs")
    for task in Task.objects.all():
        pair(Batch.objects.get(), task.pk, say(project, task.pk, BOSS))
    with CaptureQueriesContext(connection) as queries:
        find_influence(project, BOSS, before_run=None)
    assert len(queries) <= 7


def test_an_adapter_that_has_not_worked_yet_tells_nothing(project: Project, adapter: Adapter) -> None:
    assert find_influence(project, BOSS, before_run=None).value is None
    assert find_influence(project, BOSS, before_run=adapter.run_id).value is None


def test_kinds_are_named_by_the_sender_the_desk_s_rule_or_the_prompt() -> None:
    ticket = Ticket(family="order", item="mug", count=3, price_eur=4, customer="new")
    assert name_kind("chat", "hi", {"kind": "refunds"}) == "chat: refunds"
    assert name_kind("desk", ticket.text, {}) == "desk: order, new"
    assert name_kind("desk", "no ticket", {}) == "desk: no ticket"
    assert name_kind("chat", "hi", {}) == name_kind("chat", "hi", {"kind": 3}) != name_kind("chat", "ho", {})
