"""Managers that are language models learn too: an adapter of their own, trained on audits, used or refused, taken back.

The trainer is the one of every adapter, and so is what goes to it: demonstrations, the words that audits found right.
Each training starts from the base and learns the whole window anew, so that no version inherits another's faults.
"""

import dataclasses
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from apps.accounts.models import Project
from apps.adapters.artifacts import path_of, read_manifest
from apps.adapters.errors import AdapterBrokenError, WrongAdapterServedError
from apps.audit.kinds import Kind
from apps.audit.services import move, record, was_last_by
from apps.base.errors import ConflictError, TentalisError
from apps.calibration.models import Rater
from apps.calibration.services import lock_fits, set_adapter
from apps.feedback.managers.verdict import PREFIX, JudgingModel, judge
from apps.inference.errors import ProviderRefusedError
from apps.inference.services import client_for, open_client
from apps.outbox.kinds import OUTBOX
from apps.outbox.services import final_write
from apps.training.audits import find_words, read_questions
from apps.training.influence import find_gains
from apps.training.models import MAX_FIT_CHARS, ManagerRun, TrainingRun
from apps.workers.models import Worker
from apps.workers.recipes import choose_recipe
from apps.workers.selectors import find_base_model
from tentalis.core.contracts import TrainResult
from tentalis.core.learning.recipes import Recipe
from tentalis.core.meta import Audit, Fall, estimate_influence, find_fall, trace_influence
from tentalis.core.meta_adapter import (
    POLICY,
    AdapterVerdict,
    AuditedWord,
    judge_adapter,
    split_words,
    weigh_word,
    why_not_train,
)
from tentalis.core.scoring.protocol import Unscored
from tentalis.core.scoring.ranking import Difference

logger = logging.getLogger(__name__)

State = ManagerRun.State
EPOCHS, MINIBATCHES = 20, 4
WORD_TOKENS = 4
"""Tokens a verdict may have, its end included."""
_ENDED = (TrainingRun.State.FAILED, TrainingRun.State.REFUSED, TrainingRun.State.CANCELLED)


@dataclass(frozen=True)
class Outlook:
    """What one manager's audits say, read before anything is locked.

    Args:
        words: audited, oldest first.
        present: the adapter's fit in use.
        fall: what the audits since then say of it; None where none is in use.
    """

    handle: str
    worker: Worker
    words: Sequence[AuditedWord]
    present: ManagerRun | None
    fall: Fall | None
    influence: Difference


def look_at_managers(project: Project, *, after_run: int | None) -> list[Outlook]:
    """The verdict managers of a project that were audited."""
    raters = Rater.objects.filter(project=project, kind=Rater.Kind.AI, handle__startswith=PREFIX)
    names = {handle.removeprefix(PREFIX): handle for handle in raters.values_list("handle", flat=True)}
    workers = Worker.objects.filter(project=project, name__in=names).select_related("project", "provider")
    return [_look(names[worker.name], worker, after_run) for worker in workers.order_by("name")]


def _look(handle: str, worker: Worker, after_run: int | None) -> Outlook:
    gains = find_gains(worker.project, handle, before_run=after_run)
    influence = estimate_influence(list(gains.values()))
    limit = settings.TENTALIS["META_RL_WINDOW_SIZE"]
    words = find_words(worker.project_id, handle, limit=limit, influence=trace_influence(gains))
    present = _find_runs(worker.project_id, handle).filter(state=State.APPLIED).select_related("parent").first()
    fall = _find_fall(worker, present, words, influence) if present is not None else None
    return Outlook(handle, worker, words, present, fall, influence)


def _find_fall(worker: Worker, present: ManagerRun, words: Sequence[AuditedWord], influence: Difference) -> Fall | None:
    """The adapter before, or the model as it is, is asked about the audits since; None while it cannot be."""
    since = [word for word in words if word.number > present.metrics["until"]]
    try:
        before = _find_before(present)
        told = _ask(worker, JudgingModel(**before.adapter) if before is not None else None, since)
    except TentalisError as error:
        logger.warning("%s is not compared with what was before: %s", present.manager, error)
        return None
    known = [word for word in since if word.attempt_id in told]
    return find_fall(
        [Audit({}, word.said, word.truth) for word in known],
        promised=present.metrics["auc_after"],
        former=[told[word.attempt_id] for word in known],
        influence=influence,
    )


