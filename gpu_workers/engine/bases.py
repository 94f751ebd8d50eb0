"""The base models of one server: the first from its start, others read from a directory when somebody asks for them."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import astuple, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from gpu_workers.engine.batch import Events
from gpu_workers.engine.checkpoint import EMBEDDING, HEAD, read_config, read_heads, weight_files
from gpu_workers.engine.engine import Engine
from gpu_workers.engine.errors import EngineError, UnknownModelError
from gpu_workers.engine.jobs import Job
from gpu_workers.engine.models import LoadedModel, name_taken
from gpu_workers.engine.products import SMALL_NUMBERS
from gpu_workers.engine.scheduler import Tally
from gpu_workers.engine.served import Served
from tentalis.core.sizes import say_bytes

NUMBER_BYTES = 4
"""Of a weight, whatever its file holds: in bfloat16 it is fewer."""
BUSY_RETRY_S = 5
_DRAIN_S = 5.0
logger = logging.getLogger(__name__)


class ModelTooLargeError(EngineError):
    """A base model that has no room in the memory that models may take."""

    status = 507
    kind = "invalid_request_error"
    code = "model_too_large"


class MemoryBusyError(EngineError):
    """A base model that would have room if others did not answer just now."""

    status = 503
    code = "memory_busy"


@dataclass(eq=False)
class _Kept:
    """A model of the directory.

    Args:
        size_bytes: of its weights in memory; 0: not known yet.
        adapters, heads: name -> directory of what was loaded on it; they come back with it.
        engine: None while it is not in memory. opening: while it is read, for all who wait for it; it is read to the
            end even if they leave.
        users: requests that it answers; used_s: when the last one ended.
    """

    name: str
    directory: Path
    size_bytes: int = 0
    adapters: dict[str, Path] = field(default_factory=dict)
    heads: dict[str, Path] = field(default_factory=dict)
    engine: Served | None = None
    opening: asyncio.Task[Served] | None = None
    users: int = 0
    used_s: float = 0.0


class Bases:
    """Who answers for which model name. All of it is called in one event loop."""

    def __init__(self, first: Served, *, kept_in: Path | None = None, most_bytes: int = 0, **settings: Any) -> None:
        """
        Args:
            first: answers from the start to the end, and for every name that no other has.
            kept_in: a directory of model directories; each is read when its name is asked for. None: there are none.
            most_bytes: that the weights of those may take together; who was asked longest ago makes room.
            settings: of each `Engine`.
        """
        self.first = first
        self._root = kept_in
        self._most_bytes = most_bytes
        self._settings = settings
        self._kept: dict[str, _Kept] = {}
        self._room = asyncio.Lock()
        self._gone = Tally()
        self._publish: Callable[[Events], None] = lambda _: None

    def start(self, publish: Callable[[Events], None]) -> None:
        """Let the first one answer; `publish` is called in an engine's thread with what changed."""
        self._publish = publish
        self.first.publish = publish
        self.first.start()
        self._share_memory()

    def stop(self, *, drain_s: float) -> bool:
        """Refuse new requests and let the running ones end; whether all did in time."""
        until_s = time.monotonic() + drain_s
        ended = [one.stop(drain_s=max(until_s - time.monotonic(), 0.1)) for one in self.loaded()]  # each is told
        return all(ended)

    def loaded(self) -> Iterator[Served]:
        """Those in memory."""
        yield self.first
        yield from (one.engine for one in self._kept.values() if one.engine is not None)

    def count_up(self) -> Tally:
        """What all of them did since the start, those that are in memory no more among them."""
        return _add_up([self._gone, *(one.scheduler.tally for one in self.loaded())])

    def list_cards(self) -> Iterator[dict[str, Any]]:
        """What can be asked for, as vLLM's GET /v1/models; a base that is not in memory is read when it is."""
        yield from _list_loaded(self.first)
        for one in self._look_up().values():
            if one.engine is not None:
                yield from _list_loaded(one.engine)
                continue
            with suppress(EngineError):
                longest = read_config(one.directory).get("max_position_embeddings")
                card = {"root": str(one.directory), "parent": None, "max_model_len": longest, "fingerprint": ""}
                yield {"id": one.name, **card}
                for name, directory in one.adapters.items():
                    yield {"id": name, **card, "root": str(directory), "parent": one.name}

    @asynccontextmanager
    async def hold(self, name: object) -> AsyncIterator[Served]:
        """Who answers for a model name, read from the disk if need be; it stays while it is held.

        Raises:
            ModelUnreadableError, ModelTooLargeError, MemoryBusyError: it cannot be had.
        """
        kept = self._find(name)
        if kept is None:
            yield self.first
            return
        kept.users += 1
        try:
            yield kept.engine or await self._wait_for(kept)
        finally:
            kept.users -= 1
            kept.used_s = time.monotonic()

    @asynccontextmanager
    async def hold_for(self, directory: Path) -> AsyncIterator[Served]:
        """Whose base an adapter or a step scorer was made for, by what its directory says; the first where that says
        no other."""
        async with self.hold(self._name_base(directory)) as engine:
            yield engine

    @asynccontextmanager
    async def hold_head(self, name: str) -> AsyncIterator[Served]:
        """Who has a step scorer loaded; the first, where nobody has."""
        kept = next((one for one in self._kept.values() if name in one.heads), None)
        async with self.hold(kept.name if kept else None) as engine:
            yield engine

    def require_free(self, engine: Served, name: str) -> None:
        """Raises AdapterRefusedError where a name is another base's, or that of an adapter of another."""
        owners = [one.engine for one in self._look_up().values() if name == one.name or name in one.adapters]
        if name in self.first.models.now():
            owners.append(self.first)
        if any(owner is not engine for owner in owners):
            raise name_taken(name, param="lora_name")

    def note(self, engine: Served, name: str, directory: Path | None, *, is_head: bool = False) -> None:
        """Remember what was loaded on an engine, so that it comes back with its base; None forgets it."""
        kept = next((one for one in self._kept.values() if one.engine is engine), None)
        if kept is None:
            return
        loaded = kept.heads if is_head else kept.adapters
        if directory is None:
            loaded.pop(name, None)
        else:
            loaded[name] = directory

    def forget(self, name: str) -> bool:
        """Unload an adapter of a base that is not in memory, which need not be read for that; whether it is of one."""
        away = (one for one in self._kept.values() if one.engine is None and one.opening is None)
        return any(one.adapters.pop(name, None) is not None for one in away)

    def _find(self, name: object) -> _Kept | None:
        if self._root is None or not isinstance(name, str) or not name or name in self.first.models.now():
            return None
        found = self._kept.get(name) or next((one for one in self._kept.values() if name in one.adapters), None)
        if found is None and (found := self._look_up().get(name)) is None:
            known = ", ".join([*self.first.models.now(), *self._kept])
            raise UnknownModelError(f"no model {name!r} is served; there are {known}", param="model")
        return found

    def _look_up(self) -> Mapping[str, _Kept]:
        """What is kept now; one that is gone and not in memory is forgotten."""
        if self._root is None:
            return {}
        there = {path.name: path for path in sorted(self._root.glob("*/")) if (path / "config.json").is_file()}
        for name in [name for name, one in self._kept.items() if name not in there and not (one.engine or one.opening)]:
            del self._kept[name]
        for name, path in there.items():
            self._kept.setdefault(name, _Kept(name, path))
        return self._kept

    def _name_base(self, directory: Path) -> str | None:
        for file, key in (("manifest.json", "base_model"), ("adapter_config.json", "base_model_name_or_path")):
            with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
                told = Path(json.loads((directory / file).read_bytes())[key])
                for one in self._look_up().values():
                    if told.resolve() == one.directory.resolve() or str(told) == one.name:
                        return one.name
                return None
        return None

    async def _wait_for(self, kept: _Kept) -> Served:
        """Until it is read. Who gives up stops no thread that reads: the next one waits for the same reading."""
        if kept.opening is None:
            kept.opening = asyncio.create_task(self._open(kept))
            kept.opening.add_done_callback(partial(_end_opening, kept))
        return await asyncio.shield(kept.opening)

    async def _open(self, kept: _Kept) -> Served:
        """Read it, with what was loaded on it."""
        async with self._room:
            kept.size_bytes = await asyncio.to_thread(count_bytes, kept.directory)
            await self._make_room(kept)
            started = time.monotonic()
            engine = await asyncio.to_thread(Engine.open, str(kept.directory), name=kept.name, **self._settings)
            await asyncio.to_thread(_load_again, engine, kept)
            engine.publish = self._publish
            engine.start()
            kept.engine = engine
            self._share_memory()
        logger.info(
            "read %s (%s) in %.1f s; it computes in %s on %s",
            *(kept.name, say_bytes(kept.size_bytes), time.monotonic() - started, engine.computes_in, engine.device),
        )
        return engine

    async def _make_room(self, wanted: _Kept) -> None:
        if wanted.size_bytes > self._most_bytes:
            raise ModelTooLargeError(
                f"{wanted.name!r} takes {say_bytes(wanted.size_bytes)} of memory; kept models may take "
                f"{say_bytes(self._most_bytes)} together (TENTALIS_ENGINE_MEMORY_MIB)",
                param="model",
            )
        while sum(one.size_bytes for one in self._open_ones()) + wanted.size_bytes > self._most_bytes:
            idle = [one for one in self._open_ones() if not one.users]
            if not idle:
                answering = ", ".join(one.name for one in self._open_ones())
                raise MemoryBusyError(
                    f"no room for {wanted.name!r} while {answering} answer", retry_after_s=BUSY_RETRY_S
                )
            oldest = min(idle, key=lambda one: one.used_s)
            engine, oldest.engine = oldest.engine, None
            if engine is not None:
                await asyncio.to_thread(_stop, engine)
                self._gone = _add_up([self._gone, engine.scheduler.tally])
                self._share_memory()
            logger.info("%s made room for %s", oldest.name, wanted.name)

    def _share_memory(self) -> None:
        """Leave to what is kept of prompts what the weights leave, to each engine as much."""
        if self._root is None:
            return
        engines = [one for one in self.loaded() if isinstance(one, Engine)]
        left = self._most_bytes - sum(one.size_bytes for one in self._open_ones())
        for engine in engines:
            engine.scheduler.limit_prefixes(max(0, left) // len(engines))

    def _open_ones(self) -> Sequence[_Kept]:
        return [one for one in self._kept.values() if one.engine is not None]


def count_bytes(directory: Path) -> int:
    """What a model's weights take in memory at most, by the heads of its files.

    An embedding that is the output layer too is there twice, if the model is no small one: as it is stored, and laid
    out for products.

    Raises:
        ModelUnreadableError: there are none.
    """
    heads = read_heads(weight_files(directory))
    numbers, embedding = sum(one.numbers for one in heads.values()), 0
    if (one := heads.get(EMBEDDING)) is not None:
        embedding = one.numbers * (2 if one.dtype in ("BF16", "F16") else NUMBER_BYTES)
    is_twice = HEAD not in heads and numbers > SMALL_NUMBERS
    return numbers * NUMBER_BYTES + (embedding if is_twice else 0)


def cancel(engine: Served, job: Job) -> None:
    """Have an engine leave a job's rows."""
    job.is_cancelled = True
    engine.scheduler.wake()


def _end_opening(kept: _Kept, opening: asyncio.Task[Served]) -> None:
    """A failure is told to those who wait, and to the log if nobody does; the next one tries again."""
    kept.opening = None
    if not opening.cancelled() and (error := opening.exception()) is not None and not kept.users:
        logger.warning("%s was not read: %s", kept.name, error)


def _stop(engine: Served) -> None:
    engine.stop(drain_s=_DRAIN_S)


def _add_up(tallies: Sequence[Tally]) -> Tally:
    return Tally(*(sum(column) for column in zip(*(astuple(one) for one in tallies), strict=True)))


def _load_again(engine: Engine, kept: _Kept) -> None:
    for load, loaded in ((engine.load_adapter, kept.adapters), (engine.load_head, kept.heads)):
        for name, directory in list(loaded.items()):
            try:
                load(name, directory)
            except EngineError as error:  # who asks for it is told that it is not served, and whoever wants it loads it
                del loaded[name]
                logger.warning("%s is not served any more: %s", name, error)


def _list_loaded(engine: Served) -> Iterator[dict[str, Any]]:
    for name, loaded in engine.models.now().items():
        yield _write_card(name, loaded, engine.base)


def _write_card(name: str, loaded: LoadedModel, base: LoadedModel) -> dict[str, Any]:
    return {
        "id": name,
        "root": loaded.path,
        "parent": None if loaded is base else base.name,
        "max_model_len": loaded.model.context_length,
        "fingerprint": loaded.fingerprint,
    }
