"""Command lines of OpenRLHF's stock trainers, read by their own parsers."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from gpu_workers.backends.openrlhf.argv import Places
from gpu_workers.backends.openrlhf.stock import (
    compare,
    imitate,
    prefer,
    start_with,
)
from tentalis.core.learning.head_recipes import HeadRecipe
from tentalis.core.learning.openrlhf_options import ClusterOptions, ClusterOptionsError
from tentalis.core.learning.recipes import Recipe
from tests.gpu_workers.openrlhf.command_line import CommandLines
from tests.gpu_workers.openrlhf.peer import fetch_openrlhf

PLACES = Places(
    model=Path("/m"), data=Path("/d.jsonl"), output=Path("/o"), checkpoints=Path("/o/ckpt"), curves=Path("/o/tb")
)
RECIPE = Recipe(learning_rate=1e-4, minibatches=2, epochs=3, target_modules=("q_proj",))
OPTIONS = ClusterOptions(micro_batch=4, actor_gpus=2, attention="eager", max_tokens=160, max_new_tokens=44)
COMMON: dict[str, Any] = {"records": 40, "seed": 3}


@pytest.fixture(scope="module")
def openrlhf() -> CommandLines:
    return CommandLines(fetch_openrlhf())


LINES = {
    "sft": imitate(RECIPE, OPTIONS, PLACES, **COMMON),
    "dpo": prefer(dataclasses.replace(RECIPE, algorithm="ipo", beta=0.2, nll_coef=0.5), OPTIONS, PLACES, **COMMON),
}


@pytest.mark.parametrize("kind", LINES)
def test_its_own_parser_reads_what_the_recipe_says(openrlhf: CommandLines, kind: str) -> None:
    assert {word for word in LINES[kind] if word.startswith("--")} <= openrlhf.flags(kind)
    args = openrlhf.parse(kind, LINES[kind])
    assert (args.train.batch_size, args.train.micro_batch_size, args.train.max_epochs) == (16, 4, 3)
    assert (args.adam.lr, args.lr_scheduler, args.max_norm) == (1e-4, "constant", 1.0)
    assert (args.ds.lora.rank, args.ds.lora.target_modules) == (8, ["q_proj"])
    assert (str(args.model.model_name_or_path), args.data.max_len) == ("/m", 160)


def test_preferences_say_how_much_and_which(openrlhf: CommandLines) -> None:
    args = openrlhf.parse("dpo", LINES["dpo"])
    assert (args.model.beta, args.model.ipo_enable, args.ref.model_name_or_path) == (0.2, True, "/m")
    assert args.model.nll_loss_coef == 0.5
    assert (args.data.prompt_key, args.data.chosen_key, args.data.rejected_key) == ("prompt", "chosen", "rejected")


def test_too_few_records_are_refused_in_words() -> None:
    with pytest.raises(ClusterOptionsError, match=r"15 records must make 2 updates .*: wanted 16 or more"):
        imitate(RECIPE, OPTIONS, PLACES, records=15, seed=1)


def test_one_process_a_gpu_is_started_under_our_entry() -> None:
    words = start_with("sft", ["--x", "1"], gpus=2)
    assert words[-4:] == ["tentalis_rlhf.entry", "openrlhf.cli.train_sft", "--x", "1"]
    assert "--nproc-per-node=2" in words


def test_a_step_scorers_recipe_becomes_a_head_on_a_base_that_no_adapter_changes(openrlhf: CommandLines) -> None:
    recipe = HeadRecipe(steps=30, batch=16, learning_rate=2e-3, weight_decay=0.1)
    line = compare(recipe, OPTIONS, PLACES, records=160, seed=3)
    assert {word for word in line if word.startswith("--")} <= openrlhf.flags("rm")
    args = openrlhf.parse("rm", line)
    assert (args.train.batch_size, args.train.max_epochs, args.ds.lora.rank) == (16, 3, 0)
    assert (args.adam.lr, args.adam.weight_decay, args.model.compute_fp32_loss_enable) == (2e-3, 0.1, True)
    with pytest.raises(ClusterOptionsError, match=r"recipe.batch 20 .*: wanted a multiple of 8"):
        compare(HeadRecipe(batch=20), OPTIONS, PLACES, records=160, seed=3)