def act_on(outlook: Outlook, *, by: str) -> ManagerRun | None:
    """Take back what fell, else queue a training where enough is audited anew, in the running transaction.

    Returns:
        What came of it: taken back, being trained, or refused for want of audits; None for nothing.
    """
    project, handle = outlook.worker.project, outlook.handle
    lock_fits(project.pk)
    runs = _find_runs(project.pk, handle)
    present = runs.filter(state=State.APPLIED).first()
    if (present.pk if present else None) != (outlook.present.pk if outlook.present else None):
        return None  # somebody moved it meanwhile
    _close_ended(runs, by=by)
    until = outlook.words[-1].number if outlook.words else 0
    if present is not None and outlook.fall is not None and outlook.fall.rolls_back:
        return take_back(present, until=until, by=by, reason=outlook.fall.words)
    learnt = max(runs.exclude(state=State.BARRED).values_list("metrics__until", flat=True), default=0)
    fresh = sum(word.number > learnt for word in outlook.words)
    if fresh < POLICY.train_after or runs.filter(state__in=(State.TRAINING, State.FITTED)).exists():
        return None
    return _queue(outlook, present, by=by)


def _queue(outlook: Outlook, present: ManagerRun | None, *, by: str) -> ManagerRun:
    learnt, held_out = split_words(outlook.words)
    missing = why_not_train(outlook.words)
    fit = ManagerRun(
        project=outlook.worker.project,
        manager=outlook.handle,
        kind=ManagerRun.Kind.ADAPTER,
        state=State.TRAINING,
        parent=present,
        audits=len(learnt),
        learnt_from=sorted({word.task_id for word in learnt}),
        metrics={
            "until": outlook.words[-1].number,
            "learnt": [[word.number, round(weigh_word(word), 4)] for word in learnt],
            "held_out": [word.number for word in held_out],
            "influence": outlook.influence.value,
            "influence_interval": [outlook.influence.low, outlook.influence.high],
        },
    )
    if missing:
        fit.save()
        move(fit, State.REFUSED, by=by, payload=_describe(fit, missing), words=missing)
        return fit
    recipe = choose_judging_recipe(outlook.worker)
    fit.run = TrainingRun.objects.create(
        project=outlook.worker.project,
        worker=outlook.worker,
        purpose=TrainingRun.Purpose.MANAGER,
        backend="standalone",
        recipe=recipe.to_json(),
        recipe_hash=recipe.hash,
        seed=outlook.worker.pk,
        learnt_from=fit.learnt_from,
    )
    fit.save()
    payload = {"purpose": fit.run.purpose, "manager": fit.manager, "recipe": recipe.hash}
    record(Kind.RUN_QUEUED, subject=fit.run, by=by, payload=payload)
    return fit


def choose_judging_recipe(worker: Worker) -> Recipe:
    """How a verdict is learnt on this worker's model: its own recipe's adapter and pace, imitation of one word.

    An untrained model writes a whole answer where a word is wanted, so that its length may change by all of it.
    """
    return dataclasses.replace(
        choose_recipe(worker.project, worker),
        algorithm="sft",
        epochs=EPOCHS,
        minibatches=MINIBATCHES,
        answer_tokens=WORD_TOKENS,
        overlong_buffer=0,
        importance_cap=None,
        most_length_drift=1.0,
    )


# --- what comes home -------------------------------------------------------------------------------------------------


def record_adapter(run: TrainingRun, result: TrainResult, by: str) -> ManagerRun | None:
    """Keep a manager's trained adapter with the fit that waits for it; None where none does."""
    read_manifest(path_of(result.adapter_uri), sha256=result.sha256)
    fit = ManagerRun.objects.filter(run=run, state=State.TRAINING).first()
    if fit is not None:
        name = _name_adapter(fit, run.worker, result.sha256)
        adapter = {"name": name, "uri": result.adapter_uri, "sha256": result.sha256}
        move(fit, State.FITTED, by=by, payload={"manager": fit.manager, "audits": fit.audits}, adapter=adapter)
    return fit


