"""A manager that is a language model learns from audits: when it is trained, on what, and what comes of failures."""

import json
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pytest_django import Settings

from apps.accounts.models import Project, User
from apps.audit.models import AuditEntry
from apps.base.errors import ConflictError
from apps.calibration.models import Comparison, Rater
from apps.calibration.services import set_adapter
from apps.erasure import unlearn_judges
from apps.feedback.create_reviews import open_reviews
from apps.feedback.models import Feedback
from apps.inference.models import Provider
from apps.outbox.models import Segment
from apps.pipeline import flow, trainings
from apps.tasks.models import Attempt, Task
from apps.training import managers
from apps.training.audits import find_words, write_judgements
from apps.training.models import ManagerRun, TrainingRun
from apps.training.services import dispatch_run
from apps.workers.models import Worker
from tentalis.core.contracts import Outcome, TrainResult, TrainSpec
from tests.apps.feedback.builders import make_desk_task, write_answer
from tests.factories import make_project, make_worker

HANDLE = "agent:verdict:desk"
ADAPTER = {"name": "shop.desk.verdict@v1-00000000", "uri": "file:///x", "sha256": "0" * 64}


@pytest.fixture
def project(db: None, settings: Settings, tmp_path: Path) -> Project:
    settings.TENTALIS = settings.TENTALIS | {"META_RL_ENABLED": True}
    settings.ARTIFACTS = tmp_path
    return make_project(review_policy={"who": "ai", "ai_manager": "verdict"})


@pytest.fixture
def worker(project: Project) -> Worker:
    """Its model server is away."""
    provider = Provider.objects.create(
        project=project, name="engine", kind="engine", base_url="http://127.0.0.1:1", allow_private=True
    )
    return make_worker(project, "desk", "desk", provider=provider, base_directory="desk")


def audit(worker: Worker, truths: Sequence[float], *, said: float = 1.0) -> list[Task]:
    """Tasks of one attempt each, of which the manager said the same and the world something else."""
    rater, _ = Rater.objects.get_or_create(project=worker.project, handle=HANDLE, kind=Rater.Kind.AI)
    tasks = []
    for truth in truths:
        task = make_desk_task(worker.project, [write_answer()], worker=worker)
        Comparison.objects.create(
            project=worker.project,
            rater=rater,
            attempt=task.attempts.get(),
            said=said,
            truth=truth,
            source="verified",
            counts=True,
        )
        tasks.append(task)
    return tasks


def learn(worker: Worker) -> ManagerRun | None:
    """What follows a training of the worker."""
    after = TrainingRun.objects.create(
        project=worker.project, worker=worker, purpose="reward_model", state="succeeded", recipe={}, recipe_hash="0"
    )
    managers.meta_train(after.pk)
    return ManagerRun.objects.filter(kind="adapter").order_by("-pk").first()


def queue(worker: Worker) -> tuple[ManagerRun, TrainingRun]:
    fit = learn(worker)
    assert fit is not None
    assert fit.run is not None
    return fit, fit.run


def use(worker: Worker, **values: object) -> ManagerRun:
    """A fit in use."""
    until = Comparison.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    metrics = {"until": until, "auc_after": 0.9, "gate": 0.6}
    fields = {"project": worker.project, "manager": HANDLE, "kind": "adapter", "state": "applied", "adapter": ADAPTER}
    fit: ManagerRun = ManagerRun.objects.create(**fields | {"metrics": metrics} | values)
    set_adapter(project_id=worker.project_id, handle=HANDLE, adapter=fit.adapter, gate=0.6)
    return fit


def test_a_server_that_is_away_is_no_word(worker: Worker) -> None:
    task = make_desk_task(worker.project, [write_answer()], worker=worker)
    open_reviews([task.pk])
    assert not Feedback.objects.exists()
    assert "the AI manager had no word: the model cannot be asked" in task.reviews.get().reason


def test_a_worker_without_a_model_has_nothing_to_be_judged_by(project: Project) -> None:
    task = make_desk_task(project, [write_answer()])
    open_reviews([task.pk])
    assert "echo has no model to judge by" in task.reviews.get().reason


def test_a_few_audits_start_no_training(worker: Worker) -> None:
    audit(worker, [0.0, 1.0] * 23)
    assert learn(worker) is None


def test_enough_audits_start_one_and_only_one(worker: Worker) -> None:
    tasks = audit(worker, [0.0, 1.0] * 30)
    fit, run = queue(worker)
    assert (fit.state, fit.manager, fit.audits, run.purpose) == ("training", HANDLE, 40, "manager")
    assert fit.learnt_from == [task.pk for task in tasks[:40]]
    assert run.recipe["algorithm"] == "sft"
    assert learn(worker) == fit
    flow.make_room([run.pk])
    assert Segment.objects.get(kind="train").subject_id == run.pk


def test_audits_of_one_kind_are_refused_in_words_once(worker: Worker) -> None:
    audit(worker, [0.0] * 60)
    fit = learn(worker)
    assert fit is not None
    assert (fit.state, fit.run) == ("refused", None)
    assert fit.words == "wanted 1 good and as many bad audits to learn, found 0 and 40"
    assert learn(worker) == fit, "they were looked at"
    kinds = AuditEntry.objects.filter(subject_type="managerrun").values_list("kind", flat=True)
    assert list(kinds) == ["manager.refused"]


