"""Where an attempt at a run goes on: at the newest checkpoint that an earlier attempt left in the artifact store."""

import dataclasses
import json
from pathlib import Path

from django.conf import settings

from apps.training.models import TrainingRun
from tentalis.core.contracts import ContractError, TrainSpec

DIRECTORY, SPEC_FILE = "checkpoint", "spec.json"
STATE_FILES = {"standalone": "state.safetensors", "tinker": "state.json"}
BROKEN = "CheckpointError"


def resume_from_checkpoint(run: TrainingRun, spec: TrainSpec) -> TrainSpec:
    """The spec of the next attempt, with the checkpoint it goes on from where there is one.

    A checkpoint is of use to exactly the same work: the same records, recipe, parent and seed. After an attempt that
    could not read its checkpoint the next one starts over.

    Args:
        spec: of an attempt by the box itself, whose number is one more than the run's; others keep their own.
    """
    state_file = STATE_FILES.get(run.backend)
    if state_file is None or run.failure.startswith(BROKEN):
        return spec
    for attempt in range(spec.attempt - 1, 0, -1):
        output: Path = settings.ARTIFACTS / "runs" / str(run.pk) / str(attempt)
        if (output / DIRECTORY / state_file).is_file():
            if _read_work(output / SPEC_FILE) != spec.work_hash:
                return spec
            return dataclasses.replace(spec, resume_uri=(output / DIRECTORY).resolve().as_uri())
    return spec


def _read_work(path: Path) -> str:
    """What the attempt worked on; "" where it does not say."""
    try:
        return TrainSpec.from_json(json.loads(path.read_bytes())).work_hash
    except (OSError, ValueError, TypeError, ContractError):
        return ""
