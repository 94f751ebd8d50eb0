"""What a manager's feedback did to the work: gains where it was heard beside gains where it was not."""

import pytest

from apps.accounts.models import Project
from apps.adapters.models import Adapter
from apps.feedback.models import Feedback, Hint
from apps.rollouts.models import Batch, Rollout, TrainingUse
from apps.tasks.models import Attempt
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


def test_an_adapter_that_has_not_worked_yet_tells_nothing(project: Project, adapter: Adapter) -> None:
    assert find_influence(project, BOSS, before_run=None).value is None
    assert find_influence(project, BOSS, before_run=adapter.run_id).value is None


def test_kinds_are_named_by_the_sender_the_desk_s_rule_or_the_prompt() -> None:
    ticket = Ticket(family="order", item="mug", count=3, price_eur=4, customer="new")
    assert name_kind("chat", "hi", {"kind": "refunds"}) == "chat: refunds"
    assert name_kind("desk", ticket.text, {}) == "desk: order, new"
    assert name_kind("desk", "no ticket", {}) == "desk: no ticket"
    assert name_kind("chat", "hi", {}) == name_kind("chat", "hi", {"kind": 3}) != name_kind("chat", "ho", {})
