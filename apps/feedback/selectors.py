"""The last word on each attempt of a task, and the hint that teaches it."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from statistics import fmean
from typing import Any, NamedTuple, TypeVar

from apps.calibration.selectors import weights_of
from apps.feedback.models import Feedback, Hint
from apps.tasks.copies import annotate_copies, group_copies
from apps.tasks.models import Attempt, Task

VERIFIERS = frozenset({"step_verifier"})
"""Scorers whose word on a step is checked, not judged."""
VERIFIED, SCORERS = "verified", "scorers"
RANKS = (
    Feedback.Source.HUMAN.value,
    VERIFIED,
    Feedback.Source.IMPORTED.value,
    Feedback.Source.OUTSIDE.value,
    Feedback.Source.AI.value,
    Feedback.Source.IMPLICIT.value,
    SCORERS,
)
"""Whose word counts, the first that has one: a person, the world, what came with imported work, an app for its user,
an AI manager, what a person's next words showed, the scorers."""

BEST_OF_NONE = 0.5
"""What the best attempt is worth at most where none is good enough."""


class StepSaid(NamedTuple):
    """What persons say of a step, and how far they are trusted, both in [0, 1]."""

    score: float
    trust: float


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What an attempt is worth.

    Args:
        reward: in [0, 1]; None: nobody could say.
        reward_source: one of RANKS; "" without a reward.
        step_scores: step id -> in [0, 1], each from the highest rank below a person's that spoke of exactly that step.
        step_words: step id -> what persons said of exactly that step: mean score by trust, and mean trust, in [0, 1].
        weight: in [0, 1], how far the reward is trusted: the mean trust of the feedback behind it, 1 without any.
    """

    reward: float | None
    reward_source: str
    step_scores: Mapping[int, float] = field(default_factory=dict)
    step_words: Mapping[int, StepSaid] = field(default_factory=dict)
    weight: float = 1.0


@dataclass(frozen=True)
class _Reward:
    value: float
    source: str
    weight: float = 1.0


@dataclass(frozen=True)
class _Word:
    """One feedback's numbers: on the whole task, by attempt id, by (attempt id, step id); the ranking by indices."""

    trust: float
    score: float | None
    preferred: frozenset[int]
    attempts: Mapping[int, float]
    steps: Mapping[tuple[int, int], float]
    ranking: Sequence[Sequence[int]]
    none_good: bool

    @property
    def says_something(self) -> bool:
        is_ordered = bool(self.preferred or self.ranking) or self.none_good
        return self.score is not None or is_ordered or bool(self.attempts or self.steps)

    def reach_copies(self, copies: "_Copies") -> "_Word":
        """What was said of one of several attempts that read the same holds for all; one's own word stands."""
        if not copies.attempts:
            return self
        return replace(
            self,
            preferred=self.preferred.union(*(copies.attempts.get(attempt, ()) for attempt in self.preferred)),
            attempts=_spread(self.attempts, copies.attempts),
            steps=_spread(self.steps, copies.steps),
        )


@dataclass(frozen=True)
class _Copies:
    """Attempts that read the same: of each attempt and step of one the others; of what is alone nothing."""

    groups: Sequence[Sequence[int]]
    attempts: Mapping[int, Sequence[int]]
    steps: Mapping[tuple[int, int], Sequence[tuple[int, int]]]


_Steps = dict[tuple[int, int], float]
Place = TypeVar("Place")
Said = TypeVar("Said")


def effective_judgement(task: Task) -> dict[int, Judgement]:
    """Attempt id -> judgement, for every attempt of the task; see `effective_judgements`."""
    return effective_judgements([task])[task.pk]


