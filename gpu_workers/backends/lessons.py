"""From rollouts to lessons: what each token of a batch has to teach, and which rollouts teach nothing."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from gpu_workers.backends.base_models import BaseModel, load_base
from gpu_workers.backends.errors import BaseModelError, NothingToLearnError
from gpu_workers.learning.packing import PackedBatch, PackedRow, pack_rows, split_rows
from tentalis.core.contracts import RolloutRecord, TrainSpec
from tentalis.core.learning.advantages import imitation_weights, token_advantages
from tentalis.core.learning.batching import sort_rollouts
from tentalis.core.learning.recipes import Recipe
from tentalis.core.opd import token_opd_advantages

BUDGET_TOKENS = 16_384
BUDGET_LOGITS = 2**28
SMALLEST_ADVANTAGE = 1e-6


@dataclass(frozen=True)
class Lesson:
    """One rollout and what to learn from it, all (T,).

    Args:
        advantages: the reward's; the imitation's weights for `reward_weighted_sft`; None without a reward.
        gaps: the hinted teacher's, in nats; None without a usable hint.
        base_logprobs: of the frozen base without a hint; None when no KL is asked for.
    """

    rollout: RolloutRecord
    advantages: list[float] | None
    gaps: list[float] | None = None
    base_logprobs: list[float] | None = None

    def teaches(self, recipe: Recipe) -> bool:
        """Whether it would move a weight."""
        if self.gaps is not None:
            return True
        moves = self.advantages is not None and any(abs(value) > SMALLEST_ADVANTAGE for value in self.advantages)
        return moves and recipe.w_rl > 0


def prepare_lessons(
    rollouts: Sequence[RolloutRecord], spec: TrainSpec, recipe: Recipe, base: BaseModel
) -> tuple[list[Lesson], Counter[str]]:
    """Lessons that move a weight, and how many rollouts teach nothing, by reason."""
    usable, refused = sort_rollouts(
        rollouts,
        policy_version=spec.policy_version,
        max_staleness=recipe.max_staleness,
        hints_count=recipe.uses_teacher,
    )
    fitting = []
    for rollout in usable:
        if reason := _misfit(rollout, base):
            refused[reason] += 1
        else:
            fitting.append(rollout)
    if recipe.algorithm == "reward_weighted_sft":
        lessons = _imitation_lessons(fitting, recipe)
    else:
        lessons = [
            Lesson(rollout, advantages)
            for rollout, advantages in zip(fitting, token_advantages(fitting, recipe), strict=True)
        ]
    if recipe.uses_teacher:
        lessons = _add_teacher(lessons, recipe, base, refused)
    teaching = [lesson for lesson in lessons if lesson.teaches(recipe)]
    refused["no_advantage"] += len(lessons) - len(teaching)
    if not teaching:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(refused.items()) if count)
        raise NothingToLearnError(f"none of {len(rollouts)} rollouts would move a weight: {reasons or 'no rollout'}")
    if recipe.kl_coef > 0:
        scored = _score_frozen(base, [(lesson.rollout.prompt_token_ids, lesson.rollout) for lesson in teaching])
        teaching = [replace(lesson, base_logprobs=logprobs) for lesson, logprobs in zip(teaching, scored, strict=True)]
    return teaching, refused


def _misfit(rollout: RolloutRecord, base: BaseModel) -> str:
    """Why the model cannot read this rollout; "" when it can."""
    if len(rollout.prompt_token_ids) + len(rollout.token_ids) > base.context_length:
        return "longer_than_the_context"
    highest = max(max(rollout.prompt_token_ids), max(rollout.token_ids))
    lowest = min(min(rollout.prompt_token_ids), min(rollout.token_ids))
    return "unknown_token" if lowest < 0 or highest >= base.vocabulary_size else ""


def _imitation_lessons(rollouts: Sequence[RolloutRecord], recipe: Recipe) -> list[Lesson]:
    """The same weight on every token of an answer, higher for what went better than the batch's mean."""
    judged = [rollout for rollout in rollouts if rollout.reward is not None]
    weights = imitation_weights(
        [rollout.reward for rollout in judged if rollout.reward is not None],
        temperature=recipe.sft_temperature,
        weight_max=recipe.sft_weight_max,
    )
    return [
        Lesson(rollout, [rollout.weight * weight] * len(rollout.token_ids))
        for rollout, weight in zip(judged, weights, strict=True)
    ]


