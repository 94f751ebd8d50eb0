"""A step scorer's whole way, on the real engine and the real trainer: labelled, trained, gated, in use, replaced."""

import random
from pathlib import Path

import pytest
from pytest_django import Settings

from apps.accounts.models import Project, User
from apps.adapters.artifacts import path_of
from apps.adapters.errors import AdapterBrokenError
from apps.audit.models import AuditEntry
from apps.base.errors import ConflictError, NotFoundError
from apps.calibration.models import Rater
from apps.feedback.models import Feedback, StepFeedback
from apps.inference.errors import ProviderRefusedError
from apps.inference.services import open_client, record_exchanges
from apps.outbox.models import Segment
from apps.outbox.services import replay
from apps.pipeline import flow, trainings
from apps.scoring.labelling import find_unlabelled, label_steps
from apps.scoring.models import RewardModel, StepLabel, StepScore
from apps.scoring.reward_models import read_manifest
from apps.scoring.services import score_tasks
from apps.tasks.models import Attempt, Task
from apps.tasks.services import save_steps
from apps.training import scorers, services
from apps.training.labelled import iterate_records
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from apps.worlds.desk.agent import DeskAgent
from apps.worlds.desk.world import DeskWorld
from gpu_workers.runner import run as train_spec
from tentalis.core.contracts import TrainSpec
from tentalis.core.desk import make_tickets
from tests.factories import make_task, make_worker
from tests.links import run_link

pytestmark = [pytest.mark.torch, pytest.mark.django_db]

WEIGHTS = {"desk": {"prm": 0.5, "outcome": 0.5}}


@pytest.fixture(autouse=True)
def here(settings: Settings, tmp_path: Path, desk_engine: str, project: Project) -> None:
    """An artifact store of the test's own and an engine; the project weighs a step scorer."""
    settings.ARTIFACTS = tmp_path
    settings.TENTALIS = settings.TENTALIS | {"INFERENCE_BASE_URL": desk_engine, "PRM_TRAIN_AFTER": 100, "LLM_MODEL": ""}
    project.weight_profiles = WEIGHTS
    project.save()


@pytest.fixture
def ada(project: Project) -> Worker:
    return make_worker(project, "ada", kind="desk", base_model="desk")


def attempt_tickets(worker: Worker, count: int, *, seed: int, state: str = Task.State.SCORING) -> list[Task]:
    """Tickets worked once each by the real model, as they stand when they are to be scored."""
    tickets = make_tickets(random.Random(seed), count, held_out=False)
    agent = DeskAgent(open_client(None))
    prompts = [ticket.text for ticket in tickets]
    groups = agent.work(prompts=prompts, world=DeskWorld(), group_size=1, seeds=[seed] * count, model="desk")
    drafts = [group[0] for group in groups]
    exchanges = record_exchanges(project=worker.project, drafts=drafts, worker_name=worker.name, model="desk")
    tasks = []
    for prompt, draft, exchange in zip(prompts, drafts, exchanges, strict=True):
        task = make_task(worker.project, worker, environment="desk", prompt=prompt, state=state, group_size=1)
        found = DeskWorld().verify(prompt, None, draft)
        attempt = Attempt.objects.create(
            task=task,
            index=0,
            worker=worker,
            exchange=exchange,
            text=draft.text,
            answer=draft.answer,
            outcome=None if found is None else found.outcome,
            verification=None if found is None else found.to_json(),
        )
        save_steps([attempt], [draft])
        tasks.append(task)
    return tasks


def train(run: TrainingRun) -> None:
    """What the queue and the box do."""
    services.dispatch_run(run.pk, by="control")
    run.refresh_from_db()
    result = train_spec(TrainSpec.from_json(run.spec), lambda _: None)
    flow.handle_training_result(result.to_json(), by="control")
    run.refresh_from_db()


def test_steps_that_cannot_be_labelled_are_left_alone_until_somebody_takes_them_up_again(
    project: Project, ada: Worker, settings: Settings
) -> None:
    def refuse(worker_id: int) -> None:
        raise ProviderRefusedError("no completions here")

    settings.TENTALIS = settings.TENTALIS | {"PRM_TRAIN_AFTER": 1}
    attempt_tickets(ada, 2, seed=1, state=Task.State.DONE)
    assert trainings.label_due() == 1
    dead = Segment.objects.get(kind="label")
    Segment.objects.update(attempts=settings.TENTALIS["MAX_ATTEMPTS"] - 1)
    assert not run_link(refuse, dead.pk, 0)
    assert [trainings.label_due() for _ in range(3)] == [0, 0, 0]
    assert [one.state for one in Segment.objects.filter(kind="label")] == ["dead"]
    replay(dead, by="alice")
    assert run_link(lambda pk: None, dead.pk, 0)
    assert trainings.label_due() == 1, "they are labelled by themselves again"


