import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.learning.advantages import (
    group_advantages,
    imitation_weights,
    step_returns,
    token_advantages,
)
from tentalis.core.learning.recipes import Recipe
from tests.core.learning.rollout_factory import make_rollout

rewards = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def test_group_advantages_worked_by_hand() -> None:
    assert group_advantages([1, 1, -1, 0], std_floor=1e-8) == pytest.approx(
        [0.9045, 0.9045, -1.5076, -0.3015], abs=1e-4
    )


def test_without_the_std_only_the_mean_is_taken_off() -> None:
    assert group_advantages([1, 0, 0, 0], divide_by_std=False) == pytest.approx([0.75, -0.25, -0.25, -0.25])


@given(st.floats(0, 1), st.integers(1, 9))
def test_a_group_that_agrees_teaches_nothing(reward: float, size: int) -> None:
    assert group_advantages([reward] * size) == [0.0] * size


@given(rewards)
def test_group_advantages_sum_to_zero_and_keep_the_order_of_rewards(values: list[float]) -> None:
    advantages = group_advantages(values, std_floor=1e-2)
    assert math.fsum(advantages) == pytest.approx(0, abs=1e-6)
    by_reward = [advantage for _, advantage in sorted(zip(values, advantages, strict=True))]
    assert by_reward == sorted(by_reward)


def step_credit(scores: Sequence[Sequence[float | None]], *, missing: Sequence[int] = ()) -> list[list[float]]:
    """Advantage of each step of equally good attempts at one task: a token a step, and the steps alone count."""
    rollouts = [
        make_rollout(
            size=len(of_one),
            steps=[(place, place + 1, score) for place, score in enumerate(of_one)],
            missing_steps=missing[index] if missing else 0,
        )
        for index, of_one in enumerate(scores)
    ]
    found = token_advantages(rollouts, Recipe(step_mix=1.0))
    assert all(values is not None and all(map(math.isfinite, values)) for values in found)
    return [values or [] for values in found]


step_score_lists = st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=6)


def test_step_returns_worked_by_hand() -> None:
    # (s - mean) / .5 = [.5, -1, 1, -.5], the last of a step that is missing; four steps in all
    returns = step_returns([1.0, 0.0, 1.0, 0.0], [0.75, 0.5, 0.5, 0.25])
    assert returns == pytest.approx([0.0, -0.125, 0.125, -0.125])


def test_a_step_nobody_could_score_adds_nothing() -> None:
    assert step_returns([None, 1.0], [0.5, 0.5]) == pytest.approx([0.5, 0.5])


@given(step_score_lists, st.integers(0, 3))
def test_attempts_that_are_alike_teach_nothing_at_any_step(scores: list[float | None], missing: int) -> None:
    """Above all not that later steps, which are often worse, are to be made less of."""
    assert step_credit([scores] * 8, missing=[missing] * 8) == [pytest.approx([0.0] * len(scores), abs=1e-12)] * 8


def test_the_first_steps_score_moves_no_other_steps_credit() -> None:
    alike = step_credit([[1.0, 0.7, 0.4], [1.0, 0.2, 0.4], [1.0, 0.7, 0.9]])
    apart = step_credit([[0.0, 0.7, 0.4], [1.0, 0.2, 0.4], [0.5, 0.7, 0.9]])
    assert [values[1:] for values in apart] == [pytest.approx(values[1:]) for values in alike]
    assert [values[1:] for values in step_credit([[0.0, 0.7, 0.4], [1.0, 0.7, 0.4]])] == [[0.0, 0.0]] * 2


@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=2, max_size=8))
def test_where_all_have_as_many_steps_credit_is_the_return_to_go_less_its_mean_at_that_place(
    scores: list[list[float]],
) -> None:
    credit = step_credit(scores)
    for place in range(3):
        returns = [math.fsum(one[place:]) / 3 for one in scores]
        mean = math.fsum(returns) / len(returns)
        assert [one[place] for one in credit] == pytest.approx([(value - mean) / 0.5 for value in returns])


def test_a_place_that_one_attempt_alone_reaches_says_nothing_of_it() -> None:
    """Whatever it was scored there; and being longer or shorter with the same scores is neither good nor bad."""
    for score in (0.0, 1.0):
        short, longer = step_credit([[1.0, 0.5], [1.0, 0.5, score, score]])
        assert short == [0.0, 0.0]
        assert longer == [0.0] * 4