def _add_teacher(lessons: Sequence[Lesson], recipe: Recipe, base: BaseModel, refused: Counter[str]) -> list[Lesson]:
    """Give each lesson with a hint the gap between the frozen teacher, who reads the hint, and the behaviour policy.

    The gap counts by how far the rollout's judgement is trusted: who is doubted in the one is doubted in the other.
    A hint whose conversation does not replay to the very tokens the engine saw is left out and counted.
    """
    teacher = base if recipe.teacher == "base" else load_base(recipe.teacher)
    if teacher.vocabulary_size != base.vocabulary_size:
        raise BaseModelError(
            f"recipe.teacher must share the base's vocabulary of {base.vocabulary_size} tokens, "
            f"found {teacher.vocabulary_size}"
        )
    hinted: dict[int, Sequence[int]] = {}
    for index, lesson in enumerate(lessons):
        rollout = lesson.rollout
        if not rollout.hinted_messages:
            continue
        prompt = teacher.read_prompt(rollout.hinted_messages)
        if base.read_prompt(rollout.messages) != tuple(rollout.prompt_token_ids):
            refused["hint_does_not_replay"] += 1
        elif len(prompt) + len(rollout.token_ids) > teacher.context_length:
            refused["hint_longer_than_the_context"] += 1
        else:
            hinted[index] = prompt
    scored = _score_frozen(teacher, [(prompt, lessons[index].rollout) for index, prompt in hinted.items()])
    taught = list(lessons)
    for index, logprobs in zip(hinted, scored, strict=True):
        rollout = lessons[index].rollout
        gaps = token_opd_advantages(logprobs, rollout.logprobs, rollout.sampled, gap_max=recipe.opd_clip)
        taught[index] = replace(lessons[index], gaps=[rollout.weight * gap for gap in gaps])
    return taught


@torch.inference_mode()
def _score_frozen(model: BaseModel, items: Sequence[tuple[Sequence[int], RolloutRecord]]) -> list[list[float]]:
    """Log-probs of each rollout's tokens after the given prompt, under the model as it is."""
    scored: list[list[float]] = [[] for _ in items]
    for batch, members in pack_items([(prompt, rollout.token_ids) for prompt, rollout in items], model):
        parts = torch.split(model.score(batch, {}).logprobs.cpu(), list(batch.sizes))
        for member, part in zip(members, parts, strict=True):
            scored[member] = part.tolist()
    return scored


def pack_items(
    items: Sequence[tuple[Sequence[int], Sequence[int]]], model: BaseModel
) -> list[tuple[PackedBatch, list[int]]]:
    """Share (prompt, completion) pairs out over packed micro-batches.

    Returns:
        Each batch with the position in `items` of each of its completions, in the batch's order.
    """
    by_prompt: dict[tuple[int, ...], list[int]] = {}
    for index, (prompt, _) in enumerate(items):
        by_prompt.setdefault(tuple(prompt), []).append(index)
    members = list(by_prompt.values())
    rows = [PackedRow(prompt, [items[index][1] for index in of]) for prompt, of in by_prompt.items()]
    budget = min(BUDGET_TOKENS, BUDGET_LOGITS // model.vocabulary_size)
    return [
        (pack_rows([rows[row] for row in part]), [index for row in part for index in members[row]])
        for part in split_rows(rows, budget_tokens=budget)
    ]