def test_steps_become_a_scorer_that_is_gated_used_and_replaced_only_by_one_as_good(
    project: Project, ada: Worker, alice: User
) -> None:
    attempt_tickets(ada, 170, seed=1, state=Task.State.DONE)
    assert scorers.find_due() == [ada]
    assert label_steps(ada.pk, by="scorer") == 170
    assert not find_unlabelled(ada).exists()
    by_source = {source: StepLabel.objects.filter(source=source) for source in StepLabel.Source.values}
    assert by_source["verified"].count() > by_source["monte_carlo"].count() > 250
    assert {label.value for label in by_source["monte_carlo"]} == {0.0, 1.0}
    run = scorers.queue_when_labelled(ada.pk, by="scorer")
    assert run is not None
    assert scorers.queue_when_labelled(ada.pk, by="scorer") is None  # one at a time
    assert scorers.find_due() == []

    train(run)
    assert run.state == TrainingRun.State.SUCCEEDED, run.failure
    assert run.spec["purpose"] == "reward_model"
    model = RewardModel.objects.get()
    scorers.gate_reward_model(model.pk, by="gate")
    model.refresh_from_db()
    assert model.state == RewardModel.State.LIVE, model.words
    assert "nobody scored these steps before it" in model.words
    assert model.measured["candidate"] > 0.75

    head = path_of(model.uri) / "reward_head.safetensors"
    whole_head = head.read_bytes()
    head.write_bytes(whole_head[:-1] + b"!")
    with pytest.raises(AdapterBrokenError, match="is not what the manifest says"):
        read_manifest(path_of(model.uri), sha256=model.sha256)
    head.write_bytes(whole_head)

    [task] = attempt_tickets(ada, 1, seed=3)
    score_tasks([task.pk])
    said = StepScore.objects.filter(attempt__task=task, scorer="prm")
    whole = said.get(step=None)
    assert whole.details["model"] == model.name
    assert whole.score == pytest.approx(min(score.score or 0 for score in said.exclude(step=None)))
    assert Rater.objects.get(handle="scorer:prm@ada-v1").audited == said.count()

    trainings.train_scorer(worker=ada, by=alice)
    again = TrainingRun.objects.exclude(pk=run.pk).get()
    train(again)
    second = RewardModel.objects.get(version=2)
    scorers.gate_reward_model(second.pk, by="gate")
    second.refresh_from_db()
    assert second.measured["against"] == model.name
    # the same data with the same seed: the same head under another run, so exactly as good
    assert (second.measured["low"], second.measured["high"]) == (0.0, 0.0)
    assert second.state == RewardModel.State.LIVE
    model.refresh_from_db()
    assert model.state == RewardModel.State.RETIRED
    kinds = set(AuditEntry.objects.values_list("kind", flat=True))
    assert {
        "steps.labelled",
        "run.queued",
        "reward_model.recorded",
        "reward_model.live",
        "reward_model.retired",
    } <= kinds


def test_a_scorer_whose_engine_is_away_leaves_its_reason_and_no_number(
    project: Project, ada: Worker, settings: Settings
) -> None:
    [task] = attempt_tickets(ada, 1, seed=4)
    RewardModel.objects.create(
        project=project,
        worker=ada,
        name="shop.ada.prm@v1-00000000",
        version=1,
        run_id=1,
        uri=(settings.ARTIFACTS / "gone").as_uri(),
        sha256="0" * 64,
        manifest={},
        state="live",
    )
    score_tasks([task.pk])
    said = StepScore.objects.get(attempt__task=task, scorer="prm")
    assert said.score is None
    assert "shop.ada.prm@v1-00000000 is away" in said.reason
    attempt = task.attempts.get()
    assert attempt.score == attempt.outcome  # its weight went to the world's word


def test_a_trusted_persons_word_on_a_step_is_mixed_into_its_label(project: Project, ada: Worker, alice: User) -> None:
    attempt_tickets(ada, 12, seed=5, state=Task.State.DONE)
    label_steps(ada.pk, by="scorer")
    record = next(record for record in iterate_records(ada) if record.split == "train")
    before = record.steps[0]
    assert before.label is not None
    said = Feedback.objects.create(
        project=project, task_id=record.group_id, source="human", author=alice.handle, trust=0.75
    )
    StepFeedback.objects.create(
        feedback=said, attempt_id=record.attempt_id, step_id=before.step_id, score=1.0 - before.label
    )
    [after] = [one.steps[0] for one in iterate_records(ada) if one.attempt_id == record.attempt_id]
    assert after.label == pytest.approx(before.label + 0.75 * (1.0 - 2 * before.label))


def test_only_who_may_train_here_trains_and_not_without_labels(ada: Worker, alice: User, charlie: User) -> None:
    with pytest.raises(ConflictError, match="no step of ada is labelled"):
        trainings.train_scorer(worker=ada, by=alice)
    with pytest.raises(NotFoundError):
        trainings.train_scorer(worker=ada, by=charlie)
