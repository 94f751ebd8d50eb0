"""From rollouts to examples, and which rollouts teach nothing."""

from collections.abc import Sequence
from dataclasses import replace

from gpu_workers.backends.base_models import BaseModel
from gpu_workers.backends.chat_templates import Reader
from gpu_workers.backends.errors import NothingToLearnError
from gpu_workers.backends.micro_batches import score_frozen
from gpu_workers.backends.teachers import add_teacher, note_lost_hints
from gpu_workers.backends.training_example import Refused, TrainingExample, name_record
from tentalis.core.contracts import RolloutRecord, TrainSpec
from tentalis.core.learning.advantages import imitation_weights, token_advantages
from tentalis.core.learning.batching import sort_rollouts
from tentalis.core.learning.recipes import Recipe


def prepare_examples(
    rollouts: Sequence[RolloutRecord], spec: TrainSpec, recipe: Recipe, base: BaseModel
) -> tuple[list[TrainingExample], Refused]:
    """Examples that count, and what teaches nothing and why."""
    examples, refused = find_examples(rollouts, spec, recipe, base)
    if recipe.uses_teacher:
        note_lost_hints(examples, refused)
        examples = add_teacher(examples, recipe, base, refused, spec.options)
    counted = keep_counted(examples, recipe, refused, total=len(rollouts))
    if recipe.kl_coef > 0:
        scored = score_frozen(base, [(example.rollout.prompt_token_ids, example.rollout) for example in counted])
        counted = [replace(example, base_logprobs=logprobs) for example, logprobs in zip(counted, scored, strict=True)]
    return counted, refused


def find_examples(
    rollouts: Sequence[RolloutRecord], spec: TrainSpec, recipe: Recipe, reader: Reader, *, divides: bool = True
) -> tuple[list[TrainingExample], Refused]:
    """What the rewards of usable rollouts teach, and which rollouts are unusable and why.

    Args:
        divides: whoever trains can divide logits by the temperature that was sampled at.
    """
    usable, counts = sort_rollouts(
        rollouts,
        policy_version=spec.policy_version,
        max_staleness=recipe.max_staleness,
        hints_count=recipe.uses_teacher,
        latest_version=spec.latest_version,
    )
    refused = Refused(counts)
    fitting = []
    for rollout in usable:
        if reason := _misfit(rollout, reader):
            refused.counts[reason] += 1
        elif rollout.temperature != 1 and not divides:
            words = f"sampled at {rollout.temperature:g}, and what trains here computes log-probs at 1"
            refused.note("another_temperature", words, record=name_record(rollout))
        else:
            fitting.append(rollout)
    if recipe.algorithm == "reward_weighted_sft":
        examples = _imitation_examples(fitting, recipe)
    else:
        advantages = token_advantages(fitting, recipe)
        examples = [TrainingExample(rollout, values) for rollout, values in zip(fitting, advantages, strict=True)]
    if not recipe.cut_answers_teach:
        whole = [one for one in examples if not one.rollout.is_cut]
        refused.counts["cut"] += len(examples) - len(whole)
        examples = whole
    return examples, refused


def keep_counted(
    examples: Sequence[TrainingExample], recipe: Recipe, refused: Refused, *, total: int
) -> list[TrainingExample]:
    """The examples that a loss is a mean over. Those that teach nothing are among them, and counted by reason.

    Args:
        total: rollouts there were at first.
    Raises:
        NothingToLearnError: there is none; the message counts the reasons.
    """
    teaching = sum(example.has_signal(recipe) for example in examples)
    refused.counts["no_advantage"] += len(examples) - teaching
    if not teaching:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(refused.counts.items()) if count)
        reasons = "; ".join([reasons, *refused.notes[:3]]) if refused.notes else reasons
        raise NothingToLearnError(f"none of {total} rollouts would move a weight: {reasons or 'no rollout'}")
    return [example for example in examples if example.in_loss_mean(recipe)]


def _misfit(rollout: RolloutRecord, reader: Reader) -> str:
    """Why the model cannot read this rollout; "" when it can."""
    if len(rollout.prompt_token_ids) + len(rollout.token_ids) > reader.context_length:
        return "longer_than_the_context"
    parts = (rollout.prompt_token_ids, rollout.token_ids, *(rollout.top_token_ids or ()))
    highest, lowest = max(max(part) for part in parts if part), min(min(part) for part in parts if part)
    return "unknown_token" if lowest < 0 or highest >= reader.vocabulary_size else ""


def _imitation_examples(rollouts: Sequence[RolloutRecord], recipe: Recipe) -> list[TrainingExample]:
    """The same weight on every token of an answer, higher for what went better than the batch's mean."""
    judged = [rollout for rollout in rollouts if rollout.reward is not None]
    weights = imitation_weights(
        [rollout.reward for rollout in judged if rollout.reward is not None],
        temperature=recipe.sft_temperature,
        weight_max=recipe.sft_weight_max,
    )
    return [
        TrainingExample(rollout, [rollout.weight * weight] * len(rollout.token_ids))
        for rollout, weight in zip(judged, weights, strict=True)
    ]
