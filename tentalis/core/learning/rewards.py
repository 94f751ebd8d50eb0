"""From what was said of the attempts at one task to a reward for each of them.

Judgements are ranked by who gave them (RANKS). From the lowest rank up, every rank turns its ratings into rewards r_i
in [0, 1] and may use those of the ranks below it, b_i, as what is known of the differences; the highest rank that says
something of an attempt gives its reward. Of one rank r_i = sum_k w_k r_ik / sum_k w_k over its ratings k, with w_k the
trust in rating k, and r_ik by the first of these that rating k has:

- a ranking of K groups, best first: r = (q + s) / 2 for each attempt of group t = 0 .. K - 1, with q = 1 - t / (K - 1),
  and s the mean of those b_i that fall to the group when they are sorted from the highest and dealt out in the order
  of the ranking. Equals are equal, each group leads the next by 1 / (2 (K - 1)) or more, the best by 1/2 where K = 2.
  Without any b_i r = q; where all are equal (K = 1) r = s, and nothing without any b_i;
- a preference for attempt p: r_p = (1 + max b) / 2, every other r_i = b_i / 2, so that p leads by 1/2 or more and the
  others keep their order; without any b_i r_p = 1 and the others are 0;
- a score of the attempt itself: r_i is that score;
- a score s of the whole task, on attempts without one of their own: r_i = clip(b_i + s - mean b, 0, 1), as it says how
  well the task was done, not which attempt is better; where a b_i is missing each gets s.

Scores in the same rating as an order stand for its b_i. Where none is good enough (the rating says so), an attempt of
which the rating says nothing else has r_i = b_i, 0 without one, and all r_i are scaled by min(1, (1/2) / max r).

Worked example: scorers gave three attempts b = (.2, .4, .9). A person's score of .6 for the task moves their mean, .5,
by .1: (.3, .5, 1). A person's preference for the first gives ((1 + .9) / 2, .4 / 2, .9 / 2) = (.95, .2, .45). A ranking
3 > 1 > 2 has q = (.5, 0, 1), is dealt (.4, .2, .9), and gives (.45, .1, .95); if none is good enough, these times
.5 / .95.

Source: none; the rules are ours. Two promises: an order that somebody gave is never reversed by what the ranks below
say, and every reward stays in [0, 1].
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from statistics import fmean
from typing import NamedTuple, TypeVar

from tentalis.core.learning.advantages import UNJUDGED

HUMAN, VERIFIED, SCORERS = "human", "verified", "scorers"
RANKS = (HUMAN, VERIFIED, "imported", "outside", "ai", "implicit", SCORERS)
"""Whose judgement counts, the first that has one: a person, the world, what came with imported work, an app for its
user, an AI manager, what a person's next words showed, the scorers."""

NONE_GOOD_CAP = 0.5
"""What the best attempt is worth at most where none is good enough."""

Place = tuple[int, int]
"""(attempt id, step id)."""
Votes = Sequence[tuple[float, float]]
"""(weight >= 0, value) pairs."""
Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class AttemptScores:
    """What is known of an attempt before anybody rated it; every score in [0, 1].

    Args:
        index: its place in its task, which rankings name.
        is_answered: False: it failed, and has no reward whatever is said of it.
        score: by the scorers; outcome: by the world; None: they could not say.
        step_votes: step id -> votes of the judging scorers; verified_steps: step id -> score of the verifiers.
    """

    id: int
    index: int
    is_answered: bool
    score: float | None = None
    outcome: float | None = None
    step_votes: Mapping[int, Votes] = field(default_factory=dict)
    verified_steps: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Rating:
    """The numbers of one feedback, all in [0, 1]: on the whole task, by attempt id, by step; the ranking by indices."""

    trust: float = 1.0
    score: float | None = None
    preferred: frozenset[int] = frozenset()
    attempts: Mapping[int, float] = field(default_factory=dict)
    steps: Mapping[Place, float] = field(default_factory=dict)
    ranking: Sequence[Sequence[int]] = ()
    none_good: bool = False

    @property
    def says_something(self) -> bool:
        is_ordered = bool(self.preferred or self.ranking) or self.none_good
        return self.score is not None or is_ordered or bool(self.attempts or self.steps)


@dataclass(frozen=True)
class Copies:
    """Attempts that read the same, and their steps that do: groups of two and more."""

    attempts: Sequence[Sequence[int]] = ()
    steps: Sequence[Sequence[Place]] = ()


class TrustedScore(NamedTuple):
    """What persons say of a step, and how far they are trusted, both in [0, 1]."""

    score: float
    trust: float


class Reward(NamedTuple):
    """Value in [0, 1], which of RANKS gave it, and in [0, 1] how far that is trusted."""

    value: float
    source: str
    weight: float = 1.0


