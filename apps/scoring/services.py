"""Scoring a task: every scorer of its environment's weight profile on every attempt, then one write."""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from django.db import connection

from apps.accounts.models import Project
from apps.audit.kinds import Kind
from apps.audit.services import record_many, write_entry
from apps.base.inserting import insert
from apps.calibration.services import record_comparisons
from apps.checks.graders import ATTEMPTS_AT_ONCE, Graders, convene_graders
from apps.checks.withholding import name_asked
from apps.inference.errors import raise_if_paced
from apps.inference.judges import VOTES, Voter, find_voter
from apps.inference.metering import charge
from apps.judges.selectors import find_training_voter
from apps.outbox.services import final_write
from apps.scoring.calibrating import find_trust, hold_against_verified, name_rater
from apps.scoring.models import RewardModel, StepScore
from apps.scoring.reward_models import find_live
from apps.scoring.scorers import ASKING, SCORERS, AskingScorer, reward_model
from apps.tasks.drafts import CUT_OFF, load_attempts, read_context, rebuild_draft
from apps.tasks.models import Attempt, Step, Task
from apps.tasks.verifying import read_verification, verify_draft
from apps.worlds.episodes import TAKEN_OVER
from apps.worlds.registry import get_world
from apps.worlds.verifying import list_facts
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
from tentalis.core.scoring.weights import Combined, WeightProfile, combine
from tentalis.core.worlds import AttemptDraft, Verification
from tentalis.outbound.scopes import ScopedThreadPool

logger = logging.getLogger(__name__)

TOLD_BY_THE_TASK = ("expected_steps", "expected_lines")

# bulk_update says the same with one CASE a column and row: half of the link's time for a group of eight
_SAVE_ATTEMPTS = """
UPDATE tasks_attempt SET outcome = new.outcome, verification = new.verification, missing_steps = new.missing_steps,
                         score = new.score, score_details = new.score_details
FROM jsonb_to_recordset(%s::jsonb) AS new(id bigint, outcome double precision, verification jsonb,
                                   missing_steps smallint, score double precision, score_details jsonb)
WHERE tasks_attempt.id = new.id
"""
_SAVE_TASKS = """
UPDATE tasks_task SET score = new.score, answer = new.answer
FROM jsonb_to_recordset(%s::jsonb) AS new(id bigint, score double precision, answer text)
WHERE tasks_task.id = new.id AND tasks_task.state = 'scoring'
RETURNING tasks_task.id
"""


NO_ROW = 0
"""The id of what is no row: none has it."""


@dataclass(frozen=True, kw_only=True)
class ScoredAttempt:
    """What came of one attempt, before it is rows.

    Args:
        trust: judging scorer -> factor on its weight, from its calibration.
        raters: judging scorer -> handle of the rater behind it.
        asked: the judge that was asked, with the `scorers` that asked it; {}: nobody was.
        checked_by: the judges that the checks of its answer ask, where one of them had a word.
    """

    attempt: Attempt
    steps: Sequence[Step]
    results: Mapping[str, ScorerResult]
    combined: Combined
    verification: Verification | None
    trust: Mapping[str, float]
    raters: Mapping[str, str]
    asked: Mapping[str, Any] = field(default_factory=dict)
    checked_by: Sequence[Mapping[str, Any]] = ()

    @property
    def value(self) -> float | None:
        """What the scorers say; where they cannot, what the world verified."""
        verified = self.verification.outcome if self.verification else None
        return verified if self.combined.value is None else self.combined.value


def score_tasks(task_ids: Sequence[int], *, by: str = "scorer") -> None:
    """Score every attempt of tasks of one worker and environment, once. They stay where they are: the review link
    moves them.

    What cannot be scored is stored as that, with its reason; nothing is made up for it.
    """
    waiting = Task.objects.filter(pk__in=task_ids, state=Task.State.SCORING).order_by("pk")
    tasks = list(waiting.select_related("project", "worker__provider"))
    attempts = load_attempts(tasks)
    tasks = [task for task in tasks if not any(attempt.score_details for attempt in attempts[task.pk])]
    if not tasks:
        return
    profile, panel = find_profile(tasks[0].project, tasks[0].environment), None
    scored: dict[Task, Sequence[ScoredAttempt]] = {}
    for task in tasks:
        with charge(project=task.project, turn="judge", task_id=task.pk):
            if panel is None or panel.asks:  # what judges cost is each task's own
                panel = convene(task, profile)
            scored[task] = score_attempts(task, attempts[task.pk], panel)
    with final_write(task_ids) as kept:
        _save({task: found for task, found in scored.items() if task.pk in kept}, profile, by=by)


def asks_models(project: Project, environment: str) -> bool:
    """Whether scoring one task waits for a model: a judge, which is asked about each attempt."""
    asking = ASKING.keys() & find_profile(project, environment).weights
    return bool(asking) and find_voter(project) is not None