def effective_judgements(tasks: Sequence[Task]) -> dict[int, dict[int, Judgement]]:
    """Task id -> attempt id -> judgement, for every attempt of tasks of one project, by RANKS. Five queries.

    What was retracted counts for nothing, and so does what was said of a gold item. Of one author only the last
    feedback with a number in it counts; several of one rank are averaged by their trust times their author's weight
    (how often they were right). A word on an attempt beats the score of the whole task.

    A score of the whole says how well the task was done, not which attempt is better. Attempts without a word of their
    own keep the differences the next rank sees between them, moved so that their mean is the score, within [0, 1];
    where the next rank knows nothing of one of them, each gets the score.

    A preference for attempt p moves what the same feedback, or else the next rank, says (b_i): r_p = (1 + max b) / 2,
    every other r_i = b_i / 2; where nobody says anything r_p = 1 and the others are 0. So p leads the others by 1/2 or
    more, and they keep their order.

    A ranking of K groups, best first, does that to the whole order: r = (q + s) / 2 for each attempt of group
    t = 0 .. K - 1, with q = 1 - t / (K - 1), and s the mean of those b_i that fall to the group when they are sorted
    from the highest and dealt out in the order of the ranking. So equals are equal, each group leads the next by
    1 / (2 (K - 1)) or more, and the best by 1/2 where K = 2, as with a preference; where nobody says anything r = q.
    Where all are equal (K = 1) r is the mean of the b_i, and nothing where there are none.

    Where none is good enough the best is worth 1/2 at most: all are scaled down by the same factor until it is.
    Attempts that read the same, word for word, are one answer: what is said of one is said of each, and they have the
    same reward, the mean of what the highest rank among them gives. An attempt that failed has no reward.
    """
    told = Attempt.objects.filter(task__in=tasks).only("task_id", "index", "state", "outcome", "score", "score_details")
    attempts: dict[int, list[Attempt]] = {task.pk: [] for task in tasks}
    for attempt in annotate_copies(told).order_by("index"):
        attempts[attempt.task_id].append(attempt)
    copies = {task: _find_copies(found) for task, found in attempts.items()}
    spoken = _load_words(tasks, copies)
    steps = _load_step_scores([attempt for found in attempts.values() for attempt in found])
    return {task: _judge_all(found, copies[task], spoken[task], *steps) for task, found in attempts.items()}


def _judge_all(
    attempts: Sequence[Attempt],
    copies: _Copies,
    spoken: Mapping[str, Sequence[_Word]],
    judged_steps: Mapping[int, _Steps],
    verified_steps: Mapping[int, _Steps],
) -> dict[int, Judgement]:
    answered = [attempt for attempt in attempts if attempt.state == Attempt.State.ANSWERED]
    by_index = {attempt.index: attempt.pk for attempt in answered}
    steps = _join_steps(judged_steps, attempts)
    rewards = {one.pk: _Reward(one.score, SCORERS) for one in answered if one.score is not None}
    for rank in reversed(RANKS[:-1]):
        if rank == VERIFIED:
            rewards |= {one.pk: _Reward(one.outcome, VERIFIED) for one in answered if one.outcome is not None}
            steps |= _join_steps(verified_steps, attempts)
        else:
            rewards |= _reward_by_words(spoken.get(rank, ()), by_index, rewards, rank)
            if rank != Feedback.Source.HUMAN:
                steps |= _average(_step_votes(spoken.get(rank, ())))
    said = _weigh_step_votes(_step_votes(spoken.get(Feedback.Source.HUMAN, ())))
    for group in copies.groups:
        rewards |= _share_reward(group, rewards)
    return {
        one.pk: _judge(rewards.get(one.pk), _of_attempt(steps, one), _of_attempt(said, one))
        if one in answered
        else _judge(None, {}, {})
        for one in attempts
    }


def _join_steps(steps: Mapping[int, _Steps], attempts: Iterable[Attempt]) -> _Steps:
    return {place: score for attempt in attempts for place, score in steps.get(attempt.pk, {}).items()}


def find_hint(task: Task) -> Hint | None:
    """The hint for every rollout of the task; see `find_last_hints`."""
    return find_last_hints([task]).get(task.pk)


def find_last_hints(tasks: Sequence[Task]) -> dict[int, Hint]:
    """Task id -> the hint for every rollout of it: a person's before an app's before an AI's, the last of those."""
    hints = Hint.objects.filter(task__in=tasks, feedback__in=Feedback.objects.counting()).exclude(text="")
    found: dict[int, dict[str, Hint]] = {}
    for hint in hints.select_related("feedback").only("task_id", "text", "feedback__source").order_by("id"):
        found.setdefault(hint.task_id, {})[hint.feedback.source] = hint  # of each source the last one
    return {task: next(said[rank] for rank in RANKS if rank in said) for task, said in found.items()}


def find_hints(task_ids: Collection[int]) -> dict[int, list[str]]:
    """Task id -> every hint for it that counts, each once: a person's before an app's before an AI's. One query.

    The task's hint is `find_hint`'s; these are what a teacher may choose from.
    """
    hints = Hint.objects.filter(task__in=task_ids, feedback__in=Feedback.objects.counting()).exclude(text="")
    found = list(hints.order_by("-id").values_list("task_id", "feedback__source", "text"))
    texts: dict[int, list[str]] = {}
    for task_id, _, text in sorted(found, key=lambda row: RANKS.index(row[1])):
        if text not in texts.setdefault(task_id, []):
            texts[task_id].append(text)
    return texts