def test_what_must_not_be_written_down_is_not_learnt(worker: Worker) -> None:
    tasks = audit(worker, [0.0, 1.0, 0.0])
    Attempt.objects.filter(task=tasks[0]).update(is_private=True)
    Attempt.objects.filter(task=tasks[1]).update(unfit="its tokens are another model's")
    assert [word.task_id for word in find_words(worker.project_id, HANDLE, limit=9)] == [tasks[2].pk]


def test_the_box_gets_the_words_that_audits_found_right(worker: Worker) -> None:
    tasks = audit(worker, [0.0, 1.0] * 30)
    _, run = queue(worker)
    tasks[1].delete()
    dispatch_run(run.pk, by="test")
    run.refresh_from_db()
    spec = TrainSpec.from_json(run.spec)
    assert (spec.purpose, spec.parent_adapter_uri, spec.base_model) == ("manager", None, "desk")
    lines = [json.loads(line) for line in Path(urlsplit(spec.rollouts_uri).path).read_bytes().splitlines()]
    assert [line["group_id"] for line in lines] == [task.pk for task in (tasks[0], *tasks[2:40])]
    assert [line["answer"] for line in lines[:3]] == [" no", " no", " yes"]
    assert [turn["content"] for turn in lines[0]["messages"]] == [tasks[0].prompt, write_answer(), "ok?"]
    assert write_judgements(run) == (spec.rollouts_uri, spec.rollouts_sha256), "the same rows, the same file"


def test_a_training_that_failed_refuses_its_fit_and_the_next_audits_start_another(worker: Worker) -> None:
    audit(worker, [0.0, 1.0] * 30)
    fit, run = queue(worker)
    dispatch_run(run.pk, by="test")
    result = TrainResult(
        run_id=run.pk, attempt=1, outcome=Outcome.FAILED, error_type="BaseModelError", error_message="no such model"
    )
    flow.handle_training_result(result.to_json(), by="control")
    fit.refresh_from_db()
    run.refresh_from_db()
    assert (run.state, fit.state) == ("failed", "refused")
    assert fit.words == "it could not be trained: BaseModelError: no such model"
    assert not Segment.objects.filter(kind="adopt_manager").exists()
    assert learn(worker) == fit
    audit(worker, [0.0, 1.0] * 24)
    assert queue(worker)[0] != fit


def test_a_cancelled_training_does_not_keep_the_manager_from_learning(worker: Worker, alice: User) -> None:
    audit(worker, [0.0, 1.0] * 30)
    fit, run = queue(worker)
    trainings.cancel_run(run=run, by=alice)
    audit(worker, [0.0, 1.0] * 24)
    again, _ = queue(worker)
    fit.refresh_from_db()
    assert (fit.state, again.state) == ("refused", "training")


def test_a_server_that_is_away_takes_nothing_back(worker: Worker) -> None:
    fit = use(worker)
    audit(worker, [0.0, 1.0] * 10)
    assert learn(worker) == fit
    assert fit.state == "applied"


def test_a_person_takes_an_adapter_back_to_the_one_before(worker: Worker, alice: User) -> None:
    before = use(worker, state="replaced", adapter=ADAPTER | {"name": "shop.desk.verdict@v0-00000000"})
    fit = use(worker, parent=before)
    managers.roll_back_manager(run=fit, by=alice, reason="it likes every refund")
    rater = Rater.objects.get(handle=HANDLE)
    before.refresh_from_db()
    assert (before.state, fit.__class__.objects.get(pk=fit.pk).state) == ("applied", "rolled_back")
    assert (rater.adapter, rater.gate, rater.audited) == (before.adapter, 0.0, 0)
    managers.roll_back_manager(run=before, by=alice, reason="and so does this one")
    assert Rater.objects.get(handle=HANDLE).adapter == {}, "its model as it is"
    with pytest.raises(ConflictError, match="is not in use"):
        managers.roll_back_manager(run=before, by=alice, reason="again")


def test_who_is_forgotten_leaves_the_adapter_that_learnt_from_them(worker: Worker, tmp_path: Path) -> None:
    tasks = audit(worker, [0.0, 1.0] * 30)
    fit, run = queue(worker)
    dispatch_run(run.pk, by="test")
    assert len(list((tmp_path / "judgements").iterdir())) == 1
    before = use(worker, state="replaced", adapter=ADAPTER | {"name": "shop.desk.verdict@v0-00000000"})
    ManagerRun.objects.filter(pk=fit.pk).update(state="refused")
    later = use(worker, learnt_from=[tasks[0].pk, tasks[1].pk])
    tasks[0].delete()
    found = unlearn_judges.refit(project=worker.project, forgetting=1, by="test")
    assert {one.pk for one in found.fits} == {fit.pk, before.pk, later.pk}, "what came after the first is gone too"
    assert set(ManagerRun.objects.values_list("state", flat=True)) == {"barred"}
    rater = Rater.objects.get(handle=HANDLE)
    assert (rater.adapter, rater.gate) == ({}, 0.0)
    assert [path.parent.name for path in found.files] == ["judgements"]
