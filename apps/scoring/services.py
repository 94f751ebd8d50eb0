"""Scoring a task: every scorer of its environment's weight profile on every attempt, then one write."""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import connection

from apps.accounts.models import Project
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import TentalisError
from apps.calibration.services import note_sittings
from apps.environments.registry import get_world
from apps.inference.metering import charge
from apps.outbox.services import final_write
from apps.scoring.calibrating import find_trust, hold_against_verified, name_rater
from apps.scoring.judges import find_voters
from apps.scoring.models import StepScore
from apps.scoring.reward_models import find_live
from apps.scoring.scorers import ASKING, COMPUTED, HallucinationScorer, JudgeScorer, reward_model
from apps.tasks.drafts import load_attempts, read_step, rebuild_draft
from apps.tasks.models import Attempt, Step, Task
from tentalis.core.scoring.hallucination import read_text
from tentalis.core.scoring.protocol import (
    AttemptContext,
    Score,
    Scorer,
    ScorerResult,
    ScoringError,
    Source,
    Unscored,
)
from tentalis.core.scoring.weights import Combined, WeightProfile, combine, profile_for
from tentalis.core.worlds import Verification
from tentalis.outbound.scopes import ScopedThreadPool

logger = logging.getLogger(__name__)

EXPECTED_STEPS = 3
"""Distinct steps a whole answer has, where neither the world nor the task (`metadata.expected_steps`) says."""
TOLD_BY_THE_TASK = ("expected_steps", "expected_lines")
ATTEMPTS_AT_ONCE = 8

# bulk_update says the same with one CASE a column and row: half of the link's time for a group of eight
_SAVE_ATTEMPTS = """
UPDATE tasks_attempt SET outcome = new.outcome, missing_steps = new.missing_steps, score = new.score,
                         score_details = new.score_details
FROM jsonb_to_recordset(%s::jsonb) AS new(id bigint, outcome double precision, missing_steps smallint,
                                   score double precision, score_details jsonb)
WHERE tasks_attempt.id = new.id
"""


@dataclass(frozen=True, kw_only=True)
class ScoredAttempt:
    """What came of one attempt, before it is rows.

    Args:
        trust: judging scorer -> factor on its weight, from its calibration.
        raters: judging scorer -> handle of the rater behind it.
    """

    attempt: Attempt
    steps: Sequence[Step]
    results: Mapping[str, ScorerResult]
    combined: Combined
    verification: Verification | None
    trust: Mapping[str, float]
    raters: Mapping[str, str]

    @property
    def value(self) -> float | None:
        """What the scorers say; where they cannot, what the world verified."""
        verified = self.verification.outcome if self.verification else None
        return verified if self.combined.value is None else self.combined.value


def score_task(task_id: int, *, by: str = "scorer") -> None:
    """Score every attempt of a task, once. The task stays where it is: the review link moves it.

    What cannot be scored is stored as that, with its reason; nothing is made up for it.
    """
    task = Task.objects.select_related("project", "worker__provider").get(pk=task_id)
    if task.state != Task.State.SCORING:
        return
    attempts = load_attempts(task)
    if any(attempt.score_details for attempt in attempts):
        return
    profile = find_profile(task.project, task.environment)
    with charge(project=task.project, turn="judge", task_id=task.pk):
        scored = score_attempts(task, attempts, profile)
    with final_write():
        _save(task, scored, profile, by=by)


def find_profile(project: Project, environment: str) -> WeightProfile:
    """The project's own weights of an environment, else the built-in.

    Raises:
        ScoringError: the stored weights cannot be used.
    """
    own = project.weight_profiles.get(environment)
    return profile_for(environment) if own is None else WeightProfile.from_json(environment, own)


