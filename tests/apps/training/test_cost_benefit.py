"""What trainings cost beside what they brought: nothing is credited that was not measured."""

from typing import Any

import pytest

from apps.accounts.models import Project
from apps.adapters.models import Adapter, Deployment, Verdict
from apps.feedback.models import Feedback
from apps.rollouts.models import Batch, PreferencePair
from apps.training.cost_benefit import Outcome, find_return, find_returns
from apps.training.models import TrainingRun
from apps.training.results import sum_up_data
from apps.workers.models import Worker
from tests.factories import make_judged_task, make_measured

pytestmark = pytest.mark.django_db

RIGHT = {"items": 300, "candidate": 0.75, "reference": 0.7, "std": 0.5, "confidence": 0.9}
GAINED = RIGHT | {"difference": 0.05, "low": 0.01, "high": 0.09}
UNSURE = RIGHT | {"difference": 0.01, "low": -0.03, "high": 0.05}
LOST = RIGHT | {"difference": -0.1, "low": -0.14, "high": -0.06}


def train(worker: Worker, cost: dict[str, Any], measured: dict[str, Any] | None, **values: Any) -> TrainingRun:
    """A run that succeeded; `measured` is what the gate wrote of its adapter, None: it judged none."""
    number = TrainingRun.objects.count() + 1
    batch = Batch.objects.create(project=worker.project, worker=worker, number=number, target_tasks=1, state="closed")
    run = TrainingRun.objects.create(
        **{"project": worker.project, "worker": worker, "batch": batch, "recipe": {}, "state": "succeeded"} | values,
        cost=cost,
    )
    adapter = Adapter.objects.create(
        project=worker.project,
        worker=worker,
        name=f"echo@v{number}",
        version=number,
        line_version=number,
        run_id=run.pk,
        uri="file:///a",
        manifest={},
    )
    if measured is not None:
        Verdict.objects.create(
            adapter=adapter, question="safe", outcome="yes", words="safe", details={"sampled accuracy": measured}
        )
    return run


def test_a_gain_stands_beside_its_cost_and_is_divided_by_it(worker: Worker) -> None:
    run = train(worker, {"gpu_s": 1800.0, "judge_tokens": 900.0, "usd": 0.5, "human_minutes": 2.5}, GAINED)
    found = find_return(run)
    assert found.gain.outcome is Outcome.GAINED
    assert found.gain.words == "+5.0 points [+1.0, +9.0] on 300 held-out tasks against the base model: it gained"
    rate = found.per_gpu_hour
    assert rate is not None
    assert (rate.low, rate.points, rate.high) == pytest.approx((2.0, 10.0, 18.0))  # points in half an hour, doubled
    assert found.per_human_minute is not None
    assert found.per_human_minute.points == pytest.approx(2.0)
    short = train(worker, {"gpu_s": 59.0, "human_minutes": 0.01}, GAINED)
    assert (find_return(short).per_gpu_hour, find_return(short).per_human_minute) == (None, None)


@pytest.mark.parametrize(("measured", "outcome"), [(UNSURE, "inconclusive"), (LOST, "lost"), (None, "unmeasured")])
def test_what_is_not_proved_is_no_gain(worker: Worker, measured: dict[str, Any] | None, outcome: str) -> None:
    found = find_return(train(worker, {"gpu_s": 60.0, "human_minutes": 0.0}, measured))
    assert found.gain.outcome == outcome
    assert (found.per_gpu_hour is not None) == (outcome == "lost")
    assert found.per_human_minute is None  # nothing is divided by no minutes


def test_a_run_without_an_adapter_says_why_nothing_was_measured(worker: Worker) -> None:
    run = train(worker, {}, None, state="failed")
    Adapter.objects.all().delete()
    found = find_return(run)
    assert found.gain.words == "nothing was measured: it made no adapter"
    assert found.spent.gpu_s is None


def test_what_nobody_timed_or_priced_is_not_nothing(worker: Worker) -> None:
    cost = {"usd": 0.0, "calls": 4, "unpriced": 4, "human_minutes": 0.0, "judgements": 3, "untimed": 3}
    spent = find_return(train(worker, cost, GAINED)).spent
    assert (spent.usd, spent.human_minutes, spent.is_partial) == (None, None, True)


def test_failed_runs_count_in_what_a_line_cost_and_its_gain_is_measured_from_the_base_model(worker: Worker) -> None:
    first = train(worker, {"gpu_s": 10.0, "human_minutes": 1.0}, GAINED)
    train(worker, {"gpu_s": 30.0}, None, state="failed")
    third = train(worker, {"gpu_s": 20.0, "human_minutes": 3.0}, UNSURE)
    train(worker, {"gpu_s": 400.0}, None, end_user="Ann")
    serving = Adapter.objects.get(run_id=third.pk)
    Deployment.objects.create(worker=worker, adapter=serving)
    for adapter, right in ((None, 20), (Adapter.objects.get(run_id=first.pk), 30), (serving, 60)):
        outcomes = [1.0] * right + [0.0] * (100 - right)
        make_measured(worker, adapter, outcomes)
    found = find_returns(worker)
    assert [row.until.gpu_s for row in found.rows] == [10.0, 40.0, 60.0]
    assert [row.accuracy for row in found.rows] == [(0.3, 100), None, (0.6, 100)]
    assert found.base == (0.2, 100)
    assert (found.total.spent.gpu_s, found.total.spent.human_minutes) == (60.0, 4.0)
    assert found.total.gain.outcome is Outcome.GAINED
    assert found.total.gain.found is not None
    assert found.total.gain.found.difference == pytest.approx(0.4)
    assert (found.beside.gpu_s, found.beside_count) == (400.0, 1)


def test_the_people_behind_pairs_count_as_those_behind_rewards(project: Project, worker: Worker) -> None:
    batch = Batch.objects.create(project=project, worker=worker, number=1, target_tasks=1, state="closed", kind="pairs")
    task = make_judged_task(project, worker)
    Feedback.objects.filter(task=task).delete()
    values = {"project": project, "task": task, "source": "human", "author": "user:alice", "score": 1.0}
    Feedback.objects.create(**values, active_s=90.0)
    PreferencePair.objects.create(
        project=project, worker=worker, task=task, batch=batch, text="a", rejected_text="b", digest="d", source="edit"
    )
    run = TrainingRun.objects.create(project=project, worker=worker, batch=batch, recipe={})
    found = sum_up_data(run)
    assert (found["human_minutes"], found["judgements"], found["untimed"]) == (1.5, 1, 0)
