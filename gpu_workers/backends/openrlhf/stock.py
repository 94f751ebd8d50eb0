"""Command lines of OpenRLHF's stock trainers: imitation (SFT), preferences (DPO, IPO) and reward models.

They are one process a GPU that share a batch; `torchrun` starts them, under our entry, which knows the parent adapter.
"""

from collections.abc import Sequence
from typing import Any, Literal

from gpu_workers.backends.openrlhf.argv import Places, kept, optimiser, shared, write_flags
from gpu_workers.backends.openrlhf.ray_jobs import PACKAGE
from tentalis.core.learning.head_recipes import HeadRecipe
from tentalis.core.learning.openrlhf_options import ClusterOptions, ClusterOptionsError
from tentalis.core.learning.openrlhf_recipes import require_head
from tentalis.core.learning.recipes import Recipe

Trainer = Literal["sft", "dpo", "rm"]


def imitate(recipe: Recipe, options: ClusterOptions, places: Places, *, records: int, seed: int) -> list[str]:
    """Flags of `openrlhf.cli.train_sft`: the answers of demonstrations, each as much as the others."""
    return write_flags(
        {
            "data.input_key": "prompt",
            "data.output_key": "answer",
            "data.input_template": "{}",  # the prompt is whole already
            **_common(recipe, options, places, records=records, seed=seed),
        }
    )


def prefer(recipe: Recipe, options: ClusterOptions, places: Places, *, records: int, seed: int) -> list[str]:
    """Flags of `openrlhf.cli.train_dpo`. The reference is where training starts: the parent's policy, else the base."""
    return write_flags(
        {
            "data.prompt_key": "prompt",
            "data.chosen_key": "chosen",
            "data.rejected_key": "rejected",
            "ref.model_name_or_path": places.model,
            "model.beta": recipe.beta,
            "model.ipo_enable": recipe.algorithm == "ipo",
            "model.nll_loss_coef": recipe.nll_coef or None,
            **_common(recipe, options, places, records=records, seed=seed),
        }
    )


def compare(recipe: HeadRecipe, options: ClusterOptions, places: Places, *, records: int, seed: int) -> list[str]:
    """Flags of `openrlhf.cli.train_rm`: a head that scores the preferred of two answers higher.

    Raises:
        ClusterOptionsError: a batch of the recipe's is not of whole micro-batches.
    """
    require_head(recipe, options)
    return write_flags(
        {
            "data.prompt_key": "prompt",
            "data.chosen_key": "chosen",
            "data.rejected_key": "rejected",
            "model.compute_fp32_loss_enable": True,
            **_told(options, places, batch=recipe.batch, epochs=-(-recipe.steps * recipe.batch // records), seed=seed),
            "optim": "adam",
            "adam.lr": recipe.learning_rate,
            "adam.weight_decay": recipe.weight_decay,
            "lr_scheduler": "constant",
            "lr_warmup_ratio": 0.0,
            **kept(options, places),
        }
    )


def start_with(trainer: Trainer, argv: Sequence[str], *, gpus: int) -> list[str]:
    """The words that start a stock trainer on one node."""
    launcher = ["python3", "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={gpus}", "-m"]
    return [*launcher, f"{PACKAGE}.entry", f"openrlhf.cli.train_{trainer}", *argv]


def _common(recipe: Recipe, options: ClusterOptions, places: Places, *, records: int, seed: int) -> dict[str, Any]:
    """What imitation and preferences take.

    Raises:
        ClusterOptionsError: the records do not make `recipe.minibatches` updates of whole micro-batches.
    """
    unit = options.micro_batch * options.actor_gpus
    batch = records // recipe.minibatches // unit * unit
    if not batch:
        raise ClusterOptionsError(
            f"{records} records must make {recipe.minibatches} updates (recipe.minibatches) of at least {unit}: wanted "
            f"{unit * recipe.minibatches} or more"
        )
    return {
        **_told(options, places, batch=batch, epochs=recipe.epochs, seed=seed),
        **optimiser(recipe, prefix=""),
        **shared(recipe, options, places),
    }


def _told(options: ClusterOptions, places: Places, *, batch: int, epochs: int, seed: int) -> dict[str, Any]:
    return {
        "model.model_name_or_path": places.model,
        "data.dataset": places.data,
        "data.max_len": options.max_tokens,
        "train.seed": seed,
        "train.max_epochs": epochs,
        "train.batch_size": batch,
        "train.micro_batch_size": options.micro_batch,
    }
