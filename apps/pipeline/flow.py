"""The data's way, from a task to a better adapter in service. Reading this file is reading the product.

A task is worked on, scored and reviewed (`work`; `episode` where its world has turns); its judged attempts become
rollouts in a batch (`learn`); a full one is sent to the training box (`train`); what it trained is gated, promoted and
swapped in (`adopt`). Between them lie three waits, which are states and never sleeping jobs: for a manager, for a full
batch, for the box.

What nobody submitted comes in from the side: a session's turns are cut and heard (`conversing.py`), and what teaches
joins the way at `learn`. Beside it those who judge learn too: step scorers (`label`, `adopt_scorer`) and managers
(`meta`, `adopt_manager`); a shadow does the same tasks and serves nobody (`mirror`).

First the segments, each behind what it does at its end; then what people and other edges may do, in the order of the
way. What stops a training, lets it go on or calls for another scorer stands in `trainings.py`; what becomes of a row
whose segment failed for good, in `fates.py`; who takes failed work up again does so in `dead_letters.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Unpack

from django.conf import settings
from django.db import DataError, transaction

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.adapters import jobs as adapter_jobs
from apps.adapters import services as adapters
from apps.adapters.models import Adapter
from apps.base.errors import ConflictError, TentalisError, log_and_continue
from apps.calibration import jobs as calibration_jobs
from apps.checks.services import require_readable
from apps.conversations import asked
from apps.evals import asking
from apps.evals import importing as runs_of_others
from apps.evals.limits import RunLimits
from apps.evals.models import Evaluation
from apps.evals.regressions import find_places
from apps.feedback import expiry, skip
from apps.feedback import jobs as feedback_jobs
from apps.feedback import submit as judgements
from apps.feedback.judgement import JudgementFields
from apps.feedback.models import Feedback, Review, RowImport
from apps.gate import awaiting, pairs
from apps.gate import jobs as gate_jobs
from apps.inference.models import Session
from apps.judges import services as probes
from apps.judges.models import JudgeProbe
from apps.judges.selectors import find_unfinished as find_unfinished_probes
from apps.outbox import services as outbox
from apps.outbox.kinds import KINDS, OF_WORK, Chain, SegmentKind
from apps.pipeline import bulk as bulks
from apps.pipeline import importing, judging, sets
from apps.pipeline.supervision import learn_from_decisions, learn_from_waits
from apps.regrading import jobs as regrading_jobs
from apps.regrading import services as regradings
from apps.regrading.models import Regrading
from apps.regrading.rules import GradingRule
from apps.rollouts import jobs as rollout_jobs
from apps.rollouts import services as rollouts
from apps.rollouts.models import Batch
from apps.scoring import jobs as scoring_jobs
from apps.scoring.shadows import find_mirrored
from apps.supervision import jobs as supervision_jobs
from apps.tasks import handing_in, offering, playing
from apps.tasks import jobs as task_jobs
from apps.tasks import services as tasks
from apps.tasks.models import Attempt, Task
from apps.training import box, cluster, rebuilding, results, retrying, schedule, scorers
from apps.training import jobs as training_jobs
from apps.training import services as training
from apps.training.learners import LEARNERS
from apps.training.models import TrainingRun
from apps.workers.bases import say_missing
from apps.workers.models import Worker
from tentalis.core.contracts import TrainResult
from tentalis.core.judged_files import TASKS
from tentalis.core.task_files import TaskRow

# --- the way: work, learn, train, adopt ------------------------------------------------------------------------------


def go_on_after_work(task_ids: Sequence[int]) -> None:
    """Scored tasks go on, and where their worker has a shadow that is to do them too, that begins."""
    bulks.start_learning(task_ids)
    outbox.start_many(SegmentKind.MIRROR, find_mirrored(task_ids))


def start_work(made: Sequence[Task]) -> None:
    """Start the work on new tasks; an outside agent's wait for what it hands in, and for what it proposes
    (`supervision.py`)."""
    asked = [task for task in made if task.worker.kind != Worker.Kind.OUTSIDE]
    outbox.start_many(SegmentKind.TRY, [(task.pk, task.project_id) for task in asked if task.evaluation_id is not None])
    ours = [task for task in asked if task.evaluation_id is None]
    played = {task.pk for task in ours if playing.has_turns(task)}
    outbox.start_many(SegmentKind.WORK, [(task.pk, task.project_id) for task in ours if task.pk not in played])
    outbox.start_many(SegmentKind.EPISODE, [(task.pk, task.project_id) for task in ours if task.pk in played])


KINDS[SegmentKind.WORK] = Chain(
    links=(task_jobs.work, scoring_jobs.score, feedback_jobs.open_review),
    together=sets.find_work_sets,
    then=go_on_after_work,
)


def go_on_after_episodes(task_ids: Sequence[int]) -> None:
    """What was said to an agent that asked before it acted stays with its work, and teaches with it."""
    learn_from_waits(task_ids)
    go_on_after_work(task_ids)


KINDS[SegmentKind.EPISODE] = Chain(  # each alone: it takes as long as its longest episode
    links=(supervision_jobs.play, scoring_jobs.score, feedback_jobs.open_review),
    then=go_on_after_episodes,
)


def measure_made(task_ids: Sequence[int]) -> None:
    """Tries that were made are graded with others of their evaluation."""
    waiting = Evaluation.objects.filter(tasks__in=task_ids, state=Evaluation.State.WAITING)
    outbox.start_many(SegmentKind.EVALUATE, waiting.distinct().values_list("pk", "project_id"))


KINDS[SegmentKind.TRY] = Chain(links=(task_jobs.work,), then=measure_made)


def train_when_full(task_ids: Sequence[int]) -> None:
    """Tasks that filled a batch start the training of it."""
    full = Batch.objects.filter(uses__rollout__task__in=task_ids, state=Batch.State.CLOSED, run__isnull=True)
    for batch in full.distinct():
        start_training(batch, by="ledger")


def end_learning(task_ids: Sequence[int]) -> None:
    """A batch that is full is trained; the verdict on an adapter whose pairs people have all compared goes on."""
    train_when_full(task_ids)
    if awaiting.were_compared(task_ids):
        go_on_gating()


KINDS[SegmentKind.LEARN] = Chain(
    links=(feedback_jobs.extract_hint, rollout_jobs.build),
    together=sets.find_learn_sets,
    then=end_learning,
)


KINDS[SegmentKind.TRAIN] = Chain(links=(training_jobs.ask, training_jobs.dispatch))


def train_after_adoption(adapter_ids: Sequence[int]) -> None:
    """An adapter that was judged makes room for the worker's next run, if it is its project's turn; managers learn."""
    (adapter,) = Adapter.objects.filter(pk__in=adapter_ids)
    if adapter.is_awaiting:
        go_on_gating()
        return
    results.note_measured(adapter)
    train_waiting()
    if adapter.run_id:
        learn_managers(adapter.project_id, adapter.run_id)


KINDS[SegmentKind.ADOPT] = Chain(
    links=(training_jobs.ask_measured, gate_jobs.gate, adapter_jobs.promote, adapter_jobs.hot_swap),
    then=train_after_adoption,
)

# --- beside it: a shadow does the task too, step scorers and managers learn ------------------------------------------

KINDS[SegmentKind.MIRROR] = Chain(links=(scoring_jobs.mirror,))


def train_scorer_when_labelled(worker_ids: Sequence[int]) -> None:
    """A worker whose steps were labelled gets a new step scorer, when enough of them are new."""
    (worker_id,) = worker_ids
    if scorers.queue_when_labelled(worker_id, by="scorer") is not None:
        train_next(worker_id)


KINDS[SegmentKind.LABEL] = Chain(links=(scoring_jobs.label_steps,), then=train_scorer_when_labelled)


def learn_managers(project_id: int, run_id: int) -> None:
    """Managers learn after a training too, where that is switched on; the worker's next training does not wait."""
    if settings.TENTALIS["META_RL_ENABLED"]:
        outbox.start(SegmentKind.META, subject_id=run_id, project_id=project_id)


