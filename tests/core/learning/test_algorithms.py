import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.contracts import RolloutRecord
from tentalis.core.learning.advantages import (
    group_advantages,
    is_informative,
    overlong_penalty,
    token_advantages,
)
from tentalis.core.learning.recipes import ALGORITHMS, PREFERENCES, Recipe
from tests.core.learning.rollout_factory import make_rollout

PLAIN: dict[str, Any] = {"w_rl": 1.0, "w_opd": 0.0, "step_mix": 0.0}
groups = st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=5), min_size=1, max_size=4)


def make_groups(rewards: list[list[float]]) -> list[RolloutRecord]:
    return [
        make_rollout(rollout_id=10 * group + index, group_id=group, reward=reward, size=2 + index)
        for group, members in enumerate(rewards)
        for index, reward in enumerate(members)
    ]


def first_values(rollouts: list[RolloutRecord], recipe: Recipe) -> list[float | None]:
    return [values[0] if values else None for values in token_advantages(rollouts, recipe)]


def test_dr_grpo_takes_only_the_mean_away() -> None:
    found = first_values(make_groups([[1.0, 0.0, 0.0, 0.0]]), Recipe(algorithm="dr_grpo", **PLAIN))
    assert found == pytest.approx([0.75, -0.25, -0.25, -0.25])


def test_dapo_drops_groups_that_agree_and_leaves_the_others_as_they_are() -> None:
    rewards = [[1.0, 1.0], [1.0, 0.0]]
    found = first_values(make_groups(rewards), Recipe(algorithm="dapo", **PLAIN))
    assert found[:2] == [None, None]
    assert found[2:] == first_values(make_groups(rewards), Recipe(**PLAIN))[2:]


def test_reinforce_pp_whitens_over_the_batch_worked_by_hand() -> None:
    # centred: .5 -.5 | .75 -.25 -.25 -.25; mean 0, variance (.25 + .25 + .5625 + 3 * .0625) / 6 = .2083
    rewards = [[1.0, 0.0], [1.0, 0.0, 0.0, 0.0]]
    found = first_values(make_groups(rewards), Recipe(algorithm="reinforce_pp", std_floor=1e-9, **PLAIN))
    scale = math.sqrt(1.25 / 6)
    assert found == pytest.approx([value / scale for value in (0.5, -0.5, 0.75, -0.25, -0.25, -0.25)])


@given(st.lists(st.floats(-3, 3), min_size=2, max_size=20))
def test_advantages_have_mean_0_and_a_std_of_at_most_1(values: list[float]) -> None:
    found = group_advantages(values, std_floor=1e-6)
    assert math.fsum(found) / len(found) == pytest.approx(0, abs=1e-6)
    assert math.fsum(value**2 for value in found) / len(found) <= 1 + 1e-6


def test_overlong_answers_lose_reward_as_worked_by_hand() -> None:
    sizes = (36, 37, 40, 44, 60)
    lost = [overlong_penalty(size, limit=44, buffer=8, penalty=0.5) for size in sizes]
    assert lost == pytest.approx([0.0, -0.0625, -0.25, -0.5, -0.5])
    assert overlong_penalty(99, limit=44, buffer=0, penalty=0.5) == 0.0


def test_of_two_right_answers_the_overlong_one_is_worth_less() -> None:
    rollouts = [make_rollout(rollout_id=1, size=4), make_rollout(rollout_id=2, size=10)]
    short, long = first_values(rollouts, Recipe(answer_tokens=10, overlong_buffer=4, **PLAIN))
    assert short is not None
    assert long is not None
    assert short > 0 > long


@pytest.mark.parametrize(
    ("rewards", "expected"), [([], False), ([1.0], False), ([0.0, 0.0], False), ([0.0, 0.1], True)]
)
def test_a_group_is_informative_when_its_rewards_differ(rewards: list[float], expected: bool) -> None:
    assert is_informative(rewards) == expected


@pytest.mark.parametrize("algorithm", sorted({*ALGORITHMS} - PREFERENCES - {"reward_weighted_sft"}))
@given(rewards=groups, rng=st.randoms(use_true_random=False))
def test_the_order_of_rollouts_does_not_matter(algorithm: str, rewards: list[list[float]], rng: Any) -> None:
    rollouts, recipe = make_groups(rewards), Recipe(algorithm=algorithm, **PLAIN)
    order = list(range(len(rollouts)))
    rng.shuffle(order)
    straight = token_advantages(rollouts, recipe)
    shuffled = token_advantages([rollouts[index] for index in order], recipe)
    for place, index in enumerate(order):
        mine, theirs = straight[index], shuffled[place]
        assert (mine is None) == (theirs is None)
        assert mine is None or mine == pytest.approx(theirs, abs=1e-9)
