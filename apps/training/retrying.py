"""A run's next attempt: a person tries it again, its box went silent, or none takes it up."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import DurationField, F, QuerySet
from django.db.models.functions import Coalesce, Greatest, Least, Now

from apps.audit.services import move
from apps.base.errors import BadInputError, log_and_continue
from apps.training import box, cluster, run_control
from apps.training.models import TrainingRun
from apps.training.schedule import keep_attempt
from apps.training.services import read_recipe
from tentalis.core.learning.recipes import Recipe, RecipeError

MAX_SILENCES = 3
MOST_UNTAKEN = timedelta(minutes=30)
"""An attempt that no box takes up is sent again after as long as its run has waited for one, and at most after this."""

AS_IT_WAS, AS_IT_IS = "run", "worker"
"""Whose recipe a run is tried again with: its own, or the one its worker has by now."""


def change_recipe(run: TrainingRun, *, changes: Mapping[str, Any] | None = None, start: str = AS_IT_WAS) -> Recipe:
    """The recipe that a run is tried again with; its batch stays what it is.

    Args:
        changes: recipe fields for this run alone.
        start: what they change: the run's own recipe, or the one that its worker has by now.
    Raises:
        BadInputError: a field is not what it must be, or such a recipe learns from something else than the batch holds.
    """
    if run.purpose != TrainingRun.Purpose.POLICY or run.batch is None or run.rebuilds_id is not None:
        raise BadInputError.at("recipe", f"run {run.pk} has the one recipe of its kind: only a worker's own may change")
    changed = read_recipe(run.worker).to_json() if start == AS_IT_IS else run.recipe
    try:
        recipe = Recipe.from_json(changed | dict(changes or {}))
    except RecipeError as error:
        raise BadInputError(str(error), errors={"recipe": [str(error)]}) from None
    if recipe.learns_from != run.batch.kind:
        words = f"wanted one that learns from {run.batch.kind}, as its batch holds, found {recipe.algorithm}"
        raise BadInputError.at("recipe", f"{words}, which learns from {recipe.learns_from}")
    return recipe


def revive_run(run_id: int, *, link: str, by: str) -> None:
    """Queue a run again that could not be sent; one that somebody took up, cancelled or paused meanwhile stays so."""
    run = TrainingRun.objects.get(pk=run_id)
    if run.state == TrainingRun.State.FAILED:
        retry_run(run=run, by=by)


def retry_run(*, run: TrainingRun, by: str, **changes: Any) -> TrainingRun:
    """Queue a run again under its next attempt; results of the old one are dropped from now on."""
    ended = run.heartbeat_at if run.state == TrainingRun.State.RUNNING else run.finished_at
    fresh: dict[str, Any] = {"failure": "", "finished_at": None, "heartbeat_at": None, "silences": 0}
    fresh |= {"past_attempts": keep_attempt(run, ended=ended), "untaken_since": None, **changes}
    payload = {"attempt": run.attempt, "recipe": fresh.get("recipe_hash", run.recipe_hash)}
    move(run, TrainingRun.State.QUEUED, by=by, payload=payload, **fresh)
    return run


def find_silent_runs() -> list[TrainingRun]:
    """Runs whose box gave no sign of life for longer than the settings allow, or that none took up."""
    return list(_silent()[:100])


def _silent() -> QuerySet[TrainingRun]:
    silence = timedelta(seconds=settings.TENTALIS["RUN_SILENCE_SECONDS"])
    waited = Coalesce(F("heartbeat_at") - F("untaken_since"), silence)
    patience = Greatest(silence, Least(waited, MOST_UNTAKEN, output_field=DurationField()))
    unheard = TrainingRun.objects.filter(state=TrainingRun.State.RUNNING, heartbeat_at__lt=Now() - silence)
    return unheard.filter(heartbeat_at__lt=Now() - patience)


def give_up_silent(run: TrainingRun, *, by: str) -> str:
    """End or queue again a run whose box went silent, in the running transaction; what was asked of it is done.

    The box may live and only be unheard: it is told to stop. An attempt that no box took up is sent again for as long
    as that lasts, ever less often; one that a box had begun counts against the run.

    Returns:
        What became of it, in a word or three.
    """
    if not _silent().select_for_update(no_key=True).filter(pk=run.pk, attempt=run.attempt).exists():
        return "heard again"
    asked, why = run_control.find_request(run)
    ended: dict[str, Any] = {"finished_at": Now(), "cost": _add_unheard(run)}
    if asked == run_control.CANCEL:
        words = f"{why or 'cancelled'}; its box went silent before it said so"
        move(run, TrainingRun.State.CANCELLED, by=by, failure=words, **ended)
        return "cancelled, as asked"
    if asked == run_control.PAUSE:
        reason = why[:300]
        move(run, TrainingRun.State.PAUSED, by=by, payload={"reason": reason}, waiting_reason=reason, **ended)
        return "paused, as asked"
    with log_and_continue(f"run {run.pk} cannot be told to stop", OSError):
        run_control.ask(run, run_control.CANCEL, f"attempt {run.attempt} went silent")
    silences = run.silences + int(run.last_letter > 0)
    if silences >= MAX_SILENCES:
        reason = f"the training machine went silent {silences} times"
        move(run, TrainingRun.State.FAILED, by=by, payload={"reason": reason}, failure=reason, **ended)
        return "failed"
    untaken_since = None if run.last_letter else run.untaken_since or run.heartbeat_at
    retry_run(run=run, by=by, cost=ended["cost"], silences=silences, untaken_since=untaken_since)
    return "sent again" if run.last_letter else "sent again, for no machine took it up"


def _add_unheard(run: TrainingRun) -> dict[str, float]:
    """What the run took, with an attempt that nobody heard the end of: until its last sign of life."""
    if run.started_at is None or run.heartbeat_at is None:
        return dict(run.cost)
    took_s = max(0.0, (run.heartbeat_at - run.started_at).total_seconds())
    return {**run.cost, "gpu_s": round(run.cost.get("gpu_s", 0.0) + took_s, 3)}


@dataclass(frozen=True)
class Untaken:
    """A run that waits for a box.

    Attributes:
        since: when it was sent first of the times that nobody took it up.
        sent: times that it was sent, over all its attempts; sent_at: the last of them.
        command: what starts a box that would take it.
    """

    since: datetime
    sent: int
    sent_at: datetime | None
    command: str

    @property
    def words(self) -> str:
        return (
            "no training machine has taken it up: none runs, none reaches the platform's Redis, or each is busy with"
            " another training; it is sent again by itself, and begins as soon as a machine takes it"
        )


def find_untaken(run: TrainingRun) -> Untaken | None:
    """None where a box has it, or it is not under way."""
    if run.untaken_since is None or run.state not in {TrainingRun.State.QUEUED, TrainingRun.State.RUNNING}:
        return None
    queue = cluster.QUEUE if run.backend == cluster.BACKEND else box.choose_queue(run.backend)
    command = f"celery -A gpu_workers.celery worker -P solo -Q {queue}"
    return Untaken(since=run.untaken_since, sent=run.attempt, sent_at=run.started_at, command=command)