@dataclass(frozen=True, kw_only=True)
class EffectiveJudgement:
    """What an attempt is worth.

    Args:
        reward: in [0, 1]; None: nobody could say.
        reward_source: one of RANKS; "" without a reward.
        weight: in [0, 1], how far the reward is trusted: the mean trust of the ratings behind it, 1 without any.
        step_scores: step id -> in [0, 1], each from the highest rank below a person's that spoke of exactly that step.
        human_step_scores: step id -> what persons said of exactly that step: mean score by trust, and mean trust.
        set_aside: what was said and does not count, in words; "" where all counts.
    """

    reward: float | None
    reward_source: str
    weight: float = 1.0
    step_scores: Mapping[int, float] = field(default_factory=dict)
    human_step_scores: Mapping[int, TrustedScore] = field(default_factory=dict)
    set_aside: str = ""


def judge_attempts(
    attempts: Sequence[AttemptScores], ratings: Mapping[str, Sequence[Rating]], copies: Copies | None = None
) -> dict[int, EffectiveJudgement]:
    """Attempt id -> judgement, for every attempt at one task.

    Args:
        ratings: one of RANKS -> the last rating of each author.
        copies: what is said of one attempt of a group is said of each, and they have the same reward: the mean of what
            the highest rank among them gives.
    """
    copies = copies or Copies()
    by_rank = {rank: [_reach_copies(rating, copies) for rating in given] for rank, given in ratings.items()}
    answered = [attempt for attempt in attempts if attempt.is_answered]
    ids = {attempt.index: attempt.id for attempt in answered}
    steps = _at_places({attempt.id: average_votes(attempt.step_votes) for attempt in answered})
    rewards = {attempt.id: Reward(attempt.score, SCORERS) for attempt in answered if attempt.score is not None}
    for rank in reversed(RANKS[:-1]):
        if rank == VERIFIED:
            rewards |= {one.id: Reward(one.outcome, VERIFIED) for one in answered if one.outcome is not None}
            steps |= _at_places({attempt.id: attempt.verified_steps for attempt in answered})
            continue
        rewards |= reward_ratings(by_rank.get(rank, ()), ids, rewards, rank)
        if rank != HUMAN:
            steps |= average_votes(_collect_step_votes(by_rank.get(rank, ())))
    for group in copies.attempts:
        rewards |= _share_reward(group, rewards)
    human_steps = _trust_votes(_collect_step_votes(by_rank.get(HUMAN, ())))
    judged = {attempt.id: EffectiveJudgement(reward=None, reward_source="") for attempt in attempts}
    for attempt in ids.values():
        value, source, weight = rewards.get(attempt, (None, "", 1.0))
        judged[attempt] = EffectiveJudgement(
            reward=value,
            reward_source=source,
            weight=weight,
            step_scores=_of_attempt(steps, attempt),
            human_step_scores=_of_attempt(human_steps, attempt),
        )
    return judged


def judge_step(judgement: EffectiveJudgement, step_id: int) -> tuple[float | None, float | None]:
    """A step's score, and the score moved by persons: reference + trust (said - reference).

    The reference is the step's score, or UNJUDGED without one, so that whom we trust by half moves it half the way.

    Returns:
        (None where nobody scored it, None where no person spoke of it).
    """
    score, human = judgement.step_scores.get(step_id), judgement.human_step_scores.get(step_id)
    if human is None:
        return score, None
    reference = UNJUDGED if score is None else score
    return score, reference + human.trust * (human.score - reference)


def reward_ratings(
    ratings: Sequence[Rating], ids: Mapping[int, int], below: Mapping[int, Reward], source: str
) -> dict[int, Reward]:
    """Attempt id -> reward by the ratings of one rank, of those that they say something of.

    Args:
        ids: attempt index -> id, of the attempts with an answer.
        below: attempt id -> what the ranks below say.
    """
    votes: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for rating in ratings:
        for attempt, value in reward_rating(rating, ids, {one: reward.value for one, reward in below.items()}).items():
            votes[attempt].append((rating.trust, value))
    return {attempt: Reward(one.score, source, one.trust) for attempt, one in _trust_votes(votes).items()}


def reward_rating(rating: Rating, ids: Mapping[int, int], below: Mapping[int, float]) -> dict[int, float]:
    """Attempt id -> reward by one rating; the formulas stand at the top of this module.

    Args:
        ids: attempt index -> id, of the attempts with an answer.
        below: attempt id -> b_i.
    """
    own = set(ids.values())
    rewards = spread_score(rating.score, own - set(rating.attempts), below)
    rewards |= {attempt: value for attempt, value in rating.attempts.items() if attempt in own}
    base = {attempt: value for attempt, value in below.items() if attempt in own} | rewards
    groups = [[ids[index] for index in group if index in ids] for group in rating.ranking]
    if any(groups):
        rewards = rank_groups([group for group in groups if group], base)
    elif rating.preferred & own:
        top = (1.0 + max(base.values(), default=1.0)) / 2
        rewards = {attempt: top if attempt in rating.preferred else base.get(attempt, 0.0) / 2 for attempt in own}
    if rating.none_good:
        rewards = {attempt: base.get(attempt, 0.0) for attempt in own} | rewards
        top = max(rewards.values(), default=0.0)
        rewards = {attempt: value * min(1.0, NONE_GOOD_CAP / top) if top else 0.0 for attempt, value in rewards.items()}
    return rewards