def test_two_attempts_that_alone_reach_a_place_are_compared_with_each_other() -> None:
    # place 2: mean .5, two halves apart; (1 - .5) / .5 = 1 over three steps, and as much for the steps before it
    good, bad, short = step_credit([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0], [1.0, 1.0]])
    assert good == pytest.approx([1 / 3] * 3)
    assert bad == pytest.approx([-1 / 3] * 3)
    assert short == [0.0, 0.0]


@given(
    st.lists(step_score_lists, min_size=1, max_size=6).flatmap(
        lambda scores: st.tuples(st.just(scores), st.lists(st.integers(0, 2), min_size=6, max_size=6))
    )
)
def test_step_credit_is_at_most_two_however_alike_or_unlike_attempts_are(
    case: tuple[list[list[float | None]], list[int]],
) -> None:
    for values in step_credit(case[0], missing=case[1]):
        assert all(abs(value) <= 2 for value in values)


def test_a_difference_as_small_as_noise_stays_as_small() -> None:
    """No spread is divided by: eight attempts whose scores differ by a thousandth teach next to nothing."""
    credit = step_credit([[0.7 + 0.001 * (index % 2), 0.7] for index in range(8)])
    assert max(abs(value) for values in credit for value in values) == pytest.approx(0.0005)


def test_steps_of_an_attempt_in_parts_have_the_places_they_have_in_the_whole() -> None:
    whole = make_rollout(rollout_id=1, size=3, steps=[(0, 1, 1.0), (1, 2, 0.5), (2, 3, 0.25)], missing_steps=1)
    other = make_rollout(rollout_id=2, size=4, steps=[(0, 1, 0.0), (1, 2, 1.0), (2, 3, 0.75), (3, 4, 1.0)])
    parts = [
        make_rollout(rollout_id=1, size=1, steps=[(0, 1, 1.0)]),
        make_rollout(rollout_id=1, size=2, steps=[(0, 1, 0.5), (1, 2, 0.25)], missing_steps=1),
    ]
    recipe = Recipe(step_mix=1.0)
    wanted, split = token_advantages([whole, other], recipe), token_advantages([*parts, other], recipe)
    assert [*(split[0] or []), *(split[1] or [])] == pytest.approx(wanted[0])
    assert split[2] == pytest.approx(wanted[1])


def test_a_steps_score_touches_exactly_its_own_tokens() -> None:
    recipe = Recipe(step_mix=1.0)
    other = make_rollout(rollout_id=2, steps=[(0, 3, 0.5), (3, 6, 0.5)])
    first = make_rollout(steps=[(1, 3, 0.9), (4, 6, 0.0)])
    values = token_advantages([first, other], recipe)[0]
    assert values is not None
    assert [value != 0 for value in values] == [False, True, True, False, True, True]
    assert values[1] == values[2]
    assert values[4] == values[5] < 0


def test_a_persons_word_moves_its_step_alone_and_by_how_far_it_lies_from_the_score() -> None:
    other = make_rollout(rollout_id=2, reward=0.0, steps=[(0, 3, 0.5), (3, 6, 0.5)])
    plain = make_rollout(steps=[(0, 2, 1.0), (2, 6, 0.25)])
    said = replace(plain, steps=(plain.steps[0], replace(plain.steps[1], said=0.75)))
    before, after = token_advantages([plain, other], Recipe()), token_advantages([said, other], Recipe())
    assert after[1] == before[1]
    assert after[0] is not None
    assert before[0] is not None
    assert [new - old for new, old in zip(after[0], before[0], strict=True)] == pytest.approx([0, 0, *[0.5] * 4])


def test_a_persons_word_on_a_step_nobody_scored_leaves_the_outcome_whole() -> None:
    rollout = make_rollout(steps=[(0, 2, None), (2, 4, None)])
    said = replace(rollout, steps=(replace(rollout.steps[0], said=0.0), rollout.steps[1]))
    values = token_advantages([said, make_rollout(rollout_id=2, reward=0.0)], Recipe(std_floor=1e-2))[0]
    unit = 0.5 / 0.51
    assert values == pytest.approx([unit - 0.5, unit - 0.5, *[unit] * 4])