def refuse_untrained(run: TrainingRun, by: str) -> None:
    """Refuse the fit that waited for a run which trained nothing."""
    _close_ended(ManagerRun.objects.filter(run=run), by=by)


def _name_adapter(fit: ManagerRun, worker: Worker, sha256: str) -> str:
    version = _find_runs(fit.project_id, fit.manager).exclude(adapter={}).count() + 1
    return f"{worker.project.slug}.{worker.name}.verdict@v{version}-{sha256[:8]}"


def gate_manager(fit_id: int, *, by: str) -> None:
    """Hold a manager's new adapter beside what it would replace, on audits neither learnt, and use or refuse it.

    Raises:
        ProviderBusyError: the server cannot be asked now; the link is tried again.
    """
    fit = ManagerRun.objects.select_related("run__worker__project", "run__worker__provider", "parent").get(pk=fit_id)
    if fit.state != State.FITTED or fit.run is None:
        return
    worker = fit.run.worker
    held_out = fit.metrics["held_out"]
    words = find_words(fit.project_id, fit.manager, limit=len(held_out), numbers=held_out)
    present = fit.parent if fit.parent is not None and fit.parent.state == State.APPLIED else None
    base = JudgingModel(find_base_model(worker))
    try:
        mine = _ask(worker, JudgingModel(**fit.adapter), words)
        plain = _ask(worker, base, words)
        theirs = _ask(worker, JudgingModel(**present.adapter), words) if present is not None else plain
    except (ProviderRefusedError, AdapterBrokenError, WrongAdapterServedError) as error:
        refuse_ungated(fit_id, reason=f"refused: it cannot be served: {error}", by=by)
        return
    judged = [word for word in words if all(word.attempt_id in told for told in (mine, theirs, plain))]
    verdict = judge_adapter(
        candidate=[mine[word.attempt_id] for word in judged],
        present=[theirs[word.attempt_id] for word in judged],
        control=[plain[word.attempt_id] for word in judged],
        truths=[word.truth for word in judged],
        past_rounds=_find_runs(fit.project_id, fit.manager).filter(pk__lt=fit.pk).count(),
    )
    with final_write():
        _settle(fit, present, verdict, by=by)
    unload_unused(worker, fit.manager)


def unload_unused(worker: Worker, handle: str) -> None:
    """Free the server of a manager's adapters that judge no more; where that fails, its next gate does it."""
    idle = _find_runs(worker.project_id, handle).filter(state__in=(State.REFUSED, State.ROLLED_BACK, State.BARRED))
    names = {adapter["name"] for adapter in idle.exclude(adapter={}).values_list("adapter", flat=True)}
    try:
        client = open_client(worker.provider)
        for name in sorted(names & set(client.list_models())) if names else ():
            client.unload_adapter(name)
    except TentalisError as error:
        logger.warning("adapters of %s are still loaded: %s", handle, error)


def refuse_ungated(fit_id: int, *, reason: str, by: str) -> None:
    """Refuse a candidate that could not be judged; one that was is left alone."""
    fit = ManagerRun.objects.get(pk=fit_id)
    if fit.state == State.FITTED:
        with final_write():
            move(fit, State.REFUSED, by=by, payload=_describe(fit, reason), words=reason[:MAX_FIT_CHARS])


def revive_ungated(fit_id: int, *, link: str, by: str) -> None:
    """Have a candidate judged after all that `refuse_ungated` refused, and nobody else."""
    fit = ManagerRun.objects.get(pk=fit_id)
    if fit.state == State.REFUSED and was_last_by(Kind.MANAGER_REFUSED, fit, by=OUTBOX):
        move(fit, State.FITTED, by=by, payload=_describe(fit, f"{link} is tried again"), words="")


