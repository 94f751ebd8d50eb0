"""Continuous batching: who is read next, who decodes with whom. Runs in one thread, and only there."""

import logging
import queue
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from gpu_workers.engine.batch import Batch, Events, Model, Row
from gpu_workers.engine.errors import EngineError, InvalidRequestError, QueueFullError
from gpu_workers.engine.jobs import Delta, Job, PromptScore, Sample, TopLogprobs
from gpu_workers.engine.models import LoadedModel
from gpu_workers.engine.prefixes import BLOCK_TOKENS, PrefixStore, hash_blocks
from gpu_workers.engine.sampling import add_up
from gpu_workers.engine.text import TextCodec
from gpu_workers.process import give_back_memory

if TYPE_CHECKING:
    from gpu_workers.engine.grammar import Grammars, Guide

logger = logging.getLogger(__name__)

_PREFILL_TOKENS = 16_384
_SCORED_LOGITS = 16_000_000
_LONG_S = 10.0
_MOST_PASSED = 64


@dataclass
class Tally:
    """Counts since the start, for /metrics; `reused_tokens` are of prompts whose keys and values were kept."""

    prompt_tokens: int = 0
    reused_tokens: int = 0
    generation_tokens: int = 0
    steps: int = 0
    row_steps: int = 0


@dataclass
class _Part:
    """A long prompt, of which a part is read between two steps.

    Args:
        known: keys and values of what is read, (layers, 2 KV, tokens, head width); None: nothing is.
        reused: tokens whose keys and values were there before.
    """

    job: Job
    index: int
    known: Tensor | None
    reused: int

    @property
    def prompt(self) -> Sequence[int]:
        return self.job.prompts[self.index]

    @property
    def count_read(self) -> int:
        return 0 if self.known is None else self.known.shape[2]


class _Read(NamedTuple):
    """What is read once, however many want it."""

    loaded: LoadedModel
    prompt: tuple[int, ...]

    @classmethod
    def of(cls, job: Job, index: int) -> Self:
        return cls(job.loaded, tuple(job.prompts[index]))


