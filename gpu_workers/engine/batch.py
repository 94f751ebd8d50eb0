"""Rows that decode together, one token each a step."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_workers.engine.errors import EngineError
from gpu_workers.engine.jobs import Delta, FinishReason, Job, Sample, TopLogprobs
from gpu_workers.engine.prefixes import PrefixStore, hash_blocks
from gpu_workers.engine.sampling import Knobs, derive_keys, draw_uniforms, sample_tokens, to_device
from gpu_workers.engine.text import TextCodec, TextStream, find_stop

if TYPE_CHECKING:
    from gpu_workers.engine.grammar import Guide, OpenGuide

_COMPACT_BELOW = 0.8
Events = dict[Job, list[Delta]]


class Cache(Protocol):
    """Keys and values of a batch's rows; rows to select are numbers in the machine's memory, wherever the cache is."""

    def select(self, rows: Tensor) -> None: ...
    def absorb(self, other: Any) -> None: ...


class Model(Protocol):
    """What the engine asks of weights; `PlainModel` and `HuggingFaceModel` give it."""

    keeps_prefixes: bool

    @property
    def lane(self) -> object: ...
    @property
    def runs_ahead(self) -> bool: ...
    @property
    def vocabulary_size(self) -> int: ...
    @property
    def context_length(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def part_tokens(self) -> int: ...
    @property
    def adaptable(self) -> dict[str, tuple[int, int]]: ...
    def adapt(self, pairs: Any) -> Self: ...
    def mix(self, models: Sequence[Any]) -> Self: ...
    def prefill(self, prompts: Any, known: Any = (), models: Any = ()) -> tuple[Tensor, Any]: ...
    def settle(self, cache: Any) -> Any: ...
    def decode(self, cache: Any, tokens: Tensor) -> Tensor: ...
    def project(self, hidden: Tensor) -> Tensor: ...
    def states(self, prompts: Any, hidden: Tensor) -> Tensor: ...


@dataclass
class Row:
    """One choice of a job while it grows."""

    job: Job
    choice: int
    stream: TextStream | None
    top: list[TopLogprobs] | None
    guide: "Guide | None" = None


@dataclass
class Columns:
    """The rows' numbers, one array each, all (B,) but the last two (B, most new tokens + 1)."""

    keys: NDArray[np.uint64]
    positions: NDArray[np.int64]
    counts: NDArray[np.int64]
    limits: NDArray[np.int64]
    temperature: NDArray[np.float32]
    top_k: NDArray[np.int64]
    top_p: NDArray[np.float32]
    is_alive: NDArray[np.bool_]
    tokens: NDArray[np.int64]
    logprobs: NDArray[np.float32]

    def select(self, rows: NDArray[np.int64]) -> "Columns":
        return Columns(*(getattr(self, item.name)[rows] for item in fields(self)))

    def join(self, other: "Columns") -> "Columns":
        width = max(self.tokens.shape[1], other.tokens.shape[1])
        return Columns(
            *(
                np.concatenate([_widen(getattr(self, item.name), width), _widen(getattr(other, item.name), width)])
                for item in fields(self)
            )
        )


def _widen(values: NDArray[Any], width: int) -> NDArray[Any]:
    if values.ndim == 1 or values.shape[1] == width:
        return values
    return np.pad(values, ((0, 0), (0, width - values.shape[1])))


