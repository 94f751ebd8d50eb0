"""A model at Tinker behind the engine's routes: sampled and scored there, in exact tokens, adapters by their paths.

The service's own OpenAI-compatible address tells no token ids, so that nothing it says could be learnt from or probed.
Its sampling client tells them; so a worker's model server is this process, whatever is asked of it is asked there, and
the gate, the probe, the gateway and the ledger see an engine like any other. An adapter is loaded from its directory as
everywhere; what it serves is the path that the run left in it.
"""

import threading
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np
import tinker
from tinker import types

from gpu_workers.artifacts import ArtifactError
from gpu_workers.backends.chat_templates import TokenizerReader
from gpu_workers.backends.errors import TrainingError
from gpu_workers.backends.tinker.service import Address, say_failure
from gpu_workers.backends.tinker.states import read_served
from gpu_workers.engine.batch import Events, Model
from gpu_workers.engine.checkpoint import read_config, read_end_ids
from gpu_workers.engine.errors import (
    AdapterRefusedError,
    EngineError,
    InvalidRequestError,
    StoppingError,
    UnknownModelError,
)
from gpu_workers.engine.jobs import Delta, Job, PromptScore, Sample
from gpu_workers.engine.models import LoadedModel, ModelRegistry
from gpu_workers.engine.reward_heads import AnsweredSteps, LoadedHead
from gpu_workers.engine.scheduler import Tally, require_readable
from gpu_workers.engine.text import TextCodec, find_stop

NOT_KEPT = "adapter_not_kept_at_service"
OPEN_S = 60.0
MOST_CHOICES = 512


class ServiceFailedError(EngineError):
    """Tinker, or the way to it, failed; a later try may succeed."""

    status = 503
    code = "tinker_failed"


class ServiceRefusedError(InvalidRequestError):
    """Tinker found fault with the request; it is no better the next time."""

    code = "tinker_refused"


@dataclass(frozen=True)
class Sizes:
    """All that is known here of a model whose weights are elsewhere."""

    context_length: int
    vocabulary_size: int


@dataclass(eq=False)
class RemoteModel(LoadedModel):
    """One version of the weights at the service.

    Args:
        sampler: the client that samples by it.
    """

    sampler: Any = None


@dataclass
class Traffic:
    """What is under way at the service."""

    running_rows: int = 0
    waiting_prompts: int = 0
    tally: Tally = field(default_factory=Tally)

    def wake(self) -> None:
        """Nothing waits here: what was sent is answered there, asked for or not."""


