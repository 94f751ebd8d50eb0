"""The trainer on this machine: records in, a few optimiser updates, an adapter. One process, or one for each GPU.

The adapter is a set of low-rank tensors beside a frozen model: exactly the function PEFT computes. What is learned from
which records is a loop's matter; opening the adapter, going on from a checkpoint and publishing are the same for all.
"""

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from torch import Tensor

from gpu_workers.backends import TrainedAdapter
from gpu_workers.backends.adapter_files import (
    LoraTensors,
    describe_adapter,
    open_parent,
    package_versions,
    publish_adapter,
    read_adapter,
    require_fit,
    start_adapter,
)
from gpu_workers.backends.base_models import BaseModel, load_base
from gpu_workers.backends.checkpoints import DIRECTORY as CHECKPOINT
from gpu_workers.backends.checkpoints import open_checkpoint, save_checkpoint
from gpu_workers.backends.errors import CancelledError, UnfitAdapterError
from gpu_workers.backends.optimizer import Optimizer
from gpu_workers.backends.policy import PolicyTrainingLoop
from gpu_workers.backends.preference import PreferenceTrainingLoop
from gpu_workers.backends.rank_processes import find_processes, train_together
from gpu_workers.backends.ranks import ask_first, count_ranks, is_first
from tentalis.core.contracts import TrainSpec
from tentalis.core.learning.recipes import ALGORITHMS, PREFERENCES, Recipe


class TrainingLoop(Protocol):
    """What a run learns, update by update. The same spec gives the same loop."""

    @property
    def updates(self) -> int: ...

    def run_update(self, number: int, optimizer: Optimizer) -> dict[str, float]:
        """Make update `number`, from 1, and step the optimiser; its metrics."""

    @property
    def notes(self) -> list[str]:
        """What the numbers do not say, in words."""

    def summarise(self, metrics: Sequence[Mapping[str, float]]) -> dict[str, float]: ...

    def find_faults(self) -> list[str]:
        """After the last update: why its adapter must not be published, in words; [] when it may."""


TRAINING_LOOPS: Mapping[str, Callable[[TrainSpec, Recipe, BaseModel, LoraTensors], TrainingLoop]] = {
    name: PreferenceTrainingLoop if name in PREFERENCES else PolicyTrainingLoop for name in ALGORITHMS
}
"""Algorithm -> who prepares the loop from the spec's records."""


def train(
    spec: TrainSpec,
    *,
    output: Path,
    report: Callable[[Mapping[str, float]], None],
    is_cancelled: Callable[[], bool],
) -> TrainedAdapter:
    """Train one spec; the same spec gives the same bytes on the same machine with one thread, however often resumed.

    With so many processes as are set: of another number the sums of an update are added up in another order, and its
    weights are the same but for that.

    Raises:
        TrainingError, ContractError, ArtifactError: see `gpu_workers.backends.errors`; nothing is published then.
    """
    count = find_processes()
    if count > 1:
        return train_together(train_share, spec, count=count, output=output, report=report, is_cancelled=is_cancelled)
    trained = train_share(spec, output=output, report=report, is_cancelled=is_cancelled)
    assert trained is not None, "one process is the first"
    return trained


def train_share(
    spec: TrainSpec,
    *,
    output: Path,
    report: Callable[[Mapping[str, float]], None],
    is_cancelled: Callable[[], bool],
) -> TrainedAdapter | None:
    """Train one spec as one of the processes that share it (see `gpu_workers.backends.ranks`), or alone.

    Each has the frozen base and all tensors of the adapter, computes its share of what is scored and of each update's
    micro-batches, and makes the same step. The first one alone is asked whether the run is cancelled, reports, writes
    and publishes.

    Returns:
        None where this is not the first.
    """
    started = time.perf_counter()
    recipe = Recipe.from_json(spec.recipe)
    base = load_base(spec.base_model, precision=recipe.precision)
    told = recipe
    recipe = replace(recipe, target_modules=base.choose_modules(recipe.target_modules))
    start = _open_adapter(spec, recipe, base, base.find_linears(recipe.target_modules))
    loop = TRAINING_LOOPS[recipe.algorithm](spec, recipe, base, start)
    tensors, metrics = open_checkpoint(spec, start)
    optimizer = Optimizer(tensors, recipe, base.device)
    for number in range(len(metrics) + 1, loop.updates + 1):
        if ask_first(is_cancelled):
            raise CancelledError(f"cancelled after {number - 1} of {loop.updates} updates")
        metrics.append({"update": number, "updates": loop.updates, **loop.run_update(number, optimizer)})
        if not is_first():
            continue
        if number < loop.updates:  # after the last one the adapter itself is next
            save_checkpoint(output, spec, optimizer.tensors(), metrics)
        report(metrics[-1])
    if not is_first():
        return None
    if is_cancelled():
        raise CancelledError(f"cancelled after {loop.updates} of {loop.updates} updates, before publishing")
    summary = loop.summarise(metrics) | {
        "processes": float(count_ranks()),
        "wall_s": time.perf_counter() - started,
    }
    if faults := loop.find_faults():
        raise UnfitAdapterError(f"not published: {'; '.join(faults)}", metrics=metrics, summary=summary)
    described = describe_adapter(spec, told, base.sha256) | {"target_modules": sorted(recipe.target_modules)}
    directory, sha256 = publish_adapter(optimizer.tensors(), described, parent=output)
    shutil.rmtree(output / CHECKPOINT, ignore_errors=True)
    notes = loop.notes
    if recipe.target_modules != told.target_modules:
        notes = [
            f"of this base attention alone was trained ({', '.join(recipe.target_modules)}): what its layers have "
            "besides are no linear modules of these names",
            *notes,
        ]
    return TrainedAdapter(directory, sha256, metrics, summary, package_versions(), notes)


def _open_adapter(spec: TrainSpec, recipe: Recipe, base: BaseModel, linears: Mapping[str, Tensor]) -> LoraTensors:
    parent = open_parent(spec)
    if parent is None:
        return start_adapter(linears, rank=recipe.lora_rank, seed=spec.seed)
    directory, manifest = parent
    require_fit(
        ("base model", base.sha256, manifest.base_sha256),
        ("rank", recipe.lora_rank, manifest.rank),
        ("alpha", recipe.lora_alpha, manifest.alpha),
    )
    return read_adapter(directory, manifest, linears=linears, rank=recipe.lora_rank)