class _Told:
    """What was drawn and how likely it was, on its way to the machine's memory while a GPU goes on."""

    def __init__(self, tokens: Tensor, logprobs: Tensor) -> None:
        self._found = [one.to("cpu", non_blocking=True) for one in (tokens, logprobs)]
        self._arrival = None
        if tokens.device.type == "cuda":
            self._arrival = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._arrival.record()

    def read(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Wait for them."""
        if self._arrival is not None:
            self._arrival.synchronize()
        tokens, logprobs = self._found
        return tokens.numpy(), logprobs.numpy()


class Batch:
    """Rows of the models of one lane with their cache and the logits that come next."""

    def __init__(
        self,
        model: Model,
        codec: TextCodec | None,
        end_ids: frozenset[int],
        prefixes: PrefixStore | None = None,
        open_guide: "OpenGuide | None" = None,
    ) -> None:
        """
        Args:
            prefixes: keeps what was read and drawn of every answer that ends; None: nothing is kept.
            open_guide: opens the grammar of each answer that has one.
        """
        self._model = model
        self._codec = codec
        self._end_ids = end_ids
        self._prefixes = prefixes
        self._open_guide = open_guide
        self._rows: list[Row] = []
        self._watched = np.zeros(model.vocabulary_size, dtype=np.bool_)  # V, tokens after which some row may stop
        self._cache: Any = None
        self._logits: Tensor = torch.empty(0)
        self._columns: Columns
        self._knobs: Knobs
        self._penalised: Sequence[int] = ()
        self._is_settled = False
        self._events: Events = {}  # of the step that runs

    @property
    def names(self) -> str:
        """Of the models whose rows decode here."""
        return ", ".join(sorted({row.job.loaded.name for row in self._rows}))

    @property
    def live_rows(self) -> int:
        return int(self._columns.is_alive.sum()) if self._rows else 0

    def admit(self, job: Job, prompt_index: int) -> list[Row]:
        """The rows of one prompt's choices; `extend` then puts them in."""
        options = job.options
        first = prompt_index * options.n
        rows = []
        for choice in range(first, first + options.n):
            stream = None
            if options.streams and self._codec is not None:
                stream = TextStream(self._codec, options.stops, skip_special=options.skips_special)
            guide = self._open_guide(options.grammar) if options.grammar and self._open_guide else None
            rows.append(Row(job, choice, stream, [] if options.top_logprobs else None, guide))
        return rows

    def extend(self, rows: list[Row], cache: Cache, logits: Tensor) -> None:
        """Put in new rows with their cache and next logits (b, V)."""
        columns = _new_columns(rows)
        for job in {row.job for row in rows}:
            self._watch(job)
        if not self._rows:
            self._rows, self._columns, self._logits = list(rows), columns, logits
            self._cache = self._model.settle(cache)
        else:
            self._cache.absorb(cache)
            self._rows += rows
            self._columns = self._columns.join(columns)
            self._logits = torch.cat([self._logits, logits])
        self._is_settled = False  # until the next step: others may come in before it

    def step(self) -> tuple[Events, int]:
        """Draw one token for every row; what changed for whom, and how many tokens were drawn."""
        columns, events = self._columns, defaultdict[Job, list[Delta]](list)
        self._events = events
        for index, row in enumerate(self._rows):
            if row.job.is_over:
                columns.is_alive[index] = False
        if not self._compact():
            return events, 0
        if not self._is_settled:
            self._settle_rows()
        columns = self._columns
        for index in self._penalised:
            self._penalise(index, self._rows[index])
        uniforms = to_device(draw_uniforms(columns.keys, columns.positions), self._logits.device)
        drawn, scores, totals = sample_tokens(self._logits, uniforms, self._knobs)
        is_guided = self._guide(drawn, uniforms, events)
        told = _Told(drawn, scores.gather(-1, drawn[:, None])[:, 0] - totals)
        self._note_alternatives(scores, totals)
        runs_ahead = self._model.runs_ahead and not is_guided
        if runs_ahead:
            self._logits = self._model.decode(self._cache, drawn)
        tokens, chosen = told.read()
        everyone = np.arange(len(tokens))
        columns.tokens[everyone, columns.counts] = tokens
        columns.logprobs[everyone, columns.counts] = chosen
        columns.counts += columns.is_alive
        columns.positions += 1
        for index in np.flatnonzero(np.isnan(chosen) & columns.is_alive).tolist():
            name = self._rows[index].job.loaded.name
            self._fail_row(index, EngineError(f"the model {name} produced NaN", code="model_not_finite"), events)
        is_whole = np.array([row.guide is not None and row.guide.is_whole for row in self._rows])
        may_end = columns.is_alive & (self._watched[tokens] | (columns.counts >= columns.limits) | is_whole)
        live = int(columns.is_alive.sum())
        for index, row in enumerate(self._rows):
            if row.stream is not None and columns.is_alive[index] and not may_end[index]:
                self._stream_token(index, row, events)
        for index in np.flatnonzero(may_end).tolist():
            self._end_row(index, events)
        if (kept := self._compact()) and not runs_ahead:
            self._logits = self._model.decode(self._cache, drawn if kept == len(tokens) else drawn[self._kept])
        return events, live

    def fail(self, error: EngineError) -> Events:
        """Give up every row after a step that failed; what that step had for others before is told with it."""
        events, self._events = self._events, {}
        for row in self._rows:
            if not row.job.is_over:
                row.job.error = error
                events.setdefault(row.job, [])
        self._rows = []
        return events

    def _watch(self, job: Job) -> None:
        options = job.options
        ids = set(options.stop_token_ids) | (set() if options.ignores_eos else self._end_ids)
        self._watched[[index for index in ids if 0 <= index < len(self._watched)]] = True
        if options.stops and self._codec is not None:
            endings = {stop.encode()[-1] for stop in options.stops}
            for index, spelled in enumerate(self._codec.token_bytes[: len(self._watched)]):
                if not endings.isdisjoint(spelled):
                    self._watched[index] = True

    def _settle_rows(self) -> None:
        """Find out how the rows that there are now decode."""
        self._is_settled = True
        self._model = self._model.mix([row.job.loaded.model for row in self._rows])
        columns = self._columns
        device = self._logits.device
        greedy = columns.temperature == 0
        temperature = np.where(greedy, np.float32(1), columns.temperature)
        self._penalised = [index for index, row in enumerate(self._rows) if row.job.options.penalises]
        size = self._model.vocabulary_size
        top_k = np.where(columns.top_k == 0, size, np.minimum(columns.top_k, size))
        top_p = np.maximum(columns.top_p, np.finfo(np.float32).tiny)  # what was above 0 may be 0 in float32
        self._knobs = Knobs(
            temperature=torch.from_numpy(temperature).to(device) if (temperature != 1).any() else None,
            top_k=torch.from_numpy(top_k).to(device) if (top_k < size).any() else None,
            top_p=torch.from_numpy(top_p).to(device) if (top_p < 1).any() else None,
            is_greedy=torch.from_numpy(greedy).to(device) if greedy.any() else None,
        )

    def _compact(self) -> int:
        """Drop dead rows once they are worth it; how many rows remain (0: nobody is left)."""
        count = len(self._rows)
        alive = self._columns.is_alive
        live = int(alive.sum())
        if live == 0:
            self._rows = []
            return 0
        if live >= _COMPACT_BELOW * count:
            return count
        kept = np.flatnonzero(alive)
        self._kept = torch.from_numpy(kept)
        self._columns = self._columns.select(kept)
        self._rows = [self._rows[index] for index in kept]
        self._cache.select(self._kept)
        self._logits = self._logits[self._kept.to(self._logits.device)]
        self._settle_rows()
        return live

    def _penalise(self, index: int, row: Row) -> None:
        """Change the logits of what a row's prompt and answer have, as vLLM does."""
        options, logits = row.job.options, self._logits[index]
        said, counts = np.unique(self._columns.tokens[index, : self._columns.counts[index]], return_counts=True)
        if options.repetition_penalty != 1:
            held = np.unique(np.concatenate([said, row.job.prompts[row.choice // options.n]])).astype(np.int64)
            places = torch.from_numpy(held).to(logits.device)
            found = logits[places]
            logits[places] = torch.where(
                found > 0, found / options.repetition_penalty, found * options.repetition_penalty
            )
        if len(said):
            places, often = (torch.from_numpy(each).to(logits.device) for each in (said, counts))
            logits[places] -= options.presence_penalty + options.frequency_penalty * often

    def _note_alternatives(self, scores: Tensor, totals: Tensor) -> None:
        alive = self._columns.is_alive  # a row that has ended stays until the batch is compacted
        asking = [index for index, row in enumerate(self._rows) if row.top is not None and alive[index]]
        if not asking:
            return
        most = max(self._rows[index].job.options.top_logprobs or 0 for index in asking)
        values, ids = scores[asking].topk(min(most, scores.shape[-1]), -1)
        values -= totals[asking, None]
        for index, row_values, row_ids in zip(asking, values.tolist(), ids.tolist(), strict=True):
            row = self._rows[index]
            if row.top is not None:
                row.top.append(list(zip(row_ids, row_values, strict=True))[: row.job.options.top_logprobs])

    def _row_tokens(self, index: int) -> list[int]:
        columns = self._columns
        tokens: list[int] = columns.tokens[index, : columns.counts[index]].tolist()
        return tokens

    def _stream_token(self, index: int, row: Row, events: Events) -> None:
        assert row.stream is not None
        last = self._columns.counts[index] - 1
        token = int(self._columns.tokens[index, last])
        logprob = float(self._columns.logprobs[index, last])
        events[row.job].append(
            Delta(row.choice, row.stream.push(token), [token], [logprob], row.top[-1:] if row.top else None)
        )

    def _end_row(self, index: int, events: Events) -> None:
        """Close the row if it really ends here; if not, it was only watched."""
        row, options = self._rows[index], self._rows[index].job.options
        tokens = self._row_tokens(index)
        text, finish_reason, stop_reason = self._find_end(row.job, tokens)
        if finish_reason is None and row.guide is not None and row.guide.is_whole:
            text, finish_reason = self._text_of(tokens, options.skips_special), "stop"
        if finish_reason is None:
            if self._columns.counts[index] < self._columns.limits[index]:
                if row.stream is not None:
                    self._stream_token(index, row, events)
                return
            text, finish_reason = self._text_of(tokens, options.skips_special), "length"
        logprobs = self._columns.logprobs[index, : len(tokens)].copy()
        row.job.finish_choice(row.choice, Sample(text, tokens, logprobs, finish_reason, stop_reason, row.top))
        self._columns.is_alive[index] = False
        if row.stream is not None:
            rest = row.stream.finish(text)
            alternatives = row.top[-1:] if row.top else None
            events[row.job].append(
                Delta(row.choice, rest, tokens[-1:], [float(logprobs[-1])], alternatives, finish_reason, stop_reason)
            )
        elif row.job.unfinished == 0:
            events[row.job] = []
        if self._prefixes is not None:  # now that the answer is told, which this may not keep from it
            whole = [*row.job.prompts[row.choice // options.n], *tokens]  # the newest token is not in the cache yet
            self._prefixes.keep(hash_blocks(row.job.loaded.identity, whole), self._cache.layers, index)

    def _find_end(self, job: Job, tokens: list[int]) -> tuple[str, FinishReason | None, int | str | None]:
        """Text, reason and stop reason if the newest token ends the answer; no reason if it does not."""
        options, last = job.options, tokens[-1]
        by_id = last in options.stop_token_ids
        if by_id or (last in self._end_ids and not options.ignores_eos):
            shown = tokens if options.keeps_stop else tokens[:-1]
            return self._text_of(shown, options.skips_special), "stop", last if by_id else None
        if options.stops:
            text = self._text_of(tokens, options.skips_special)
            if found := find_stop(text, options.stops):
                start, stop = found
                return text[: start + (len(stop) if options.keeps_stop else 0)], "stop", stop
        return "", None, None

    def _text_of(self, tokens: list[int], skip_special: bool) -> str:
        return "" if self._codec is None else self._codec.decode(tokens, skip_special=skip_special)

    def _guide(self, drawn: Tensor, uniforms: Tensor, events: Events) -> bool:
        """Draw again, in `drawn`, for the rows that have a grammar: out of what it allows, by the same numbers.

        Whether there are any.
        """
        alive, is_guided = self._columns.is_alive, False
        for index, row in enumerate(self._rows):
            if row.guide is None or not alive[index]:
                continue
            is_guided = True
            try:
                allowed = torch.from_numpy(row.guide.find_allowed(self._logits.shape[-1])).to(drawn.device)
                knobs = Knobs(*(None if knob is None else knob[index : index + 1] for knob in self._knobs))
                narrowed = self._logits[index : index + 1].masked_fill(~allowed, float("-inf"))
                drawn[index] = sample_tokens(narrowed, uniforms[index : index + 1], knobs)[0][0]
                row.guide.take(int(drawn[index]))
            except EngineError as error:
                self._fail_row(index, error, events)
        return is_guided

    def _fail_row(self, index: int, error: EngineError, events: Events) -> None:
        row = self._rows[index]
        row.job.error = error
        self._columns.is_alive[index] = False
        events[row.job] = []


def _new_columns(rows: list[Row]) -> Columns:
    jobs = [row.job for row in rows]
    options = [job.options for job in jobs]
    count = len(rows)
    width = max(each.max_tokens for each in options) + 1
    prompts = [job.prompts[row.choice // job.options.n] for job, row in zip(jobs, rows, strict=True)]
    return Columns(
        keys=derive_keys((each.seed for each in options), (row.choice for row in rows)),
        positions=np.array([len(prompt) for prompt in prompts], dtype=np.int64),
        counts=np.zeros(count, dtype=np.int64),
        limits=np.array([each.max_tokens for each in options], dtype=np.int64),
        temperature=np.array([each.temperature for each in options], dtype=np.float32),
        top_k=np.array([each.top_k for each in options], dtype=np.int64),
        top_p=np.array([each.top_p for each in options], dtype=np.float32),
        is_alive=np.ones(count, dtype=np.bool_),
        tokens=np.zeros((count, width), dtype=np.int64),
        logprobs=np.zeros((count, width), dtype=np.float32),
    )
