"""Step scorers as runs: queued when enough steps are labelled; what they trained is recorded and gated."""

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.adapters.errors import AdapterBrokenError
from apps.audit.kinds import Kind
from apps.audit.services import move, record, was_last_by
from apps.base.errors import BadInputError, ConflictError
from apps.inference.errors import ProviderRefusedError
from apps.judges.selectors import find_below, find_fallen
from apps.outbox.kinds import OUTBOX, SegmentKind
from apps.outbox.selectors import died_last
from apps.outbox.services import final_write
from apps.scoring import reward_models
from apps.scoring.answers import Answer
from apps.scoring.labelling import can_label, choose_splits, find_unlabelled
from apps.scoring.models import RewardModel, StepLabel, StepScore
from apps.scoring.services import find_profile
from apps.training import cluster
from apps.training.labelled import find_truth, iterate_pages
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from tentalis.core.learning.head_recipes import HeadRecipe
from tentalis.core.scoring.ranking import Scored
from tentalis.core.scoring.scorer_gate import ScorerPolicy, judge_scorer

SCORER = "prm"
BACKENDS = ("standalone", cluster.BACKEND)
"""Who trains step scorers."""
_OPEN = (TrainingRun.State.QUEUED, TrainingRun.State.RUNNING, TrainingRun.State.PAUSED)


def find_due() -> list[Worker]:
    """Workers whose steps should be labelled now: their project weighs a step scorer, and enough steps are new; those
    are left alone whose steps could not be labelled."""
    after = int(settings.TENTALIS["PRM_TRAIN_AFTER"])
    if not after:
        return []
    due = []
    learning = Worker.objects.filter(~died_last(SegmentKind.LABEL), is_active=True, project__learning_enabled=True)
    for worker in learning.select_related("project"):
        if not can_label(worker) or SCORER not in find_profile(worker.project, str(worker.kind)).weights:
            continue
        unlabelled = find_unlabelled(worker).values("steps").count()
        if unlabelled and unlabelled + count_new_steps(worker) >= after and not has_open_run(worker):
            due.append(worker)
    return due


def count_new_steps(worker: Worker) -> int:
    """Steps labelled since the worker's last step scorer was queued."""
    labels = StepLabel.objects.filter(attempt__worker=worker)
    last = _runs(worker).order_by("-pk").first()
    if last is not None:
        labels = labels.filter(created_at__gt=last.created_at)
    return labels.values("step").distinct().count()


def has_open_run(worker: Worker) -> bool:
    return _runs(worker).filter(state__in=_OPEN).exists()


def _runs(worker: Worker) -> QuerySet[TrainingRun]:
    return TrainingRun.objects.filter(worker=worker, purpose=TrainingRun.Purpose.REWARD_MODEL)


def queue_when_labelled(worker_id: int, *, by: str) -> TrainingRun | None:
    """Write a step scorer's run where enough steps are new and none is under way, in the running transaction."""
    worker = Worker.objects.select_for_update(no_key=True).get(pk=worker_id)
    if has_open_run(worker) or count_new_steps(worker) < int(settings.TENTALIS["PRM_TRAIN_AFTER"]):
        return None
    return _queue(worker, by=by)


def queue_by_hand(*, worker: Worker, by: User, backend: str | None = None) -> TrainingRun:
    """Write a step scorer's run now, with what is labelled.

    Args:
        backend: one of `BACKENDS`; None takes the box itself, which trains the smaller head in seconds.
    Raises:
        NotAllowedError: `by` may not train here.
        BadInputError: nobody trains step scorers there, or the cluster could not.
        ConflictError: one is under way, or nothing is labelled.
    """
    require_right(by, worker.project, Right.RUNS_WRITE)
    backend = backend or BACKENDS[0]
    if backend not in BACKENDS:
        message = f"step scorers are trained by {' or '.join(BACKENDS)}, found {backend!r}"
        raise BadInputError(f"backend: {message}", errors={"backend": [message]})
    if backend == cluster.BACKEND:
        cluster.require_trainable_head(HeadRecipe())
    with transaction.atomic():
        Worker.objects.select_for_update(no_key=True).get(pk=worker.pk)
        if has_open_run(worker):
            raise ConflictError(f"a step scorer of {worker.name} is being trained")
        if not StepLabel.objects.filter(attempt__worker=worker).exists():
            raise ConflictError(f"no step of {worker.name} is labelled yet: there is nothing to learn from")
        return _queue(worker, by=by.handle, backend=backend)


