"""What a retried run goes on from, on the web's side."""

import dataclasses
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db.models.functions import Now
from pytest_django import Settings

from apps.accounts.models import Project
from apps.outbox.models import Segment
from apps.pipeline import flow
from apps.rollouts import services as ledger
from apps.rollouts.models import Batch
from apps.training import services
from apps.training.checkpoints import resume_from_checkpoint
from apps.training.models import TrainingRun
from apps.training.retrying import retry_run
from tentalis.core.contracts import Outcome, TrainResult, TrainSpec
from tests.factories import make_judged_task


@pytest.fixture
def first(project: Project, settings: Settings, tmp_path: Path) -> TrainingRun:
    """A run whose first attempt was sent and left a checkpoint."""
    settings.ARTIFACTS = tmp_path
    project.batch_tasks = 1
    project.save()
    ledger.build_rollouts([make_judged_task(project).pk], by="ledger")
    run = services.queue_run(batch=Batch.objects.get(), by="ledger")
    services.dispatch_run(run.pk, by="control")
    run.refresh_from_db()
    assert run.spec["resume_uri"] is None
    leave_checkpoint(tmp_path, run)
    return run


def leave_checkpoint(store: Path, run: TrainingRun) -> Path:
    output = store / "runs" / str(run.pk) / str(run.attempt)
    (output / "spec.json").write_text(json.dumps(run.spec))
    (output / "checkpoint").mkdir()
    (output / "checkpoint" / "state.safetensors").write_bytes(b"state")
    return output / "checkpoint"


def try_again(run: TrainingRun, **changes: Any) -> TrainSpec:
    TrainingRun.objects.filter(pk=run.pk).update(state="queued", **changes)
    services.dispatch_run(run.pk, by="control")
    run.refresh_from_db()
    return TrainSpec.from_json(run.spec)


def test_the_next_attempt_goes_on_from_the_newest_checkpoint(first: TrainingRun, tmp_path: Path) -> None:
    spec = try_again(first)
    wanted = (tmp_path / "runs" / str(first.pk) / "1" / "checkpoint").as_uri()
    assert (spec.attempt, spec.resume_uri, first.checkpoint_uri) == (2, wanted, wanted)
    newer = leave_checkpoint(tmp_path, first)
    assert try_again(first).resume_uri == newer.as_uri()


def test_an_attempt_that_left_none_does_not_hide_an_older_one(first: TrainingRun, tmp_path: Path) -> None:
    try_again(first)
    spec = try_again(first)
    assert (spec.attempt, spec.resume_uri) == (3, (tmp_path / "runs" / str(first.pk) / "1" / "checkpoint").as_uri())


def test_a_run_whose_checkpoint_could_not_be_read_starts_over(first: TrainingRun, tmp_path: Path) -> None:
    assert try_again(first).resume_uri is not None
    result = TrainResult(
        run_id=first.pk, attempt=2, outcome=Outcome.FAILED, error_type="CheckpointError", error_message="it is torn"
    )
    (tmp_path / "runs" / str(first.pk) / "2" / "result.json").write_text(json.dumps(result.to_json()))
    flow.handle_training_result(result.to_json(), by="control")
    first.refresh_from_db()
    assert (first.state, first.failure) == ("failed", "CheckpointError: it is torn")
    retry_run(run=first, by="alice")
    spec = try_again(first)
    assert (spec.attempt, spec.resume_uri, first.checkpoint_uri) == (3, None, "")


def test_other_work_does_not_go_on_from_this_ones_checkpoint(first: TrainingRun) -> None:
    assert try_again(first, seed=first.seed + 1).resume_uri is None


def test_of_a_packages_backend_no_checkpoint_is_known(first: TrainingRun) -> None:
    first.backend = "theirs"
    spec = dataclasses.replace(TrainSpec.from_json(first.spec), attempt=2)
    assert resume_from_checkpoint(first, spec).resume_uri is None


def test_a_silent_run_is_sent_again_and_goes_on(first: TrainingRun) -> None:
    TrainingRun.objects.filter(pk=first.pk).update(heartbeat_at=Now() - timedelta(hours=1))
    first.refresh_from_db()
    flow.wake_silent_run(first)
    first.refresh_from_db()
    assert first.state == "queued"
    assert Segment.objects.filter(kind="train", subject_id=first.pk).exists()
    assert try_again(first).resume_uri is not None
