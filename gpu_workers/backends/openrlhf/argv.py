"""Command lines for OpenRLHF 0.11.2, of exact flag names only: its parser would take a prefix for the whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tentalis.core.learning.openrlhf_options import ClusterOptions
from tentalis.core.learning.openrlhf_recipes import ESTIMATORS, Sizes
from tentalis.core.learning.recipes import Recipe

REINFORCE = "openrlhf.cli.train_ppo_ray"


@dataclass(frozen=True, kw_only=True)
class Places:
    """Paths of one run, as the cluster sees them.

    Args:
        model: directory of the base; data: JSONL to learn from; output: the final adapter's directory;
            checkpoints, curves: directories.
        resumes: whether `checkpoints` holds an earlier attempt's state to go on from.
    """

    model: Path
    data: Path
    output: Path
    checkpoints: Path
    curves: Path
    resumes: bool = False


Flags = Mapping[str, Any]


def reinforce(recipe: Recipe, options: ClusterOptions, sizes: Sizes, places: Places, *, seed: int) -> list[str]:
    """Flags of `openrlhf.cli.train_ppo_ray` for a recipe that `require_possible` and `fit_sizes` let pass."""
    flags: dict[str, Any] = {
        "actor.model_name_or_path": places.model,
        "actor.num_nodes": 1,
        "actor.num_gpus_per_node": options.actor_gpus,
        "ref.num_nodes": 1,
        "ref.num_gpus_per_node": options.actor_gpus,
        "vllm.num_engines": options.engines,
        "vllm.tensor_parallel_size": options.tensor_parallel,
        "vllm.gpu_memory_utilization": options.gpu_memory,
        "vllm.sync_backend": options.sync,
        "vllm.enforce_eager": options.attention == "eager",
        "vllm.enable_sleep": options.colocate,
        "ds.enable_sleep": options.colocate,
        "train.colocate_all": options.colocate,
        "train.agent_func_path": "tentalis_rlhf/executor.py",
        "train.seed": seed,
        "train.num_episodes": options.episodes,
        "train.max_epochs": recipe.epochs,
        "train.batch_size": sizes.train_batch,
        "train.micro_batch_size": options.micro_batch,
        "rollout.batch_size": sizes.prompts,
        "rollout.n_samples_per_prompt": options.samples_per_prompt,
        "rollout.micro_batch_size": options.micro_batch,
        "rollout.max_new_tokens": options.max_new_tokens,
        "rollout.temperature": 1.0,
        "data.prompt_dataset": places.data,
        "data.input_key": "prompt",
        "data.label_key": "label",
        "data.max_len": options.max_tokens,
        "algo.advantage.estimator": ESTIMATORS[recipe.algorithm],
        "algo.kl.init_coef": recipe.kl_coef,
        "algo.kl.use_loss": recipe.kl_coef > 0,
        "algo.kl.estimator": "k3" if recipe.kl_coef > 0 else None,
        "actor.eps_clip_low_high": [recipe.clip_low, recipe.clip_high],
        "actor.dual_clip": recipe.dual_clip,
        "actor.entropy_coef": recipe.entropy_coef or None,
        "actor.loss_agg_mode": "token-mean",
        "algo.dynamic_filtering_enable": recipe.algorithm == "dapo",
        "algo.dynamic_filtering_range": [0, 1] if recipe.algorithm == "dapo" else None,
        "reward.overlong_buffer_len": recipe.overlong_buffer or None,
        "reward.overlong_penalty_factor": recipe.overlong_penalty if recipe.overlong_buffer else None,
        **_importance(recipe),
        **optimiser(recipe, prefix="actor."),
        **shared(recipe, options, places),
    }
    return write_flags(flags)


def _importance(recipe: Recipe) -> Flags:
    """Truncated importance weights: each token counts min(pi_train / pi_rollout, C)."""
    if recipe.importance_cap is None:
        return {}
    return {
        "algo.advantage.is_correction_level": "token",
        "algo.advantage.is_correction_mode": "clip",
        "algo.advantage.is_correction_threshold": [0, recipe.importance_cap],
    }


def optimiser(recipe: Recipe, *, prefix: str) -> Flags:
    return {
        f"{prefix}optim": "adam",
        f"{prefix}adam.lr": recipe.learning_rate,
        f"{prefix}adam.betas": [recipe.beta1, recipe.beta2],
        f"{prefix}adam.weight_decay": recipe.weight_decay,
        f"{prefix}lr_scheduler": "constant",
        f"{prefix}lr_warmup_ratio": 0.0,
        f"{prefix}max_norm": recipe.max_grad_norm,
    }


def shared(recipe: Recipe, options: ClusterOptions, places: Places) -> Flags:
    return {
        "ds.lora.rank": recipe.lora_rank,
        "ds.lora.alpha": int(recipe.lora_alpha),
        "ds.lora.target_modules": list(recipe.target_modules),
        **kept(options, places),
    }


def kept(options: ClusterOptions, places: Places) -> Flags:
    """How a run is held in memory and on disk."""
    return {
        "ds.zero_stage": options.zero_stage,
        "ds.attn_implementation": options.attention,
        "ckpt.output_dir": places.output,
        "ckpt.path": places.checkpoints,
        "ckpt.save_steps": options.save_every or -1,
        "ckpt.max_num": 2,
        "ckpt.load_enable": places.resumes,
        "logger.tensorboard_dir": places.curves,
        "logger.wandb.run_name": "run",
        "logger.logging_steps": 1,
    }


def write_flags(flags: Flags) -> list[str]:
    """`--name value …` for each; a True is the name alone, a False or None nothing."""
    argv: list[str] = []
    for name, value in flags.items():
        if value is None or value is False:
            continue
        argv.append(f"--{name}")
        if value is not True:
            values: Sequence[Any] = value if isinstance(value, list) else [value]
            argv += [str(each) for each in values]
    return argv
