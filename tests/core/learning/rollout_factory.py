"""Rollouts for the tests of what learning computes."""

import itertools
from collections.abc import Sequence
from typing import Any

from tentalis.core.contracts import RolloutRecord, StepReward

_IDS = itertools.count(1_000_000)


def make_rollout(
    *, reward: float | None = 1.0, size: int = 6, steps: Sequence[tuple[int, int, float | None]] = (), **fields: Any
) -> RolloutRecord:
    """An attempt of its own, of `size` sampled tokens with these (start, end, score) steps."""
    values: dict[str, Any] = {
        "rollout_id": next(_IDS),
        "group_id": 1,
        "adapter": "",
        "policy_version": 0,
        "messages": [{"role": "user", "content": "hello"}],
        "hinted_messages": None,
        "prompt_token_ids": [1, 2],
        "token_ids": list(range(size)),
        "logprobs": [-1.0] * size,
        "sampled": [True] * size,
        "reward": reward,
        "steps": tuple(StepReward(start=start, end=end, score=score) for start, end, score in steps),
    }
    return RolloutRecord(**(values | fields))
