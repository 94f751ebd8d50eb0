"""Command lines and data of OpenRLHF's stock trainers: imitation (SFT), preferences (DPO, IPO) and reward models.

They are one process a GPU that share a batch; `torchrun` starts them, under our entry, which knows the parent adapter.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from gpu_workers.artifacts import write_file
from gpu_workers.backends.openrlhf.argv import Places, optimiser, shared, write_flags
from gpu_workers.backends.openrlhf.options import ClusterOptions, ClusterOptionsError
from gpu_workers.backends.openrlhf.ray_jobs import PACKAGE
from tentalis.core.contracts import DemonstrationRecord, PairRecord
from tentalis.core.learning.recipes import Recipe

Trainer = Literal["sft", "dpo", "rm"]
Decode = Callable[[Sequence[int]], str]


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


def compare(recipe: Recipe, options: ClusterOptions, places: Places, *, records: int, seed: int) -> list[str]:
    """Flags of `openrlhf.cli.train_rm`: a model that scores the preferred of two answers higher."""
    return write_flags(
        {
            "data.prompt_key": "prompt",
            "data.chosen_key": "chosen",
            "data.rejected_key": "rejected",
            **_common(recipe, options, places, records=records, seed=seed),
        }
    )


def start_with(trainer: Trainer, argv: Sequence[str], *, gpus: int) -> list[str]:
    """The words that start a stock trainer on one node."""
    launcher = ["python3", "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={gpus}", "-m"]
    return [*launcher, f"{PACKAGE}.entry", f"openrlhf.cli.train_{trainer}", *argv]


def write_pairs(path: Path, pairs: Sequence[PairRecord], decode: Decode) -> int:
    """Pairs as text, one JSON line each; how many."""
    lines = [
        {
            "prompt": decode(pair.prompt_token_ids),
            "chosen": decode(pair.chosen_token_ids) or pair.chosen_answer,
            "rejected": decode(pair.rejected_token_ids) or pair.rejected_answer,
        }
        for pair in pairs
    ]
    return _write_lines(path, lines)


def write_demonstrations(path: Path, demonstrations: Sequence[DemonstrationRecord], decode: Decode) -> int:
    """Demonstrations with exact tokens as text, one JSON line each; how many."""
    lines = [
        {"prompt": decode(one.prompt_token_ids), "answer": decode(one.token_ids)}
        for one in demonstrations
        if one.token_ids
    ]
    return _write_lines(path, lines)


def _write_lines(path: Path, lines: Sequence[dict[str, str]]) -> int:
    write_file(path, "".join(json.dumps(line) + "\n" for line in lines).encode())
    return len(lines)


def _common(recipe: Recipe, options: ClusterOptions, places: Places, *, records: int, seed: int) -> dict[str, Any]:
    """What all three take.

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
        "model.model_name_or_path": places.model,
        "data.dataset": places.data,
        "data.max_len": options.max_tokens,
        "train.seed": seed,
        "train.max_epochs": recipe.epochs,
        "train.batch_size": batch,
        "train.micro_batch_size": options.micro_batch,
        **optimiser(recipe, prefix=""),
        **shared(recipe, options, places),
    }
