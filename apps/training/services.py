"""Training runs: queued for a full batch, sent to the box, paused, cancelled, resumed. Results: `results.py`."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.adapters.models import Adapter
from apps.audit.kinds import Kind
from apps.audit.services import move, record
from apps.base.errors import BadInputError
from apps.gate.second_metrics import can_ask_lengths
from apps.outbox.kinds import SegmentKind
from apps.outbox.models import Segment
from apps.outbox.services import final_write
from apps.rollouts.examples import put_items
from apps.rollouts.models import Batch
from apps.training import cluster, run_control
from apps.training.box import send_spec
from apps.training.checkpoints import resume_from_checkpoint
from apps.training.learners import LEARNERS
from apps.training.models import TrainingRun
from apps.training.naming import check_name
from apps.training.rebuilding import find_hold, find_latest_version, find_parent
from apps.training.results import end_now, end_untrained
from apps.training.schedule import OUTSIDE_HOURS, keep_attempt, leave_place, take_place
from apps.workers.bases import require_base, say_missing
from apps.workers.models import Worker
from apps.workers.recipes import choose_recipe
from tentalis.core.contracts import Outcome, TrainSpec
from tentalis.core.learning import lengths
from tentalis.core.learning.recipes import PREFERENCES, Recipe, RecipeError
from tentalis.plugins import name_backends


def queue_run(
    *, batch: Batch, by: str, backend: str | None = None, changes: Mapping[str, Any] | None = None, name: str = ""
) -> TrainingRun:
    """Write the run of a closed batch; its recipe is fixed here, whole. Nothing is started.

    A recipe that learns from pairs or demonstrations gets those of the line that no run has used.

    Args:
        backend: who trains; None takes the installation's.
        changes: recipe fields for this run alone.
        name: what people call it.
    Raises:
        BadInputError: an unknown backend, or a recipe field or a name that is not what it must be.
    """
    if backend is not None and backend not in (known := name_backends()):
        message = f"wanted one of {', '.join(known)}, found {backend!r}"
        raise BadInputError(f"backend: {message}", errors={"backend": [message]})
    recipe = read_recipe(batch.worker, changes)
    if recipe.learns_from != Batch.Kind.ROLLOUTS and batch.kind == Batch.Kind.ROLLOUTS:
        put_items(batch, recipe.learns_from)
    run = TrainingRun.objects.create(
        project_id=batch.project_id,
        worker_id=batch.worker_id,
        end_user=batch.end_user,
        batch=batch,
        name=check_name(name),
        backend=backend or settings.TENTALIS["TRAINER_BACKEND"],
        recipe=recipe.to_json(),
        recipe_hash=recipe.hash,
        seed=batch.worker_id,  # the same over a line: steadier than dealing minibatches anew each time
    )
    record(Kind.RUN_QUEUED, subject=run, by=by, payload={"batch": batch.pk, "recipe": recipe.hash})
    return run


def read_recipe(worker: Worker, changes: Mapping[str, Any] | None = None) -> Recipe:
    """How a worker learns, with changes for one run.

    Raises:
        BadInputError: a field is not what it must be.
    """
    try:
        return choose_recipe(worker.project, worker, changes=changes)
    except RecipeError as error:
        raise BadInputError(str(error), errors={"recipe": [str(error)]}) from None


def dispatch_run(run_id: int, *, by: str) -> None:
    """Write the batch to a file and send the spec to the box; from here on the run waits for its result.

    Raises:
        BrokerAwayError: nothing was sent; the link is tried again.
    """
    run = TrainingRun.objects.select_related("batch", "worker__project").get(pk=run_id)
    if run.state != TrainingRun.State.QUEUED:
        return
    learns_policy = run.purpose == TrainingRun.Purpose.POLICY
    if not learns_policy and (missing := say_missing(run.worker)):  # of a policy the gates have asked before
        with final_write():
            end_untrained(run, Outcome.FAILED, missing, by=by, **end_now(run))
        leave_place(run.pk)
        return
    if learns_policy and find_hold(run):
        leave_place(run.pk)
        return  # somebody was forgotten meanwhile; it is sent when their line is made again
    if not take_place(run):
        return  # its place went to another run meanwhile; it waits for the next
    parent = find_parent(run) if learns_policy else None
    rollouts_uri, rollouts_sha256 = LEARNERS[run.purpose].write_batch(run)
    attempt = run.attempt + 1
    output = settings.ARTIFACTS / "runs" / str(run.pk) / str(attempt)
    output.mkdir(parents=True, exist_ok=True)
    spec = TrainSpec(
        run_id=run.pk,
        attempt=attempt,
        worker=run.worker.name,
        base_model=require_base(run.worker),
        parent_adapter_uri=parent.uri if parent else None,
        parent_sha256=parent.sha256 if parent else None,
        policy_version=parent.line_version if parent else 0,
        latest_version=find_latest_version(run) if learns_policy else None,
        rollouts_uri=rollouts_uri,
        rollouts_sha256=rollouts_sha256,
        recipe=run.recipe,
        seed=run.seed,
        output_uri=output.resolve().as_uri(),
        backend=run.backend,
        purpose=run.purpose,
        tracking=_choose_tracking(),
        **_describe_backend(run),
    )
    spec = resume_from_checkpoint(run, spec)
    with final_write():
        move(
            run,
            TrainingRun.State.RUNNING,
            by=by,
            payload={"attempt": attempt, "spec": spec.content_hash, "resumes": spec.resume_uri is not None},
            attempt=attempt,
            parent=parent,
            spec=spec.to_json(),
            checkpoint_uri=spec.resume_uri or "",
            heartbeat_at=Now(),
            last_letter=0,
            begun_at=run.begun_at or Now(),
            started_at=Now(),
            finished_at=None,
            metrics=run.metrics if spec.resume_uri is not None else [],
            failure="",
            waiting_reason="",
            external_id=cluster.name_job(run.pk, attempt) if run.backend == cluster.BACKEND else "",
        )
        (cluster.poll_job if run.backend == cluster.BACKEND else send_spec)(spec)


def _choose_tracking() -> dict[str, Any]:
    """The writers of curves that the installation asks for, with what each is told."""
    said = settings.TENTALIS["TRACKING_OPTIONS"]
    return {name: said.get(name, {}) for name in settings.TENTALIS["TRACKING"]}


def _describe_backend(run: TrainingRun) -> dict[str, Any]:
    """What of a spec only its backend understands."""
    if run.backend == cluster.BACKEND:
        return cluster.describe(run)
    if run.backend == "tinker":
        return {"options": settings.TENTALIS["TINKER_OPTIONS"]}
    options: dict[str, Any] = {}
    if str(run.recipe.get("teacher", "")).startswith("served:"):
        options["teacher_url"] = settings.TENTALIS["TEACHER_URL"]
    learns_answers = run.purpose == TrainingRun.Purpose.POLICY and run.recipe.get("algorithm") in PREFERENCES
    if learns_answers and can_ask_lengths(run.worker):
        options[lengths.OPTION] = lengths.ASKED_WHERE_IT_SERVES
    return {"options": options} if options else {}


def cancel_run(*, run: TrainingRun, by: User) -> TrainingRun:
    """Stop a run: one that waits at once, one that trains at its next update.

    Raises:
        IllegalMoveError: it has ended.
    """
    require_right(by, run.project, Right.RUNS_WRITE)
    with transaction.atomic():
        _look_again(run)
        run_control.require(run, "cancelled")
        if run.state == TrainingRun.State.RUNNING:
            _ask(run, run_control.CANCEL, f"cancelled by {by.handle}")
        else:
            words = f"cancelled while it was {run.state}"
            move(run, TrainingRun.State.CANCELLED, by=by.handle, failure=words, **end_now(run))
    return run


def pause_run(run: TrainingRun, *, why: str, by: str) -> TrainingRun:
    """Stop a run so that it can go on: one that waits at once, one that trains at its next update.

    What a person asked for stands, whatever the schedule wants then.

    Raises:
        IllegalMoveError: it has ended, or is paused already.
    """
    with transaction.atomic():
        _look_again(run)
        run_control.require(run, "paused")
        if run.state == TrainingRun.State.RUNNING:
            _ask(run, run_control.PAUSE, why, replaces=why != OUTSIDE_HOURS)
        else:
            move(run, TrainingRun.State.PAUSED, by=by, payload={"reason": why[:300]}, waiting_reason=why[:300])
    return run


def _ask(run: TrainingRun, what: str, words: str, *, replaces: bool = True) -> None:
    """Ask it of the box. Where none has taken the run up nobody answers: it is done after one silence, not many."""
    run_control.ask(run, what, words, replaces=replaces)
    TrainingRun.objects.filter(pk=run.pk).update(untaken_since=None)


def _look_again(run: TrainingRun) -> None:
    """Lock a run in the running transaction and bring it up to date: it may have been sent since it was read."""
    now = TrainingRun.objects.select_for_update(no_key=True)
    run.refresh_from_db(fields=["state", "attempt", "spec", "finished_at"], from_queryset=now)


def resume_run(run: TrainingRun, *, by: str) -> TrainingRun:
    """Let a paused run wait for its turn again; it goes on from its newest checkpoint.

    Raises:
        IllegalMoveError: it is not paused.
    """
    run_control.require(run, "resumed")
    fresh: dict[str, Any] = {"waiting_reason": "", "finished_at": None, "heartbeat_at": None, "untaken_since": None}
    fresh["past_attempts"] = keep_attempt(run, ended=run.finished_at)
    move(run, TrainingRun.State.QUEUED, by=by, payload={"attempt": run.attempt}, **fresh)
    return run


def fail_run(run_id: int, *, link: str, reason: str, by: str) -> None:
    """Store a run that could not even be sent as failed."""
    run = TrainingRun.objects.get(pk=run_id)
    if run.state in {TrainingRun.State.QUEUED, TrainingRun.State.RUNNING}:
        move(run, TrainingRun.State.FAILED, by=by, failure=f"{link}: {reason}", **end_now(run))


def is_unsettled(worker_id: int) -> bool:
    """Whether a training of the worker is under way: sent out or being sent, paused, or its adapter not judged yet, by
    the gate or by the people whom it asks."""
    open_segments = Segment.objects.filter(state=Segment.State.OPEN)
    runs = TrainingRun.objects.filter(worker_id=worker_id)
    adapters = Adapter.objects.filter(worker_id=worker_id)
    return (
        runs.filter(state__in=[TrainingRun.State.RUNNING, TrainingRun.State.PAUSED]).exists()
        or open_segments.filter(
            kind=SegmentKind.TRAIN, subject_id__in=runs.filter(state=TrainingRun.State.QUEUED).values("pk")
        ).exists()
        or open_segments.filter(kind=SegmentKind.ADOPT, subject_id__in=adapters.values("pk")).exists()
        or adapters.filter(state=Adapter.State.CANDIDATE).exclude(waits_for="").exists()
    )


def find_next_run(worker_id: int) -> TrainingRun | None:
    """The worker's run that is sent next: the oldest of the highest priority."""
    waiting = TrainingRun.objects.filter(worker_id=worker_id, state=TrainingRun.State.QUEUED)
    return waiting.select_related("project").order_by("-priority", "pk").first()