def find_profile(project: Project, environment: str) -> WeightProfile:
    """The project's own weights of an environment, else those it comes with.

    Raises:
        ScoringError: the stored weights cannot be used.
        UnknownEnvironmentError: there are none, and no such environment.
    """
    own = project.weight_profiles.get(environment)
    return WeightProfile.from_json(environment, get_world(environment).profile if own is None else own)


@dataclass(frozen=True)
class ScoringPanel:
    """Who scores the attempts of a worker in an environment.

    Args:
        trained: the reward model that scores the worker's steps; None while there is none.
        raters: judging scorer -> handle of the rater behind it; trust: -> factor on its weight.
    """

    profile: WeightProfile
    trained: RewardModel | None
    raters: Mapping[str, str]
    voter: Voter | Unscored | None
    trust: Mapping[str, float]

    @property
    def asks(self) -> bool:
        """Whether a judge is asked: there is one, and it may train."""
        return isinstance(self.voter, Voter)


def convene(task: Task, profile: WeightProfile) -> ScoringPanel:
    """Those who score a task, and others of its worker and environment."""
    trained = find_live(task.worker) if reward_model.NAME in profile.weights else None
    raters = {name: name_rater(name) for name in profile.weights if name in ASKING}
    if trained is not None:
        raters[reward_model.NAME] = trained.rater
    asking = [name for name in raters if trained is None or name != reward_model.NAME]
    voter = find_training_voter(task.project) if asking else None
    return ScoringPanel(profile, trained, raters, voter, find_trust(task.project_id, raters))


def score_attempts(task: Task, attempts: Sequence[Attempt], panel: ScoringPanel) -> list[ScoredAttempt]:
    """Every scorer of a panel on every attempt of a task. Nothing is written, and no transaction is open meanwhile:
    scorers may wait for a model as long as it takes.
    """
    given: Mapping[int, ScorerResult] = {}
    if panel.trained is not None:
        answered = [one for one in attempts if one.state != Attempt.State.FAILED]
        given = reward_model.score_attempts(panel.trained, answered)
    profile, voter, graders = panel.profile, panel.voter, convene_graders(task.project, task.checks, trains=True)
    votes_at_once = VOTES * ATTEMPTS_AT_ONCE if panel.asks else 1
    with ScopedThreadPool(min(votes_at_once, 32)) as voting, ScopedThreadPool(ATTEMPTS_AT_ONCE) as working:
        scorers: list[Scorer] = []
        for name in profile.weights:
            is_given = panel.trained is not None and name == reward_model.NAME
            if not is_given and (scorer := SCORERS.get(name)):  # of one that is here no more there is no result
                scorers.append(scorer.convene(voter, voting) if isinstance(scorer, AskingScorer) else scorer)
        score = partial(_score_attempt, task, profile, scorers, panel.trust, panel.raters, given, graders)
        found = list(working.map(score, attempts) if panel.asks or graders else map(score, attempts))
    asked = _name_asked(voter, [scorer.name for scorer in scorers if scorer.name in ASKING])
    judges = graders.judges if graders else []
    return [replace(one, asked=asked, checked_by=_find_heard(judges, one.verification)) for one in found]


def _find_heard(judges: Sequence[Mapping[str, Any]], verification: Verification | None) -> Sequence[Mapping[str, Any]]:
    """Those of the judges that had a word in what was found out of an answer: who was asked is named with its model
    (`Graders.name`)."""
    parts, named = list(verification.checks) if verification and judges else [], set[str]()
    while parts:
        part = parts.pop()
        parts += part.get("parts", [])
        named |= name_asked(part)
    return [judge for judge in judges if judge["model"] in named]


