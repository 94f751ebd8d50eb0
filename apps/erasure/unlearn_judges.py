"""Unlearn a person: step scorers and managers that learnt from them are blocked and trained again.

A step scorer starts from the worker's base each time, so of a worker's scorers one training is done again, where one
that learnt from them scores or was being trained. A manager's fits go on from each other: from the first that learnt
from them all are barred, and the managers' next learning, which is started at once, fits anew what is left.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from django.db import transaction

from apps.accounts.models import Project
from apps.audit.services import move
from apps.calibration.services import lock_fits, set_rubric
from apps.erasure.records import remove_files
from apps.erasure.unlearn_adapters import BARRED, CANCELLED, cancel_run, queue_again
from apps.rollouts.files import find_files
from apps.scoring import reward_models
from apps.scoring.models import RewardModel, StepLabel
from apps.tasks.models import Task
from apps.training import audits, labelled, verdict_managers
from apps.training.models import ManagerRun, TrainingRun
from apps.training.rebuilding import OPEN


@dataclass(frozen=True)
class TaughtJudges:
    """Judges that somebody taught.

    Attributes:
        models: step scorers that were trained on steps of theirs.
        runs: trainings of step scorers to be done again: of what scores, and what is under way.
        fits: of managers, fitted to judgements of their tasks or going on from one that was.
        files: that hold a part of it.
    """

    models: Sequence[RewardModel]
    runs: Sequence[TrainingRun]
    fits: Sequence[ManagerRun]
    files: Sequence[Path]

    @property
    def names(self) -> list[str]:
        """Of the step scorers, and of the managers whose fits these are."""
        return [model.name for model in self.models] + sorted({fit.manager for fit in self.fits})


def find_taught(*, project: Project, tasks: Collection[int]) -> TaughtJudges:
    """What learnt from these tasks and may still be used."""
    asked = set(tasks)
    runs = TrainingRun.objects.filter(project=project, purpose=TrainingRun.Purpose.REWARD_MODEL).order_by("pk")
    direct = [run for run in runs.defer("spec", "metrics") if not asked.isdisjoint(run.learnt_from)]
    ids = [run.pk for run in direct]
    models = RewardModel.objects.filter(run_id__in=ids, barred="").exclude(state=RewardModel.State.REFUSED)
    found = list(models.order_by("pk"))
    live = {model.run_id for model in found if model.state in (RewardModel.State.LIVE, RewardModel.State.CANDIDATE)}
    again: dict[int, TrainingRun] = {}
    for run in direct:
        if run.pk in live or run.state in OPEN:
            again[run.worker_id] = run  # the newest of a worker stands for all
    fits = _find_fits(project, asked)
    fitted = [fit.run_id for fit in fits if fit.run_id is not None]
    files = [*find_files(labelled.DIRECTORY, ids), *find_files(audits.DIRECTORY, fitted)]
    return TaughtJudges(found, list(again.values()), fits, files)


def _find_fits(project: Project, tasks: set[int]) -> list[ManagerRun]:
    """Fits to judgements of these tasks, and every later one of the same manager: each goes on from the one before."""
    found: list[ManagerRun] = []
    managers: set[tuple[str, str]] = set()
    for fit in ManagerRun.objects.filter(project=project).exclude(state=ManagerRun.State.BARRED).order_by("pk"):
        if (fit.manager, fit.kind) in managers or not tasks.isdisjoint(fit.learnt_from):
            managers.add((fit.manager, fit.kind))
            found.append(fit)
    return found


def find_gone(project: Project) -> set[int]:
    """Tasks that judges of the project learnt from and that are no more."""
    known: set[int] = set()
    scorers = TrainingRun.objects.filter(project=project, purpose=TrainingRun.Purpose.REWARD_MODEL)
    fits = ManagerRun.objects.filter(project=project)
    for learnt_from in (*scorers.values_list("learnt_from", flat=True), *fits.values_list("learnt_from", flat=True)):
        known |= set(learnt_from)
    return known - set(Task.objects.filter(project=project, pk__in=known).values_list("pk", flat=True))


def refit(*, project: Project, forgetting: int, by: str) -> TaughtJudges:
    """Bar what learnt from tasks that are no more and queue its training without them, in the running transaction.

    The project's open runs must be locked by the caller (`unlearn_adapters.rebuild` does); that none of its managers is
    being fitted is seen to here. Managers are fitted again by their learning, which the caller starts.

    Returns:
        What was barred now, and the new runs; of a worker without a label left there is none.
    """
    lock_fits(project.pk)
    found = find_taught(project=project, tasks=find_gone(project))
    barred = reward_models.bar(found.models, reason=BARRED, by=by)
    runs = [_queue_again(run, forgetting=forgetting, by=by) for run in found.runs]
    _bar_fits(project, found.fits, by=by)
    transaction.on_commit(lambda: remove_files(found.files))
    return TaughtJudges(barred, [run for run in runs if run is not None], found.fits, found.files)


def _queue_again(run: TrainingRun, *, forgetting: int, by: str) -> TrainingRun | None:
    for one in TrainingRun.objects.filter(worker=run.worker_id, purpose=run.purpose, state__in=OPEN):
        cancel_run(one, reason=CANCELLED, by=by)
    if not StepLabel.objects.filter(attempt__worker=run.worker_id).exists():
        return None
    return queue_again(run, {"purpose": run.purpose}, forgetting=forgetting, by=by)


def _bar_fits(project: Project, fits: Sequence[ManagerRun], *, by: str) -> None:
    """A manager whose fit was in use goes back to the last one that is none of these, else to what was written."""
    for fit in fits:
        was_used = fit.state == ManagerRun.State.APPLIED
        move(fit, ManagerRun.State.BARRED, by=by, payload={"manager": fit.manager, "words": BARRED}, words=BARRED)
        if was_used and fit.kind == ManagerRun.Kind.RUBRIC:
            _use_before(project, fit, by=by)
        elif was_used:
            verdict_managers.use_before(fit, by=by)


def _use_before(project: Project, fit: ManagerRun, *, by: str) -> None:
    fits = ManagerRun.objects.filter(project=project, manager=fit.manager, kind=fit.kind)
    before = fits.filter(state=ManagerRun.State.REPLACED, pk__lt=fit.pk, metrics__of=fit.metrics["of"])
    left = before.order_by("-pk").first()
    weights, gate = ({}, 0.0) if left is None else (left.weights, left.metrics["gate"])
    if left is not None:
        move(left, ManagerRun.State.APPLIED, by=by, payload={"manager": fit.manager, "words": "in use again"})
    set_rubric(project_id=project.pk, handle=fit.manager, of=fit.metrics["of"], weights=weights, gate=gate)
