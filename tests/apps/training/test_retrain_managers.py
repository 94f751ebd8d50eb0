"""Who is forgotten leaves those who judge too: step scorers and managers' fits are barred and made again without."""

from pathlib import Path

import pytest
from django.db import transaction
from pytest_django import Settings

from apps.accounts.models import Project, User
from apps.adapters.artifacts import path_of
from apps.audit.models import AuditEntry
from apps.base.errors import IllegalMoveError
from apps.calibration.models import Rater
from apps.erasure.erase import find_person, forget_person
from apps.outbox.models import Segment
from apps.scoring.labelling import choose_splits, label_steps
from apps.scoring.models import RewardModel
from apps.scoring.reward_models import put_in_use
from apps.tasks.models import Task
from apps.training import managers, scorers
from apps.training.models import ManagerRun, TrainingRun
from apps.training.services import dispatch_run
from apps.workers.models import Worker
from tentalis.core.desk_rubric import write_rubric
from tests.apps.training import test_managers, test_scorers
from tests.factories import make_project, make_user, make_worker

GRACE = "Grace Hopper"


@pytest.fixture
def olivia(project: Project) -> User:
    olivia = make_user("olivia")
    project.members.create(user=olivia, role="owner")
    return olivia


# --- step scorers ----------------------------------------------------------------------------------------------------


@pytest.fixture
def ada(project: Project, settings: Settings, tmp_path: Path, desk_engine: str) -> Worker:
    settings.ARTIFACTS = tmp_path
    changes = {"INFERENCE_BASE_URL": desk_engine, "PRM_TRAIN_AFTER": 20, "PRM_COMPLETIONS": 1, "LLM_MODEL": ""}
    settings.TENTALIS = settings.TENTALIS | changes
    project.weight_profiles = test_scorers.WEIGHTS
    project.save()
    return make_worker(project, "ada", kind="desk", base_model="desk")


def label(worker: Worker, count: int = 24) -> list[Task]:
    """Labelled tasks of which some train a scorer, those first."""
    tasks = test_scorers.attempt_tickets(worker, count, seed=count, state=Task.State.DONE)
    label_steps(worker.pk, by="scorer")
    splits = choose_splits(tasks)
    return sorted(tasks, key=lambda task: splits[task.pk] != "train")


def send(worker: Worker) -> TrainingRun:
    with transaction.atomic():
        run = scorers.queue_when_labelled(worker.pk, by="scorer")
    assert run is not None
    dispatch_run(run.pk, by="control")
    run.refresh_from_db()
    return run


def make_live(run: TrainingRun) -> RewardModel:
    TrainingRun.objects.filter(pk=run.pk).update(state="succeeded")
    return RewardModel.objects.create(
        project_id=run.project_id,
        worker_id=run.worker_id,
        name=f"shop.ada.prm@v1-{run.pk:08}",
        version=1,
        run_id=run.pk,
        uri="file:///gone",
        sha256="0" * 64,
        manifest={},
        state="live",
    )


def name_grace(task: Task) -> None:
    Task.objects.filter(pk=task.pk).update(metadata={"customer": GRACE})


@pytest.mark.torch
def test_a_scorer_that_learnt_from_somebody_scores_no_more_and_is_trained_without(ada: Worker, olivia: User) -> None:
    tasks = label(ada)
    name_grace(tasks[0])
    run = send(ada)
    assert tasks[0].pk in run.learnt_from
    assert set(run.learnt_from) == {pk for pk, split in choose_splits(tasks).items() if split != "test"}
    model = make_live(run)
    told = path_of(run.spec["rollouts_uri"])
    assert told.exists()
    found = find_person(project=ada.project, by=olivia, text=GRACE)
    assert (found.judges, found.reruns, found.files) == ([model.name], 1, 1)
    with transaction.atomic():
        forgotten = forget_person(project=ada.project, by=olivia, text=GRACE)
        Segment.objects.all().delete()
    assert (forgotten.judges, forgotten.reruns) == (found.judges, found.reruns)
    model.refresh_from_db()
    assert (model.state, bool(model.barred)) == ("retired", True)
    with pytest.raises(IllegalMoveError, match="somebody who was forgotten"):
        put_in_use(model, reason="", measured={}, by="test")
    again = TrainingRun.objects.get(rebuilds=run)
    dispatch_run(again.pk, by="control")
    again.refresh_from_db()
    assert again.state == "running"
    assert set(again.learnt_from) == set(run.learnt_from) - {tasks[0].pk}
    assert (again.recipe, again.seed) == (run.recipe, run.seed)
    kinds = set(AuditEntry.objects.values_list("kind", flat=True))
    assert {"reward_model.retired", "reward_model.barred", "run.queued"} <= kinds
    once_more = forget_person(project=ada.project, by=olivia, text=GRACE)
    assert (once_more.judges, once_more.reruns) == ([], 0)