class TinkerEngine:
    """A base model at Tinker with the adapters that were loaded. Its methods are `engine.Engine`'s."""

    def __init__(self, client: tinker.ServiceClient, address: Address, *, name: str, model: str, base: Path) -> None:
        """Open a sampler of the base.

        Args:
            name: what requests call the base; model: what the service does.
            base: directory of the same model's tokenizer.json, tokenizer_config.json and config.json.
        Raises:
            BaseModelError, ModelUnreadableError: the directory cannot be read.
            ServiceRefusedError, ServiceFailedError: the service does not open it.
        """
        sizes = TokenizerReader(base)
        self.codec = TextCodec.from_directory(base)
        self._end_ids = frozenset(read_end_ids(base, read_config(base)))
        self._client, self._address, self._model = client, address, model
        self._sizes = cast(Model, Sizes(sizes.context_length, sizes.vocabulary_size))  # no more of a loaded's is read
        self._lock = threading.Lock()
        self._is_stopping = False
        self._idle = threading.Condition(self._lock)
        self.scheduler = Traffic()
        self.publish: Callable[[Events], None] = lambda _: None
        sampler = self._open(None)
        self.base: LoadedModel = RemoteModel(name, self._sizes, "", model, sampler=sampler)
        self.models = ModelRegistry(self.base)

    # --- adapters

    def load_adapter(self, name: str, directory: Path) -> LoadedModel:
        """Serve under `name` what the adapter of a directory is at the service.

        Raises:
            AdapterRefusedError: the name is taken or unfit, or the adapter is of another model, or not kept there.
            ServiceRefusedError, ServiceFailedError: the service does not open it.
        """
        return self.models.add(name, partial(self._open_model, name, directory))

    def unload_adapter(self, name: str) -> None:
        self.models.remove(name)

    def _open_model(self, name: str, directory: Path) -> LoadedModel:
        try:
            left, fingerprint = read_served(directory)
        except (TrainingError, ArtifactError) as error:
            raise AdapterRefusedError(
                f"only what was trained at Tinker is served there: {error}", param="lora_path", code=NOT_KEPT
            ) from error
        if left.model != self._model:
            raise AdapterRefusedError(
                f"{directory} must be an adapter of {self._model}, found one of {left.model}", param="lora_path"
            )
        return RemoteModel(name, self._sizes, fingerprint, str(directory), sampler=self._open(left.sampler))

    def _open(self, weights: str | None) -> tinker.SamplingClient:
        """A sampler by an adapter's tinker:// path; None: of the base."""
        try:
            sampler = self._client.create_sampling_client(
                model_path=weights, base_model=None if weights else self._model
            ).result(timeout=OPEN_S)
        except Exception as error:  # noqa: BLE001  the client raises ValueError and RuntimeError too
            raise self._explain(f"opening {weights or self._model}", error) from None
        if (found := sampler.get_base_model()) != self._model:
            raise ServiceRefusedError(f"Tinker: {weights} must be of {self._model}, found {found}")
        return sampler

    # --- step scorers: they read the base's states, which the service does not tell

    @property
    def heads(self) -> Mapping[str, LoadedHead]:
        return {}

    def find_head(self, name: str) -> LoadedHead:
        raise UnknownModelError(f"no step scorer {name!r} is loaded, and none can be: {_NO_STATES}", param="head")

    def load_head(self, name: str, directory: Path) -> LoadedHead:
        raise AdapterRefusedError(f"the step scorer {name!r} of {directory} cannot be served: {_NO_STATES}")

    def unload_head(self, name: str) -> None:
        self.find_head(name)

    def ask_features(self, asked: Sequence[AnsweredSteps]) -> NoReturn:
        raise InvalidRequestError(f"the steps of {len(asked)} answers cannot be read: {_NO_STATES}")

    # --- generating

    def start(self) -> None:
        """Nothing to start: the client has threads of its own."""

    @property
    def is_running(self) -> bool:
        return not self._is_stopping

    def stop(self, *, drain_s: float) -> bool:
        """Take no new requests and wait for what is under way; whether all was answered in time."""
        with self._idle:
            self._is_stopping = True
            has_drained = self._idle.wait_for(lambda: self.scheduler.running_rows == 0, timeout=drain_s)
        self._client.close("success")
        return has_drained

    def submit(self, job: Job) -> None:
        """Send a job's prompts, one request each.

        No seed is sent: of one seed the service draws the same answer several times, which a group must not be.
        """
        if self._is_stopping:
            raise StoppingError("the engine is stopping and takes no new requests", retry_after_s=5)
        options = job.options
        if options.n > MOST_CHOICES:
            raise InvalidRequestError(f"n must be at most {MOST_CHOICES}, found {options.n}", param="n")
        require_readable(job)
        ends = options.stop_token_ids | (frozenset() if options.ignores_eos else self._end_ids)
        params = types.SamplingParams(
            max_tokens=max(1, options.max_tokens),
            temperature=options.temperature,
            top_p=options.top_p,
            top_k=options.top_k or -1,
            stop=sorted(ends),
        )
        sampler = cast(RemoteModel, job.loaded).sampler
        with self._lock:
            self.scheduler.running_rows += job.unfinished
        for index, prompt in enumerate(job.prompts):
            answered: Future[types.SampleResponse]
            try:
                answered = sampler.sample(
                    types.ModelInput.from_ints(list(prompt)),
                    options.n if options.max_tokens else 1,
                    params,
                    include_prompt_logprobs=options.prompt_logprobs is not None,
                    topk_prompt_logprobs=options.prompt_logprobs or 0,
                    topk_sample_logprobs=options.top_logprobs or 0,
                ).future()
            except Exception as error:  # noqa: BLE001  what was not even sent has failed as any other
                answered = Future()
                answered.set_exception(error)
            answered.add_done_callback(partial(self._settle, job, index))

    def _settle(self, job: Job, index: int, answered: "Future[types.SampleResponse]") -> None:
        """Write one prompt's answer into its job, in the client's thread; in ours where it was not even sent."""
        deltas: list[Delta] = []
        with self._idle:
            self.scheduler.running_rows -= job.options.n
            try:
                deltas = self._read(job, index, answered.result())
            except EngineError as error:
                job.error = error
            except Exception as error:  # noqa: BLE001  see _open
                job.error = self._explain(f"sampling by {job.loaded.name}", error)
            self._idle.notify_all()
        self.publish({job: deltas})

    def _read(self, job: Job, index: int, answer: types.SampleResponse) -> list[Delta]:
        options, prompt = job.options, job.prompts[index]
        if options.prompt_logprobs is not None:
            job.prompt_scores[index] = _read_prompt(prompt, answer, options.prompt_logprobs)
        self.scheduler.tally.prompt_tokens += len(prompt)
        sequences = answer.sequences if options.max_tokens else [None] * options.n
        if len(sequences) != options.n:
            raise ServiceFailedError(f"Tinker: wanted {options.n} answers, found {len(sequences)}")
        deltas = []
        for choice, sequence in enumerate(sequences, start=index * options.n):
            sample = _NOTHING if sequence is None else self._read_sample(job, sequence)
            job.finish_choice(choice, sample)
            self.scheduler.tally.generation_tokens += len(sample.token_ids)
            if options.streams:
                told = list(map(float, sample.logprobs))
                ids, top, reason = sample.token_ids, sample.top, sample.finish_reason
                deltas.append(Delta(choice, sample.text, ids, told, top, reason, sample.stop_reason))
        return deltas

    def _read_sample(self, job: Job, sequence: types.SampledSequence) -> Sample:
        """One answer, ended where the engine would have ended it.

        Stop strings are looked for here: cut at the token that completes one, an answer is what a sampler that stops
        there draws.
        """
        options = job.options
        tokens, logprobs = list(sequence.tokens), sequence.logprobs
        top = sequence.topk_logprobs if options.top_logprobs else None
        if not tokens or logprobs is None or len(logprobs) != len(tokens) or (top and len(top) != len(tokens)):
            raise ServiceFailedError(f"Tinker: wanted a log-prob of each of {len(tokens)} tokens, found others")
        size = self._find_cut(tokens, options.stops, skips_special=options.skips_special)
        tokens, values = tokens[:size], np.array(logprobs[:size], dtype=np.float32)
        alternatives = [list(entry or ()) for entry in top[:size]] if top else None
        by_id = tokens[-1] in options.stop_token_ids
        if by_id or (tokens[-1] in self._end_ids and not options.ignores_eos):
            shown = tokens if options.keeps_stop else tokens[:-1]
            text = self.codec.decode(shown, skip_special=options.skips_special)
            return Sample(text, tokens, values, "stop", tokens[-1] if by_id else None, alternatives)
        text = self.codec.decode(tokens, skip_special=options.skips_special)
        if found := find_stop(text, options.stops):
            start, stop = found
            text = text[: start + (len(stop) if options.keeps_stop else 0)]
            return Sample(text, tokens, values, "stop", stop, alternatives)
        if sequence.stop_reason == "stop":
            raise ServiceFailedError(f"Tinker ended an answer with token {tokens[-1]}, which was not asked to end it")
        return Sample(text, tokens, values, "length", None, alternatives)

    def _find_cut(self, tokens: Sequence[int], stops: Sequence[str], *, skips_special: bool) -> int:
        """How many tokens there are until the first stop string is whole; all where none is."""

        def is_over(size: int) -> bool:
            return find_stop(self.codec.decode(tokens[:size], skip_special=skips_special), stops) is not None

        return min(1 + bisect_left(range(1, len(tokens) + 1), True, key=is_over), len(tokens)) if stops else len(tokens)

    def _explain(self, what: str, error: Exception) -> EngineError:
        words = f"Tinker: {what}: {say_failure(error, self._address)}"
        status = getattr(error, "status_code", None)
        is_refusal = isinstance(status, int) and 400 <= status < 500 and status not in (408, 409, 425, 429)
        if is_refusal or getattr(error, "category", None) == types.RequestErrorCategory.User:
            return ServiceRefusedError(words)
        return ServiceFailedError(words, retry_after_s=5)


def _read_prompt(prompt: Sequence[int], answer: types.SampleResponse, alternatives: int) -> PromptScore:
    told = answer.prompt_logprobs or []
    values = [value for value in told[1:] if value is not None]
    if len(told) != len(prompt) or len(values) != len(prompt) - 1:
        raise ServiceFailedError(f"Tinker: wanted log-probs of {len(prompt)} prompt tokens, found {len(values) + 1}")
    top = [list(entry or ()) for entry in (answer.topk_prompt_logprobs or [])[1:]] if alternatives else []
    return PromptScore(np.array(values, dtype=np.float32), None, top or [[] for _ in values])


_NOTHING = Sample("", [], np.zeros(0, dtype=np.float32), "length")
_NO_STATES = "it reads the base model's states, which Tinker does not tell"