def _judge(reward: _Reward | None, steps: Mapping[int, float], said: Mapping[int, StepSaid]) -> Judgement:
    if reward is None:
        return Judgement(reward=None, reward_source="", step_scores=steps, step_words=said)
    return Judgement(
        reward=reward.value, reward_source=reward.source, step_scores=steps, step_words=said, weight=reward.weight
    )


def _of_attempt(steps: Mapping[tuple[int, int], Said], attempt: Attempt) -> dict[int, Said]:
    return {step: value for (of, step), value in steps.items() if of == attempt.pk}


def _find_copies(attempts: Sequence[Attempt]) -> _Copies:
    groups = [group for group in group_copies(attempts) if len(group) > 1]
    others: dict[int, list[int]] = {}
    of_steps: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for group in groups:
        for one in group:
            others[one.pk] = [other.pk for other in group if other is not one]
        for place in zip(*([(one.pk, step) for step in one.step_ids] for one in group), strict=True):  # type: ignore[attr-defined]
            of_steps |= {one: [other for other in place if other != one] for one in place}
    return _Copies([[one.pk for one in group] for group in groups], others, of_steps)


def _spread(said: Mapping[Place, float], copies: Mapping[Place, Sequence[Place]]) -> dict[Place, float]:
    """Scores with those of copies; what is said of one copy by itself stands, and several words on others average."""
    votes: dict[Place, list[tuple[float, float]]] = defaultdict(list)
    for place, score in said.items():
        for other in copies.get(place, ()):
            votes[other].append((1.0, score))
    return _average(votes) | dict(said)


def _share_reward(group: Sequence[int], rewards: Mapping[int, _Reward]) -> dict[int, _Reward]:
    """One reward for attempts that read the same."""
    found = [rewards[attempt] for attempt in group if attempt in rewards]
    if not found:
        return {}
    source = min((one.source for one in found), key=RANKS.index)
    best = [one for one in found if one.source == source]
    return dict.fromkeys(group, _Reward(fmean(one.value for one in best), source, fmean(one.weight for one in best)))


def _load_words(tasks: Sequence[Task], copies: Mapping[int, _Copies]) -> dict[int, dict[str, list[_Word]]]:
    """Task id -> source -> the last word of each of its authors, trusted as far as they were right so far."""
    last: dict[tuple[int, str, str], _Word] = {}
    counting = Feedback.objects.counting().filter(task__in=tasks, trust__gt=0)
    for feedback in counting.order_by("id").prefetch_related("steps"):
        word = _read_word(feedback).reach_copies(copies[feedback.task_id])
        if word.says_something:
            last[feedback.task_id, feedback.source, feedback.author] = word
    weights = weights_of(tasks[0].project_id, {author for _, _, author in last}) if last else {}
    spoken: dict[int, dict[str, list[_Word]]] = {task.pk: defaultdict(list) for task in tasks}
    for (task, source, author), word in last.items():
        if weights[author] > 0:
            spoken[task][source].append(replace(word, trust=word.trust * weights[author]))
    return spoken


def _read_word(feedback: Feedback) -> _Word:
    scored = [(row.attempt_id, row.step_id, row.score) for row in feedback.steps.all() if row.score is not None]
    return _Word(
        trust=feedback.trust,
        score=feedback.score,
        preferred=frozenset(filter(None, [feedback.preferred_attempt_id])),
        attempts={attempt: score for attempt, step, score in scored if step is None},
        steps={(attempt, step): score for attempt, step, score in scored if step is not None},
        ranking=feedback.ranking,
        none_good=feedback.none_good,
    )


