"""The last word on each attempt of a task, and the hint that teaches it."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from apps.feedback.models import Feedback, Hint
from apps.feedback.set_aside import Aside, Trust, combine_others
from apps.tasks.copies import annotate_copies, group_copies
from apps.tasks.models import Attempt, Task
from tentalis.core.learning.rewards import RANKS, AttemptScores, Copies, EffectiveJudgement, Rating, judge_attempts

VERIFIERS = frozenset({"step_verifier"})
"""Scorers whose word on a step is checked, not judged."""


class TrustedHint(NamedTuple):
    """A hint, and how far its giver is trusted, in (0, 1]."""

    hint: Hint
    trust: float


def effective_judgement(task: Task) -> dict[int, EffectiveJudgement]:
    """Attempt id -> judgement, for every attempt of the task; see `effective_judgements`."""
    return effective_judgements([task])[task.pk]


def effective_judgements(tasks: Sequence[Task], trust: Trust | None = None) -> dict[int, dict[int, EffectiveJudgement]]:
    """Task id -> attempt id -> judgement, for every attempt of tasks of one project. Five queries, one more where a
    judge had a word, and two where one that had is below its bar.

    What was retracted counts for nothing, and so does what was said of a gold item. What a judge that is below its bar
    by now had said is set aside: an AI manager's words, the scorers that asked it, and what checks come to where nobody
    else settles it. Of one author only the last
    feedback with a number in it counts, trusted by its trust times the author's weight (how often they were right).
    How judgements become rewards: `tentalis.core.learning.rewards`.
    """
    if not tasks:
        return {}
    told = Attempt.objects.filter(task__in=tasks).only("task_id", "index", "state", "outcome", "score", "score_details")
    attempts: dict[int, list[Attempt]] = {task.pk: [] for task in tasks}
    for attempt in annotate_copies(told).order_by("index"):
        attempts[attempt.task_id].append(attempt)
    trust = trust or Trust(tasks[0].project_id)
    ratings, unheard = _load_ratings(tasks, trust)
    every = [attempt for of_task in attempts.values() for attempt in of_task]
    asides = trust.find_asides({one.pk: one.score_details for one in every})
    scores = _load_scores(every, asides)
    found = {
        task: judge_attempts([scores[one.pk] for one in of_task], ratings[task], _find_copies(of_task))
        for task, of_task in attempts.items()
    }
    for task, judged in found.items():
        for pk, one in judged.items():
            if words := asides[pk].words if pk in asides else unheard.get(task, ""):
                judged[pk] = replace(one, set_aside=words)
    return found


def find_hint(task: Task) -> TrustedHint | None:
    """The hint for every rollout of the task; see `find_last_hints`."""
    return find_last_hints([task]).get(task.pk)


def find_last_hints(tasks: Sequence[Task], trust: Trust | None = None) -> dict[int, TrustedHint]:
    """Task id -> the hint for every rollout of it: a person's before an app's before an AI's, the last of those.

    Of tasks of one project, and only by who is trusted (`Trust.weigh`). One query, and those of `trust`.
    """
    found: dict[int, dict[str, TrustedHint]] = {}
    for taught in _load_hints([task.pk for task in tasks], trust):
        found.setdefault(taught.hint.task_id, {})[taught.hint.feedback.source] = taught  # of each source the last one
    return {task: next(said[rank] for rank in RANKS if rank in said) for task, said in found.items()}


def find_hints(task_ids: Collection[int]) -> dict[int, list[str]]:
    """Task id -> every hint for it that counts, each once: a person's before an app's before an AI's; see
    `find_last_hints`.

    The task's hint is `find_hint`'s; these are what a teacher may choose from.
    """
    hints = [taught.hint for taught in reversed(_load_hints(task_ids))]
    texts: dict[int, list[str]] = {}
    for hint in sorted(hints, key=lambda hint: RANKS.index(hint.feedback.source)):
        if hint.text not in texts.setdefault(hint.task_id, []):
            texts[hint.task_id].append(hint.text)
    return texts


def _load_hints(task_ids: Collection[int], trust: Trust | None = None) -> list[TrustedHint]:
    """Those that teach, the first one first."""
    rows = Hint.objects.filter(task__in=task_ids, feedback__in=Feedback.objects.counting()).exclude(text="")
    told_by = (f"feedback__{name}" for name in ("source", "author", "trust", "created_at", "project", "judge"))
    hints = list(rows.select_related("feedback").only("task_id", "text", *told_by).order_by("id"))
    if not hints:
        return []
    trust = trust or Trust(hints[0].feedback.project_id)
    weights = trust.weigh([hint.feedback for hint in hints])
    heard = [hint for hint in hints if weights[hint.feedback_id] > 0 and not trust.silence(hint.feedback, of_hint=True)]
    return [TrustedHint(hint, weights[hint.feedback_id]) for hint in heard]


def _find_copies(attempts: Sequence[Attempt]) -> Copies:
    groups = [group for group in group_copies(attempts) if len(group) > 1]
    steps = (zip(*([(one.pk, step) for step in one.step_ids] for one in group), strict=True) for group in groups)  # type: ignore[attr-defined]
    return Copies([[one.pk for one in group] for group in groups], [place for of_group in steps for place in of_group])


def _load_ratings(tasks: Sequence[Task], trust: Trust) -> tuple[dict[int, dict[str, list[Rating]]], dict[int, str]]:
    """Task id -> source -> the last rating of each of its authors, trusted as far as they were right so far; and
    task id -> whose ratings of it are set aside."""
    unheard: dict[int, str] = {}
    last: dict[tuple[int, str, str], Rating] = {}
    counting = Feedback.objects.counting().filter(task__in=tasks, trust__gt=0)
    given = list(counting.order_by("id").prefetch_related("steps"))
    weights = trust.weigh(given)
    for feedback in given:
        if words := trust.silence(feedback):
            unheard[feedback.task_id] = words
        rating = _read_rating(feedback, weights[feedback.pk])
        if rating.trust > 0 and rating.says_something:
            last[feedback.task_id, feedback.source, feedback.author] = rating
    ratings: dict[int, dict[str, list[Rating]]] = {task.pk: defaultdict(list) for task in tasks}
    for (task, source, _), rating in last.items():
        ratings[task][source].append(rating)
    return ratings, unheard


def _read_rating(feedback: Feedback, trust: float) -> Rating:
    scored = [(row.attempt_id, row.step_id, row.score) for row in feedback.steps.all() if row.score is not None]
    return Rating(
        trust=trust,
        score=feedback.score,
        preferred=frozenset(filter(None, [feedback.preferred_attempt_id])),
        attempts={attempt: score for attempt, step, score in scored if step is None},
        steps={(attempt, step): score for attempt, step, score in scored if step is not None},
        ranking=feedback.ranking,
        none_good=feedback.none_good,
    )


def _load_scores(attempts: Sequence[Attempt], asides: Mapping[int, Aside]) -> dict[int, AttemptScores]:
    """Attempt id -> its scores; a scorer's vote on a step weighs as much as the scorer.

    Where scorers are set aside, of the others: one query more.
    """
    weights = {one.pk: _read_scorer_weights(one.score_details) for one in attempts}
    for pk, aside in asides.items():
        weights[pk] |= dict.fromkeys(aside.scorers, 0.0)
    unchecked = {pk for pk, aside in asides.items() if aside.has_outcome}
    combined = _combine_others([one for one in attempts if one.pk in asides and asides[one.pk].scorers], asides)
    rows = Attempt.objects.order_by().filter(
        pk__in=list(weights), step_scores__step__isnull=False, step_scores__score__isnull=False
    )
    told: Iterable[tuple[int, int, str, float]] = rows.values_list(  # type: ignore[assignment]  # none is empty
        "pk", "step_scores__step", "step_scores__scorer", "step_scores__score"
    )
    votes: dict[int, dict[int, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    verified: dict[int, dict[int, float]] = defaultdict(dict)
    for attempt, step, scorer, score in told:
        if scorer in VERIFIERS:
            verified[attempt][step] = score
        else:
            votes[attempt][step].append((weights[attempt].get(scorer, 0.0), score))
    return {
        one.pk: AttemptScores(
            id=one.pk,
            index=one.index,
            is_answered=one.state == Attempt.State.ANSWERED,
            score=combined.get(one.pk, one.score),
            outcome=None if one.pk in unchecked else one.outcome,
            step_votes=votes[one.pk],
            verified_steps=verified[one.pk],
        )
        for one in attempts
    }


def _combine_others(attempts: Sequence[Attempt], asides: Mapping[int, Aside]) -> dict[int, float | None]:
    """Attempt id -> its score without those that are set aside, of those attempts."""
    if not attempts:
        return {}
    rows = Attempt.objects.order_by().filter(
        pk__in=[one.pk for one in attempts], step_scores__step__isnull=True, step_scores__isnull=False
    )
    given: dict[int, dict[str, float | None]] = defaultdict(dict)
    for pk, scorer, score in rows.values_list("pk", "step_scores__scorer", "step_scores__score"):
        given[pk][scorer] = score
    return {one.pk: combine_others(one, given[one.pk], asides[one.pk]) for one in attempts}


def _read_scorer_weights(details: Mapping[str, Any]) -> dict[str, float]:
    """Scorer -> its weight in the profile times how far it was trusted when it scored."""
    trust = details.get("trust", {})
    return {name: weight * trust.get(name, 1.0) for name, weight in details.get("profile", {}).items()}
