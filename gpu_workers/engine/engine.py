"""The engine: a base model, its adapters by name, and one thread that generates for all of them."""

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_workers.desk import base_directory
from gpu_workers.engine.batch import Events, Model
from gpu_workers.engine.checkpoint import (
    hash_files,
    plain_shape,
    read_config,
    read_end_ids,
    read_weights,
    weight_files,
)
from gpu_workers.engine.errors import ModelUnreadableError, StoppingError, UnknownModelError
from gpu_workers.engine.hugging_face_model import HuggingFaceModel
from gpu_workers.engine.jobs import Job, Sample, SamplingOptions
from gpu_workers.engine.lora import read_adapter
from gpu_workers.engine.models import LoadedModel, ModelRegistry, name_taken, require_name
from gpu_workers.engine.plain_model import PlainModel
from gpu_workers.engine.products import SMALL_NUMBERS, choose_precision
from gpu_workers.engine.reward_heads import AnsweredSteps, LoadedHead, open_head
from gpu_workers.engine.scheduler import Scheduler
from gpu_workers.engine.text import TextCodec
from gpu_workers.learning.reward_head import read_features
from gpu_workers.process import find_threads

BUILT_IN = "desk"
DEVICES = ("auto", "cpu", "cuda")
PREFIX_BYTES = 512 << 20
"""Keys and values that are kept of what was read and drawn, for prompts that begin with it."""