def make_room(subject_ids: Sequence[int]) -> None:
    """What was judged, or learnt from, makes room for the next run."""
    train_waiting()


KINDS[SegmentKind.ADOPT_SCORER] = Chain(links=(training_jobs.gate_scorer,), then=make_room)

KINDS[SegmentKind.META] = Chain(links=(training_jobs.meta_train,), then=make_room)
KINDS[SegmentKind.ADOPT_MANAGER] = Chain(links=(training_jobs.gate_manager,), then=make_room)

# --- evaluations: a while at a time, until nothing is left to try ----------------------------------------------------


def go_on_measuring(evaluation_ids: Sequence[int]) -> None:
    """What a link left untried is the next segment's, and so is what was handed in meanwhile; verdicts that waited for
    it go on."""
    outbox.start_many(SegmentKind.EVALUATE, asking.find_unfinished(evaluation_ids))
    outbox.start_many(SegmentKind.EVALUATE, offering.find_ready(evaluation_ids))
    go_on_gating()


def go_on_gating() -> None:
    """Gate anew what waited for others, where these have done it; have agents make the tries they are asked for."""
    start_work(offering.find_unmade())
    outbox.start_many(SegmentKind.ADOPT, awaiting.find_answered())


def go_on_waiting() -> int:
    """Go on with what waits for agents outside or for people, where they have done it or had their time. Returns how
    many evaluations do."""
    awaiting.withdraw_decided(by="gate")
    offering.withdraw(by="evals")
    ready = offering.find_ready()
    with transaction.atomic():
        outbox.start_many(SegmentKind.EVALUATE, ready)
        go_on_gating()
    return len(ready)


