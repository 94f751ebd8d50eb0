"""Learning from rollouts: the policy losses, the teacher's, and one optimiser update of both."""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gpu_workers.artifacts import path_from_uri
from gpu_workers.backends.adapter_files import LoraTensors
from gpu_workers.backends.base_models import BaseModel, Batch
from gpu_workers.backends.errors import BaseModelError
from gpu_workers.backends.held_out import choose_held_out, find_tasks
from gpu_workers.backends.low_rank import LowRank
from gpu_workers.backends.memory import require_memory
from gpu_workers.backends.micro_batches import pack_items, plan_items, score_answers, spread_temperatures
from gpu_workers.backends.optimizer import Optimizer
from gpu_workers.backends.plans import count_totals, plan_updates, sum_up_rewards, summarise
from gpu_workers.backends.preparing import prepare_examples
from gpu_workers.backends.ranks import gather_all
from gpu_workers.backends.rollout_files import read_rollouts
from gpu_workers.backends.training_example import TrainingExample
from gpu_workers.learning.losses import (
    cispo,
    clipped_surrogate,
    combine_losses,
    k3_divergence,
    mean_entropy,
    measure_drift,
    sequence_surrogate,
    top_k_distillation,
    truncated_importance,
    weighted_imitation,
)
from tentalis.core.contracts import TrainSpec
from tentalis.core.learning.recipes import Recipe
from tentalis.core.learning.schedules import rate_share


class Tokens(NamedTuple):
    """The tokens of a micro-batch, all (N,).

    Args:
        logprobs: nats, current policy, with gradient.
        old: nats, of the policy the ratio is taken to.
        importance: what each token counts; None: all 1.
        sizes: of each answer, in their order; they sum to N.
    """

    logprobs: Tensor
    old: Tensor
    importance: Tensor | None
    sizes: Sequence[int]


HALVED_NATS = math.log(2)
LEAST_BETTER = 10
"""Of fewer answers the share that became less likely is taken as of so many: one says nothing."""
COMPARED = 8
MOST_FIRST_GAP_NATS = 0.5
"""Half precision at the server differs by at most 0.33 nats at its worst token; another model by nats on average."""
RewardLoss = Callable[[Recipe, Tokens, Tensor, Tensor, float], Tensor]
"""(recipe, tokens, advantages (N,), counts (N,), what to divide by) -> scalar."""


def _clipped(recipe: Recipe, tokens: Tokens, advantages: Tensor, counts: Tensor, total: float) -> Tensor:
    return clipped_surrogate(
        tokens.logprobs,
        tokens.old,
        advantages,
        counts,
        clip_low=recipe.clip_low,
        clip_high=recipe.clip_high,
        dual_clip=recipe.dual_clip,
        importance=tokens.importance,
        total=total,
    )


def _cispo(recipe: Recipe, tokens: Tokens, advantages: Tensor, counts: Tensor, total: float) -> Tensor:
    return cispo(tokens.logprobs, tokens.old, advantages, counts, clip_high=recipe.clip_high, total=total)


def _gspo(recipe: Recipe, tokens: Tokens, advantages: Tensor, counts: Tensor, total: float) -> Tensor:
    low, high = recipe.sequence_clip_low, recipe.sequence_clip_high
    return sequence_surrogate(
        tokens.logprobs, tokens.old, advantages, counts, tokens.sizes, clip_low=low, clip_high=high, total=total
    )


def _imitate(recipe: Recipe, tokens: Tokens, advantages: Tensor, counts: Tensor, total: float) -> Tensor:
    del recipe
    return weighted_imitation(tokens.logprobs, advantages, counts, total=total)


REWARD_LOSSES: Mapping[str, RewardLoss] = {
    "grpo": _clipped,
    "dr_grpo": _clipped,
    "dapo": _clipped,
    "reinforce_pp": _clipped,
    "cispo": _cispo,
    "gspo": _gspo,
    "reward_weighted_sft": _imitate,
}
"""Algorithm -> its loss. Those that share one differ in their advantages (`core.learning.advantages`)."""


