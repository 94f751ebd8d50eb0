"""Command lines of OpenRLHF's stock trainers, read by their own parsers; and the records they learn from."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from gpu_workers.backends.openrlhf.argv import Places
from gpu_workers.backends.openrlhf.options import ClusterOptions, ClusterOptionsError
from gpu_workers.backends.openrlhf.stock import (
    compare,
    imitate,
    prefer,
    start_with,
    write_demonstrations,
    write_pairs,
)
from tentalis.core.contracts import DemonstrationRecord, PairRecord
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
    "rm": compare(RECIPE, OPTIONS, PLACES, **COMMON),
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


def test_records_are_written_as_text(tmp_path: Path) -> None:
    def decode(ids: Any) -> str:
        return " ".join(map(str, ids))

    pair = PairRecord(
        pair_id=1, group_id=1, source="edit", messages=[], prompt_token_ids=[1], chosen_token_ids=[2, 3],
        rejected_token_ids=[4], chosen_sampled=[True, True], rejected_sampled=[True],
    )  # fmt: skip
    whole = DemonstrationRecord(
        demonstration_id=1, group_id=1, source="edit", messages=[], answer="x", prompt_token_ids=[1], token_ids=[5],
        counts=[True],
    )  # fmt: skip
    bare = DemonstrationRecord(demonstration_id=2, group_id=1, source="edit", messages=[], answer="x")
    edited = dataclasses.replace(pair, chosen_token_ids=[], chosen_sampled=[], chosen_answer="better")
    assert write_pairs(tmp_path / "e", [edited], decode) == 1
    assert json.loads((tmp_path / "e").read_text()) == {"prompt": "1", "chosen": "better", "rejected": "4"}
    assert write_pairs(tmp_path / "p", [pair], decode) == 1
    assert json.loads((tmp_path / "p").read_text()) == {"prompt": "1", "chosen": "2 3", "rejected": "4"}
    assert write_demonstrations(tmp_path / "d", [whole, bare], decode) == 1
    assert json.loads((tmp_path / "d").read_text()) == {"prompt": "1", "answer": "5"}
