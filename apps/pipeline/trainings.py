"""What people and the clock do with trainings that are under way, beside the way itself."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from apps.accounts.models import User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.base.errors import IllegalMoveError, TentalisError, log_and_continue
from apps.outbox import services as outbox
from apps.outbox.kinds import SegmentKind
from apps.pipeline.flow import start_training, train_next
from apps.rollouts import services as rollouts
from apps.scoring import reward_models
from apps.scoring.models import RewardModel
from apps.training import cluster, retrying, run_control, schedule, scorers
from apps.training import services as training
from apps.training.models import TrainingRun
from apps.workers.models import Worker

MOST_RESIZED = 200


def cancel_run(*, run: TrainingRun, by: User) -> TrainingRun:
    """Stop a training. Its segment goes first: who sends it has the segment's lock before the run's."""
    with transaction.atomic():
        outbox.cancel_segments(SegmentKind.TRAIN, subject_ids=[run.pk])
        return training.cancel_run(run=run, by=by)


def pause_run(*, run: TrainingRun, by: User) -> TrainingRun:
    """Stop a run so that it can go on where it was."""
    require_right(by, run.project, Right.RUNS_WRITE)
    with transaction.atomic():
        outbox.cancel_segments(SegmentKind.TRAIN, subject_ids=[run.pk])
        return training.pause_run(run, why=f"paused by {by.handle}", by=by.handle)


def resume_run(*, run: TrainingRun, by: User) -> TrainingRun:
    """Let a paused run go on."""
    require_right(by, run.project, Right.RUNS_WRITE)
    with transaction.atomic():
        training.resume_run(run, by=by.handle)
        train_next(run.worker_id)
    return run


def retry_run(
    *,
    run: TrainingRun,
    by: User,
    recipe: Mapping[str, Any] | None = None,
    recipe_from: str = retrying.AS_IT_WAS,
) -> TrainingRun:
    """Train a run again that failed, was refused or was cancelled: by what serves then, on what its batch still holds.

    Args:
        recipe: fields to change, for this run alone; recipe_from: of which, its own ("run") or its "worker"'s present.
    Raises:
        IllegalMoveError: it is under way or succeeded, or its batch is empty.
        BadInputError: it cannot be trained so.
    """
    require_right(by, run.project, Right.RUNS_WRITE)
    changes: dict[str, Any] = {}
    with transaction.atomic():
        run_control.require(run, "tried again")
        if recipe or recipe_from != retrying.AS_IT_WAS:
            chosen = retrying.change_recipe(run, changes=recipe, start=recipe_from)
            changes = {"recipe": chosen.to_json(), "recipe_hash": chosen.hash}
        retrying.retry_run(run=run, by=by.handle, **changes)
        train_next(run.worker_id)
        cluster.require_trainable(run)  # what it cannot do is undone as a whole, and said
    return run


def follow_batch_sizes() -> int:
    """Let batches that fill follow settings that changed, and train those that are full by that. Returns how many."""
    outdated = list(rollouts.find_outdated().values_list("pk", flat=True)[:MOST_RESIZED])
    for batch_id in outdated:
        with log_and_continue(f"batch {batch_id} does not follow its settings", TentalisError), transaction.atomic():
            if (batch := rollouts.follow_settings(batch_id, by="settings")) is not None:
                start_training(batch, by="settings")
    return len(outdated)


def keep_hours() -> int:
    """Pause what trains outside its project's hours, and let go on what was paused for that and may train again."""
    overdue, resumable = schedule.find_overdue(), schedule.find_resumable()
    for run in overdue:
        with log_and_continue(f"run {run.pk} cannot be paused", IllegalMoveError, OSError):
            training.pause_run(run, why=schedule.OUTSIDE_HOURS, by="schedule")
    for run in resumable:
        with log_and_continue(f"run {run.pk} cannot go on", IllegalMoveError), transaction.atomic():
            training.resume_run(run, by="schedule")
            train_next(run.worker_id)
    return len(overdue) + len(resumable)


def label_due() -> int:
    """Have steps labelled where a step scorer is wanted and enough of them are new. Returns of how many workers."""
    with transaction.atomic():
        due = scorers.find_due()
        outbox.start_many(SegmentKind.LABEL, [(worker.pk, worker.project_id) for worker in due])
    return len(due)


def train_scorer(*, worker: Worker, by: User, backend: str | None = None) -> TrainingRun:
    """Train a step scorer now, on what is labelled."""
    with transaction.atomic():
        run = scorers.queue_by_hand(worker=worker, by=by, backend=backend)
        train_next(worker.pk)
    return run


def retire_scorer(*, model: RewardModel, by: User) -> RewardModel:
    """Take a step scorer out of use by a person's decision."""
    require_right(by, model.project, Right.RUNS_WRITE)
    with transaction.atomic():
        reward_models.retire(model, by=by.handle)
    return model