class PolicyTrainingLoop:
    """A run over one batch of rollouts: its updates in order. Imitation ends with its loss on held-out tasks."""

    def __init__(self, spec: TrainSpec, recipe: Recipe, base: BaseModel, start: LoraTensors) -> None:
        """Read the rollouts and prepare every example.

        Args:
            start: the adapter the run starts from.
        Raises:
            TrainingError, ContractError, ArtifactError: see `gpu_workers.backends.errors`.
        """
        self._recipe = recipe
        self._version = spec.policy_version
        self._base = base
        self._modules = sorted(base.find_linears(recipe.target_modules))
        self._rollouts = read_rollouts(path_from_uri(spec.rollouts_uri), sha256=spec.rollouts_sha256)
        items = [(one.prompt_token_ids, one.token_ids) for one in self._rollouts]
        self._memory = plan_items(items, base, modules=recipe.target_modules, rank=recipe.lora_rank)
        require_memory(self._memory, base.device)
        self._examples, self._refused = prepare_examples(self._rollouts, spec, recipe, base)
        imitates = recipe.algorithm == "reward_weighted_sft"
        if not imitates:  # which asks nobody how likely an answer was
            self._require_what_answered(spec, Optimizer(start, recipe, base.device))
        if recipe.importance_cap is not None:
            self._examples = self._score_start(Optimizer(start, recipe, base.device))
        self._held_out: list[TrainingExample] = []
        self._findings: dict[str, float] = {}
        if imitates:
            self._examples, self._held_out = hold_out(self._examples, share=recipe.held_out_share)
        self._plan = plan_updates(self._examples, recipe, seed=spec.seed)

    @property
    def updates(self) -> int:
        """How many updates the run has."""
        return len(self._plan)

    def run_update(self, number: int, optimizer: Optimizer) -> dict[str, float]:
        """Make update `number`, from 1; its metrics."""
        started = time.perf_counter()
        dealt = [self._examples[index] for index in self._plan[number - 1]]
        better = sum(example.is_better(self._recipe, self._version) for example in dealt)
        totals = count_totals(dealt, self._recipe) | {"better": float(max(better, LEAST_BETTER))}
        examples = [example for example in dealt if example.has_gradient(self._recipe)]
        tokens = sum(example.sampled_tokens for example in examples)
        sums: defaultdict[str, float] = defaultdict(float)
        max_ratio = 0.0
        items = [(example.rollout.prompt_token_ids, example.rollout.token_ids) for example in examples]
        parts = [
            self._backward(batch, [examples[member] for member in members], totals, optimizer)
            for batch, members in pack_items(items, self._base)
        ]
        for terms, ratio in gather_all(parts):
            for name, value in terms.items():
                sums[name] += value
            max_ratio = max(max_ratio, ratio)
        share = rate_share(self._recipe, number=number, updates=self.updates, made=optimizer.updates_made)
        grad_norm = optimizer.step(sums["loss"], share=share)
        if number == self.updates and self._held_out:
            self._findings = {"val_loss": self._measure_held_out(optimizer)}
        return {
            **sum_up_rewards([example.rollout for example in dealt]),
            **sums,
            "max_ratio": max_ratio,
            "grad_norm": grad_norm,
            "learning_rate": share * self._recipe.learning_rate,
            "mean_length_tokens": sum(example.sampled_tokens for example in dealt) / len(dealt),
            "rollouts": float(len(dealt)),
            "tokens_per_s": tokens / (time.perf_counter() - started),
        }

    def summarise(self, metrics: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """The whole run in a few numbers; of one that imitates its losses on what it learnt from, and on the rest."""
        found = summarise(metrics, self._rollouts, self._examples, self._recipe, self._refused.counts)
        found["memory_planned_mib"] = self._memory.total / 2**20
        if not self._held_out:
            return found
        last = metrics[-(len(self._plan) // self._recipe.epochs) :]
        train_loss = sum(metric["loss_rl"] for metric in last) / len(last)
        return found | {"rollouts_held_out": float(len(self._held_out)), "train_loss": train_loss, **self._findings}

    @property
    def notes(self) -> list[str]:
        """Why what was not learnt from was not, in words."""
        return self._refused.notes

    def find_faults(self) -> list[str]:
        """None: what rewards make of a policy is judged where it is to serve."""
        return []

    @torch.inference_mode()
    def _measure_held_out(self, optimizer: Optimizer) -> float:
        """The loss of imitation on tasks that are not learnt from, nats a token."""
        changes = optimizer.changes(self._modules, self._recipe.lora_scale)
        items = [(one.rollout.prompt_token_ids, one.rollout.token_ids) for one in self._held_out]
        total, losses = count_totals(self._held_out, self._recipe)["rl"], []
        for batch, members in pack_items(items, self._base):
            examples = [self._held_out[member] for member in members]
            counts = torch.tensor([flag for one in examples for flag in one.rollout.sampled], device=self._base.device)
            weights, _ = _join([one.advantages for one in examples], batch.sizes, self._base.device)
            spread = spread_temperatures([one.rollout.temperature for one in examples], batch)
            found = self._base.score(batch, changes, temperatures=spread).logprobs
            losses.append(float(weighted_imitation(found, weights, counts, total=total)))
        return sum(gather_all(losses))

    def _require_what_answered(self, spec: TrainSpec, optimizer: Optimizer) -> None:
        """Refuse weights that are not those that answered: attempts of the very version the run starts from must have
        about the log-probs that their server told.

        Raises:
            BaseModelError: they have not.
        """
        changes = optimizer.changes(self._modules, self._recipe.lora_scale)
        same = [one.rollout for one in self._examples if one.rollout.policy_version == spec.policy_version][:COMPARED]
        items = [(one.prompt_token_ids, one.token_ids) for one in same]
        scored = score_answers(self._base, items, changes, [one.temperature for one in same])
        gaps = [
            abs(found - told)
            for one, values in zip(same, scored, strict=True)
            for found, told, is_drawn in zip(values, one.logprobs, one.sampled, strict=True)
            if is_drawn
        ]
        if gaps and (mean := sum(gaps) / len(gaps)) > MOST_FIRST_GAP_NATS:
            raise BaseModelError(
                f"the weights in {self._base.directory} are not those that answered: the first {len(gaps)} log-probs "
                f"differ from what the model server told by {mean:.2f} nats on average, at most {MOST_FIRST_GAP_NATS:g}"
            )

    def _score_start(self, optimizer: Optimizer) -> list[TrainingExample]:
        """The examples with the log-probs of the policy that the run starts from."""
        changes = optimizer.changes(self._modules, self._recipe.lora_scale)
        moving = [index for index, example in enumerate(self._examples) if example.has_gradient(self._recipe)]
        rollouts = [self._examples[index].rollout for index in moving]
        items = [(one.prompt_token_ids, one.token_ids) for one in rollouts]
        scored = score_answers(self._base, items, changes, [one.temperature for one in rollouts])
        examples = list(self._examples)
        for index, values in zip(moving, scored, strict=True):
            examples[index] = replace(examples[index], start_logprobs=values)
        return self._score_start_supports(examples, changes)

    @torch.inference_mode()
    def _score_start_supports(
        self, examples: Sequence[TrainingExample], changes: Mapping[str, LowRank]
    ) -> list[TrainingExample]:
        """The same of the likeliest tokens, where the teacher had a word on those."""
        scored: list[tuple[int, list[list[float]]]] = []
        supported = [(index, one, one.support) for index, one in enumerate(examples) if one.support is not None]
        items = [(one.rollout.prompt_token_ids, one.rollout.token_ids) for _, one, _ in supported]
        for batch, members in pack_items(items, self._base):
            ids = torch.tensor([list(ids) for member in members for ids in supported[member][2].token_ids])
            spread = spread_temperatures([supported[member][1].rollout.temperature for member in members], batch)
            asked = ids.to(self._base.device)
            found = self._base.score(batch, changes, support_ids=asked, temperatures=spread).support
            assert found is not None, "a support was asked for"
            parts = torch.split(found.cpu(), list(batch.sizes))
            scored += zip(members, (values.tolist() for values in parts), strict=True)
        started = list(examples)
        for member, values in gather_all(scored):
            index, example, _ = supported[member]
            started[index] = replace(example, start_support=values)
        return started

    def _backward(
        self, batch: Batch, examples: Sequence[TrainingExample], totals: Mapping[str, float], optimizer: Optimizer
    ) -> tuple[dict[str, float], float]:
        """Add one micro-batch's gradients; its share of the update's mean terms, and its largest ratio."""
        recipe, device, sizes = self._recipe, self._base.device, batch.sizes
        sampled = torch.tensor([flag for item in examples for flag in item.rollout.sampled], device=device)  # N
        behaviour = torch.tensor([value for item in examples for value in item.rollout.logprobs], device=device)  # N
        advantages, has_reward = _join([item.advantages for item in examples], sizes, device)
        support = _join_supports(examples, sizes, recipe.stored_top_k, device)
        changes = optimizer.changes(self._modules, recipe.lora_scale)
        found = self._base.score(
            batch,
            changes,
            support_ids=None if support is None else support.token_ids,
            entropy_has_gradient=recipe.entropy_coef > 0,
            temperatures=spread_temperatures([item.rollout.temperature for item in examples], batch),
        )
        tokens = Tokens(found.logprobs, behaviour, None, sizes)
        if recipe.importance_cap is not None:
            start, _ = _join([item.start_logprobs for item in examples], sizes, device)
            weights = truncated_importance(start, behaviour, sampled, cap=recipe.importance_cap)
            tokens = Tokens(found.logprobs, start, weights, sizes)
        reward_loss = REWARD_LOSSES[recipe.algorithm](recipe, tokens, advantages, sampled & has_reward, totals["rl"])
        if support is None or found.support is None:
            gaps, has_hint = _join([item.gaps for item in examples], sizes, device)
            hint_loss = _clipped(replace(recipe, dual_clip=None), tokens, gaps, sampled & has_hint, totals["opd"])
        else:
            counts = sampled & support.counts
            old, importance = support.logprobs, None
            if support.start is not None and recipe.importance_cap is not None:
                old = support.start
                told = counts[:, None].expand_as(old)
                importance = truncated_importance(old, support.logprobs, told, cap=recipe.importance_cap)
            hint_loss = top_k_distillation(
                found.support,
                old,
                support.advantages,
                counts,
                clip_low=recipe.clip_low,
                clip_high=recipe.clip_high,
                importance=importance,
                total=totals["opd"],
            )
        entropy = mean_entropy(found.entropies, sampled, total=totals["sampled"])
        loss = combine_losses(reward_loss, hint_loss, w_rl=recipe.w_rl, w_opd=recipe.w_opd)
        if recipe.entropy_coef > 0:
            loss = loss - recipe.entropy_coef * entropy
        terms = {"loss_rl": reward_loss, "loss_opd": hint_loss, "entropy": entropy}
        if recipe.kl_coef > 0:
            reference, _ = _join([item.base_logprobs for item in examples], sizes, device)
            terms["kl_base"] = k3_divergence(found.logprobs, reference, sampled, total=totals["sampled"])
            loss = loss + recipe.kl_coef * terms["kl_base"]
        torch.autograd.backward(loss)
        drift = measure_drift(found.logprobs, behaviour, sampled, clip_low=recipe.clip_low, clip_high=recipe.clip_high)
        gained = torch.split(torch.where(sampled, found.logprobs.detach() - behaviour, 0.0), list(sizes))
        displaced = sum(
            gap < -HALVED_NATS and item.is_better(recipe, self._version)
            for item, gap in zip(examples, torch.stack([one.sum() for one in gained]).tolist(), strict=True)
        )
        return {name: float(term.detach()) for name, term in terms.items()} | {
            "loss": float(loss.detach()),
            "displaced": displaced / totals["better"],
            "kl": float(drift.divergence) / totals["sampled"],
            "clip_fraction": float(drift.clipped) / totals["sampled"],
        }, float(drift.max_ratio)


def hold_out(
    examples: Sequence[TrainingExample], *, share: float
) -> tuple[list[TrainingExample], list[TrainingExample]]:
    """What is learnt and what it is checked on; nothing of a single task."""
    tasks = find_tasks(example.rollout for example in examples)
    held_out = choose_held_out(set(tasks.values()), share=share)
    parts: tuple[list[TrainingExample], list[TrainingExample]] = ([], [])
    for example in examples:
        parts[tasks[example.rollout.rollout_id] in held_out].append(example)
    return parts


def _join(
    values: Sequence[Sequence[float] | None], sizes: Sequence[int], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Values of all examples end to end (N,), 0 where a example has none, and where it has some (N,) bool."""
    numbers: list[float] = []
    present: list[bool] = []
    for value, size in zip(values, sizes, strict=True):
        numbers.extend([0.0] * size if value is None else value)
        present.extend([value is not None] * size)
    return torch.tensor(numbers, device=device), torch.tensor(present, device=device)


class _Supports(NamedTuple):
    """The supports of a micro-batch, (N, K) each, and where a example has one (N,).

    Args:
        start: log-probs of the policy the run starts from; None where nobody asked for them.
    """

    token_ids: Tensor
    logprobs: Tensor
    advantages: Tensor
    counts: Tensor
    start: Tensor | None


def _join_supports(
    examples: Sequence[TrainingExample], sizes: Sequence[int], k: int, device: torch.device
) -> _Supports | None:
    """Supports of all examples end to end; None where the recipe knows none."""
    if k == 0:
        return None
    columns: tuple[list[Any], list[Any], list[Any], list[bool], list[Any]] = ([], [], [], [], [])
    for example, size in zip(examples, sizes, strict=True):
        support, nothing = example.support, [[0] * k] * size
        columns[0].extend(nothing if support is None else support.token_ids)
        columns[1].extend(nothing if support is None else support.logprobs)
        columns[2].extend(nothing if support is None else support.advantages)
        columns[3].extend([support is not None] * size)
        columns[4].extend(nothing if example.start_support is None else example.start_support)
    ids, logprobs, advantages, counts, start = columns
    is_scored = any(example.start_support is not None for example in examples)
    return _Supports(
        torch.tensor(ids, device=device),
        torch.tensor(logprobs, device=device, dtype=torch.float32),
        torch.tensor(advantages, device=device, dtype=torch.float32),
        torch.tensor(counts, device=device),
        torch.tensor(start, device=device, dtype=torch.float32) if is_scored else None,
    )
