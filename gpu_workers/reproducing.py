"""Training a run again from its spec, and whether the same weights come out."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpu_workers.artifacts import ArtifactError, hash_files, path_from_uri
from gpu_workers.runner import RESULT_FILE, SPEC_FILE, run
from tentalis.core.contracts import ContractError, TrainResult, TrainSpec

REPEATABLE = "standalone"
WEIGHTS = ("adapter_model.safetensors", "reward_head.safetensors")


@dataclass(frozen=True)
class Reproduction:
    """A run beside its repetition.

    Args:
        first, again: SHA-256 of the weights' file; `again` is "" where the repetition failed.
        first_versions, again_versions: package -> version.
        first_processes, again_processes: how many shared it; of another number sums come out in another order.
        failure: why the repetition came to nothing; "" when it did not.
        directory: where the repetition lies.
    """

    run_id: int
    first: str
    again: str
    first_versions: Mapping[str, str]
    again_versions: Mapping[str, str]
    first_processes: int
    again_processes: int
    failure: str
    directory: str

    @property
    def is_identical(self) -> bool:
        return self.first == self.again

    def to_json(self) -> dict[str, object]:
        return dataclasses.asdict(self) | {"identical": self.is_identical}

    def describe(self) -> str:
        """One line for a person."""
        if self.failure:
            return f"run {self.run_id} could not be trained again: {self.failure}"
        if self.is_identical:
            return f"run {self.run_id} trained again gives the same weights bit for bit ({self.first[:16]})"
        changed = [
            f"{name} {self.first_versions.get(name, 'absent')} -> {self.again_versions.get(name, 'absent')}"
            for name in sorted({*self.first_versions, *self.again_versions})
            if self.first_versions.get(name) != self.again_versions.get(name)
        ]
        words = f"run {self.run_id} trained again gives other weights: {self.first[:16]} then, {self.again[:16]} now"
        words = f"{words}; packages that changed: {', '.join(changed) or 'none'}"
        if self.first_processes == self.again_processes:
            return words
        return f"{words}; processes that shared it: {self.first_processes} -> {self.again_processes}"


def reproduce(
    directory: Path, *, output: Path, report: Callable[[Mapping[str, float]], None] = lambda _: None
) -> Reproduction:
    """Train the run of an output directory again, from its start whatever interrupted it, into `output`.

    Raises:
        ArtifactError: the directory holds no spec and result of a run that succeeded here, or `output` is that
            directory.
    """
    spec, result = read_run(directory)
    if spec.backend != REPEATABLE:
        raise ArtifactError(
            f"run {spec.run_id} was trained by {spec.backend}, on machines whose sums come out in another order each "
            f"time: only the {REPEATABLE} trainer promises the same weights again"
        )
    if output.resolve() == directory.resolve():
        raise ArtifactError(f"wanted another directory than the run's own, found {output}")
    again = run(dataclasses.replace(spec, output_uri=output.resolve().as_uri(), resume_uri=None, tracking={}), report)
    return Reproduction(
        run_id=spec.run_id,
        first=_hash_weights(path_from_uri(result.adapter_uri)),
        again=_hash_weights(path_from_uri(again.adapter_uri)) if again.ok else "",
        first_versions=result.versions,
        again_versions=again.versions,
        first_processes=_count_processes(result),
        again_processes=_count_processes(again),
        failure="" if again.ok else f"{again.error_type}: {again.error_message}",
        directory=str(output),
    )


def read_run(directory: Path) -> tuple[TrainSpec, TrainResult]:
    """The spec and the result that an output directory holds.

    Raises:
        ArtifactError: it holds none, or the run did not succeed.
    """
    try:
        spec = TrainSpec.from_json(json.loads((directory / SPEC_FILE).read_bytes()))
        result = TrainResult.from_json(json.loads((directory / RESULT_FILE).read_bytes()))
    except OSError as error:
        raise ArtifactError(f"{directory} holds no run that ended: {error.strerror}: {error.filename}") from error
    except (ContractError, ValueError, TypeError, AttributeError) as error:
        raise ArtifactError(f"{directory} holds a run that cannot be read: {error}") from error
    if not result.ok:
        raise ArtifactError(
            f"run {spec.run_id} left no weights to compare with: {result.error_type}: {result.error_message}"
        )
    return spec, result


def _count_processes(result: TrainResult) -> int:
    return int(result.summary.get("processes", 1))


def _hash_weights(adapter: Path) -> str:
    """Raises ArtifactError: there are none."""
    found = [adapter / name for name in WEIGHTS if (adapter / name).is_file()]
    if len(found) != 1:
        raise ArtifactError(f"{adapter} must hold one of {', '.join(WEIGHTS)}, found {len(found)}")
    return hash_files(found)