KINDS[SegmentKind.EVALUATE] = Chain(links=(task_jobs.measure,), then=go_on_measuring)


def ask_evaluation(*, worker: Worker, by: User, **asked: Unpack[asking.AskedFields]) -> Evaluation:
    """Have a model try items, or give the evaluation that did so; see `asking.ask_evaluation`."""
    with transaction.atomic():
        evaluation = asking.ask_evaluation(worker=worker, by=by, **asked)
        if evaluation.state == Evaluation.State.QUEUED:
            outbox.start(SegmentKind.EVALUATE, subject_id=evaluation.pk, project_id=evaluation.project_id)
    return evaluation


def ask_regressions(*, adapter: Adapter, by: User) -> list[Evaluation]:
    """Ask an adapter the corrections that it inherits, by its likeliest answers: one evaluation an environment.

    Raises:
        ConflictError: it inherits none.
    """
    places = find_places(adapter)
    if not places:
        raise ConflictError(f"wanted corrections of answers before {adapter.name}, found none")
    with transaction.atomic():
        return [
            ask_evaluation(worker=adapter.worker, adapter=adapter, taskset=taskset, indices=at, is_greedy=True, by=by)
            for taskset, at in places
        ]


class ImportedRun(NamedTuple):
    """A run that was taken in, and the new grades of it; None where nobody asked for any."""

    evaluation: Evaluation
    regrading: Regrading | None


def import_run(
    *, project: Project, by: User, grader: str = "", **file: Unpack[runs_of_others.ImportedFile]
) -> ImportedRun:
    """Take in a run that another tool made, and grade it anew where somebody says by whom; see
    `apps.evals.importing.import_run`."""
    with transaction.atomic():
        evaluation = runs_of_others.import_run(project=project, by=by, **file)
        if not grader:
            return ImportedRun(evaluation, None)
        asked = ask_regrading(
            project=project, rule=GradingRule(grader=grader), by=by, source=Regrading.Source.RUN, evaluation=evaluation
        )
    return ImportedRun(evaluation, asked)