def score_attempts(task: Task, attempts: Sequence[Attempt], profile: WeightProfile) -> list[ScoredAttempt]:
    """Every scorer of a profile on every attempt of a task. Nothing is written, and no transaction is open meanwhile:
    scorers may wait for a model as long as it takes.
    """
    trained = find_live(task.worker) if reward_model.NAME in profile.weights else None
    raters = {name: name_rater(name) for name in profile.weights if name in ASKING}
    given: Mapping[int, ScorerResult] = {}
    if trained is not None:
        raters[reward_model.NAME] = trained.rater
        given = reward_model.score_attempts(trained, [one for one in attempts if one.state != Attempt.State.FAILED])
    asking = [name for name in raters if trained is None or name != reward_model.NAME]
    voters = find_voters(task.project) if asking else []
    trust = find_trust(task.project_id, raters)
    votes_at_once = max(sum(voter.votes for voter in voters) * ATTEMPTS_AT_ONCE, 1)
    with ScopedThreadPool(min(votes_at_once, 32)) as voting, ScopedThreadPool(ATTEMPTS_AT_ONCE) as working:
        scorers: list[Scorer] = []
        for name in profile.weights:
            if name in asking:
                judge = JudgeScorer(name, ASKING[name], voters, voting)
                scorers.append(HallucinationScorer(judge) if name == HallucinationScorer.name else judge)
            elif name not in raters:
                scorers.append(COMPUTED[name])
        score = partial(_score_attempt, task, profile, scorers, trust, raters, given)
        return list(working.map(score, attempts) if voters else map(score, attempts))


def _score_attempt(
    task: Task,
    profile: WeightProfile,
    scorers: Iterable[Scorer],
    trust: Mapping[str, float],
    raters: Mapping[str, str],
    given: Mapping[int, ScorerResult],
    attempt: Attempt,
) -> ScoredAttempt:
    steps = list(attempt.steps.all())
    if attempt.state == Attempt.State.FAILED:
        reason = Unscored(f"the attempt failed: {attempt.error or 'no reason was kept'}")
        results = {name: ScorerResult(scorer=name, value=reason) for name in profile.weights}
        return ScoredAttempt(
            attempt=attempt,
            steps=steps,
            results=results,
            combined=combine(dict.fromkeys(results, reason), profile),
            verification=None,
            trust=trust,
            raters=raters,
        )
    verification, why_not = _verify(task, attempt, steps)
    context = AttemptContext(
        environment=task.environment,
        prompt=task.prompt,
        text=attempt.text,
        steps=tuple(read_step(step) for step in steps),
        answer=attempt.answer or None,
        reference=None if task.reference is None else str(task.reference),
        rubric=task.project.rubric,
        constitution=task.project.constitution,
        facts=_gather_facts(task, verification, why_not),
        sources=_gather_sources(task),
    )
    results = {scorer.name: _ask(scorer, context) for scorer in scorers}
    if attempt.pk in given:
        results[given[attempt.pk].scorer] = given[attempt.pk]
    scores: dict[str, Score] = {name: result.value for name, result in results.items()}
    return ScoredAttempt(
        attempt=attempt,
        steps=steps,
        results=results,
        combined=combine(scores, profile, trust=trust),
        verification=verification,
        trust=trust,
        raters=raters,
    )


def _ask(scorer: Scorer, context: AttemptContext) -> ScorerResult:
    """One scorer's word; what goes wrong in it is its own reason and hurts no other scorer."""
    try:
        result = scorer.score(context)
        if any(step.index >= len(context.steps) for step in result.steps):
            raise ScoringError(
                f"wanted scores of {len(context.steps)} steps, found one of step {result.steps[-1].index}"
            )
    except (TentalisError, ValueError, ArithmeticError, LookupError, TypeError) as error:
        logger.warning("scorer %s failed", scorer.name, exc_info=True)
        return ScorerResult(scorer=scorer.name, value=Unscored(f"{type(error).__name__}: {error}"[:2000]))
    return result


def _verify(task: Task, attempt: Attempt, steps: Sequence[Step]) -> tuple[Verification | None, str]:
    """What the world verified, or why it could not."""
    try:
        found = get_world(task.environment).verify(task.prompt, task.reference, rebuild_draft(attempt, steps))
    except (TentalisError, ValueError) as error:
        return None, f"the environment could not verify it: {error}"
    return found, "" if found else f"environment {task.environment} has nothing to verify this task by"


