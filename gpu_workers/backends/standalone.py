"""The trainer in this process: one batch of rollouts, a few optimiser updates, an adapter. CPU or one GPU, float32.

The adapter is a set of low-rank tensors beside a frozen model, W + (alpha / r) B A is computed once per micro-batch and
put in W's place: that is exactly the function PEFT computes, costs a third less at small sizes, and leaves the base
untouched for the teacher. It needs a copy of the adapted weights in memory.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from gpu_workers.artifacts import path_from_uri
from gpu_workers.backends import TrainedAdapter
from gpu_workers.backends.adapter_files import (
    LoraTensors,
    package_versions,
    publish_adapter,
    read_adapter,
    read_manifest,
    start_adapter,
)
from gpu_workers.backends.base_models import BaseModel, load_base
from gpu_workers.backends.errors import (
    CancelledError,
    ParentMismatchError,
)
from gpu_workers.backends.lessons import Lesson, pack_items, prepare_lessons
from gpu_workers.backends.optimizer import Optimizer
from gpu_workers.backends.rollout_files import read_rollouts
from gpu_workers.learning.losses import (
    cispo,
    clipped_surrogate,
    combine_losses,
    k3_divergence,
    mean_entropy,
    measure_drift,
    weighted_imitation,
)
from gpu_workers.learning.packing import PackedBatch
from tentalis.core.contracts import RolloutRecord, TrainSpec
from tentalis.core.learning.batching import split_minibatches
from tentalis.core.learning.recipes import Recipe


def train(
    spec: TrainSpec,
    *,
    output: Path,
    report: Callable[[Mapping[str, float]], None],
    is_cancelled: Callable[[], bool],
) -> TrainedAdapter:
    """Train one spec; the same spec gives the same bytes on the same machine with one thread.

    Raises:
        TrainingError, ContractError, ArtifactError: see `gpu_workers.backends.errors`; nothing is published then.
    """
    started = time.perf_counter()
    recipe = Recipe.from_json(spec.recipe)
    base = load_base(spec.base_model)
    linears = base.find_linears(recipe.target_modules)
    tensors = _open_adapter(spec, recipe, base, linears)
    rollouts = read_rollouts(path_from_uri(spec.rollouts_uri), sha256=spec.rollouts_sha256)
    lessons, refused = prepare_lessons(rollouts, spec, recipe, base)
    optimizer = Optimizer(tensors, recipe, base.device)
    metrics: list[Mapping[str, float]] = []
    plan = [
        [lessons[index] for index in part]
        for epoch in range(recipe.epochs)
        for part in split_minibatches(
            [lesson.rollout.group_id for lesson in lessons], minibatches=recipe.minibatches, seed=spec.seed + epoch
        )
    ]
    for number, part in enumerate(plan, start=1):
        if is_cancelled():
            raise CancelledError(f"cancelled after {number - 1} of {len(plan)} updates")
        found = _update(part, recipe, base, linears, optimizer)
        metrics.append({"update": number, "updates": len(plan), **found})
        report(metrics[-1])
    if is_cancelled():
        raise CancelledError(f"cancelled after {len(plan)} of {len(plan)} updates, before publishing")
    fields = {
        "worker": spec.worker,
        "base_model": spec.base_model,
        "base_sha256": base.sha256,
        "parent_sha256": spec.parent_sha256 or "",
        "run_id": spec.run_id,
        "attempt": spec.attempt,
        "recipe_hash": recipe.hash,
        "rollouts_sha256": spec.rollouts_sha256,
        "rank": recipe.lora_rank,
        "alpha": recipe.lora_alpha,
        "target_modules": sorted(recipe.target_modules),
    }
    directory, sha256 = publish_adapter(optimizer.tensors(), fields, parent=output)
    summary = _summarise(rollouts, lessons, refused, metrics) | {"wall_s": time.perf_counter() - started}
    return TrainedAdapter(directory, sha256, metrics, summary, package_versions())


def _open_adapter(spec: TrainSpec, recipe: Recipe, base: BaseModel, linears: Mapping[str, Tensor]) -> LoraTensors:
    if spec.parent_adapter_uri is None:
        return start_adapter(linears, rank=recipe.lora_rank, seed=spec.seed)
    if spec.parent_sha256 is None:
        raise ParentMismatchError("parent_adapter_uri wants parent_sha256 beside it, found null")
    directory = path_from_uri(spec.parent_adapter_uri)
    manifest = read_manifest(directory, sha256=spec.parent_sha256)
    for name, wanted, found in (
        ("base model", base.sha256, manifest.base_sha256),
        ("rank", recipe.lora_rank, manifest.rank),
        ("alpha", recipe.lora_alpha, manifest.alpha),
    ):
        if wanted != found:
            raise ParentMismatchError(f"parent adapter: {name} must be {wanted}, found {found}")
    return read_adapter(directory, sha256=spec.parent_sha256, linears=linears, rank=recipe.lora_rank)


def _update(
    lessons: Sequence[Lesson], recipe: Recipe, base: BaseModel, linears: Mapping[str, Tensor], optimizer: Optimizer
) -> dict[str, float]:
    """One optimiser update on these lessons; its metrics."""
    started = time.perf_counter()
    tokens = sum(sum(lesson.rollout.sampled) for lesson in lessons)
    totals = {
        "sampled": float(tokens),
        "rl": float(sum(sum(lesson.rollout.sampled) for lesson in lessons if lesson.advantages is not None)),
        "opd": float(sum(sum(lesson.rollout.sampled) for lesson in lessons if lesson.gaps is not None)),
    }
    sums: defaultdict[str, float] = defaultdict(float)
    max_ratio = 0.0
    items = [(lesson.rollout.prompt_token_ids, lesson.rollout.token_ids) for lesson in lessons]
    for batch, members in pack_items(items, base):
        here = [lessons[member] for member in members]
        terms, ratio = _backward(batch, here, totals, recipe, base, linears, optimizer)
        for name, value in terms.items():
            sums[name] += value
        max_ratio = max(max_ratio, ratio)
    grad_norm = optimizer.step(sums["loss"])
    rewards = [lesson.rollout.reward for lesson in lessons if lesson.rollout.reward is not None]
    return {
        "reward": sum(rewards) / len(rewards) if rewards else 0.0,
        "accuracy": sum(reward == 1.0 for reward in rewards) / len(rewards) if rewards else 0.0,
        **sums,
        "max_ratio": max_ratio,
        "grad_norm": grad_norm,
        "mean_length_tokens": tokens / len(lessons),
        "rollouts": float(len(lessons)),
        "tokens_per_s": tokens / (time.perf_counter() - started),
    }


def _backward(
    batch: PackedBatch,
    lessons: Sequence[Lesson],
    totals: Mapping[str, float],
    recipe: Recipe,
    base: BaseModel,
    linears: Mapping[str, Tensor],
    optimizer: Optimizer,
) -> tuple[dict[str, float], float]:
    """Add one micro-batch's gradients; its share of the update's mean terms, and its largest ratio."""
    device = base.device
    sampled = torch.tensor([flag for item in lessons for flag in item.rollout.sampled], device=device)  # N
    old = torch.tensor([value for item in lessons for value in item.rollout.logprobs], device=device)  # N
    advantages, has_reward = _join([item.advantages for item in lessons], batch.sizes, device)
    gaps, has_hint = _join([item.gaps for item in lessons], batch.sizes, device)
    merged = optimizer.merge(linears, recipe.lora_alpha / recipe.lora_rank)
    logprobs, entropies = base.score(batch, merged, entropy_has_gradient=recipe.entropy_coef > 0)
    reward_loss = _reward_loss(recipe, logprobs, old, advantages, sampled & has_reward, totals["rl"])
    hint_loss = clipped_surrogate(
        logprobs,
        old,
        gaps,
        sampled & has_hint,
        clip_low=recipe.clip_low,
        clip_high=recipe.clip_high,
        total=max(1.0, totals["opd"]),
    )
    entropy = mean_entropy(entropies, sampled, total=totals["sampled"])
    loss = combine_losses(reward_loss, hint_loss, w_rl=recipe.w_rl, w_opd=recipe.w_opd)
    if recipe.entropy_coef > 0:
        loss = loss - recipe.entropy_coef * entropy
    terms = {"loss_rl": reward_loss, "loss_opd": hint_loss, "entropy": entropy}
    if recipe.kl_coef > 0:
        reference, _ = _join([item.base_logprobs for item in lessons], batch.sizes, device)
        terms["kl_base"] = k3_divergence(logprobs, reference, sampled, total=totals["sampled"])
        loss = loss + recipe.kl_coef * terms["kl_base"]
    torch.autograd.backward(loss)
    drift = measure_drift(logprobs, old, sampled, clip_low=recipe.clip_low, clip_high=recipe.clip_high)
    found = {name: float(term.detach()) for name, term in terms.items()} | {
        "loss": float(loss.detach()),
        "kl": float(drift.divergence) / totals["sampled"],
        "clip_fraction": float(drift.clipped) / totals["sampled"],
    }
    return found, float(drift.max_ratio)


def _reward_loss(
    recipe: Recipe, logprobs: Tensor, old: Tensor, advantages: Tensor, counts: Tensor, total: float
) -> Tensor:
    total = max(1.0, total)
    if recipe.algorithm == "reward_weighted_sft":
        return weighted_imitation(logprobs, advantages, counts, total=total)
    if recipe.algorithm == "cispo":
        return cispo(logprobs, old, advantages, counts, clip_high=recipe.clip_high, total=total)
    return clipped_surrogate(
        logprobs,
        old,
        advantages,
        counts,
        clip_low=recipe.clip_low,
        clip_high=recipe.clip_high,
        dual_clip=recipe.dual_clip,
        total=total,
    )


def _join(
    values: Sequence[Sequence[float] | None], sizes: Sequence[int], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Values of all lessons end to end (N,), 0 where a lesson has none, and where it has some (N,) bool."""
    numbers: list[float] = []
    present: list[bool] = []
    for value, size in zip(values, sizes, strict=True):
        numbers.extend([0.0] * size if value is None else value)
        present.extend([value is not None] * size)
    return torch.tensor(numbers, device=device), torch.tensor(present, device=device)


def _summarise(
    rollouts: Sequence[RolloutRecord],
    lessons: Sequence[Lesson],
    refused: Mapping[str, int],
    metrics: Sequence[Mapping[str, float]],
) -> dict[str, float]:
    rewards = [rollout.reward for rollout in rollouts if rollout.reward is not None]
    return {
        "rollouts": float(len(rollouts)),
        "rollouts_learned": float(len(lessons)),
        "rollouts_hinted": float(sum(lesson.gaps is not None for lesson in lessons)),
        "updates": float(len(metrics)),
        "reward": sum(rewards) / len(rewards) if rewards else 0.0,
        "max_ratio": max(metric["max_ratio"] for metric in metrics),
        "clip_fraction": sum(metric["clip_fraction"] for metric in metrics) / len(metrics),
        **{f"refused_{reason}": float(count) for reason, count in sorted(refused.items()) if count},
    }