class Engine:
    """One base model with its live adapters.

    Used in-process it generates in the calling thread; after `start` a thread of its own does, and `publish` is called
    there with what changed after every step.

    Attributes:
        computes_in: "float32" or "bfloat16"; device: "cpu" or "cuda".
    """

    def __init__(
        self,
        name: str,
        directory: Path,
        *,
        max_rows: int = 512,
        max_waiting: int = 4_096,
        uses_plain_path: bool = True,
        merges_adapters: bool | None = None,
        prefix_bytes: int = PREFIX_BYTES,
        device: str = "cpu",
        precision: str = "float32",
    ) -> None:
        """Read a model directory.

        Args:
            name: what requests call the base.
            max_rows: choices that decode at the same time.
            max_waiting: prompts that may wait.
            uses_plain_path: False takes Hugging Face's forward even for what the plain one knows.
            merges_adapters: see `products.SMALL_NUMBERS`; None decides by size.
            prefix_bytes: keys and values that are kept at most; 0 keeps none.
            device: one of `DEVICES`; "auto" takes a GPU where there is one, but not for a small model.
            precision: of the weights and of what they are multiplied with, one of `products.PRECISIONS`; a model that
                only Hugging Face's forward knows is float32, and on the CPU, whatever was asked for.
        Raises:
            ModelUnreadableError: the directory holds no model that can be served.
        """
        config = read_config(directory)
        self.codec = TextCodec.from_directory(directory)
        shape = plain_shape(config) if uses_plain_path else None
        model: Model
        if shape is not None:
            weights = read_weights(directory, None, shape=shape)
            place = choose_device(device, numbers=sum(weight.numel() for weight in weights.values()))
            kind = choose_precision(precision, device=place)
            model = PlainModel(shape, weights, merges_adapters=merges_adapters, precision=kind, device=place)
            del weights
            self.computes_in, self.device = str(kind).removeprefix("torch."), place
        else:
            model = HuggingFaceModel.from_directory(directory)
            self.computes_in, self.device = "float32", "cpu"
        self.base = LoadedModel(name, model, hash_files(weight_files(directory)), str(directory))
        self.models = ModelRegistry(self.base)
        self._heads: dict[str, LoadedHead] = {}
        self._lock = threading.Lock()
        self.end_ids = frozenset(read_end_ids(directory, config))
        self.scheduler = Scheduler(
            codec=self.codec,
            end_ids=self.end_ids,
            max_rows=max_rows,
            max_waiting=max_waiting,
            prefix_bytes=prefix_bytes,
            vocabulary_size=model.vocabulary_size,
        )
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self._settled = threading.Condition()
        self.publish: Callable[[Events], None] = lambda _: None

    @classmethod
    def open(cls, model: str, *, name: str | None = None, **settings: Any) -> "Engine":
        """The built-in model for "desk", else a directory's, under the directory's name unless one is given."""
        if model == BUILT_IN:
            return cls(name or BUILT_IN, base_directory(), **settings)
        directory = Path(model).expanduser().resolve()
        return cls(name or directory.name, directory, **settings)

    # --- adapters

    def load_adapter(self, name: str, directory: Path) -> LoadedModel:
        """Check an adapter and serve it under a name that nothing has now.

        Raises:
            AdapterRefusedError: the name is taken or unfit, or the directory is not a whole adapter of this base.
        """

        def open_model() -> LoadedModel:
            adapter = read_adapter(directory, self.base.model.adaptable, base_sha256=self.base.fingerprint)
            return LoadedModel(name, self.base.model.adapt(adapter.pairs), adapter.sha256, str(directory))

        return self.models.add(name, open_model)

    def unload_adapter(self, name: str) -> None:
        """See `ModelRegistry.remove`."""
        self.models.remove(name)

    # --- step scorers

    @property
    def heads(self) -> Mapping[str, LoadedHead]:
        """Step scorers that can be asked now."""
        return dict(self._heads)

    def find_head(self, name: str) -> LoadedHead:
        """Raises UnknownModelError."""
        if (head := self._heads.get(name)) is None:
            known = ", ".join(self._heads) or "none"
            raise UnknownModelError(f"no step scorer {name!r} is loaded; there are {known}", param="head")
        return head

    def load_head(self, name: str, directory: Path) -> LoadedHead:
        """Check a step scorer and serve it under a name that nothing has now.

        Raises:
            AdapterRefusedError: the name is taken or unfit, or the directory is not a whole head of this base.
        """
        require_name(name, param="head_name")
        head = open_head(name, directory, base_sha256=self.base.fingerprint, width=self.base.model.width)
        with self._lock:
            if self._heads.setdefault(name, head) is not head:
                raise name_taken(name, param="head_name")
        return head

    def unload_head(self, name: str) -> None:
        """Refuse the name from now on; requests already admitted end with it."""
        with self._lock:
            self.find_head(name)
            del self._heads[name]

    def read_features(self, asked: Sequence[AnsweredSteps]) -> list[Tensor]:
        """What a head sees of each answer's steps, (S, F) each, and wait. See `learning.reward_head.read_features`."""
        job, found = self.ask_features(asked)
        self._finish(job)
        job.finished_samples()
        return [found[index] for index in range(len(asked))]

    def ask_features(self, asked: Sequence[AnsweredSteps]) -> tuple[Job, dict[int, Tensor]]:
        """The job that reads them from the base model's states, and where it puts them: place -> (S, F)."""
        found: dict[int, Tensor] = {}

        def read(index: int, states: Tensor) -> None:
            one = asked[index]
            found[index] = read_features(states, len(one.prompt_token_ids), one.spans).clone()

        rows = [[*one.prompt_token_ids, *one.token_ids] for one in asked]
        job = Job(self.base, rows, SamplingOptions(max_tokens=0, seed=0), read_states=read)
        return job, found

    def score_steps(self, head: LoadedHead, asked: Sequence[AnsweredSteps]) -> list[list[float]]:
        """The head's logit of every step of every answer, and wait."""
        with torch.inference_mode():
            return [head.stored.head.logits(features).tolist() for features in self.read_features(asked)]

    # --- generating

    def submit(self, job: Job) -> None:
        """Queue a job for the engine's thread."""
        if self._is_stopping:
            raise StoppingError("the engine is stopping and takes no new requests", retry_after_s=5)
        self.scheduler.submit(job)

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        n: int = 1,
        *,
        adapter: str | None = None,
        options: SamplingOptions | None = None,
        seed: int | None = None,
        **changes: Any,
    ) -> list[list[Sample]]:
        """Sample and wait: n answers for each prompt of token ids.

        Args:
            adapter: a loaded adapter's name; None for the base.
            changes: fields of `SamplingOptions`, such as max_tokens, temperature, stop_token_ids.
        """
        chosen = options or SamplingOptions(seed=secrets.randbits(63))
        chosen = replace(chosen, n=n, **changes)
        if seed is not None:
            chosen = replace(chosen, seed=seed)
        job = Job(self.models.find(adapter or self.base.name), prompts, chosen)
        self._finish(job)
        samples = job.finished_samples()
        return [samples[first : first + n] for first in range(0, len(samples), n)]

    def score(
        self, prompt_ids: Sequence[Sequence[int]], completion_ids: Sequence[Sequence[int]], adapter: str | None = None
    ) -> list[NDArray[np.float32]]:
        """Log-probs of given completions, one array (T,) each, natural log at temperature 1."""
        whole = [[*prompt, *completion] for prompt, completion in zip(prompt_ids, completion_ids, strict=True)]
        options = SamplingOptions(max_tokens=0, prompt_logprobs=0, seed=0)
        starts = [len(prompt) for prompt in prompt_ids]
        job = Job(self.models.find(adapter or self.base.name), whole, options, score_starts=starts)
        self._finish(job)
        job.finished_samples()
        return [score.logprobs for score in job.prompt_scores if score is not None]

    def _finish(self, job: Job) -> None:
        self.submit(job)
        if self._thread is None:
            while not job.is_over:
                self.scheduler.step()
            return
        with self._settled:
            self._settled.wait_for(lambda: job.is_over)

    # --- the thread

    def start(self) -> None:
        """Generate in a thread of its own from now on."""
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def stop(self, *, drain_s: float) -> bool:
        """Take no new requests, finish the running ones for at most `drain_s`; whether all were finished."""
        self._is_stopping = True
        self.scheduler.wake()
        if self._thread is None:
            return True
        self._thread.join(drain_s)
        return not self._thread.is_alive()

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _run(self) -> None:
        torch.set_num_threads(find_threads())
        while True:
            if not self.scheduler.has_work:
                if self._is_stopping:
                    return
                self.scheduler.wait()
                continue
            if events := self.scheduler.step():
                with self._settled:
                    self._settled.notify_all()
                self.publish(events)


def choose_device(asked: str, *, numbers: int) -> str:
    """Where a model of so many weights computes.

    Raises:
        ModelUnreadableError: on a GPU that is not there.
    """
    is_there = torch.cuda.is_available()
    if asked == "cuda" and not is_there:
        raise ModelUnreadableError("wanted a GPU (cuda), found none that torch can use")
    return "cuda" if asked == "cuda" or (asked == "auto" and is_there and numbers > SMALL_NUMBERS) else "cpu"
