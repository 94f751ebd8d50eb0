"""Watching what serves: that it is what should serve, and that its answers look like those it was let in by.

An alarm goes onto the run that made the adapter, to the audit and so to webhooks. A canary is taken back and put under
suspicion; while what serves is not what should, nothing of its line is trained.
"""

import logging
from collections.abc import Sequence

from django.db import transaction
from django.db.models import Exists, OuterRef

from apps.adapters import canary
from apps.adapters.models import Adapter, Deployment
from apps.adapters.services import quarantine
from apps.adapters.serving import LOAD_S, client_of
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import ConflictError, TentalisError
from apps.evals.grading import read_traits
from apps.evals.models import Evaluation
from apps.rollouts.tokens import list_exchanges
from apps.tasks.drafts import rebuild_draft, with_tokens
from apps.tasks.models import WITH_CALLS, Attempt
from apps.training.models import TrainingRun
from apps.training.results import raise_alarms
from tentalis.core.learning.collapse import Alarm, AnswerProfile, profile_answers
from tentalis.core.learning.monitors import watch_logprobs, watch_traffic
from tentalis.core.worlds import AttemptDraft
from tentalis.outbound.scopes import CancelScope

logger = logging.getLogger(__name__)

BY = "monitor"
RECENT = 60
"""Answers that are looked at together, each to a task of its own."""
RECOMPUTED = 3
"""Of those, whose log-probs are computed again."""


def watch_served() -> int:
    """Look at every deployment that answered something since the last look. Returns how many alarms are new."""
    new = 0
    for deployment in Deployment.objects.select_related("adapter", "canary", "worker__provider", "worker__project"):
        try:
            with CancelScope(LOAD_S):
                new += _watch(deployment)
        except TentalisError as error:
            logger.warning("%s cannot be watched: %s", deployment, error)
    return new


def _watch(deployment: Deployment) -> int:
    at_work = [one for one in (deployment.adapter, deployment.canary) if one is not None]
    newest = Attempt.objects.filter(adapter__in=at_work).order_by("-pk").values_list("pk", flat=True).first() or 0
    if not at_work or (newest <= deployment.watched_id and not deployment.trouble):
        return 0
    served, new = set(client_of(deployment.worker).list_models()), 0
    for adapter in at_work:
        attempts = _recent(adapter)
        drift = _find_drift(adapter, attempts) if adapter.name in served else ()
        if adapter == deployment.adapter:
            missing = () if adapter.name in served else (f"the model server does not know {adapter.name}",)
            _note_trouble(deployment, "; ".join([*missing, *(alarm.words for alarm in drift)]))
        alarms = [*drift, *_find_changes(adapter, attempts)]
        new += _tell(adapter, alarms)
        if alarms and adapter == deployment.canary:
            _take_back(deployment, adapter, alarms)
    Deployment.objects.filter(pk=deployment.pk).update(watched_id=newest)
    return new


def _recent(adapter: Adapter) -> list[Attempt]:
    """Its newest answers, one to each task."""
    answered = Attempt.objects.filter(adapter=adapter, exchange__isnull=False)
    newer = answered.filter(task=OuterRef("task"), pk__gt=OuterRef("pk"))
    newest = answered.filter(~Exists(newer)).order_by("-pk")[:RECENT]
    return list(newest.select_related("exchange").prefetch_related("steps", WITH_CALLS))


def _find_changes(adapter: Adapter, attempts: Sequence[Attempt]) -> Sequence[Alarm]:
    panel = Evaluation.objects.on_panels().filter(adapter=adapter).order_by("-pk").first()
    traits = [read_traits(_read_draft(one)) for one in attempts if not _is_lost(one)]
    if panel is None or not panel.profile or not traits:
        return ()
    return watch_traffic(profile_answers(traits), AnswerProfile(**panel.profile))


def _is_lost(attempt: Attempt) -> bool:
    """Whether it says nothing of its model, as a try of a panel that is lost."""
    return bool((attempt.verification or {}).get("infrastructure"))


def _read_draft(attempt: Attempt) -> AttemptDraft:
    """With the tokens of all its calls, as an answer of a panel has them."""
    return with_tokens(rebuild_draft(attempt, list(attempt.steps.all())), list_exchanges(attempt))


def _find_drift(adapter: Adapter, attempts: Sequence[Attempt]) -> Sequence[Alarm]:
    """Whether the newest answers' log-probs come out again under the name that is said to have served them."""
    told = [one.exchange for one in attempts if one.exchange is not None and one.exchange.has_exact_tokens]
    told = [one for one in told if one.adapter_name == adapter.name and not one.shared_tokens][:RECOMPUTED]
    if not told:
        return ()
    rows = [(one.unpack_prompt_token_ids(), one.unpack_token_ids()) for one in told]
    scores = client_of(adapter.worker).score_answers(rows, model=adapter.name)
    served, again = [], []
    for exchange, score in zip(told, scores, strict=True):
        logprobs, sampled = exchange.unpack_logprobs(), exchange.unpack_sampled()
        served.append([value for value, is_chosen in zip(logprobs, sampled, strict=True) if is_chosen])
        again.append([value for value, is_chosen in zip(score, sampled, strict=True) if is_chosen])
    return watch_logprobs(served, again)


def _tell(adapter: Adapter, alarms: Sequence[Alarm]) -> int:
    run = TrainingRun.objects.filter(pk=adapter.run_id or 0).first()
    return len(raise_alarms(run, alarms, update=None, by=BY)) if run is not None else 0


def _note_trouble(deployment: Deployment, words: str) -> None:
    if words[:300] == deployment.trouble:
        return
    with transaction.atomic():
        Deployment.objects.filter(pk=deployment.pk).update(trouble=words[:300])
        kind = Kind.DEPLOYMENT_TROUBLED if words else Kind.DEPLOYMENT_SETTLED
        record(kind, subject=deployment.worker, by=BY, payload={"words": words[:300]})


def _take_back(deployment: Deployment, adapter: Adapter, alarms: Sequence[Alarm]) -> None:
    words = "; ".join(alarm.words for alarm in alarms)
    try:
        with transaction.atomic():
            canary.end_canary(deployment, outcome="harm", reason=words[:300], by=BY)
            if Adapter.State.QUARANTINED in Adapter.MOVES[Adapter.State(adapter.state)]:
                quarantine(adapter, reason=words, by=BY)
    except ConflictError:
        logger.info("the canary %s was ended by somebody else", adapter.name)
