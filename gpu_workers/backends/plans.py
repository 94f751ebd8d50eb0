"""Which examples an update has, what its terms are divided by, and what is told of it: the same wherever it is made."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from gpu_workers.backends.training_example import TrainingExample
from tentalis.core.contracts import RolloutRecord
from tentalis.core.learning.batching import split_minibatches
from tentalis.core.learning.pair_order import PairOrder, find_order
from tentalis.core.learning.recipes import Recipe


def plan_updates(examples: Sequence[TrainingExample], recipe: Recipe, *, seed: int) -> list[list[int]]:
    """Positions in `examples` of each update, in order; none of examples that move nothing."""
    groups = [example.rollout.group_id for example in examples]
    return [
        part
        for epoch in range(recipe.epochs)
        for part in split_minibatches(groups, minibatches=recipe.minibatches, seed=seed + epoch)
        if any(examples[index].has_gradient(recipe) for index in part)
    ]


def count_totals(examples: Sequence[TrainingExample], recipe: Recipe) -> dict[str, float]:
    """What the sum of each term over an update is divided by, at least 1: `sampled`, `rl`, `opd`.

    The reward's is over every answer that was compared: one as good as its group's mean has no gradient, and the others
    do not weigh more for it. The hint's is over hinted answers, but never over less than the recipe's share of all: one
    hinted answer among 192 weighs four times as much as in a mean over all, and not 192 times. `sampled` are the tokens
    that are computed.
    """
    hinted = sum(example.sampled_tokens for example in examples if example.is_hinted)
    counted = sum(example.sampled_tokens for example in examples if example.in_loss_mean(recipe))
    rewarded = [example for example in examples if example.advantages is not None]
    rl = float(sum(example.sampled_tokens for example in rewarded))
    if recipe.algorithm == "dr_grpo":
        rl = float(len(rewarded) * recipe.answer_tokens)
    if recipe.algorithm == "gspo":  # a mean over answers
        rl = float(len(rewarded))
    return {
        "sampled": max(1.0, sum(example.sampled_tokens for example in examples if example.has_gradient(recipe))),
        "rl": max(1.0, rl),
        "opd": max(1.0, hinted, recipe.opd_least_share * counted),
    }


def sum_up_rewards(rollouts: Sequence[RolloutRecord]) -> dict[str, float]:
    """Mean reward and the share of full ones; 0 where nobody could judge."""
    rewards = [rollout.reward for rollout in rollouts if rollout.reward is not None]
    count = max(1, len(rewards))
    return {"reward": sum(rewards) / count, "accuracy": sum(reward == 1.0 for reward in rewards) / count}


def summarise(
    metrics: Sequence[Mapping[str, float]],
    rollouts: Sequence[RolloutRecord],
    examples: Sequence[TrainingExample],
    recipe: Recipe,
    refused: Mapping[str, int],
) -> dict[str, float]:
    """A whole run in a few numbers.

    Args:
        metrics: of every update; rollouts: all of the batch; examples: of those that count; refused: others by reason.
    """
    return {
        "rollouts": float(len(rollouts)),
        "rollouts_learned": float(sum(example.has_signal(recipe) for example in examples)),
        "rollouts_hinted": float(sum(example.is_hinted for example in examples)),
        "rollouts_cut": float(sum(rollout.is_cut for rollout in rollouts)),
        "updates": float(len(metrics)),
        "reward": sum_up_rewards(rollouts)["reward"],
        "max_ratio": max(metric["max_ratio"] for metric in metrics),
        "clip_fraction": sum(metric["clip_fraction"] for metric in metrics) / len(metrics),
        **{f"refused_{reason}": float(count) for reason, count in sorted(refused.items()) if count},
        **(order.describe("hinted") if (order := order_hinted(examples)) else {}),
    }


def order_hinted(examples: Sequence[TrainingExample]) -> PairOrder | None:
    """Whether the teacher, under its hints, likes the better of two attempts at a task more: what it thinks of an
    attempt is its mean gap, nats a sampled token. None where no task has two hinted attempts of different rewards.

    A base model that cannot read hints orders them by chance, and what it is then taught by hints is noise.
    """
    liked: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    for one in examples:
        trust, reward = one.rollout.trust_in_hint, one.rollout.reward
        if one.gaps is not None and trust > 0 and reward is not None and one.sampled_tokens:
            gap = math.fsum(value for value, drawn in zip(one.gaps, one.rollout.sampled, strict=True) if drawn)
            liked[one.rollout.group_id].append((reward, gap / trust / one.sampled_tokens))
    return find_order(
        {
            task: [good - bad for better, good in found for worse, bad in found if better > worse]
            for task, found in liked.items()
        }
    )