def test_a_missing_step_counts_as_zero_at_its_place_and_in_the_return_of_those_before_it() -> None:
    # place 1: mean (1 + 0) / 2; (0 - .5) / .5 = -1 over two steps
    assert step_credit([[1.0, 1.0], [1.0]], missing=[0, 1]) == [pytest.approx([0.5, 0.5]), pytest.approx([-0.5])]


def test_outcome_and_step_mix_per_token() -> None:
    good, bad = make_rollout(reward=1.0, steps=[(0, 2, 1.0)]), make_rollout(reward=0.0, steps=[(0, 2, 0.0)])
    values = token_advantages([good, bad], Recipe(step_mix=0.25, std_floor=1e-2))[0]
    outcome, step = 0.75 * 0.5 / 0.51, 0.25 * 0.5 / 0.5
    assert values == pytest.approx([outcome + step, outcome + step, *[outcome] * 4])


def test_an_unscored_rollout_keeps_its_whole_outcome_advantage() -> None:
    good, bad = make_rollout(reward=1.0, steps=[(0, 2, None)], missing_steps=3), make_rollout(reward=0.0)
    values = token_advantages([good, bad], Recipe(step_mix=0.5, std_floor=1e-2))
    assert values[0] == pytest.approx([0.5 / 0.51] * 6)
    assert values[1] == pytest.approx([-0.5 / 0.51] * 6)


def test_a_rollout_without_a_reward_has_no_advantage_and_does_not_move_its_group() -> None:
    rollouts = [make_rollout(reward=1.0), make_rollout(reward=None), make_rollout(reward=0.0)]
    with_none = token_advantages(rollouts, Recipe(step_mix=0.0))
    without = token_advantages([rollouts[0], rollouts[2]], Recipe(step_mix=0.0))
    assert with_none == [without[0], None, without[1]]


def test_tool_results_get_no_advantage() -> None:
    rollouts = [make_rollout(reward=1.0, sampled=[True, False, True, True, False, True]), make_rollout(reward=0.0)]
    values = token_advantages(rollouts, Recipe(step_mix=0.0))[0]
    assert values is not None
    assert [value == 0 for value in values] == [False, True, False, False, True, False]


def test_trust_in_the_judgement_scales_the_advantage() -> None:
    half = token_advantages([make_rollout(reward=1.0, weight=0.5), make_rollout(reward=0.0, weight=0.5)], Recipe())[0]
    full = token_advantages([make_rollout(reward=1.0), make_rollout(reward=0.0)], Recipe())[0]
    assert half is not None and full is not None  # noqa: PT018
    assert half == pytest.approx([value / 2 for value in full])


@given(st.permutations(range(6)))
def test_the_order_of_the_batch_does_not_matter(order: list[int]) -> None:
    rollouts = [
        make_rollout(rollout_id=index, group_id=index % 2, reward=index / 5, steps=[(0, 2, index / 5), (2, 5, 0.5)])
        for index in range(6)
    ]
    straight = token_advantages(rollouts, Recipe())
    shuffled = token_advantages([rollouts[index] for index in order], Recipe())
    for place, index in enumerate(order):
        assert shuffled[place] == pytest.approx(straight[index])


def test_better_answers_are_imitated_more_up_to_a_cap() -> None:
    weights = imitation_weights([1.0, 0.0], temperature=0.5, weight_max=2.0)
    assert weights == pytest.approx([2.0, math.exp(-1)])


def test_single_attempts_are_compared_with_each_other_worked_by_hand() -> None:
    # weights 1, 1, 2: mean = (1 + 0 + 2 * 0) / 4 = .25, variance = (.75^2 + 3 * .25^2) / 4 = .1875
    found = group_advantages([1.0, 0.0, 0.0], [1.0, 1.0, 2.0], std_floor=1e-9)
    assert found == pytest.approx([0.75 / 0.1875**0.5, -0.25 / 0.1875**0.5, -0.25 / 0.1875**0.5])
    assert group_advantages([1.0, 0.0], [0.0, 0.0]) == [0.0, 0.0]


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 1)), min_size=1, max_size=12))
def test_weighted_advantages_sum_to_zero_by_weight(pairs: list[tuple[float, float]]) -> None:
    found = group_advantages([reward for reward, _ in pairs], [weight for _, weight in pairs], std_floor=1e-2)
    assert math.fsum(weight * value for value, (_, weight) in zip(found, pairs, strict=True)) == pytest.approx(
        0, abs=1e-6
    )