def _load_step_scores(attempts: Iterable[Attempt]) -> tuple[dict[int, _Steps], dict[int, _Steps]]:
    """Attempt id -> (attempt id, step id) -> score: by the judging scorers, averaged by their weights; and by the
    verifiers."""
    weights = {one.pk: _read_scorer_weights(one.score_details) for one in attempts}
    rows = Attempt.objects.order_by().filter(
        pk__in=list(weights), step_scores__step__isnull=False, step_scores__score__isnull=False
    )
    told: Iterable[tuple[int, int, str, float]] = rows.values_list(  # type: ignore[assignment]  # none is empty
        "pk", "step_scores__step", "step_scores__scorer", "step_scores__score"
    )
    judged: dict[int, dict[tuple[int, int], list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    verified: dict[int, _Steps] = defaultdict(dict)
    for attempt, step, scorer, score in told:
        if scorer in VERIFIERS:
            verified[attempt][attempt, step] = score
        else:
            judged[attempt][attempt, step].append((weights[attempt].get(scorer, 0.0), score))
    return {attempt: _average(votes) for attempt, votes in judged.items()}, verified


def _read_scorer_weights(details: Mapping[str, Any]) -> dict[str, float]:
    """Scorer -> its weight in the profile times how far it was trusted when it scored."""
    trust = details.get("trust", {})
    return {name: weight * trust.get(name, 1.0) for name, weight in details.get("profile", {}).items()}


def _reward_by_words(
    words: Sequence[_Word], answered: Mapping[int, int], below: Mapping[int, _Reward], source: str
) -> dict[int, _Reward]:
    votes: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for word in words:
        for attempt, value in _values_of(word, answered, below).items():
            votes[attempt].append((word.trust, value))
    means = _average(votes)
    return {
        attempt: _Reward(value, source, fsum(trust for trust, _ in votes[attempt]) / len(votes[attempt]))
        for attempt, value in means.items()
    }


def _values_of(word: _Word, answered: Mapping[int, int], below: Mapping[int, _Reward]) -> dict[int, float]:
    """What one feedback says of each attempt; see `effective_judgement` for preference, ranking and none good.

    Args:
        answered: attempt index -> id.
    """
    own = set(answered.values())
    said = _spread_score(word, own - set(word.attempts), below)
    said |= {attempt: value for attempt, value in word.attempts.items() if attempt in own}
    base = {attempt: reward.value for attempt, reward in below.items() if attempt in own} | said
    groups = [[answered[index] for index in group if index in answered] for group in word.ranking]
    if any(groups):
        said = _rank([group for group in groups if group], base)
    elif word.preferred & own:
        top = max(base.values(), default=1.0)
        said = {
            attempt: (1.0 + top) / 2 if attempt in word.preferred else base.get(attempt, 0.0) / 2 for attempt in own
        }
    if word.none_good:
        said = said or {attempt: base.get(attempt, 0.0) for attempt in own}
        top = max(said.values(), default=0.0)
        said = {attempt: value * min(1.0, BEST_OF_NONE / top) if top else 0.0 for attempt, value in said.items()}
    return said


def _spread_score(word: _Word, attempts: Collection[int], below: Mapping[int, _Reward]) -> dict[int, float]:
    """The score of the whole task on these attempts."""
    if word.score is None or not attempts:
        return {}
    if not all(attempt in below for attempt in attempts):
        return dict.fromkeys(attempts, word.score)
    shift = word.score - fmean(below[attempt].value for attempt in attempts)
    return {attempt: min(1.0, max(0.0, below[attempt].value + shift)) for attempt in attempts}


def _rank(groups: Sequence[Sequence[int]], base: Mapping[int, float]) -> dict[int, float]:
    """Attempt id -> reward, of attempts in groups from best to worst."""
    dealt = sorted((base.get(attempt, 0.0) for group in groups for attempt in group), reverse=True) if base else []
    values: dict[int, float] = {}
    for place, group in enumerate(groups):
        share, dealt = dealt[: len(group)], dealt[len(group) :]
        parts = [fsum(share) / len(share)] if share else []
        if len(groups) > 1:
            parts.append(1.0 - place / (len(groups) - 1))
        if parts:
            values |= dict.fromkeys(group, fsum(parts) / len(parts))
    return values


def _step_votes(words: Iterable[_Word]) -> dict[tuple[int, int], list[tuple[float, float]]]:
    votes: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for word in words:
        for place, score in word.steps.items():
            votes[place].append((word.trust, score))
    return votes


def _weigh_step_votes(votes: Mapping[Place, Sequence[tuple[float, float]]]) -> dict[Place, StepSaid]:
    return {
        place: StepSaid(score, fsum(trust for trust, _ in votes[place]) / len(votes[place]))
        for place, score in _average(votes).items()
    }


def _average(votes: Mapping[Place, Sequence[tuple[float, float]]]) -> dict[Place, float]:
    """Means of (weight, value) pairs; what only weightless words speak of is left out."""
    totals = {place: fsum(weight for weight, _ in pairs) for place, pairs in votes.items()}
    return {
        place: fsum(weight * value for weight, value in pairs) / totals[place]
        for place, pairs in votes.items()
        if totals[place] > 0
    }