def replay_evaluation(*, evaluation: Evaluation, by: User, limits: RunLimits = asking.UNLIMITED) -> Evaluation:
    """Ask the very prompts of a run once more; see `asking.replay_evaluation`."""
    with transaction.atomic():
        made = asking.replay_evaluation(evaluation=evaluation, by=by, limits=limits)
        if made.state == Evaluation.State.QUEUED:
            outbox.start(SegmentKind.EVALUATE, subject_id=made.pk, project_id=made.project_id)
    return made


def resume_evaluation(*, evaluation: Evaluation, by: User, limits: RunLimits = asking.UNLIMITED) -> Evaluation:
    """Let a paused or failed one go on."""
    with transaction.atomic():
        asking.resume_evaluation(evaluation=evaluation, by=by, limits=limits)
        outbox.start(SegmentKind.EVALUATE, subject_id=evaluation.pk, project_id=evaluation.project_id)
    return evaluation


# --- new grades of what was answered before, beside the old ones: a while at a time -----------------------------------


def go_on_regrading(regrading_ids: Sequence[int]) -> None:
    """What a link left is the next segment's."""
    outbox.start_many(SegmentKind.REGRADE, regradings.find_unfinished(regrading_ids))


KINDS[SegmentKind.REGRADE] = Chain(links=(regrading_jobs.regrade,), then=go_on_regrading)


def ask_regrading(
    *, project: Project, rule: GradingRule, by: User, **asked: Unpack[regradings.AskedRegrading]
) -> Regrading:
    """Grade anew what was answered before; see `apps.regrading.services.ask_regrading`."""
    with transaction.atomic():
        made = regradings.ask_regrading(project=project, rule=rule, by=by, **asked)
        outbox.start(SegmentKind.REGRADE, subject_id=made.pk, project_id=made.project_id)
    return made


# --- judges are measured too: a few questions at a time --------------------------------------------------------------


def go_on_probing(probe_ids: Sequence[int]) -> None:
    """What a link left is the next segment's."""
    outbox.start_many(SegmentKind.PROBE, find_unfinished_probes(probe_ids))


KINDS[SegmentKind.PROBE] = Chain(links=(calibration_jobs.probe_judge,), then=go_on_probing)


def ask_probe(*, project: Project, model: str, by: User) -> JudgeProbe:
    """Have a judge probed; see `apps.judges.services.ask_probe`."""
    with transaction.atomic():
        made = probes.ask_probe(project=project, model=model, by=by)
        outbox.start(SegmentKind.PROBE, subject_id=made.pk, project_id=made.project_id)
    return made


# --- tasks -----------------------------------------------------------------------------------------------------------


def submit(**task: Unpack[tasks.TaskFields]) -> Task:
    """Accept a task and start the work on it; see `apps.tasks.services.submit_task`.

    An outside worker's task waits for its agent, which hands its work in and asks before it acts (`supervision.py`).
    """
    with transaction.atomic():
        made = tasks.submit_task(**task)
        start_work([made])
    return made


def submit_rows(*, rows: Sequence[TaskRow], **to: Unpack[tasks.Submission]) -> list[Task]:
    """Accept many tasks, or none, and start the work on them; see `apps.tasks.services.submit_tasks`."""
    with transaction.atomic():
        made = tasks.submit_tasks(rows=rows, **to)
        start_work(made)
    return made


def import_file(
    *, text: str, form: str, rows: str = "", name: str = "", checks: Any = None, **to: Unpack[tasks.Submission]
) -> list[Task] | RowImport:
    """Accept what a file holds, all of it or none: tasks to be done, or finished work with its judgement.

    Args:
        form: see `tentalis.core.task_files`.
        rows: what it holds (`tentalis.core.judged_files`); "" tells that by its first line.
        name: the file's.
        checks: of tasks whose row says none; None: the project's defaults for the environment.
    Returns:
        The tasks, whose work is started; of finished work the import that makes tasks of it in the background.
    Raises:
        BadInputError: naming each line that is not what is wanted.
    """
    kind = importing.find_kind(text, form=form, rows=rows)
    if kind == TASKS:
        require_readable(to["project"], checks or ())
        return submit_rows(rows=tasks.read_file(text, form=form, checks=checks), **to)
    importing.require_none_of_tasks(kind, group_size=to.get("group_size"), checks=checks)
    return importing.start(
        project=to["project"],
        by=to["by"],
        kind=kind,
        text=text,
        file=name,
        environment=to["environment"],
        worker=to.get("worker"),
    )


