"""Which rollouts may train, and which of them share an optimiser update."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from tentalis.core.contracts import RolloutRecord


class Sorted(NamedTuple):
    """Rollouts that may train, and how many may not, by reason."""

    usable: list[RolloutRecord]
    refused: Counter[str]


def refusal_reason(
    rollout: RolloutRecord,
    *,
    policy_version: int,
    max_staleness: int,
    hints_count: bool,
    latest_version: int | None = None,
) -> str:
    """Why this rollout may not train; "" when it may.

    Args:
        policy_version: of the adapter about to be trained.
        latest_version: a rollout of a later one is refused, and none up to `policy_version`; None: that alone.
        max_staleness: in adapter versions.
        hints_count: whether a hint alone is something to learn from.
    """
    if policy_version - rollout.policy_version > max_staleness:
        return "stale"
    if rollout.policy_version > max(policy_version, latest_version or 0):
        return "from_a_later_version"
    if not any(rollout.sampled):
        return "no_sampled_token"
    if not rollout.prompt_token_ids:
        return "no_prompt"
    if rollout.reward is None and not (hints_count and rollout.hinted_messages):
        return "neither_reward_nor_hint"
    return _find_nonsense(rollout)


LARGEST_LOGPROB = 1e-3
"""Nats: 0, and what rounding adds to it."""
LEAST_LOGPROB = -1e3
"""Nats. Nobody samples what is less likely: servers write -9999 where they mean never."""


def _find_nonsense(rollout: RolloutRecord) -> str:
    """Which of its numbers cannot be; "" when none. One that is not finite would make the whole update so."""
    told = (value for value, counts in zip(rollout.logprobs, rollout.sampled, strict=True) if counts)
    others = (value for top in rollout.top_logprobs or () for value in top)
    if not all(LEAST_LOGPROB <= value <= LARGEST_LOGPROB for value in told):
        return "impossible_log_prob"
    if not all(-math.inf < value <= LARGEST_LOGPROB for value in others):
        return "impossible_log_prob"
    if not 0 <= rollout.weight <= 1:
        return "impossible_weight"
    words = [word for step in rollout.steps for word in (step.score, step.said) if word is not None]
    return "" if all(0 <= word <= 1 for word in words) else "impossible_step_score"


def sort_rollouts(
    rollouts: Sequence[RolloutRecord],
    *,
    policy_version: int,
    max_staleness: int,
    hints_count: bool,
    latest_version: int | None = None,
) -> Sorted:
    """Part the usable from the unusable, in the order given; arguments as `refusal_reason` has them."""
    usable, refused = [], Counter[str]()
    for rollout in rollouts:
        reason = refusal_reason(
            rollout,
            policy_version=policy_version,
            max_staleness=max_staleness,
            hints_count=hints_count,
            latest_version=latest_version,
        )
        if reason:
            refused[reason] += 1
        else:
            usable.append(rollout)
    return Sorted(usable, refused)


def split_minibatches(group_ids: Sequence[int], *, minibatches: int, seed: int) -> list[list[int]]:
    """Deal every group's rollouts over the minibatches, so that each update sees every task.

    Measured (24 batches of 24 x 8, two minibatches, three seeds): on a harder desk, whole groups in one minibatch
    learned to .647 held-out accuracy and dealt ones to .670.

    Args:
        group_ids: (R,) group of each rollout.
    Returns:
        Lists of positions in `group_ids`, ascending, whose lengths differ by at most one, as do a group's shares of
        them; never an empty list, so fewer than asked when there are fewer rollouts.
    """
    rng = random.Random(seed)
    groups: dict[int, list[int]] = {}
    for index, group_id in enumerate(group_ids):
        groups.setdefault(group_id, []).append(index)
    dealt: list[int] = []
    for group_id in sorted(groups):
        members = groups[group_id]
        rng.shuffle(members)
        dealt.extend(members)
    return [sorted(dealt[start::minibatches]) for start in range(min(minibatches, len(dealt)))]
