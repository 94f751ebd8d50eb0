"""A spec trained at Tinker: the standalone trainer's updates, made by requests; its adapter brought home at the end.

The same records become the same examples, minibatches and sums. The service computes in its own precision on its own
machines, so that nothing is promised bit for bit, a resumed run neither.
"""

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import tinker

from gpu_workers.artifacts import hash_files, path_from_uri
from gpu_workers.backends import TrainedAdapter
from gpu_workers.backends.adapter_files import describe_adapter, package_versions, publish_adapter
from gpu_workers.backends.base_models import find_weights, locate_base
from gpu_workers.backends.chat_templates import TokenizerReader
from gpu_workers.backends.checkpoints import DIRECTORY
from gpu_workers.backends.errors import CancelledError, DivergedError
from gpu_workers.backends.plans import count_totals, plan_updates, sum_up_rewards, summarise
from gpu_workers.backends.policy import hold_out
from gpu_workers.backends.preparing import find_examples, keep_counted
from gpu_workers.backends.rollout_files import read_rollouts
from gpu_workers.backends.teachers import add_gaps, note_lost_hints
from gpu_workers.backends.tinker import require_client
from gpu_workers.backends.tinker.datums import plan_passes
from gpu_workers.backends.tinker.home import fetch_export, read_export
from gpu_workers.backends.tinker.measuring import measure_held_out, measure_update
from gpu_workers.backends.tinker.options import DAY_S, TinkerOptions
from gpu_workers.backends.tinker.recipes import RecipeNotForTinkerError, find_modules, require_possible
from gpu_workers.backends.tinker.service import Service, find_service, open_service
from gpu_workers.backends.tinker.states import (
    LEFT_FILE,
    Left,
    find_parent,
    open_checkpoint,
    save_checkpoint,
)
from gpu_workers.backends.training_example import TrainingExample
from tentalis.core.contracts import TrainSpec
from tentalis.core.learning.recipes import Recipe

EXPORT = "export"