def submit_asked(*, sessions: Sequence[int], **to: Unpack[tasks.Submission]) -> list[Task]:
    """Accept what was asked first in these sessions as tasks, all of them or none; see `conversations.asked`.

    The sessions are locked, so that two who take the same one make one task of it.

    Raises:
        BadInputError: naming the first that cannot be one.
    """
    project = to["project"]
    with transaction.atomic():
        list(Session.objects.filter(project=project, pk__in=sessions).order_by("pk").select_for_update(no_key=True))
        rows = asked.make_rows(asked.require_asked(project, sessions, by=to["by"]))
        return submit_rows(rows=rows, **to)


def submit_own_attempt(
    *,
    task: Task,
    steps: Sequence[Mapping[str, Any]],
    answer: str,
    by: User,
    index: int | None = None,
    is_last: bool | None = None,
) -> Attempt:
    """Take an outside agent's own try at a task; when it was the last one, they are scored and reviewed like any."""
    with transaction.atomic():
        outbox.cancel_segments(*OF_WORK, subject_ids=[task.pk])
        attempt = handing_in.hand_in_attempt(task=task, steps=steps, answer=answer, by=by, index=index, is_last=is_last)
        learn_from_decisions(attempt)
        due, project = handing_in.find_stored_at(attempt), task.project_id
        if task.evaluation_id is not None:
            outbox.start(SegmentKind.EVALUATE, subject_id=task.evaluation_id, project_id=project, run_after=due)
        elif task.state == Task.State.SCORING:
            outbox.start(SegmentKind.WORK, subject_id=task.pk, project_id=project, run_after=due)
    return attempt


def cancel(*, task: Task, by: User) -> Task:
    """Give a task up; a link at work on it hangs up on whom it asked."""
    bulks.cancel_tasks([task], by)
    return task


# --- judgements ------------------------------------------------------------------------------------------------------


def give_feedback(
    *,
    review: Review,
    by: User,
    undo_s: float = 0,
    typed: Mapping[str, Any] | None = None,
    **judgement: Unpack[JudgementFields],
) -> Feedback:
    """Close a review with a manager's judgement; the last one closed lets the task learn, when no undo can come."""
    with transaction.atomic():
        given = judgements.give_feedback(review=review, by=by, undo_s=undo_s, typed=typed, **judgement)
        judging.settle_appeal(given, by=by)
        bulks.start_learning([review.task_id])
    return given


def skip_review(*, review: Review, by: User, reason: str, then: str = "nobody") -> Review:
    """Pass a review over: to nobody (the task learns when no other is open), to later, the others, or an expert."""
    with transaction.atomic():
        skipped = skip.skip_review(review=review, by=by, reason=reason, then=then)
        bulks.start_learning([review.task_id])
    return skipped


def expire_reviews() -> int:
    """Let the policy decide about reviews whose patience is over. Returns how many tasks that touched."""
    with transaction.atomic():
        task_ids = expiry.expire_reviews()
        bulks.start_learning(task_ids)
    return len(task_ids)


# --- trainings -------------------------------------------------------------------------------------------------------