@pytest.mark.torch
@pytest.mark.django_db(transaction=True)
def test_a_training_under_way_is_cancelled_and_what_it_was_told_is_deleted(ada: Worker, olivia: User) -> None:
    tasks = label(ada)
    name_grace(tasks[0])
    run = send(ada)
    told = path_of(run.spec["rollouts_uri"])
    forget_person(project=ada.project, by=olivia, text=GRACE)
    run.refresh_from_db()
    assert (run.state, told.exists()) == ("cancelled", False)
    assert (path_of(run.spec["output_uri"]) / "cancel").exists()
    again = TrainingRun.objects.get(rebuilds=run)
    assert (again.state, again.forgetting_id is not None) == ("queued", True)


@pytest.mark.torch
def test_a_scorer_that_did_not_learn_from_them_stays(ada: Worker, olivia: User) -> None:
    tasks = label(ada)
    model = make_live(send(ada))
    name_grace(tasks[-1])
    assert choose_splits(tasks)[tasks[-1].pk] == "test"
    forgotten = forget_person(project=ada.project, by=olivia, text=GRACE)
    model.refresh_from_db()
    assert (forgotten.judges, model.state, model.barred) == ([], "live", "")


# --- managers --------------------------------------------------------------------------------------------------------


@pytest.fixture
def shop(db: None, settings: Settings, olivia: User) -> Project:
    """An AI manager with every rule wrong reviews everything, and learns."""
    settings.TENTALIS = settings.TENTALIS | {"META_RL_ENABLED": True}
    rubric = write_rubric(test_managers.OUTDATED)
    project = make_project("desk", rubric=rubric, review_policy={"who": "ai", "ai_manager": "rubric"})
    project.members.create(user=olivia, role="owner")
    return project


def test_fits_to_somebodys_work_are_barred_and_what_is_left_is_fitted_anew(shop: Project, olivia: User) -> None:
    test_managers.work_round(shop, 1)
    first = test_managers.learn(shop)
    tasks = test_managers.work_round(shop, 2)
    name_grace(tasks[0])
    second = test_managers.learn(shop)
    test_managers.work_round(shop, 3)
    third = test_managers.learn(shop)
    assert tasks[0].pk in second.learnt_from
    assert tasks[0].pk not in first.learnt_from
    run = TrainingRun.objects.create(
        project=shop, worker=make_worker(shop, "any"), purpose="reward_model", recipe={}, recipe_hash=""
    )
    forgotten = forget_person(project=shop, by=olivia, text=GRACE)
    assert (forgotten.judges, forgotten.reruns) == ([test_managers.DESK], 0)
    states = dict(ManagerRun.objects.values_list("pk", "state"))
    assert states == {first.pk: "applied", second.pk: "barred", third.pk: "barred"}
    rater = Rater.objects.get(project=shop, handle=test_managers.DESK)
    assert rater.rubric["weights"] == first.weights
    assert rater.gate == pytest.approx(first.metrics["gate"])
    assert list(Segment.objects.filter(kind="meta").values_list("subject_id", flat=True)) == [run.pk]
    managers.meta_train(run.pk)
    again = ManagerRun.objects.latest("pk")
    assert (again.pk > third.pk, again.state, again.parent) == (True, "applied", first), again.words
    assert set(again.learnt_from) == (set(first.learnt_from) | set(third.learnt_from)) - {tasks[0].pk}
    assert AuditEntry.objects.filter(kind="manager.barred").count() == 2
    managers.meta_train(run.pk)
    assert ManagerRun.objects.latest("pk") == again, "nothing is left to learn again"


def test_a_manager_whose_every_fit_is_barred_judges_as_it_was_written(shop: Project, olivia: User) -> None:
    tasks = test_managers.work_round(shop, 1)
    name_grace(tasks[0])
    test_managers.learn(shop)
    forget_person(project=shop, by=olivia, text=GRACE)
    rater = Rater.objects.get(project=shop, handle=test_managers.DESK)
    assert (rater.rubric, rater.gate) == ({}, 0.0)
    assert not Segment.objects.filter(kind="meta").exists(), "no training is there yet that it could learn after"