def spread_score(score: float | None, attempts: Collection[int], below: Mapping[int, float]) -> dict[int, float]:
    """The score of a whole task on these attempts: clip(b_i + score - mean b, 0, 1), or the score where b is unknown.

    >>> spread_score(0.5, [1, 2], {1: 0.25, 2: 0.5})
    {1: 0.375, 2: 0.625}
    """
    if score is None or not attempts:
        return {}
    if not all(attempt in below for attempt in attempts):
        return dict.fromkeys(attempts, score)
    shift = score - fmean(below[attempt] for attempt in attempts)
    return {attempt: min(1.0, max(0.0, below[attempt] + shift)) for attempt in attempts}


def rank_groups(groups: Sequence[Sequence[int]], base: Mapping[int, float]) -> dict[int, float]:
    """Attempt id -> (q + s) / 2, of attempts in groups from best to worst.

    >>> rank_groups([[3], [1], [2]], {1: 0.25, 2: 0.5, 3: 1.0})
    {3: 1.0, 1: 0.5, 2: 0.125}
    """
    dealt = sorted((base.get(attempt, 0.0) for group in groups for attempt in group), reverse=True) if base else []
    rewards: dict[int, float] = {}
    for place, group in enumerate(groups):
        share, dealt = dealt[: len(group)], dealt[len(group) :]
        parts = [fmean(share)] if share else []
        if len(groups) > 1:
            parts.append(1.0 - place / (len(groups) - 1))
        if parts:
            rewards |= dict.fromkeys(group, fmean(parts))
    return rewards


def average_votes(votes: Mapping[Key, Votes]) -> dict[Key, float]:
    """Weighted means sum w v / sum w; what only weightless votes speak of is left out.

    >>> average_votes({"a": [(3.0, 1.0), (1.0, 0.0)], "b": [(0.0, 1.0)]})
    {'a': 0.75}
    """
    totals = {key: fsum(weight for weight, _ in pairs) for key, pairs in votes.items()}
    return {
        key: fsum(weight * value for weight, value in pairs) / totals[key]
        for key, pairs in votes.items()
        if totals[key] > 0
    }


def share_among_copies(scores: Mapping[Key, float], groups: Iterable[Sequence[Key]]) -> dict[Key, float]:
    """Scores with those of copies: one's own stands, one without its own gets the mean of its group's.

    >>> share_among_copies({1: 1.0, 2: 0.5}, [[1, 2, 3]])
    {1: 1.0, 2: 0.5, 3: 0.75}
    """
    shared: dict[Key, float] = {}
    for group in groups:
        if known := [scores[key] for key in group if key in scores]:
            shared |= dict.fromkeys(group, fmean(known))
    return shared | dict(scores)


def _reach_copies(rating: Rating, copies: Copies) -> Rating:
    if not copies.attempts:
        return rating
    return replace(
        rating,
        preferred=rating.preferred.union(*(group for group in copies.attempts if rating.preferred & set(group))),
        attempts=share_among_copies(rating.attempts, copies.attempts),
        steps=share_among_copies(rating.steps, copies.steps),
    )


def _share_reward(group: Sequence[int], rewards: Mapping[int, Reward]) -> dict[int, Reward]:
    known = [rewards[attempt] for attempt in group if attempt in rewards]
    if not known:
        return {}
    source = min((one.source for one in known), key=RANKS.index)
    best = [one for one in known if one.source == source]
    return dict.fromkeys(group, Reward(fmean(one.value for one in best), source, fmean(one.weight for one in best)))


def _collect_step_votes(ratings: Iterable[Rating]) -> dict[Place, list[tuple[float, float]]]:
    votes: dict[Place, list[tuple[float, float]]] = defaultdict(list)
    for rating in ratings:
        for place, score in rating.steps.items():
            votes[place].append((rating.trust, score))
    return votes


def _trust_votes(votes: Mapping[Key, Votes]) -> dict[Key, TrustedScore]:
    return {
        key: TrustedScore(score, fmean(weight for weight, _ in votes[key]))
        for key, score in average_votes(votes).items()
    }


def _at_places(steps: Mapping[int, Mapping[int, float]]) -> dict[Place, float]:
    return {(attempt, step): score for attempt, scores in steps.items() for step, score in scores.items()}


def _of_attempt(steps: Mapping[Place, Value], attempt: int) -> dict[int, Value]:
    return {step: value for (of, step), value in steps.items() if of == attempt}