def close_batch(
    *,
    worker: Worker,
    by: User,
    backend: str | None = None,
    recipe: Mapping[str, Any] | None = None,
    end_user: str = "",
    name: str = "",
) -> TrainingRun:
    """Train now, with what the batch holds of the worker, or of one person; see `apps.training.services.queue_run`."""
    require_right(by, worker.project, Right.RUNS_WRITE)
    if missing := say_missing(worker.line):
        raise ConflictError(missing)
    with transaction.atomic():
        kind = training.read_recipe(worker, recipe).learns_from
        batch = rollouts.close_open_batch(worker, by=by.handle, end_user=end_user, kind=kind)
        run = start_training(batch, by=by.handle, backend=backend, recipe=recipe, name=name)
        cluster.require_trainable(run)  # what it cannot do is undone as a whole, and said
        return run


def start_training(
    batch: Batch,
    *,
    by: str,
    backend: str | None = None,
    recipe: Mapping[str, Any] | None = None,
    name: str = "",
) -> TrainingRun:
    run = training.queue_run(batch=batch, by=by, backend=backend, changes=recipe, name=name)
    train_next(run.worker_id)
    return run


def train_waiting() -> None:
    """Offer the free places of the box to the runs that wait, the project that had least of its share first."""
    for worker_id in schedule.find_waiting_workers():
        train_next(worker_id)


def train_next(worker_id: int) -> None:
    """Send the worker's next run when none of it is under way, its time has come and the box has a place for it.

    One at a time: each continues from what the last one left served.
    """
    schedule.look_ahead(Project.objects.get(workers=worker_id))
    with transaction.atomic():
        Worker.objects.select_for_update(no_key=True).get(pk=worker_id)
        run = None if training.is_unsettled(worker_id) else training.find_next_run(worker_id)
        if run is not None and schedule.admit(run):
            outbox.start(SegmentKind.TRAIN, subject_id=run.pk, project_id=run.project_id)


def handle_training_result(data: object, *, by: str) -> None:
    """Ingest a result that came from the training box: what it trained goes to the gate.

    One that cannot even be written down ends its run, with the reason; else it would be tried again for ever.
    """
    try:
        result = TrainResult.from_json(data)
        with transaction.atomic():
            if (run := results.lock_awaited(result)) is None:
                return
            if (trained := results.record_result(run, result, by=by)) is None:
                return
            if isinstance(trained, Adapter) and trained.is_rebuilt:
                adopt_rebuilt()
                train_next(trained.worker_id)
            else:
                outbox.start(LEARNERS[run.purpose].publish, subject_id=trained.pk, project_id=trained.project_id)
    except (DataError, OSError, ValueError, TypeError, LookupError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}".replace("\0", "?")
        if not results.fail_result(data, reason=reason, by=by):
            raise


def wake_silent_run(run: TrainingRun) -> str:
    """A run whose box went silent: take the result it left behind, end it as asked, send it again, or give it up."""
    if (data := box.find_result(run)) is not None:
        handle_training_result(data, by="sweep")
        return "recorded"
    with transaction.atomic():
        found = retrying.give_up_silent(run, by="sweep")
        train_next(run.worker_id)
    return found


# --- adapters --------------------------------------------------------------------------------------------------------


def ask_people(*, adapter: Adapter, by: User) -> None:
    """Have people compare an adapter's answers with those of what serves; see `apps.gate.pairs.ask_people`."""
    with transaction.atomic():
        pairs.ask_people(adapter=adapter, by=by)
        outbox.start(SegmentKind.ADOPT, subject_id=adapter.pk, project_id=adapter.project_id)


def rollback_blocked() -> int:
    """Put what served before into the place of what may not serve, where a project wants that. Returns how many."""
    found = list(rebuilding.find_deployments_of_blocked_adapters())
    for deployment in found:
        with log_and_continue(f"{deployment} still serves what was barred", TentalisError):
            adapters.rollback_blocked(deployment, by="forget")
    return len(found)


def adopt_rebuilt() -> int:
    """Send the ends of lines that were made again without somebody to the gate. Returns how many."""
    with transaction.atomic():
        rebuilt = rebuilding.find_rebuilt()
        outbox.start_many(SegmentKind.ADOPT, [(adapter.pk, adapter.project_id) for adapter in rebuilt])
    return len(rebuilt)