def test_a_single_attempt_learns_beside_groups_and_moves_none_of_them() -> None:
    group = [make_rollout(rollout_id=1, reward=1.0), make_rollout(rollout_id=2, reward=0.0)]
    singles = [make_rollout(rollout_id=3, group_id=2, reward=1.0), make_rollout(rollout_id=4, group_id=3, reward=0.0)]
    recipe = Recipe(step_mix=0.0)
    alone, beside = token_advantages(group, recipe), token_advantages([*group, *singles], recipe)
    assert beside[:2] == alone
    good, bad = beside[2], beside[3]
    assert good is not None
    assert bad is not None
    assert good[0] == pytest.approx(0.5 / 0.51)
    assert bad[0] == pytest.approx(-0.5 / 0.51)
    none = token_advantages([*group, *singles], replace(recipe, singles="off"))
    assert none[2:] == [[0.0] * 6, [0.0] * 6]


def test_an_attempt_in_parts_counts_once_among_its_group() -> None:
    """One solved attempt in three parts beside one that failed: the mean is a half, whatever the parts are."""
    parts = [make_rollout(rollout_id=1, reward=1.0) for _ in range(3)]
    failed = make_rollout(rollout_id=2, reward=0.0)
    values = token_advantages([*parts, failed], Recipe(step_mix=0.0))
    assert values == [pytest.approx([0.5 / 0.51] * 6)] * 3 + [pytest.approx([-0.5 / 0.51] * 6)]


def test_the_parts_of_one_attempt_are_not_compared_with_each_other() -> None:
    """Alone at its task, it is compared with the others that are; those in turn see it once."""
    parts = [make_rollout(rollout_id=1, group_id=group, reward=1.0) for group in (5, 5, -9)]
    other = make_rollout(rollout_id=2, group_id=6, reward=0.0)
    values = token_advantages([*parts, other], Recipe(step_mix=0.0))
    assert values == [pytest.approx([0.5 / 0.51] * 6)] * 3 + [pytest.approx([-0.5 / 0.51] * 6)]


@pytest.mark.parametrize("algorithm", ["grpo", "dr_grpo", "reinforce_pp", "cispo"])
@given(
    attempts=st.lists(st.tuples(st.floats(0, 1), st.integers(1, 3), st.integers(0, 2)), min_size=2, max_size=8),
)
def test_splitting_attempts_into_parts_changes_nobodys_advantage(
    algorithm: str, attempts: list[tuple[float, int, int]]
) -> None:
    recipe = Recipe(algorithm=algorithm, step_mix=0.0)
    whole, split, owners = [], [], []
    for place, (reward, size, group) in enumerate(attempts):
        one = make_rollout(rollout_id=place, group_id=group, reward=reward)
        whole.append(one)
        split += [one] * size
        owners += [place] * size
    wanted, found = token_advantages(whole, recipe), token_advantages(split, recipe)
    for place, values in zip(owners, found, strict=True):
        assert values == pytest.approx(wanted[place], abs=1e-9)


@given(
    tries=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=8),
    algorithm=st.sampled_from(["grpo", "dr_grpo", "dapo", "reinforce_pp"]),
)
def test_advantages_of_a_group_add_up_to_zero_whatever_each_is_trusted(
    tries: list[tuple[float, float]], algorithm: str
) -> None:
    group = [
        make_rollout(rollout_id=place, reward=reward, weight=weight) for place, (reward, weight) in enumerate(tries)
    ]
    found = token_advantages(group, Recipe(algorithm=algorithm, step_mix=0.0))
    assert math.isclose(sum(values[0] for values in found if values), 0, abs_tol=1e-9)


def test_who_is_not_trusted_moves_nobody_elses_advantage() -> None:
    sure = [
        make_rollout(rollout_id=place, reward=reward, steps=[(0, 3, reward), (3, 6, 0.5)])
        for place, reward in enumerate((1.0, 0.0, 1.0))
    ]
    doubted = make_rollout(rollout_id=3, reward=0.0, weight=0.0, steps=[(0, 3, 0.0)])
    recipe = Recipe(step_mix=0.5)
    assert token_advantages([*sure, doubted], recipe)[:3] == token_advantages(sure, recipe)
    assert set(token_advantages([*sure, doubted], recipe)[3] or []) == {0.0}