def train(
    spec: TrainSpec,
    *,
    output: Path,
    report: Callable[[Mapping[str, float]], None],
    is_cancelled: Callable[[], bool],
) -> TrainedAdapter:
    """Train one spec at the service; what it cannot do is refused before anything is sent.

    Raises:
        TrainingError, ContractError, ArtifactError: see `gpu_workers.backends.errors`; nothing is published then. A
            trained adapter that could not be brought home is where the checkpoint says, and another attempt fetches it.
    """
    started = time.perf_counter()
    client = require_client()
    recipe, options = Recipe.from_json(spec.recipe), TinkerOptions.from_json(spec.options)
    if spec.purpose != "policy":
        raise RecipeNotForTinkerError(f"purpose must be policy with Tinker, found {spec.purpose}")
    require_possible(recipe)
    address = find_service()
    base = locate_base(spec.base_model)
    reader = TokenizerReader(base)
    parent = find_parent(spec, recipe, model=options.model)
    state, metrics = open_checkpoint(spec)
    rollouts = read_rollouts(path_from_uri(spec.rollouts_uri), sha256=spec.rollouts_sha256)
    examples, refused = find_examples(rollouts, spec, recipe, reader, divides=False)
    with open_service(address, name=f"run {spec.run_id}.{spec.attempt}", is_cancelled=is_cancelled) as service:
        if recipe.uses_teacher:
            note_lost_hints(examples, refused)
            examples = add_gaps(
                examples, recipe, reader, reader, refused, score=lambda items: service.score(items, model=options.model)
            )
        examples = keep_counted(examples, recipe, refused, total=len(rollouts))
        if recipe.importance_cap is not None:
            examples = _score_start(service, examples, options, parent)
        held_out: list[TrainingExample] = []
        if recipe.algorithm == "reward_weighted_sft":
            examples, held_out = hold_out(examples, share=recipe.held_out_share)
        plan = plan_updates(examples, recipe, seed=spec.seed)
        if (start := state or (parent.state if parent else None)) is not None:
            adapter = service.open_adapter(start)
        else:
            modules = find_modules(recipe)
            adapter = service.start_adapter(
                options.model, rank=recipe.lora_rank, modules=modules, seed=spec.seed % 2**31
            )
        for number in range(len(metrics) + 1, len(plan) + 1):
            if is_cancelled():
                raise CancelledError(f"cancelled after {number - 1} of {len(plan)} updates")
            dealt = [examples[index] for index in plan[number - 1]]
            metrics.append({"update": number, "updates": len(plan), **_run_update(service, adapter, dealt, recipe)})
            if number < len(plan) and options.checkpoint_every and number % options.checkpoint_every == 0:
                state = service.save_state(adapter, _name(spec, number), keep_s=options.checkpoint_s)
                save_checkpoint(output, spec, state, metrics)
            report(metrics[-1])
        if is_cancelled():
            raise CancelledError(f"cancelled after {len(plan)} of {len(plan)} updates, before publishing")
        left = Left(
            options.model,
            service.save_state(adapter, _name(spec, len(plan)), keep_s=options.keep_s),
            service.save_sampler(adapter, _name(spec, len(plan)), keep_s=options.keep_s),
        )
        save_checkpoint(output, spec, left.state, metrics)
        checked = _check_imitation(service, left, held_out, recipe, metrics[-(len(plan) // recipe.epochs) :])
        fetch_export(service.export(adapter, _name(spec, len(plan)), keep_s=DAY_S), output / EXPORT)
    weights = find_weights(base)
    fields = describe_adapter(spec, recipe, hash_files(weights) if weights else "")
    tensors = read_export(output / EXPORT, recipe)
    directory, sha256 = publish_adapter(tensors, fields, parent=output, beside={LEFT_FILE: left.to_bytes()})
    for leftover in (DIRECTORY, EXPORT):
        shutil.rmtree(output / leftover, ignore_errors=True)
    summary = (
        summarise(metrics, rollouts, examples, recipe, refused.counts)
        | checked
        | {"wall_s": time.perf_counter() - started}
    )
    return TrainedAdapter(directory, sha256, metrics, summary, package_versions() | {"tinker": client}, refused.notes)


def _score_start(
    service: Service, examples: Sequence[TrainingExample], options: TinkerOptions, parent: Left | None
) -> list[TrainingExample]:
    """The examples with the log-probs of the policy that the run, not this attempt at it, starts from."""
    scored = service.score(
        [(example.rollout.prompt_token_ids, example.rollout) for example in examples],
        model=options.model,
        weights=parent.sampler if parent else None,
    )
    return [replace(example, start_logprobs=values) for example, values in zip(examples, scored, strict=True)]


def _check_imitation(
    service: Service,
    left: Left,
    held_out: Sequence[TrainingExample],
    recipe: Recipe,
    last: Sequence[Mapping[str, float]],
) -> dict[str, float]:
    """The losses of imitation on what was learnt from and on tasks that were not; {} where none are held out.

    Args:
        last: metrics of the last pass over the batch.
    """
    if not held_out:
        return {}
    items = [(example.rollout.prompt_token_ids, example.rollout) for example in held_out]
    scored = service.score(items, model=left.model, weights=left.sampler)
    return {
        "rollouts_held_out": float(len(held_out)),
        "train_loss": sum(metric["loss_rl"] for metric in last) / len(last),
        "val_loss": measure_held_out(held_out, recipe, scored),
    }


def _run_update(
    service: Service, adapter: "tinker.TrainingClient", dealt: Sequence[TrainingExample], recipe: Recipe
) -> dict[str, float]:
    """Make one update; its metrics."""
    started = time.perf_counter()
    totals = count_totals(dealt, recipe)
    examples = [example for example in dealt if example.has_gradient(recipe)]
    passes = plan_passes(examples, recipe, totals)
    step = service.update(adapter, passes, recipe)
    measured = measure_update(examples, recipe, totals, passes, step)
    tokens = sum(example.sampled_tokens for example in examples)
    if not all(value - value == 0 for value in (*measured.values(), *step.told.values())):
        raise DivergedError(f"what Tinker tells of an update must be finite, found {measured | step.told}")
    return {
        **sum_up_rewards([example.rollout for example in dealt]),
        **measured,
        "mean_length_tokens": sum(example.sampled_tokens for example in dealt) / len(dealt),
        "rollouts": float(len(dealt)),
        "tokens_per_s": tokens / (time.perf_counter() - started),
    }


def _name(spec: TrainSpec, update: int) -> str:
    return f"run-{spec.run_id}-{spec.attempt}-{update}"
