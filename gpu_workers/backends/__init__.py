"""Backends: who turns a spec into an adapter. `standalone` trains on this machine; others launch what they wrap."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar

from gpu_workers.backends.errors import BackendNotInstalledError
from tentalis.core.contracts import TrainSpec
from tentalis.plugins import BACKENDS, find_plugins, load_plugin, name_backends


@dataclass(frozen=True)
class TrainedAdapter:
    """What a training that worked leaves behind.

    Args:
        directory: of the adapter, final.
        sha256: of its manifest.
        metrics: one mapping per optimiser update, oldest first.
        summary: the whole run in a few numbers.
        notes: what those do not say, in words.
    """

    directory: Path
    sha256: str
    metrics: list[Mapping[str, float]]
    summary: Mapping[str, float]
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()


Made = TypeVar("Made", covariant=True)


class Training(Protocol[Made]):
    """Trains one spec. Raises TrainingError, ContractError or ArtifactError; publishes an adapter only when whole."""

    def __call__(
        self,
        spec: TrainSpec,
        *,
        output: Path,
        report: Callable[[Mapping[str, float]], None],
        is_cancelled: Callable[[], bool],
    ) -> Made: ...


Backend: TypeAlias = Training[TrainedAdapter]
RankWork: TypeAlias = Training[TrainedAdapter | None]
"""What each of several processes does. The first one's adapter is the training's; the others have none to tell of."""


def find_backend(name: str, *, purpose: str = "policy") -> Backend:
    """The backend of this name for what is to come out; its libraries load now, once a process.

    Raises:
        BackendNotInstalledError: nobody knows the name, or this box cannot run it.
    """
    if name == "standalone" and purpose == "reward_model":
        from gpu_workers.backends.prm import train as train_head

        return train_head
    if name == "standalone":
        from gpu_workers.backends.standalone import train

        return train
    if name == "openrlhf":
        from gpu_workers.backends.openrlhf.backend import train as train_on_cluster

        return train_on_cluster
    if name == "tinker":
        from gpu_workers.backends.tinker import require_client

        require_client()
        from gpu_workers.backends.tinker.backend import train as train_at_tinker

        return train_at_tinker
    for plugin, point in find_plugins(BACKENDS):
        if plugin.name == name:
            plugin, found = load_plugin(plugin, point, taken={})
            if plugin.error:
                raise BackendNotInstalledError(f"backend {name!r} of {plugin.package}: {plugin.error}")
            backend: Backend = found
            return backend
    known = ", ".join(name_backends())
    raise BackendNotInstalledError(f"no backend is named {name!r}; there are {known}")
