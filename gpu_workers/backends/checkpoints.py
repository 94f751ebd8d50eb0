"""Where a run stands after an update, on disk whole or not at all, so that a killed one goes on bit for bit."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from gpu_workers.artifacts import path_from_uri, write_file
from gpu_workers.backends.adapter_files import LoraTensors
from gpu_workers.backends.errors import CheckpointError
from tentalis.core.contracts import TrainSpec

DIRECTORY = "checkpoint"
STATE_FILE = "state.safetensors"
SCHEMA = "tentalis.checkpoint/1"
_WEIGHTS, _MOMENTS, _RANDOM = "weights/", "moments/", "random"

Metrics = Sequence[Mapping[str, float]]


class Checkpoint(NamedTuple):
    """A run after some of its updates: the tensors, and one mapping of metrics for each update made."""

    tensors: LoraTensors
    metrics: list[Mapping[str, float]]


def save_checkpoint(output: Path, spec: TrainSpec, tensors: LoraTensors, metrics: Metrics) -> None:
    """Put the newest checkpoint in the place of the one before, under `output`.

    One file, fsynced under a staging name and renamed: at every moment the name holds a whole one. It tells weights,
    AdamW's moments, torch's random state and, by the number of metrics, the position in the plan, which the spec's seed
    deals anew.

    Raises:
        ArtifactError: the disk refuses.
    """
    contents = {
        **{_WEIGHTS + name: tensor.cpu().contiguous() for name, tensor in tensors.weights.items()},
        **{_MOMENTS + name: tensor.cpu().contiguous() for name, tensor in tensors.moments.items()},
        _RANDOM: torch.get_rng_state(),
    }
    about = {"schema": SCHEMA, "work": spec.work_hash, "metrics": json.dumps(list(metrics))}
    write_file(output / DIRECTORY / STATE_FILE, save(contents, about))


def open_checkpoint(spec: TrainSpec, start: LoraTensors) -> Checkpoint:
    """Where the run goes on: at the checkpoint the spec names, else at its start. Restores torch's random state.

    Raises:
        CheckpointError: it cannot be read, or is of another run than the spec's.
        ArtifactError: its URI is none of a file.
    """
    if spec.resume_uri is None:
        return Checkpoint(start, [])
    path = path_from_uri(spec.resume_uri) / STATE_FILE
    try:
        with safe_open(path, framework="pt") as file:
            about: Mapping[str, str] = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  safe_open is no mapping
        metrics = json.loads(about["metrics"])
        random = tensors.pop(_RANDOM)
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise CheckpointError(f"cannot read the checkpoint {path}: {error}") from error
    if (about.get("schema"), about.get("work")) != (SCHEMA, spec.work_hash):
        raise CheckpointError(
            f"{path} must be a {SCHEMA} of work {spec.work_hash[:12]}, found {about.get('schema')} of "
            f"{str(about.get('work'))[:12]}"
        )
    weights = _take(tensors, _WEIGHTS)
    if {name: tensor.shape for name, tensor in weights.items()} != {
        name: tensor.shape for name, tensor in start.weights.items()
    }:
        raise CheckpointError(f"{path} holds other tensors than the run trains")
    torch.set_rng_state(random)
    return Checkpoint(LoraTensors({name: weights[name] for name in start.weights}, _take(tensors, _MOMENTS)), metrics)


def _take(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
