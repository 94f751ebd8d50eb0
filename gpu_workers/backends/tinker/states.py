"""Which of the service's saved states a run goes on from, or an adapter was left at: small files beside our own."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_workers.artifacts import hash_files, path_from_uri, read_checked, write_file
from gpu_workers.backends.adapter_files import MANIFEST_FILE, WEIGHTS_FILE, open_parent, read_manifest, require_fit
from gpu_workers.backends.checkpoints import DIRECTORY
from gpu_workers.backends.errors import CheckpointError, ParentMismatchError
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import AdapterManifest, TrainSpec
from tentalis.core.learning.recipes import Recipe

STATE_FILE = "state.json"
LEFT_FILE = "tinker.json"
CHECKPOINT_SCHEMA = "tentalis.tinker-checkpoint/1"
LEFT_SCHEMA = "tentalis.tinker-adapter/1"

Metrics = Sequence[Mapping[str, float]]


@dataclass(frozen=True)
class Left:
    """Where an adapter is kept at the service.

    Args:
        model: the service's name of its base model.
        state: tinker:// path of weights and optimiser; sampler: of weights that the service can serve, as `model` of
            a provider of kind `tinker`.
    """

    model: str
    state: str
    sampler: str

    def to_bytes(self) -> bytes:
        return canonical_json(
            {"schema": LEFT_SCHEMA, "model": self.model, "state": self.state, "sampler": self.sampler}
        )


def save_checkpoint(output: Path, spec: TrainSpec, state: str, metrics: Metrics) -> None:
    """Name the newest saved state, under `output`. Raises ArtifactError."""
    about = {"schema": CHECKPOINT_SCHEMA, "work": spec.work_hash, "state": state, "metrics": list(metrics)}
    write_file(output / DIRECTORY / STATE_FILE, canonical_json(about))


def open_checkpoint(spec: TrainSpec) -> tuple[str | None, list[Mapping[str, float]]]:
    """The saved state the spec's run goes on from and the metrics of the updates made; (None, []) from the start.

    Raises:
        CheckpointError: it cannot be read, or is of another run.
    """
    if spec.resume_uri is None:
        return None, []
    path = path_from_uri(spec.resume_uri) / STATE_FILE
    try:
        about = json.loads(path.read_bytes())
        found = (about["schema"], about["work"])
        state, metrics = str(about["state"]), list(about["metrics"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"cannot read the checkpoint {path}: {error!r}") from error
    if found != (CHECKPOINT_SCHEMA, spec.work_hash):
        raise CheckpointError(
            f"{path} must be a {CHECKPOINT_SCHEMA} of work {spec.work_hash[:12]}, found {found[0]} of {found[1][:12]}"
        )
    return state, metrics


def read_served(directory: Path) -> tuple[Left, str]:
    """Where the adapter of a directory is kept, and the SHA-256 of the weights that were brought home of it.

    Raises:
        ArtifactError: it cannot be read, or is not what its manifest says.
        ParentMismatchError: it is not kept at the service at all.
    """
    manifest = read_manifest(directory, sha256=hash_files([directory / MANIFEST_FILE]))  # what it names is checked
    if LEFT_FILE not in manifest.files:
        raise ParentMismatchError(f"the adapter in {directory} was not trained at Tinker, which serves its own alone")
    return _read_left(directory, manifest), str(manifest.files[WEIGHTS_FILE]["sha256"])


def _read_left(directory: Path, manifest: AdapterManifest) -> Left:
    try:
        left = json.loads(read_checked(directory / LEFT_FILE, sha256=str(manifest.files[LEFT_FILE]["sha256"])))
        return Left(str(left["model"]), str(left["state"]), str(left["sampler"]))
    except (ValueError, KeyError, TypeError) as error:
        raise ParentMismatchError(
            f"{directory / LEFT_FILE} does not say where the adapter is kept: {error!r}"
        ) from error


def find_parent(spec: TrainSpec, recipe: Recipe, *, model: str) -> Left | None:
    """Where the adapter that training goes on from is kept; None for a fresh one.

    Raises:
        ArtifactError: it cannot be read, or is another one.
        ParentMismatchError: it does not fit the recipe, or is not kept at the service at all.
    """
    opened = open_parent(spec)
    if opened is None:
        return None
    directory, manifest = opened
    if LEFT_FILE not in manifest.files:
        raise ParentMismatchError(
            "the parent adapter was not trained at Tinker, which can only go on from a state of its own; the "
            "standalone backend goes on from it"
        )
    parent = _read_left(directory, manifest)
    require_fit(
        ("base model", model, parent.model),
        ("rank", recipe.lora_rank, manifest.rank),
        ("target modules", sorted(recipe.target_modules), sorted(manifest.target_modules)),
    )
    return parent
