"""Rewards worked by hand, and what holds for all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.learning.rewards import (
    HUMAN,
    NONE_GOOD_CAP,
    RANKS,
    SCORERS,
    VERIFIED,
    AttemptScores,
    Copies,
    Rating,
    average_votes,
    judge_attempts,
    judge_step,
    rank_groups,
    reward_rating,
    share_among_copies,
    spread_score,
)

SIZE = 4
IDS = {index: 10 + index for index in range(SIZE)}
unit = st.floats(0, 1)
bases = st.dictionaries(st.sampled_from(list(IDS.values())), unit)


@st.composite
def rankings(draw: st.DrawFn) -> list[list[int]]:
    shuffled = draw(st.permutations(range(SIZE)))
    cuts = sorted(draw(st.sets(st.integers(1, SIZE - 1))))
    return [shuffled[start:end] for start, end in zip([0, *cuts], [*cuts, SIZE], strict=True)]


ratings = st.builds(
    Rating,
    trust=unit,
    score=st.none() | unit,
    preferred=st.sets(st.sampled_from(list(IDS.values()))).map(frozenset),
    attempts=bases,
    ranking=st.just([]) | rankings(),
    none_good=st.booleans(),
)


def make_attempts(scores: Sequence[float | None], outcomes: Mapping[int, float] | None = None) -> list[AttemptScores]:
    """Attempts 10, 11… with answers."""
    return [
        AttemptScores(id=10 + index, index=index, is_answered=True, score=score, outcome=(outcomes or {}).get(index))
        for index, score in enumerate(scores)
    ]


@pytest.mark.parametrize(
    ("rating", "base", "wanted"),
    [
        (Rating(score=0.6), [0.2, 0.4, 0.9], [0.3, 0.5, 1.0]),
        (Rating(score=0.6), [0.2, 0.4], [0.6, 0.6, 0.6]),
        (Rating(score=0.9, attempts={10: 0.1}), [], [0.1, 0.9, 0.9]),
        (Rating(score=0.6, attempts={12: 0.0}), [0.2, 0.4, 0.9], [0.5, 0.7, 0.0]),
        (Rating(preferred=frozenset({11})), [], [0.0, 1.0, 0.0]),
        (Rating(preferred=frozenset({10})), [0.2, 0.4, 0.9], [0.95, 0.2, 0.45]),
        (Rating(ranking=[[2], [1], [0]]), [], [0.0, 0.5, 1.0]),
        (Rating(ranking=[[2], [0], [1]]), [0.2, 0.4, 0.9], [0.45, 0.1, 0.95]),
        (Rating(ranking=[[2], [0], [1]], none_good=True), [0.2, 0.4, 0.9], [0.45 / 1.9, 0.1 / 1.9, 0.5]),
        (Rating(ranking=[[0], [1, 2]]), [0.2, 0.8, 0.6], [0.9, 0.2, 0.2]),
        (Rating(ranking=[[0, 1, 2]]), [0.2, 0.8, 0.5], [0.5, 0.5, 0.5]),
        (Rating(none_good=True), [0.4, 0.8, 0.2], [0.25, 0.5, 0.125]),
        (Rating(none_good=True), [], [0.0, 0.0, 0.0]),
        (Rating(none_good=True, attempts={10: 0.2}), [0.8, 1.0, 0.4], [0.1, 0.5, 0.2]),
        (Rating(none_good=True, attempts={10: 0.2}), [0.8], [0.2, 0.0, 0.0]),
        (Rating(none_good=True, ranking=[[1], [0]]), [0.2, 0.4, 1.0], [0.05, 0.35, 0.5]),
    ],
)
def test_one_rating_by_hand(rating: Rating, base: Sequence[float], wanted: Sequence[float]) -> None:
    rewards = reward_rating(rating, {0: 10, 1: 11, 2: 12}, {10 + place: value for place, value in enumerate(base)})
    assert rewards == pytest.approx({10 + place: value for place, value in enumerate(wanted)})


def test_all_equal_and_nothing_known_is_no_reward() -> None:
    assert rank_groups([[1, 2]], {}) == {}


def test_an_attempt_that_failed_is_passed_over_in_a_ranking() -> None:
    assert reward_rating(Rating(ranking=[[0], [1], [2]]), {0: 10, 2: 12}, {}) == {10: 1.0, 12: 0.0}


def test_the_pieces_by_hand() -> None:
    assert spread_score(0.5, [1, 2], {1: 0.25, 2: 0.5}) == {1: 0.375, 2: 0.625}
    assert rank_groups([[3], [1], [2]], {1: 0.25, 2: 0.5, 3: 1.0}) == {3: 1.0, 1: 0.5, 2: 0.125}
    assert average_votes({"a": [(3.0, 1.0), (1.0, 0.0)], "b": [(0.0, 1.0)]}) == {"a": 0.75}
    assert share_among_copies({1: 1.0, 2: 0.5}, [[1, 2, 3]]) == {1: 1.0, 2: 0.5, 3: 0.75}


def test_the_highest_rank_that_speaks_of_an_attempt_gives_its_reward() -> None:
    attempts = make_attempts([0.1, 0.2, 0.3, 0.4], {1: 0.9, 2: 0.9})
    judged = judge_attempts(
        attempts, {HUMAN: [Rating(trust=0.5, attempts={12: 0.0})], "ai": [Rating(attempts={10: 0.6, 11: 0.7})]}
    )
    assert [(one.reward, one.reward_source, one.weight) for one in judged.values()] == [
        (0.6, "ai", 1.0),
        (0.9, VERIFIED, 1.0),
        (0.0, HUMAN, 0.5),
        (0.4, SCORERS, 1.0),
    ]


def test_ratings_of_one_rank_are_averaged_by_trust() -> None:
    given = [Rating(trust=1.0, score=1.0), Rating(trust=0.5, score=0.25)]
    judged = judge_attempts(make_attempts([None]), {HUMAN: given})
    assert (judged[10].reward, judged[10].weight) == (0.75, 0.75)


def test_step_scores_keep_persons_apart_and_a_verifier_outranks_the_judging_scorers() -> None:
    attempt = AttemptScores(
        id=10,
        index=0,
        is_answered=True,
        step_votes={1: [(3.0, 1.0), (1.0, 0.0)], 2: [(0.0, 1.0)], 3: [(1.0, 0.1)]},
        verified_steps={3: 0.9},
    )
    given = {
        HUMAN: [Rating(steps={(10, 1): 1.0}), Rating(trust=0.5, steps={(10, 1): 0.0})],
        "ai": [Rating(steps={(10, 2): 0.3, (10, 3): 0.2})],
    }
    judged = judge_attempts([attempt], given)[10]
    assert judged.step_scores == {1: 0.75, 2: 0.3, 3: 0.9}
    assert judged.human_step_scores == {1: pytest.approx((2 / 3, 0.75))}
    assert [*judge_step(judged, 1)] == pytest.approx([0.75, 0.75 + 0.75 * (2 / 3 - 0.75)])
    assert judge_step(judged, 2) == (0.3, None)


def test_copies_share_what_is_said_and_the_reward() -> None:
    copies = Copies(attempts=[[10, 12]], steps=[[(10, 1), (12, 7)]])
    given = {HUMAN: [Rating(attempts={12: 1.0}, steps={(12, 7): 0.5})]}
    judged = judge_attempts(make_attempts([0.2, 0.4, 0.3]), given, copies)
    assert [one.reward for one in judged.values()] == [1.0, 0.4, 1.0]
    assert (judged[10].human_step_scores, judged[12].human_step_scores) == ({1: (0.5, 1.0)}, {7: (0.5, 1.0)})
    unsaid = judge_attempts(make_attempts([0.25, 0.4, 0.75]), {}, copies)
    assert [one.reward for one in unsaid.values()] == [0.5, 0.4, 0.5]


def test_an_attempt_that_failed_has_no_reward_whatever_is_said() -> None:
    failed = AttemptScores(id=10, index=0, is_answered=False, score=0.5, outcome=1.0, verified_steps={1: 1.0})
    judged = judge_attempts([failed], {HUMAN: [Rating(score=1.0, steps={(10, 1): 1.0})]})[10]
    assert (judged.reward, judged.reward_source, judged.step_scores, judged.human_step_scores) == (None, "", {}, {})


@pytest.mark.thorough
@given(
    st.lists(st.none() | unit, min_size=SIZE, max_size=SIZE),
    st.dictionaries(st.sampled_from([rank for rank in RANKS if rank not in {VERIFIED, SCORERS}]), st.lists(ratings)),
    st.booleans(),
)
def test_rewards_and_weights_stay_in_the_unit_interval_and_copies_agree(
    scores: list[float | None], given_ratings: dict[str, list[Rating]], has_copies: bool
) -> None:
    copies = Copies(attempts=[[10, 12]] if has_copies else [])
    judged = judge_attempts(make_attempts(scores, {1: 1.0}), given_ratings, copies)
    assert set(judged) == set(IDS.values())
    assert all(one.reward is None or 0 <= one.reward <= 1 for one in judged.values())
    assert all(0 <= one.weight <= 1 and (one.reward is None) == (one.reward_source == "") for one in judged.values())
    if has_copies:
        assert judged[10] == judged[12]


@given(rankings(), bases, st.none() | unit, st.booleans())
def test_a_ranking_is_never_reversed_by_what_else_is_known(
    ranking: list[list[int]], base: dict[int, float], score: float | None, none_good: bool
) -> None:
    rewards = reward_rating(Rating(ranking=ranking, score=score, none_good=none_good), IDS, base)
    if len(ranking) == 1 and not base and score is None and not none_good:
        assert rewards == {}
        return
    values = [{rewards[IDS[index]] for index in group} for group in ranking]
    assert all(len(of_group) == 1 for of_group in values)
    lead = (0.25 if none_good else 0.5) / max(len(ranking) - 1, 1) - 1e-9
    assert all(min(left) - max(right) >= lead for left, right in pairwise(values))
    if none_good:
        assert max(rewards.values()) <= NONE_GOOD_CAP


@given(ratings.map(lambda rating: replace(rating, none_good=True)), bases)
def test_where_none_is_good_enough_every_attempt_has_a_reward_and_the_best_at_most_half(
    rating: Rating, base: dict[int, float]
) -> None:
    rewards = reward_rating(rating, IDS, base)
    assert rewards.keys() == set(IDS.values())
    assert max(rewards.values()) <= NONE_GOOD_CAP


@given(st.sampled_from(list(IDS.values())), bases)
def test_a_preference_leads_by_half_and_the_others_keep_their_order(best: int, base: dict[int, float]) -> None:
    rewards = reward_rating(Rating(preferred=frozenset({best})), IDS, base)
    others = sorted(set(IDS.values()) - {best}, key=lambda attempt: base.get(attempt, 0.0))
    assert rewards[best] - max(rewards[attempt] for attempt in others) >= 0.5 - 1e-9
    assert all(rewards[low] <= rewards[high] for low, high in pairwise(others))