class Scheduler:
    """Admits jobs into batches and steps them. `submit` may be called from any thread, all else from one."""

    def __init__(
        self,
        *,
        codec: TextCodec | None,
        end_ids: frozenset[int],
        max_rows: int = 512,
        max_waiting: int = 4_096,
        prefix_bytes: int = 0,
        vocabulary_size: int = 0,
    ) -> None:
        self._codec = codec
        self._end_ids = end_ids
        self._vocabulary_size = vocabulary_size
        self.max_rows = max_rows
        self.max_waiting = max_waiting
        self._inbox: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._waiting: deque[tuple[Job, int]] = deque()
        self._batches: dict[object, Batch] = {}  # by lane
        self._part: _Part | None = None
        self._names: dict[tuple[Job, int], list[bytes]] = {}  # of long prompts that wait
        self._prefix_bytes = prefix_bytes
        self._prefixes = PrefixStore(prefix_bytes) if prefix_bytes else None
        self._grammars: Grammars | None = None
        self._lock = threading.Lock()
        self._queued = 0  # prompts submitted and not yet read
        self.tally = Tally()

    @property
    def waiting_prompts(self) -> int:
        return self._queued

    @property
    def running_rows(self) -> int:
        return sum(batch.live_rows for batch in tuple(self._batches.values()))

    @property
    def has_work(self) -> bool:
        return bool(self._waiting or self._batches or self._part) or not self._inbox.empty()

    def submit(self, job: Job) -> None:
        """Queue a job.

        Raises:
            InvalidRequestError: it could never run here.
            QueueFullError: too much waits already; try again later.
        """
        if job.options.n > self.max_rows:
            raise InvalidRequestError(f"n must be at most {self.max_rows}, found {job.options.n}", param="n")
        if len(job.prompts) > self.max_waiting:
            raise InvalidRequestError(
                f"one request takes at most {self.max_waiting} prompts, found {len(job.prompts)}", param="prompt"
            )
        require_readable(job)
        with self._lock:
            if self._queued and self._queued + len(job.prompts) > self.max_waiting:
                raise QueueFullError(
                    f"{self._queued} prompts wait already and at most {self.max_waiting} may", retry_after_s=1
                )
            self._queued += len(job.prompts)
        self._inbox.put(job)

    def wake(self) -> None:
        """Let `wait` return."""
        self._inbox.put(None)

    @property
    def kept_bytes(self) -> int:
        """Of what was read and drawn."""
        return 0 if self._prefixes is None else self._prefixes.size_bytes

    def limit_prefixes(self, size_bytes: int) -> None:
        """Keep at most so much of what was read and drawn, and never more than was said at the start."""
        if self._prefixes is not None:
            self._prefixes.limit(min(size_bytes, self._prefix_bytes))
            self.wake()

    def wait(self) -> None:
        """Block until a job or `wake` arrives. Who has waited for long gives back the memory of what was done."""
        try:
            job = self._inbox.get(timeout=_LONG_S)
        except queue.Empty:
            give_back_memory()
            job = self._inbox.get()
        self._take(job)
        if self._prefixes is not None:
            self._prefixes.trim()

    @torch.inference_mode()
    def step(self) -> Events:
        """Admit what fits, draw one token for every running row, and say what changed."""
        while not self._inbox.empty():
            self._take(self._inbox.get())
        events = self._admit()
        for lane, batch in tuple(self._batches.items()):
            try:
                news, drawn = batch.step()
            except (
                Exception
            ) as error:  # one batch's failure must not stop the others: its jobs are told, and it is logged
                logger.exception("a batch of %s failed", batch.names)
                news, drawn = batch.fail(EngineError(f"generation failed: {error}")), 0
            for job, deltas in news.items():
                events.setdefault(job, []).extend(deltas)
            self.tally.generation_tokens += drawn
            self.tally.row_steps += drawn
            if not batch.live_rows:
                del self._batches[lane]
        self.tally.steps += 1
        return events

    def _take(self, job: Job | None) -> None:
        if job is not None:
            self._waiting.extend((job, index) for index in range(len(job.prompts)))

    def _admit(self) -> Events:
        """Read the prompts whose choices fit, first come first served.

        Between two steps of rows that decode only so much is read as their model says (`Model.part_tokens`). One prompt
        that is longer is read in parts meanwhile, and shorter ones that came later pass by.
        """
        events: Events = {}
        self._read_on(events)
        busy, room = bool(self._batches), 0
        if self._waiting:
            room = self.max_rows - self.running_rows - (self._part.job.options.n if self._part else 0)
        admitted: dict[LoadedModel, list[tuple[Job, int]]] = {}
        unread, passed = 0, list[tuple[Job, int]]()
        while self._waiting and len(passed) < _MOST_PASSED:
            job, index = self._waiting[0]
            if not job.is_over:
                most, size = job.loaded.model.part_tokens, self._count_unread(job, index)
                if job.options.n > room or (busy and unread and unread + size > most):
                    break
                if size > most and job.loaded.model.keeps_prefixes and not _needs_states(job):
                    self._waiting.popleft()
                    if self._part is None:
                        room -= self._begin(job, index, events)
                    else:
                        passed.append((job, index))
                    continue
                unread += size
                room -= job.options.n
                admitted.setdefault(job.loaded, []).append((job, index))
            self._waiting.popleft()
            self._note_admitted(job, index)
        self._waiting.extendleft(reversed(passed))
        by_lane: dict[object, list[tuple[Job, int]]] = {}
        for loaded, prompts in admitted.items():
            by_lane.setdefault(loaded.model.lane, []).extend(prompts)
        for prompts in by_lane.values():
            for chunk in [chunk for part in self._part_shared(prompts) for chunk in _chunk_prompts(part)]:
                self._try_prefill(chunk, events)
        return events

    def _note_admitted(self, job: Job, index: int) -> None:
        self._names.pop((job, index), None)
        with self._lock:
            self._queued -= 1

    def _count_unread(self, job: Job, index: int) -> int:
        """Tokens of a waiting prompt that are to be read."""
        prompt, prefixes = job.prompts[index], self._keeps(job.loaded)
        if prefixes is None or len(prompt) <= job.loaded.model.part_tokens:
            return len(prompt)
        if (names := self._names.get((job, index))) is None:
            names = self._names[job, index] = hash_blocks(job.loaded.identity, prompt)
        return len(prompt) - prefixes.count(names[: job.states_from(index) // BLOCK_TOKENS])

    def _begin(self, job: Job, index: int, events: Events) -> int:
        """Read a long prompt in parts from here on.

        Returns:
            Choices that will want room.
        """
        prefixes = self._keeps(job.loaded)
        try:
            known = prefixes.find(self._names[job, index]) if prefixes else None
        except Exception as error:  # as in step: the job is told, the rest goes on
            logger.exception("what is known of a prompt for %s could not be put together", job.loaded.name)
            self._note_admitted(job, index)
            _give_up([(job, index)], error, events)
            return 0
        self._part = _Part(job, index, known, 0 if known is None else known.shape[2])
        return job.options.n

    def _read_on(self, events: Events) -> None:
        """Read a part of the long prompt; with the last one it is admitted."""
        if (part := self._part) is None:
            return
        loaded, end = part.job.loaded, part.count_read + part.job.loaded.model.part_tokens
        if part.job.is_over or end >= len(part.prompt):
            self._part = None
            self._note_admitted(part.job, part.index)
            if not part.job.is_over:
                self._try_prefill([(part.job, part.index)], events, part)
            return
        try:
            _, cache = loaded.model.prefill([part.prompt[:end]], [part.known])
        except Exception as error:  # as in step: the job is told, the rest goes on
            logger.exception("reading a part of a prompt for %s failed", loaded.name)
            _give_up([(part.job, part.index)], error, events)
            return  # the next time it is over
        self.tally.prompt_tokens += end - part.count_read
        part.known = torch.stack([layer[0, :, :end] for layer in cache.layers])

    def _try_prefill(self, chunk: Sequence[tuple[Job, int]], events: Events, part: _Part | None = None) -> None:
        try:
            self._prefill(chunk, events, part)
        except Exception as error:  # as in step: the jobs are told, the rest goes on
            names = ", ".join(sorted({job.loaded.name for job, _ in chunk}))
            logger.exception("reading prompts for %s failed", names)
            _give_up(chunk, error, events)

    def _open_guide(self, grammar: str) -> "Guide":
        if self._grammars is None:
            from gpu_workers.engine.grammar import Grammars  # only who asks for a grammar needs its library

            if self._codec is None:
                raise EngineError("a grammar wants a tokenizer", code="grammar_failed")
            self._grammars = Grammars(self._codec, self._end_ids, self._vocabulary_size)
        return self._grammars.open(grammar)

    def _keeps(self, loaded: LoadedModel) -> PrefixStore | None:
        return self._prefixes if loaded.model.keeps_prefixes else None

    def _part_shared(self, prompts: Sequence[tuple[Job, int]]) -> Sequence[Sequence[tuple[Job, int]]]:
        """First the prompts that go on from what is known by a block of their own, then those whose next block is read
        among the first, and is known when it is their turn: a system prompt that all of them share is read once.
        """
        if (prefixes := self._keeps(prompts[0][0].loaded)) is None or len(prompts) == 1:
            return [prompts]
        first: list[tuple[Job, int]] = []
        later: list[tuple[Job, int]] = []
        readers: dict[bytes, tuple[int, ...]] = {}
        for job, index in prompts:
            prompt = tuple(job.prompts[index])
            names = hash_blocks(job.loaded.identity, prompt)
            next_block = names[prefixes.count(names) // BLOCK_TOKENS :][:1]
            is_first = all(readers.setdefault(name, prompt) == prompt for name in next_block)
            (first if is_first else later).append((job, index))
        return [part for part in (first, later) if part]

    def _prefill(self, chunk: Sequence[tuple[Job, int]], events: Events, part: _Part | None) -> None:
        """Read each model's distinct prompts once, from behind what is known of them, and give their choices rows.

        Args:
            events: what changes for whom goes there.
            part: of the chunk's only prompt, where most of it is read.
        """
        model = chunk[0][0].loaded.model
        places: dict[_Read, int] = {}
        wanted_from: list[int] = []  # of each distinct prompt, the first token whose state somebody wants
        for job, index in chunk:
            place = places.setdefault(_Read.of(job, index), len(places))
            if place == len(wanted_from):
                wanted_from.append(len(job.prompts[index]))
            wanted_from[place] = min(wanted_from[place], job.states_from(index))
        distinct = [read.prompt for read in places]
        names: list[list[bytes]] = []
        known: list[Tensor | None] = []
        if (prefixes := self._keeps(chunk[0][0].loaded)) is not None:
            names = [hash_blocks(read.loaded.identity, read.prompt) for read in places]
            known = [prefixes.find(own[: first // BLOCK_TOKENS]) for own, first in zip(names, wanted_from, strict=True)]
        if part is not None:
            known = [part.known]
        starts = [0 if one is None else one.shape[2] for one in known] or [0] * len(distinct)
        hidden, cache = model.prefill(distinct, known, [read.loaded.model for read in places])
        del known
        self.tally.prompt_tokens += sum(map(len, distinct)) - sum(starts)
        self.tally.reused_tokens += sum(starts) if part is None else part.reused
        if prefixes is not None:
            for place, own in enumerate(names):
                prefixes.keep(own, cache.layers, place)
        if any(job.read_states for job, _ in chunk):
            _hand_out_states(model.states(distinct, hidden), chunk, places)
        lane = model.lane
        if (batch := self._batches.get(lane)) is None:
            open_guide = self._open_guide if self._codec else None
            batch = Batch(model, self._codec, self._end_ids, prefixes, open_guide)
        rows: list[Row] = []
        sources: list[int] = []
        before: dict[tuple[LoadedModel, int], tuple[Sequence[int], PromptScore]] = {}
        for job, index in chunk:
            if job.is_over:
                continue  # another of its prompts has failed
            place = places[_Read.of(job, index)]
            if (alternatives := job.options.prompt_logprobs) is not None:
                prompt, first = job.prompts[index], job.score_starts[index]
                states = hidden[place, first - 1 - starts[place] : len(prompt) - starts[place]]
                shared = before.get((job.loaded, alternatives)) if first == 1 else None
                found = score_prompt(model, states, prompt, alternatives, start=first, before=shared)
                job.prompt_scores[index] = found
                if first == 1:
                    before[job.loaded, alternatives] = (prompt, found)
            if job.options.max_tokens == 0:
                events.setdefault(job, []).extend(_finish_unsampled(job, index))
                continue
            try:
                rows += batch.admit(job, index)
            except Exception as error:  # what is wrong with one job is told to it alone
                logger.exception("a request for %s cannot be answered", job.loaded.name)
                _give_up([(job, index)], error, events)
                continue
            sources += [place] * job.options.n
        if rows:
            ends = torch.tensor(
                [len(prompt) - start - 1 for prompt, start in zip(distinct, starts, strict=True)], device=hidden.device
            )
            logits = model.project(hidden[torch.arange(len(distinct), device=hidden.device), ends])
            if sources != list(range(len(distinct))):
                cache.select(torch.tensor(sources))
                logits = logits[torch.tensor(sources, device=hidden.device)]
            batch.extend(rows, cache, logits)
            self._batches[lane] = batch


def _give_up(chunk: Sequence[tuple[Job, int]], error: Exception, events: Events) -> None:
    for job, _ in chunk:
        if not job.is_over:
            job.error = error if isinstance(error, EngineError) else EngineError(f"reading the prompt failed: {error}")
        events.setdefault(job, [])


def require_readable(job: Job) -> None:
    """Raises InvalidRequestError: a prompt is empty, not of the vocabulary, or leaves no room for the answer."""
    options, context = job.options, job.loaded.model.context_length
    for prompt in job.prompts:
        if not prompt:
            raise InvalidRequestError("a prompt must hold at least one token, found none", param="prompt")
        if len(prompt) + options.max_tokens > context:
            raise InvalidRequestError(
                f"the model's context is {context} tokens; the prompt has {len(prompt)} and max_tokens asks for "
                f"{options.max_tokens}",
                param="prompt",
                code="context_length_exceeded",
            )
        if not 0 <= min(prompt) <= max(prompt) < job.loaded.model.vocabulary_size:
            raise InvalidRequestError(
                f"prompt token ids must lie in 0..{job.loaded.model.vocabulary_size - 1}, found "
                f"{min(prompt)}..{max(prompt)}",
                param="prompt",
            )


def _needs_states(job: Job) -> bool:
    """Whether the final hidden states of all of its prompts' tokens are asked for, which are not kept."""
    return job.read_states is not None or job.options.prompt_logprobs is not None


def _hand_out_states(states: Tensor, chunk: Sequence[tuple[Job, int]], places: Mapping[_Read, int]) -> None:
    """Give each job that asked for them its prompts' final hidden states, without the padding."""
    for job, index in chunk:
        if job.read_states is not None:
            read = _Read.of(job, index)
            job.read_states(index, states[places[read], : len(read.prompt)])


def score_prompt(
    model: Model,
    hidden: Tensor,
    prompt: Sequence[int],
    alternatives: int,
    *,
    start: int = 1,
    before: tuple[Sequence[int], PromptScore] | None = None,
) -> PromptScore:
    """Log-probs of tokens start.. of a prompt, from final hidden states from the token before on (P - start + 1, D).

    Args:
        before: another prompt and what was told of it, with as many alternatives: what both begin with is not computed
            again. Only where all is wanted.
    """
    same, logprobs, ranks = 0, [np.empty(0, dtype=np.float32)], [np.empty(0, dtype=np.int64)]
    top: list[TopLogprobs] = []
    if before is not None and before[1].ranks is not None:
        pairs = zip(prompt, before[0], strict=False)
        same = max(0, sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)) - 1)
        logprobs, ranks, top = [before[1].logprobs[:same]], [before[1].ranks[:same]], before[1].top[:same]
    targets = torch.tensor(prompt[start + same :], device=hidden.device)
    block = max(1, _SCORED_LOGITS // model.vocabulary_size)
    for place in range(0, len(targets), block):
        wanted = targets[place : place + block, None]
        logits = model.project(hidden[same + place : same + place + len(wanted)])  # N V
        own, sums = logits.gather(-1, wanted), add_up(logits)[:, None]
        logprobs.append((own - sums)[:, 0].cpu().numpy())
        ranks.append(((logits > own).sum(-1) + 1).cpu().numpy())
        if alternatives:
            values, ids = logits.topk(min(alternatives, logits.shape[-1]), -1)
            top += [
                list(zip(row_ids, row_values, strict=True))
                for row_ids, row_values in zip(ids.tolist(), (values - sums).tolist(), strict=True)
            ]
        else:
            top += [[] for _ in range(len(wanted))]
    return PromptScore(np.concatenate(logprobs), np.concatenate(ranks), top, start)


def _finish_unsampled(job: Job, index: int) -> list[Delta]:
    """Close the choices of a prompt that was only to be read."""
    n = job.options.n
    empty = np.zeros(0, dtype=np.float32)
    choices = range(index * n, (index + 1) * n)
    for choice in choices:
        job.finish_choice(choice, Sample("", [], empty, "length", None, [] if job.options.top_logprobs else None))
    return [Delta(choice, "", [], [], None, "length") for choice in choices] if job.options.streams else []


def _chunk_prompts(prompts: Sequence[tuple[Job, int]]) -> list[list[tuple[Job, int]]]:
    """Chunks whose padded size stays within the prefill budget, or a single prompt."""
    chunks: list[list[tuple[Job, int]]] = []
    longest = 0
    for job, index in prompts:
        longest = max(longest, len(job.prompts[index]))
        if not chunks or (len(chunks[-1]) + 1) * longest > _PREFILL_TOKENS:
            chunks.append([])
            longest = len(job.prompts[index])
        chunks[-1].append((job, index))
    return chunks
