"""What the makers of the models that come along share: a directory that appears whole, a loss, two commands."""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM

from gpu_workers.engine.errors import ModelUnreadableError
from gpu_workers.process import prepare_process

METRICS_FILE: Final = "metrics.json"
IGNORED: Final = -100
"""Label of a token that is not learnt."""
Rows = Sequence[tuple[list[int], list[int]]]
"""Token ids and labels of texts."""


@contextmanager
def stage_directory(out: Path) -> Iterator[Path]:
    """A directory beside `out` that becomes it at the end, readable by all; where anything fails, nothing is left.

    Raises:
        FileExistsError: `out` is there already.
    """
    if out.exists():
        raise FileExistsError(f"{out} exists already; name a new directory")
    out.parent.mkdir(parents=True, exist_ok=True)
    staging = out.with_name(f"{out.name}.staging-{os.getpid()}")
    try:
        yield staging
        for file in staging.iterdir():
            file.chmod(0o644)
        staging.rename(out)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def save_halved(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, directory: Path) -> dict[str, int]:
    """Write a model in float16 with its tokenizer; how large both are."""
    model.half()
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "vocabulary_size": len(tokenizer),
    }


def write_metrics(directory: Path, metrics: Mapping[str, Any]) -> None:
    (directory / METRICS_FILE).write_text(json.dumps(metrics, indent=2) + "\n", "utf-8")


def pad_rows(rows: list[list[int]], filler: int) -> Tensor:
    """Right-pad to one (rows, longest) int64 tensor."""
    longest = max(map(len, rows))
    return torch.tensor([row + [filler] * (longest - len(row)) for row in rows])  # B T


def compute_loss(model: Qwen2ForCausalLM, rows: Rows) -> Tensor:
    """Mean cross entropy of the labelled tokens, in nats, with its graph."""
    ids = pad_rows([row for row, _ in rows], 0)  # B T
    labels = pad_rows([row for _, row in rows], IGNORED)  # B T
    hidden = model.model(input_ids=ids).last_hidden_state  # B T D; right padding needs no mask
    counts = labels[:, 1:] != IGNORED
    logits = model.lm_head(hidden[:, :-1][counts])  # N V
    return torch.nn.functional.cross_entropy(logits, labels[:, 1:][counts])


def run_commands(
    name: str,
    arguments: Sequence[str] | None,
    *,
    takes: str,
    measures: str,
    updates: int,
    seed: int,
    base: Path,
    build: Callable[[Path, int, int], Any],
    measure: Callable[[Path], Any],
) -> int:
    """`build --out DIR` and `measure`; the last line of output is a JSON object. Exit code: 1 where it cannot be.

    Args:
        name: of the package under gpu_workers; takes, measures: how long a build takes and on what is measured, for
            the help.
        updates, seed: of a build, where nothing else is said; base: what is measured then.
        build: called with the directory, updates and seed.
    """
    parser = argparse.ArgumentParser(prog=f"python -m gpu_workers.{name}")
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help=f"train tokenizer and model from nothing ({takes} on one core)")
    building.add_argument("--out", type=Path, required=True)
    building.add_argument("--updates", type=int, default=updates)
    building.add_argument("--seed", type=int, default=seed)
    measuring = commands.add_parser("measure", help=f"accuracy on {measures}")
    measuring.add_argument("--base", type=Path, default=base)
    options = parser.parse_args(arguments)
    prepare_process()
    try:
        if options.command == "build":
            report = build(options.out, options.updates, options.seed)
        else:
            report = measure(options.base)
    except (OSError, ModelUnreadableError) as error:
        sys.stderr.write(f"{name}: {error}\n")
        return 1
    sys.stdout.write(json.dumps(report) + "\n")
    return 0
