"""Trained step scorers on the quality page, their runs, and what a scorer found made up on a task's page."""

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.scoring.models import RewardModel, StepScore
from apps.tasks.models import Task
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from tentalis.core.learning.head_recipes import HeadRecipe
from tests.apps.feedback.builders import make_chat_task

pytestmark = pytest.mark.django_db


def look(user: User, name: str, *args: object) -> str:
    client = Client()
    client.force_login(user)
    answer = client.get(reverse(f"console:{name}", args=("shop", *args)))
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.fixture
def run(project: Project, worker: Worker) -> TrainingRun:
    return TrainingRun.objects.create(
        project=project,
        worker=worker,
        purpose="reward_model",
        state="succeeded",
        recipe=HeadRecipe().to_json(),
        recipe_hash=HeadRecipe().hash,
        metrics=[{"update": 50.0, "updates": 300.0, "loss": 0.4}],
    )


@pytest.fixture
def model(project: Project, worker: Worker, run: TrainingRun) -> RewardModel:
    return RewardModel.objects.create(
        project=project,
        worker=worker,
        name="shop.echo.prm@v1-abcd1234",
        version=1,
        run_id=run.pk,
        uri="file:///none",
        sha256="a" * 64,
        manifest={},
        state="live",
        words="accepted: better, step AUC 0.913",
        measured={"candidate": 0.913, "reference": 0.741, "against": "the judges", "items": 210},
    )


def test_the_quality_page_shows_the_auc_before_and_after(alice: User, bob: User, model: RewardModel) -> None:
    page = look(alice, "quality")
    for words in ("Trained step scorers", model.name, "0.91", "0.74", "the judges", "210", "accepted: better"):
        assert words in page
    assert "Trained step scorers" not in look(bob, "quality")


def test_a_run_of_a_step_scorer_has_a_page_though_it_has_no_batch(alice: User, run: TrainingRun) -> None:
    assert f"Run {run.pk}" in look(alice, "run", run.pk)
    assert str(run.pk) in look(alice, "run-list")


def test_what_is_in_no_source_is_marked_in_the_step(project: Project, alice: User) -> None:
    task = make_chat_task(project, ["It weighs 87 kg."], state=Task.State.DONE)
    step = task.attempts.get().steps.get(index=1)
    StepScore.objects.create(
        attempt=step.attempt,
        step=step,
        scorer="hallucination",
        score=0.0,
        reason="in no source: number '87'",
        details={"spans": [[10, 12, "number in no source"]]},
    )
    page = look(alice, "task", task.pk)
    assert "in no source: number" in page
    assert '<mark>87<span class="mark-label"> [number in no source]</span></mark>' in page
