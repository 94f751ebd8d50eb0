import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.learning.batching import sort_rollouts, split_minibatches
from tests.core.learning.rollout_factory import make_rollout


@pytest.mark.parametrize(
    ("reason", "fields"),
    [
        ("", {}),
        ("", {"policy_version": 6}),
        ("stale", {"policy_version": 5}),
        ("from_a_later_version", {"policy_version": 11}),
        ("no_sampled_token", {"sampled": [False] * 6}),
        ("no_prompt", {"prompt_token_ids": []}),
        ("neither_reward_nor_hint", {"reward": None}),
        ("impossible_log_prob", {"logprobs": [-1.0] * 5 + [math.nan]}),
        ("impossible_log_prob", {"logprobs": [-1.0] * 5 + [-math.inf]}),
        ("impossible_log_prob", {"logprobs": [-1.0] * 5 + [0.5]}),
        ("impossible_log_prob", {"logprobs": [-1.0] * 5 + [-9999.0]}),
        ("", {"top_token_ids": [[1, 2]] * 6, "top_logprobs": [[-1.0, -9999.0]] * 6}),
        ("", {"logprobs": [-1.0] * 5 + [math.nan], "sampled": [True] * 5 + [False]}),
        ("impossible_log_prob", {"top_token_ids": [[1]] * 6, "top_logprobs": [[-1.0]] * 5 + [[math.nan]]}),
        ("impossible_weight", {"weight": math.nan}),
        ("impossible_weight", {"weight": -1.0}),
        ("impossible_step_score", {"steps": [(0, 2, math.nan)]}),
        ("impossible_step_score", {"steps": [(0, 2, -0.5)]}),
        ("", {"reward": None, "hinted_messages": [{"role": "user", "content": "hello Hint: wave."}]}),
    ],
)
def test_each_unusable_rollout_is_counted_under_its_reason(reason: str, fields: dict[str, object]) -> None:
    rollout = make_rollout(**({"policy_version": 10} | fields))  # type: ignore[arg-type]
    usable, refused = sort_rollouts([rollout], policy_version=10, max_staleness=4, hints_count=True)
    assert refused == (Counter({reason: 1}) if reason else Counter())
    assert bool(usable) is not bool(reason)


@pytest.mark.parametrize(("latest", "refused"), [(None, [11, 12, 13]), (12, [13]), (9, [11, 12, 13])])
def test_up_to_a_version_that_is_told_later_rollouts_count_too(latest: int | None, refused: list[int]) -> None:
    rollouts = [make_rollout(policy_version=version) for version in range(9, 14)]
    found = sort_rollouts(rollouts, policy_version=10, latest_version=latest, max_staleness=4, hints_count=True)
    assert found.refused == {"from_a_later_version": len(refused)}
    assert [one.policy_version for one in found.usable] == [one for one in range(9, 14) if one not in refused]


def test_a_hint_alone_is_nothing_to_learn_from_without_a_teacher() -> None:
    rollout = make_rollout(reward=None, hinted_messages=[{"role": "user", "content": "hello Hint: wave."}])
    assert sort_rollouts([rollout], policy_version=0, max_staleness=4, hints_count=False).refused


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 5), st.integers(0, 99))
def test_minibatches_hold_every_rollout_once_and_even_shares_of_groups(
    group_ids: list[int], minibatches: int, seed: int
) -> None:
    parts = split_minibatches(group_ids, minibatches=minibatches, seed=seed)
    assert sorted(index for part in parts for index in part) == list(range(len(group_ids)))
    assert all(parts)
    for group_id in set(group_ids):
        shares = [sum(group_ids[index] == group_id for index in part) for part in parts]
        assert max(shares) - min(shares) <= 1
    assert parts == split_minibatches(group_ids, minibatches=minibatches, seed=seed)
