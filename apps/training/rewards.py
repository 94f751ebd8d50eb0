"""Rewards for a trainer that samples its own answers: an endpoint per attempt at a run, its secret in its address.

OpenRLHF sends no header with its question and asks up to five times, and a run whose answer got no reward is lost. So
the secret is part of the path, the same question gets the same answer, and who finds a judge away asks again.
"""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models.functions import Now
from django.utils.crypto import salted_hmac

from apps.accounts.tokens import hash_secret
from apps.base.errors import ConflictError, NotFoundError, TentalisError
from apps.rollouts.models import TrainingUse
from apps.scoring.services import score_unsaved_sample
from apps.tasks.models import Task
from apps.training.answers import call_tool, read_answer, read_parts
from apps.training.models import RewardAnswer, RewardEndpoint, TrainingRun

logger = logging.getLogger(__name__)

OPEN_FOR = timedelta(days=7)
PATH = "/api/v1/rewards/{secret}"


class UnscoredError(TentalisError):
    """Nobody could score the answer now; nothing is made up for it. Asking again may help."""

    status = 503
    code = "unscored"


def issue_reward_url(run_id: int, attempt: int) -> str:
    """The address where answers of this attempt at a run are rewarded; the same each time it is asked for.

    Its secret follows from the platform's key and is kept nowhere; the row holds the secret's keyed hash.
    """
    secret = salted_hmac("apps.training.rewards", f"{run_id}.{attempt}", algorithm="sha256").hexdigest()
    RewardEndpoint.objects.get_or_create(
        run_id=run_id, attempt=attempt, defaults={"secret_hash": hash_secret(secret), "expires_at": Now() + OPEN_FOR}
    )
    return f"{_find_base_url()}{PATH.format(secret=secret)}"


def _find_base_url() -> str:
    found: str = settings.TENTALIS["REWARD_BASE_URL"] or f"http://127.0.0.1:{settings.TENTALIS['WEB_PORT']}"
    return found.rstrip("/")


def find_endpoint(secret: str) -> RewardEndpoint:
    """The open endpoint of this secret.

    Raises:
        NotFoundError: there is none, it expired, or its run's attempt is over.
    """
    endpoint = (
        RewardEndpoint.objects.filter(secret_hash=hash_secret(secret), expires_at__gt=Now())
        .select_related("run")
        .first()
    )
    if endpoint is None or endpoint.run.state != TrainingRun.State.RUNNING or endpoint.run.attempt != endpoint.attempt:
        raise NotFoundError("no run is rewarded here: an unknown address, or its run is over")
    return endpoint


def reward(
    endpoint: RewardEndpoint,
    *,
    task_id: int,
    query: str,
    prompt: str,
    parts: Sequence[Mapping[str, Any]] | None,
    is_cut: bool,
) -> dict[str, Any]:
    """What an answer is worth, or what the tool says that it called.

    Args:
        query: prompt and answer as text; parts: the answer's stretches, [{"text", "sampled"}, …], where they are known.
        is_cut: whether the answer was cut off.
    Returns:
        {"rewards", "scores", "extra_logs"} in [0, 1] each, or {"feedback"}: what comes next in the answer.
    Raises:
        ConflictError: the task is none of the run's batch.
        BadInputError: where the answer begins cannot be known.
        UnscoredError: no scorer had a word on it.
    """
    uses = TrainingUse.objects.filter(batch__run=endpoint.run_id, rollout__task_id=task_id)
    if not uses.exists():
        raise ConflictError(f"wanted a task of run {endpoint.run_id}'s batch, found task {task_id}")
    digest = hashlib.sha256(f"{is_cut}\n{query}".encode()).hexdigest()
    known = RewardAnswer.objects.filter(run=endpoint.run, task_id=task_id, query_sha256=digest).first()
    if known is not None:
        return dict(known.answer)
    task = Task.objects.select_related("project", "worker__provider").get(pk=task_id)
    told = read_parts(parts, query=query, prompt=prompt)
    result = None if is_cut else call_tool(task, told)
    answer = {"feedback": result} if result is not None else _judge(task, told, is_cut=is_cut)
    RewardAnswer.objects.bulk_create(
        [RewardAnswer(run=endpoint.run, task=task, query_sha256=digest, answer=answer)], ignore_conflicts=True
    )
    return dict(RewardAnswer.objects.get(run=endpoint.run, task_id=task_id, query_sha256=digest).answer)


def _judge(task: Task, parts: Sequence[Any], *, is_cut: bool) -> dict[str, Any]:
    """What was verified where that can be, else the combined scorers. An empty answer is worth nothing."""
    draft = read_answer(task, parts, is_cut=is_cut)
    if draft.error:
        return {"rewards": 0.0, "scores": 0.0, "extra_logs": {"verified": 0.0, "steps": 0.0}}
    scored = score_unsaved_sample(task, draft)
    verified = scored.verification.outcome if scored.verification else None
    worth = verified if verified is not None else scored.combined.value
    if worth is None:
        raise UnscoredError(f"no scorer had a word on an answer to task {task.pk}: {_say_why(scored.results)}")
    logs = {"verified": float(verified is not None), "steps": float(len(draft.steps))}
    if scored.combined.value is not None:
        logs["combined"] = float(scored.combined.value)
    return {"rewards": float(worth), "scores": float(worth), "extra_logs": logs}


def _say_why(results: Mapping[str, Any]) -> str:
    reasons = {f"{name}: {getattr(result.value, 'reason', '')}" for name, result in results.items()}
    return "; ".join(sorted(reasons))[:1000]