def _queue(worker: Worker, *, by: str, backend: str = "standalone") -> TrainingRun:
    recipe = HeadRecipe()
    run = TrainingRun.objects.create(
        project_id=worker.project_id,
        worker=worker,
        purpose=TrainingRun.Purpose.REWARD_MODEL,
        backend=backend,
        recipe=recipe.to_json(),
        recipe_hash=recipe.hash,
        seed=worker.pk,
    )
    record(Kind.RUN_QUEUED, subject=run, by=by, payload={"purpose": run.purpose, "recipe": recipe.hash})
    return run


# --- the gate of what was trained -----------------------------------------------------------------------------------


def gate_reward_model(model_id: int, *, by: str) -> None:
    """Hold a candidate beside what it would replace, on held-out steps of known truth, and use or refuse it.

    What it replaces is the live reward model, else what the judge said of the same steps.

    Raises:
        ProviderBusyError: the engine cannot be asked now; the link is tried again.
    """
    model = RewardModel.objects.select_related("worker__provider", "project").get(pk=model_id)
    if model.state != RewardModel.State.CANDIDATE:
        return
    live = reward_models.find_live(model.worker)
    try:
        items, against = _measure(model, live)
    except (ProviderRefusedError, AdapterBrokenError) as error:
        with final_write():
            reward_models.refuse(model, reason=f"refused: it cannot be served: {error}", measured={}, by=by)
        return
    verdict = judge_scorer(items, against=against, policy=read_policy(model.project), seed=model.pk)
    with final_write():
        if verdict.is_accepted:
            reward_models.put_in_use(model, reason=verdict.words, measured=verdict.measured, by=by)
        else:
            reward_models.refuse(model, reason=verdict.words, measured=verdict.measured, by=by)


def read_policy(project: Project) -> ScorerPolicy:
    """The gate of step scorers; the installation's, for every project."""
    return ScorerPolicy()


def _measure(model: RewardModel, live: RewardModel | None) -> tuple[list[Scored], str]:
    """Held-out steps with both scorers' words, and who the other is; "" where there is none to compare with."""
    truths: list[tuple[int, int, float]] = []
    answers: list[Answer] = []
    for attempts, found, labels, said in iterate_pages(model.worker):
        splits = choose_splits([attempt.task for attempt in attempts])
        for attempt in attempts:
            answer = found[attempt.pk]
            if isinstance(answer, Answer) and splits[attempt.task_id] == "test":
                answers.append(answer)
                told = [
                    (step.pk, find_truth(labels.get((step.pk, "verified")), said[step.pk])) for step in answer.steps
                ]
                truths += [(attempt.task_id, step, truth) for step, truth in told if truth is not None]
    mine = _by_step(answers, reward_models.score_answers(model, answers))
    if live is not None:
        theirs, against = _by_step(answers, reward_models.score_answers(live, answers)), live.name
    else:
        rows = StepScore.objects.filter(step__in=[step for _, step, _ in truths], scorer=SCORER, score__isnull=False)
        judged = rows.values_list("step_id", "score", "attempt__score_details__judge")
        below = find_below(model.project_id)
        theirs = {
            step: score
            for step, score, judge in judged
            if score is not None and find_fallen(below, [judge or {}]) is None
        }
        against = "the judges" if theirs else ""
    items = [
        Scored(group, truth, mine[step], theirs.get(step, 0.0))
        for group, step, truth in truths
        if not theirs or step in theirs
    ]
    return items, against


def _by_step(answers: list[Answer], scores: list[list[float]]) -> dict[int, float]:
    return {
        step.pk: score
        for answer, row in zip(answers, scores, strict=True)
        for step, score in zip(answer.steps, row, strict=True)
    }


def refuse_ungated(model_id: int, *, reason: str, by: str) -> None:
    """Refuse a candidate that could not be judged; one that was is left alone."""
    model = RewardModel.objects.get(pk=model_id)
    if model.state == RewardModel.State.CANDIDATE:
        reward_models.refuse(model, reason=reason, measured={}, by=by)


def revive_ungated(model_id: int, *, link: str, by: str) -> None:
    """Have a candidate judged after all that `refuse_ungated` refused, and nobody else."""
    model = RewardModel.objects.get(pk=model_id)
    was_refused = model.state == RewardModel.State.REFUSED and not model.barred
    if was_refused and was_last_by(Kind.REWARD_MODEL_REFUSED, model, by=OUTBOX):
        move(model, RewardModel.State.CANDIDATE, by=by, payload={"link": link}, words="")