def _settle(fit: ManagerRun, present: ManagerRun | None, verdict: AdapterVerdict, *, by: str) -> None:
    state = State.APPLIED if verdict.applies else State.REFUSED
    if verdict.applies and present is not None:
        move(present, State.REPLACED, by=by, payload={"manager": fit.manager, "run": fit.pk})
    words = verdict.words[:MAX_FIT_CHARS]
    payload = _describe(fit, words) | {"gate": round(verdict.gate, 4)}
    move(fit, state, by=by, payload=payload, words=words, metrics=fit.metrics | verdict.metrics)
    used = fit if verdict.applies else present
    adapter = used.adapter if used is not None else {}
    set_adapter(project_id=fit.project_id, handle=fit.manager, adapter=adapter, gate=verdict.gate)


def find_weights(fit: ManagerRun) -> JudgingModel:
    """What was trained for a manager, in use or not.

    Raises:
        ConflictError: this fit has no adapter.
    """
    if fit.kind != ManagerRun.Kind.ADAPTER:
        raise ConflictError(f"fit {fit.pk} has no adapter: wanted one of a language model, found a rubric's weights")
    if not fit.adapter:
        raise ConflictError(f"fit {fit.pk} has no adapter: wanted one that was trained, found one {fit.state}")
    return JudgingModel(**fit.adapter)


def take_back(fit: ManagerRun, *, until: int, by: str, reason: str) -> ManagerRun:
    """Judge by the adapter before again, else by the model as it is, in the running transaction.

    Its word counts for nothing until audits show what it is worth.
    """
    changes = {"words": reason[:MAX_FIT_CHARS], "metrics": fit.metrics | {"until": until, "gate": 0.0}}
    move(fit, State.ROLLED_BACK, by=by, payload=_describe(fit, reason), **changes)
    use_before(fit, by=by)
    return fit


def use_before(fit: ManagerRun, *, by: str) -> None:
    """Judge by the adapter before a fit that is in use no more, else by the model as it is; nobody knows how well."""
    before = _find_before(fit)
    if before is not None:
        move(before, State.APPLIED, by=by, payload=_describe(before, "in use again"))
    adapter = before.adapter if before is not None else {}
    set_adapter(project_id=fit.project_id, handle=fit.manager, adapter=adapter, gate=0.0)


def _find_before(fit: ManagerRun) -> ManagerRun | None:
    """The last fit before this one that may be used; None for the model as it is."""
    earlier = _find_runs(fit.project_id, fit.manager).filter(pk__lt=fit.pk, state=State.REPLACED)
    return earlier.order_by("-pk").first()


def _close_ended(runs: QuerySet[ManagerRun], *, by: str) -> None:
    """A fit whose training ended without an adapter is refused."""
    for fit in runs.filter(state=State.TRAINING, run__state__in=_ENDED).select_related("run"):
        why = f"it could not be trained: {fit.run.failure if fit.run else 'its run is gone'}"
        move(fit, State.REFUSED, by=by, payload=_describe(fit, why), words=why[:MAX_FIT_CHARS])


def _find_runs(project_id: int, handle: str) -> QuerySet[ManagerRun]:
    return ManagerRun.objects.filter(project=project_id, manager=handle, kind=ManagerRun.Kind.ADAPTER)


def _ask(worker: Worker, model: JudgingModel | None, words: Sequence[AuditedWord]) -> dict[int, float]:
    """Attempt id -> the score it gives today; those it could not score are left out.

    Args:
        model: None for the worker's model as it is.
    Raises:
        ProviderBusyError, ProviderRefusedError, AdapterBrokenError, WrongAdapterServedError: see `judge`.
    """
    questions = read_questions(words)
    base = find_base_model(worker)
    client = client_for(worker.provider, worker.project_id)
    scores = judge(client, model or JudgingModel(base), list(questions.values()), base=base)
    return {attempt: score for attempt, score in zip(questions, scores, strict=True) if not isinstance(score, Unscored)}


def _describe(fit: ManagerRun, words: str) -> dict[str, Any]:
    return {"manager": fit.manager, "words": words[:300]}