def _gather_facts(task: Task, verification: Verification | None, why_not: str) -> dict[str, Any]:
    """What the task and the world say, by name."""
    told = {
        name: task.metadata[name]
        for name in TOLD_BY_THE_TASK
        if isinstance(task.metadata.get(name), int) and task.metadata[name] > 0
    }
    facts: dict[str, Any] = {"expected_steps": EXPECTED_STEPS, **told}
    if verification is None:
        return facts | {"unverified": why_not}
    return {
        **facts,
        **verification.details,
        "outcome": verification.outcome,
        "step_scores": verification.step_scores,
        "step_reasons": verification.step_reasons,
        "missing_steps": verification.missing_steps,
    }


def _gather_sources(task: Task) -> tuple[Source, ...]:
    """What the task gives to rest claims on: its reference, and `metadata.sources`, texts or {"name", "text"}."""
    found = [] if task.reference is None else [Source("the reference", read_text(task.reference))]
    given = task.metadata.get("sources")
    for number, source in enumerate(given if isinstance(given, list) else [], start=1):
        if isinstance(source, Mapping):
            found.append(Source(str(source.get("name") or f"source {number}"), read_text(source.get("text"))))
        else:
            found.append(Source(f"source {number}", read_text(source)))
    return tuple(source for source in found if source.text)


def _save(task: Task, scored: Sequence[ScoredAttempt], profile: WeightProfile, *, by: str) -> None:
    """Four statements, whatever the number of attempts. A task that was moved on meanwhile is left alone."""
    values = [value for one in scored if (value := one.value) is not None]
    task_score = sum(values) / len(values) if values else None
    answered = (one for one in scored if one.attempt.state == Attempt.State.ANSWERED)
    best = max(answered, key=_rank, default=None)
    answer = best.attempt.answer if best else ""
    changed = Task.objects.filter(pk=task.pk, state=Task.State.SCORING).update(score=task_score, answer=answer)
    if not changed:
        return
    StepScore.objects.bulk_create(row for one in scored for row in _rows(one))
    with connection.cursor() as cursor:
        cursor.execute(_SAVE_ATTEMPTS, [json.dumps([_columns(one, profile) for one in scored])])
    payload = {
        "score": task_score,
        "attempts": {str(one.attempt.pk): one.combined.value for one in scored},
        "unscored": sorted({lost.scorer for one in scored for lost in one.combined.redistributed_from}),
    }
    record(Kind.TASK_SCORED, subject=task, by=by, payload=payload)
    found = [(one.attempt.pk, one.steps, one.results, one.verification) for one in scored]
    raters = scored[0].raters if scored else {}
    note_sittings(project_id=task.project_id, sittings=hold_against_verified(found, raters))


def _rank(one: ScoredAttempt) -> tuple[float, float]:
    """By what was verified first, then by what the scorers say."""
    verified = one.verification.outcome if one.verification else -1.0
    return verified, -1.0 if one.combined.value is None else one.combined.value


def _columns(one: ScoredAttempt, profile: WeightProfile) -> dict[str, Any]:
    found = one.verification
    return {
        "id": one.attempt.pk,
        "outcome": found.outcome if found else None,
        "missing_steps": found.missing_steps if found else 0,
        "score": one.combined.value,
        "score_details": {
            "profile": profile.to_json(),
            "weights": dict(one.combined.used_weights),
            "trust": dict(one.trust),
            "redistributed": [
                {"scorer": lost.scorer, "weight": lost.weight, "reason": lost.reason}
                for lost in one.combined.redistributed_from
            ],
            "words": one.combined.describe_redistribution(),
        },
    }


def _rows(one: ScoredAttempt) -> Iterable[StepScore]:
    """Each scorer's score of the whole attempt, then of the steps it spoke of."""
    for result in one.results.values():
        value, reason = _split(result.value, result.comment)
        yield StepScore(
            attempt=one.attempt,
            scorer=result.scorer,
            score=value,
            reason=reason,
            spread=result.spread,
            details=dict(result.details),
        )
        for step in result.steps:
            value, reason = _split(step.score, step.comment)
            yield StepScore(
                attempt=one.attempt,
                step=one.steps[step.index],
                scorer=result.scorer,
                score=value,
                reason=reason,
                spread=step.spread,
                details=dict(step.details),
            )


def _split(score: Score, comment: str) -> tuple[float | None, str]:
    return (None, score.reason) if isinstance(score, Unscored) else (float(score), comment)
