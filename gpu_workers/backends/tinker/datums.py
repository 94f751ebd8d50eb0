"""An update as Tinker's losses read it: numbers for each token, shifted so that a position predicts the next one.

Its losses are sums over the tokens of a request, and requests before a step of the optimiser add up. What the
standalone trainer divides its sums by is therefore divided into the advantages here.

The clipped losses of reward and hint are one request whose advantages are the weighted sum of both, as Tinker's
cookbook distils. Where the two disagree in sign on a token, the clip acts on their sum and not on each. CISPO clips
otherwise than the hint's loss: there they are two requests.
"""

from collections.abc import Mapping, Sequence
from math import exp, log
from typing import NamedTuple

from gpu_workers.backends.tinker.recipes import is_clipped
from gpu_workers.backends.training_example import TrainingExample
from tentalis.core.learning.recipes import Recipe


class Row(NamedTuple):
    """One rollout as a datum, all (P + T - 1,).

    Args:
        tokens: what is read: prompt and answer without the last token.
        targets: what comes next at each position.
        numbers: name of a loss's input -> its values, 0 over the prompt.
    """

    tokens: list[int]
    targets: list[int]
    numbers: Mapping[str, list[float]]


class Pass(NamedTuple):
    """One request for a forward and a backward pass.

    Args:
        loss, config: the service's name of the loss, and its thresholds.
        members: positions in the update's examples of each row.
    """

    loss: str
    config: Mapping[str, float] | None
    members: list[int]
    rows: list[Row]


def plan_passes(examples: Sequence[TrainingExample], recipe: Recipe, totals: Mapping[str, float]) -> list[Pass]:
    """The requests whose gradients add up to an update's.

    Args:
        totals: from `count_totals`.
    """
    rewards = [_scale(example.advantages, example, recipe.w_rl / totals["rl"]) for example in examples]
    hints = [_scale(example.gaps, example, recipe.w_opd / totals["opd"]) for example in examples]
    rewarded = [index for index, example in enumerate(examples) if example.advantages is not None]
    if recipe.algorithm == "reward_weighted_sft":
        rows = [_row(examples[index], {"weights": rewards[index]}) for index in rewarded]
        return [Pass("cross_entropy", None, rewarded, rows)]
    clip = {"clip_low_threshold": 1 - recipe.clip_low, "clip_high_threshold": 1 + recipe.clip_high}
    if is_clipped(recipe):
        both = [
            [reward + hint for reward, hint in zip(*pair, strict=True)] for pair in zip(rewards, hints, strict=True)
        ]
        rows = [_policy_row(example, values, recipe) for example, values in zip(examples, both, strict=True)]
        return [Pass("ppo", clip, list(range(len(examples))), rows)]
    hinted = [index for index, example in enumerate(examples) if example.is_hinted]
    passes = [
        Pass(
            "cispo",
            {"clip_low_threshold": 0.0, "clip_high_threshold": 1 + recipe.clip_high},
            rewarded,
            [_policy_row(examples[index], rewards[index], recipe) for index in rewarded],
        ),
        Pass("ppo", clip, hinted, [_policy_row(examples[index], hints[index], recipe) for index in hinted]),
    ]
    return [one for one in passes if one.members]


def weigh_tokens(example: TrainingExample, recipe: Recipe) -> list[float]:
    """What each token counts (T,): min(pi_start / pi_behaviour, C) where the recipe has a cap, else 1."""
    if recipe.importance_cap is None or example.start_logprobs is None:
        return [1.0] * len(example.rollout.token_ids)
    highest = log(recipe.importance_cap)  # compared in nats: the ratio itself may overflow
    return [
        exp(min(start - behaviour, highest))
        for start, behaviour in zip(example.start_logprobs, example.rollout.logprobs, strict=True)
    ]


def _scale(values: Sequence[float] | None, example: TrainingExample, by: float) -> list[float]:
    """(T,) times `by`; 0 where the policy did not choose the token, or there is nothing."""
    if values is None:
        return [0.0] * len(example.rollout.token_ids)
    return [by * value if counts else 0.0 for value, counts in zip(values, example.rollout.sampled, strict=True)]


def _policy_row(example: TrainingExample, advantages: Sequence[float], recipe: Recipe) -> Row:
    """Advantages, and the log-probs of the policy that the ratio is taken to."""
    old = example.rollout.logprobs
    if recipe.importance_cap is not None and example.start_logprobs is not None:
        weights = weigh_tokens(example, recipe)
        advantages = [value * weight for value, weight in zip(advantages, weights, strict=True)]
        old = [
            value if counts else 0.0
            for value, counts in zip(example.start_logprobs, example.rollout.sampled, strict=True)
        ]
    return _row(example, {"logprobs": list(old), "advantages": list(advantages)})


def _row(example: TrainingExample, numbers: Mapping[str, Sequence[float]]) -> Row:
    whole = [*example.rollout.prompt_token_ids, *example.rollout.token_ids]
    before = [0.0] * (len(example.rollout.prompt_token_ids) - 1)
    return Row(whole[:-1], whole[1:], {name: [*before, *values] for name, values in numbers.items()})