def _name_asked(voter: Voter | Unscored | None, scorers: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(voter, Voter) or not scorers:
        return {}
    return {"provider": voter.provider_id, "model": voter.model, "scorers": scorers}


def score_unsaved_sample(
    task: Task, draft: AttemptDraft, *, turn: str = "judge", adapter_name: str = ""
) -> ScoredAttempt:
    """Score an answer that is nobody's attempt and becomes no row, by the task's profile exactly as an attempt.

    A trainer's sample is one, an answer of a shadow test another.

    Args:
        turn: what the judges' calls are charged to; adapter_name: whose answer they judge, where that pays.
    Raises:
        ScoringError: the project's stored weights cannot be used.
    """
    steps = [
        Step(
            index=index,
            kind=step.kind,
            text=step.text,
            tool_name=step.tool_name,
            tool_result=step.tool_result,
        )
        for index, step in enumerate(draft.steps)
    ]
    attempt = Attempt(
        pk=NO_ROW,
        task=task,
        worker=task.worker,
        text=draft.text,
        answer=draft.answer,
        error=draft.error,
        state=Attempt.State.FAILED if draft.error else Attempt.State.ANSWERED,
    )
    attempt.ordered_steps = steps
    attempt.last_finish_reason = "stop" if draft.ended else CUT_OFF
    with charge(project=task.project, turn=turn, task_id=task.pk, adapter_name=adapter_name):
        panel = convene(task, find_profile(task.project, task.environment))
        return score_attempts(task, [attempt], panel)[0]


def _score_attempt(
    task: Task,
    profile: WeightProfile,
    scorers: Iterable[Scorer],
    trust: Mapping[str, float],
    raters: Mapping[str, str],
    given: Mapping[int, ScorerResult],
    graders: Graders | None,
    attempt: Attempt,
) -> ScoredAttempt:
    steps = attempt.ordered_steps
    verification, reason = read_verification(attempt), ""
    if attempt.state == Attempt.State.FAILED:
        reason = f"the attempt failed: {attempt.error or 'no reason was kept'}"
    else:
        verification = verification or verify_draft(task, rebuild_draft(attempt, steps), graders)
        reason = (verification.infrastructure or verification.untold) if verification else ""
    if reason:
        lost = Unscored(reason)
        return ScoredAttempt(
            attempt=attempt,
            steps=steps,
            results={name: ScorerResult(scorer=name, value=lost) for name in profile.weights},
            combined=combine(dict.fromkeys(profile.weights, lost), profile),
            verification=verification,
            trust=trust,
            raters=raters,
        )
    facts = _gather_facts(task, verification)
    context = read_context(task, attempt, facts=facts, sources=_gather_sources(task))
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
    """One scorer's word; what goes wrong in it is its own reason and hurts no other scorer, but for PacedError."""
    try:
        result = scorer.score(context)
        if any(step.index >= len(context.steps) for step in result.steps):
            raise ScoringError(
                f"wanted scores of {len(context.steps)} steps, found one of step {result.steps[-1].index}"
            )
    except Exception as error:
        raise_if_paced(error)
        logger.warning("scorer %s failed", scorer.name, exc_info=True)
        return ScorerResult(scorer=scorer.name, value=Unscored(f"{type(error).__name__}: {error}"[:2000]))
    return result


def _gather_facts(task: Task, verification: Verification | None) -> dict[str, Any]:
    """What the task and the world say, by name."""
    told = {
        name: task.metadata[name]
        for name in TOLD_BY_THE_TASK
        if isinstance(task.metadata.get(name), int) and task.metadata[name] > 0
    }
    return list_facts(task.environment, verification, told)


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


def _save(scored: Mapping[Task, Sequence[ScoredAttempt]], profile: WeightProfile, *, by: str) -> None:
    """Four statements, however many tasks and attempts. A task that was moved on meanwhile is left alone."""
    with connection.cursor() as cursor:
        cursor.execute(_SAVE_TASKS, [json.dumps([_summarise(task, found) for task, found in scored.items()])])
        changed = {pk for (pk,) in cursor.fetchall()}
    scored = {task: found for task, found in scored.items() if task.pk in changed}
    every = [one for found in scored.values() for one in found]
    if not scored:
        return
    insert(row for one in every for row in _rows(one))
    with connection.cursor() as cursor:
        cursor.execute(_SAVE_ATTEMPTS, [json.dumps([_columns(one, profile) for one in every])])
    record_many(
        write_entry(
            Kind.TASK_SCORED,
            subject=task,
            by=by,
            payload={
                "score": _find_mean(found),
                "attempts": {str(one.attempt.pk): one.combined.value for one in found},
                "unscored": sorted({lost.scorer for one in found for lost in one.combined.redistributed_from}),
            },
        )
        for task, found in scored.items()
    )
    found = [(one.attempt.pk, one.steps, one.results, one.verification) for one in every]
    raters = every[0].raters if every else {}
    record_comparisons(project_id=next(iter(scored)).project_id, sittings=hold_against_verified(found, raters))


def _find_mean(scored: Sequence[ScoredAttempt]) -> float | None:
    values = [value for one in scored if (value := one.value) is not None]
    return sum(values) / len(values) if values else None


def _summarise(task: Task, scored: Sequence[ScoredAttempt]) -> dict[str, Any]:
    answered = (one for one in scored if one.attempt.state == Attempt.State.ANSWERED)
    best = max(answered, key=_rank, default=None)
    return {"id": task.pk, "score": _find_mean(scored), "answer": best.attempt.answer if best else ""}


def _rank(one: ScoredAttempt) -> tuple[bool, float, float]:
    """What somebody took over and answered before all, then by what was verified, then by what the scorers say."""
    said = one.verification
    verified = -1.0 if said is None or said.outcome is None else said.outcome
    is_taken_over = said is not None and said.infrastructure == TAKEN_OVER
    return is_taken_over, verified, -1.0 if one.combined.value is None else one.combined.value


def _columns(one: ScoredAttempt, profile: WeightProfile) -> dict[str, Any]:
    found = one.verification
    return {
        "id": one.attempt.pk,
        "outcome": found.outcome if found else None,
        "verification": found.to_json() if found else None,
        "missing_steps": found.missing_steps if found else 0,
        "score": one.combined.value,
        "score_details": {
            "profile": profile.to_json(),
            "weights": dict(one.combined.used_weights),
            "trust": dict(one.trust),
            **({"judge": dict(one.asked)} if one.asked else {}),
            **({"checked_by": list(one.checked_by)} if one.checked_by else {}),
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
