import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.learning.advantages import (
    Spread,
    group_advantages,
    imitation_weights,
    step_returns,
    step_scores,
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


def test_step_returns_worked_by_hand() -> None:
    # z = (s - .5) / .5 = [1, -1, 1], one missing step adds -1, four steps in all
    returns = step_returns([1.0, 0.0, 1.0], missing_steps=1, spread=Spread(0.5, 0.49), std_floor=0.01)
    assert returns == pytest.approx([0.0, -0.25, 0.0])


def test_a_step_nobody_could_score_adds_nothing() -> None:
    returns = step_returns([None, 1.0], missing_steps=0, spread=Spread(0.5, 0.5), std_floor=0.0)
    assert returns == pytest.approx([0.5, 0.5])


def test_a_steps_score_never_moves_a_later_step() -> None:
    spread = Spread(0.5, 0.5)
    low = step_returns([0.0, 1.0, 1.0], missing_steps=0, spread=spread, std_floor=0.0)
    high = step_returns([1.0, 1.0, 1.0], missing_steps=0, spread=spread, std_floor=0.0)
    assert low[1:] == high[1:]
    assert low[0] < high[0]


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


def test_missing_steps_count_as_zero_in_spread_and_return() -> None:
    whole, cut = make_rollout(steps=[(0, 3, 1.0)]), make_rollout(steps=[(0, 3, 1.0)], missing_steps=1)
    assert [*step_scores(whole), *step_scores(cut)] == [1.0, 1.0, 0.0]
    of_whole, of_cut = token_advantages([whole, cut], Recipe(step_mix=1.0))
    assert of_whole is not None and of_cut is not None  # noqa: PT018
    assert of_cut[0] < of_whole[0]


def test_outcome_and_step_mix_per_token() -> None:
    good, bad = make_rollout(reward=1.0, steps=[(0, 2, 1.0)]), make_rollout(reward=0.0, steps=[(0, 2, 0.0)])
    values = token_advantages([good, bad], Recipe(step_mix=0.25, std_floor=1e-2))[0]
    unit = 0.5 / 0.51
    assert values == pytest.approx([unit, unit, *[0.75 * unit] * 4])


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
    sure = [make_rollout(rollout_id=place, reward=reward) for place, reward in enumerate((1.0, 0.0, 1.0))]
    doubted = make_rollout(rollout_id=3, reward=0.0, weight=0.0, steps=[(0, 3, 0.0)])
    recipe = Recipe(step_mix=0.5)
    assert token_advantages([*sure, doubted], recipe)[:3] == token_advantages(sure, recipe)
    assert set(token_advantages([*sure, doubted], recipe)[3] or []) == {0.0}
