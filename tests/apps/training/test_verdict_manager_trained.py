"""A verdict manager's adapter from audits to service and back: on the real engine, by the real trainer."""

import random
from pathlib import Path

import pytest
from pytest_django import Settings

from apps.accounts.models import Project
from apps.calibration.models import Comparison, Rater
from apps.feedback.create_reviews import open_reviews
from apps.feedback.finalizing import settle_feedback
from apps.feedback.models import Feedback, StepFeedback
from apps.inference.models import Provider
from apps.inference.services import open_client
from apps.outbox.models import Segment
from apps.pipeline import flow
from apps.scoring.services import score_tasks
from apps.tasks.models import Task
from apps.training import verdict_managers
from apps.training.models import ManagerRun
from apps.training.services import dispatch_run
from apps.workers.models import Worker
from tentalis.core.contracts import TrainSpec
from tentalis.core.desk import make_tickets, render_parts, solve
from tentalis.core.scoring.ranking import measure_auc
from tests.apps.feedback.builders import make_desk_task
from tests.apps.training.test_verdict_managers import HANDLE, queue
from tests.factories import make_project, make_worker

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture
def worker(db: None, settings: Settings, tmp_path: Path, desk_engine: str) -> Worker:
    settings.TENTALIS = settings.TENTALIS | {"META_RL_ENABLED": True}
    settings.ARTIFACTS = tmp_path
    project: Project = make_project(review_policy={"who": "ai", "ai_manager": "verdict"})
    provider = Provider.objects.create(
        project=project, name="engine", kind="engine", base_url=desk_engine, allow_private=True
    )
    return make_worker(project, "desk", "desk", provider=provider, base_directory="desk")


def work(worker: Worker, seed: int, tickets: int) -> list[Task]:
    """Tickets tried in each of their three options, judged by the worker's own model, verified by the world."""
    tasks = []
    for ticket in make_tickets(random.Random(seed), tickets, held_out=False):
        texts = [render_parts(solve(ticket, option)) for option in ticket.options]
        task = make_desk_task(worker.project, texts, worker=worker, prompt=ticket.text)
        score_tasks([task.pk])
        open_reviews([task.pk])
        tasks.append(task)
    settle_feedback()
    return tasks


def train(fit: ManagerRun) -> None:
    import torch

    from gpu_workers.runner import run as train_spec

    torch.set_num_threads(1)
    assert fit.run is not None
    dispatch_run(fit.run.pk, by="test")
    fit.run.refresh_from_db()
    result = train_spec(TrainSpec.from_json(fit.run.spec), lambda _: None)
    flow.handle_training_result(result.to_json(), by="control")
    assert Segment.objects.filter(kind="adopt_manager", subject_id=fit.pk).exists()
    verdict_managers.gate_manager(fit.pk, by="gate")
    fit.refresh_from_db()


def measure(tasks: list[Task]) -> float:
    """AUC of what the manager said of them when it reviewed them."""
    words = StepFeedback.objects.filter(feedback__task__in=tasks, feedback__author=HANDLE, step=None)
    pairs = [(score or 0.0, truth or 0.0) for score, truth in words.values_list("score", "attempt__outcome")]
    assert len(pairs) == 3 * len(tasks)
    return measure_auc(*zip(*pairs, strict=True)).value or 0.0


def test_an_adapter_of_its_own_is_trained_gated_served_and_taken_back(worker: Worker) -> None:
    untrained = measure(work(worker, 1, 80))
    assert set(Feedback.objects.values_list("trust", flat=True)) == {0.0}, "only audited before it learnt"
    fit, _ = queue(worker)
    train(fit)
    assert fit.state == "applied", fit.words
    assert fit.words.startswith("better: AUC")
    assert fit.words.endswith("its word counts only where it is audited for 2 rounds")
    assert fit.metrics["auc_after"] > fit.metrics["auc_before"] + 0.15
    assert fit.metrics["control"] == fit.metrics["auc_before"]
    rater = Rater.objects.get(handle=HANDLE)
    assert (rater.adapter, rater.gate) == (fit.adapter, 0.0)
    client = open_client(worker.provider)
    assert fit.adapter["name"] in client.list_models()

    client.unload_adapter(fit.adapter["name"])  # as a restart would
    fresh = work(worker, 2, 12)
    assert fit.adapter["name"] in client.list_models(), "a server that forgot it is given it again"
    trained = measure(fresh)
    assert trained > max(0.7, untrained + 0.15), (untrained, trained)

    for one in Comparison.objects.filter(pk__gt=fit.metrics["until"], step=None):  # the house turns its rules round
        Comparison.objects.filter(pk=one.pk).update(truth=1.0 - one.truth)
    assert queue(worker)[0].pk == fit.pk
    fit.refresh_from_db()
    assert fit.state == "rolled_back"
    assert fit.words.startswith("fell: AUC")
    rater.refresh_from_db()
    assert (rater.adapter, rater.gate) == ({}, 0.0)
    verdict_managers.unload_unused(worker, HANDLE)
    assert fit.adapter["name"] not in client.list_models()
