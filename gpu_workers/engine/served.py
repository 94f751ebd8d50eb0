"""What the HTTP side asks of whoever generates: the engine in this process, or a service elsewhere."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from torch import Tensor

from gpu_workers.engine.batch import Events
from gpu_workers.engine.jobs import Job
from gpu_workers.engine.models import LoadedModel, ModelRegistry
from gpu_workers.engine.reward_heads import AnsweredSteps, LoadedHead
from gpu_workers.engine.scheduler import Tally
from gpu_workers.engine.text import TextCodec


class Load(Protocol):
    """How busy it is."""

    tally: Tally

    @property
    def running_rows(self) -> int: ...
    @property
    def waiting_prompts(self) -> int: ...
    def wake(self) -> None:
        """Look at what is asked for: a job was cancelled."""


class Served(Protocol):
    """A base model and its adapters by name. What each method promises and raises is said in `engine.Engine`."""

    codec: TextCodec
    base: LoadedModel
    models: ModelRegistry
    publish: Callable[[Events], None]

    @property
    def scheduler(self) -> Load: ...
    @property
    def is_running(self) -> bool: ...
    def load_adapter(self, name: str, directory: Path) -> LoadedModel: ...
    def unload_adapter(self, name: str) -> None: ...
    @property
    def heads(self) -> Mapping[str, LoadedHead]: ...
    def find_head(self, name: str) -> LoadedHead: ...
    def load_head(self, name: str, directory: Path) -> LoadedHead: ...
    def unload_head(self, name: str) -> None: ...
    def ask_features(self, asked: Sequence[AnsweredSteps]) -> tuple[Job, dict[int, Tensor]]: ...
    def submit(self, job: Job) -> None: ...
    def start(self) -> None: ...
    def stop(self, *, drain_s: float) -> bool: ...
