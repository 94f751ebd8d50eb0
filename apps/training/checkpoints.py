"""Where an attempt at a run goes on: at the newest checkpoint that an earlier attempt left in the artifact store."""

import dataclasses
import json
from pathlib import Path

from django.conf import settings

from apps.training.models import TrainingRun
from tentalis.core.contracts import ContractError, TrainResult, TrainSpec

SPEC_FILE, RESULT_FILE = "spec.json", "result.json"
STATE_FILES = {
    "standalone": ("checkpoint", ["state.safetensors"]),
    "tinker": ("checkpoint", ["state.json"]),
    "openrlhf": ("checkpoints", ["_actor/latest", "latest"]),
}
"""Backend -> directory of an attempt's checkpoint, and the files of which one tells that it is whole; of a package's
backend nobody knows."""


def resume_from_checkpoint(run: TrainingRun, spec: TrainSpec) -> TrainSpec:
    """The spec of the next attempt, with the checkpoint it goes on from where there is one.

    A checkpoint is of use to exactly the same work: the same records, recipe, parent and seed. After an attempt that
    could not read its checkpoint the next one starts over.

    Args:
        spec: of an attempt whose number is one more than the run's.
    """
    directory, state_files = STATE_FILES.get(run.backend, ("", []))
    for attempt in range(spec.attempt - 1, 0, -1):
        output: Path = settings.ARTIFACTS / "runs" / str(run.pk) / str(attempt)
        if _found_broken(output / RESULT_FILE):
            return spec
        if any((output / directory / file).is_file() for file in state_files):
            if _read_work(output / SPEC_FILE) != spec.work_hash:
                return spec
            return dataclasses.replace(spec, resume_uri=(output / directory).resolve().as_uri())
    return spec


def _found_broken(path: Path) -> bool:
    """Whether the attempt could not read the checkpoint that it was to go on from."""
    try:
        return TrainResult.from_json(json.loads(path.read_bytes())).error_type == "CheckpointError"
    except (OSError, ValueError, TypeError):
        return False


def _read_work(path: Path) -> str:
    """What the attempt worked on; "" where it does not say."""
    try:
        return TrainSpec.from_json(json.loads(path.read_bytes())).work_hash
    except (OSError, ValueError, TypeError, ContractError):
        return ""
