"""The numbers of an update, computed here from the log-probs the service tells, by the standalone trainer's losses."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gpu_workers.backends.plans import count_totals
from gpu_workers.backends.policy import REWARD_LOSSES, Tokens
from gpu_workers.backends.tinker.datums import Pass, weigh_tokens
from gpu_workers.backends.tinker.service import Step
from gpu_workers.backends.training_example import TrainingExample
from gpu_workers.learning.losses import clipped_surrogate, combine_losses, measure_drift, weighted_imitation
from tentalis.core.learning.recipes import Recipe


@torch.no_grad()
def measure_update(
    examples: Sequence[TrainingExample], recipe: Recipe, totals: Mapping[str, float], passes: Sequence[Pass], step: Step
) -> dict[str, float]:
    """Losses, distance from the policy that sampled, and what the service itself told (`tinker_…`).

    Args:
        totals: from `count_totals`.
    """
    found: dict[int, list[float]] = {}
    for one, rows in zip(passes, step.logprobs, strict=True):
        for member, values in zip(one.members, rows, strict=True):
            found.setdefault(member, values[-len(examples[member].rollout.token_ids) :])
    seen = [examples[index] for index in sorted(found)]
    logprobs = _join([found[index] for index in sorted(found)])
    sampled = torch.tensor([flag for example in seen for flag in example.rollout.sampled])
    behaviour = _join([example.rollout.logprobs for example in seen])
    sizes = [len(example.rollout.token_ids) for example in seen]
    tokens = Tokens(logprobs, behaviour, None, sizes)
    if recipe.importance_cap is not None:
        start = _join([example.start_logprobs or example.rollout.logprobs for example in seen])
        tokens = Tokens(logprobs, start, _join([weigh_tokens(example, recipe) for example in seen]), sizes)
    reward = REWARD_LOSSES[recipe.algorithm](
        recipe, tokens, *_values([example.advantages for example in seen], seen, sampled), totals["rl"]
    )
    hint = clipped_surrogate(
        tokens.logprobs,
        tokens.old,
        *_values([example.gaps for example in seen], seen, sampled),
        clip_low=recipe.clip_low,
        clip_high=recipe.clip_high,
        importance=tokens.importance,
        total=totals["opd"],
    )
    drift = measure_drift(logprobs, behaviour, sampled, clip_low=recipe.clip_low, clip_high=recipe.clip_high)
    told = {f"tinker_{name.replace('/', '_').replace(':', '_')}": value for name, value in step.told.items()}
    norm = next((value for name, value in step.told.items() if name.rpartition("/")[2] == "grad_norm"), None)
    return {
        "loss": float(combine_losses(reward, hint, w_rl=recipe.w_rl, w_opd=recipe.w_opd)),
        "loss_rl": float(reward),
        "loss_opd": float(hint),
        "kl": float(drift.divergence) / totals["sampled"],
        "clip_fraction": float(drift.clipped) / totals["sampled"],
        "max_ratio": float(drift.max_ratio),
        **({} if norm is None else {"grad_norm": norm}),
        **told,
    }


@torch.no_grad()
def measure_held_out(examples: Sequence[TrainingExample], recipe: Recipe, logprobs: Sequence[Sequence[float]]) -> float:
    """The loss of imitation on tasks that are not learnt from, nats a token.

    Args:
        logprobs: (T,) of each example's answer.
    """
    sampled = torch.tensor([flag for example in examples for flag in example.rollout.sampled])
    weights, counts = _values([example.advantages for example in examples], examples, sampled)
    return float(weighted_imitation(_join(logprobs), weights, counts, total=count_totals(examples, recipe)["rl"]))


def _join(parts: Sequence[Sequence[float]]) -> Tensor:
    return torch.tensor([value for part in parts for value in part], dtype=torch.float32)


def _values(
    values: Sequence[Sequence[float] | None], examples: Sequence[TrainingExample], sampled: Tensor
) -> tuple[Tensor, Tensor]:
    """Values of all examples end to end (N,), 0 where a example has none, and which tokens count (N,)."""
    pairs = list(zip(values, examples, strict=True))
    numbers = [value or [0.0] * len(example.rollout.token_ids) for value, example in pairs]
    present = [value is not None for value, example in pairs for _ in example.rollout.token_ids]
    return _join(numbers), sampled & torch.tensor(present)
