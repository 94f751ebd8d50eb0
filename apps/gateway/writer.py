"""The thread that carries a spool into Postgres, a moment behind it, each record exactly once.

A batch's rows and the place behind it in the spool are one transaction, and the place moves only from where this
process believes it to be: whoever wrote the same records first has moved it, and the batch is dropped. While Postgres
is away the spool is the buffer. A record that can never be stored is set aside in a file, and the rest goes on.
"""

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg

from apps.conversations.forgotten import ErasedPerson
from apps.gateway.batches import Move, MovedError, Store
from apps.gateway.capture import Captured, FindRates, capture
from apps.gateway.record import Record, unpack_records
from apps.gateway.rows import read_end
from apps.gateway.spool import (
    FileSpool,
    Position,
    SpoolDirectory,
    Spooled,
    SpoolReader,
    adopt_orphans,
    drop_old_rejected,
    drop_rejected,
    find_followed,
    find_rejected,
    keep_aside,
    sweep_stored,
)

logger = logging.getLogger(__name__)

PAUSE_S = 0.06
"""Between two batches: a batch costs as much as a dozen records, and the spool keeps what waits."""
LOOK_EVERY_S = 5.0
CLOCK_STEP_S = 2.0
"""A record from further ahead than that was made before the clock was set back, and is not waited for."""
BATCH_RECORDS = 512
BATCH_BYTES = 4 * 2**20
PATIENCE_S = (0.1, 2.0)
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What capturing a record raises that another version wrote, or nobody thought of."""
_REFUSED = (
    *_UNREADABLE,
    psycopg.IntegrityError,
    psycopg.DataError,
    psycopg.NotSupportedError,
    psycopg.errors.ProgramLimitExceeded,
    psycopg.errors.StatementTooComplex,
)
"""What says of rows that they can never be stored; anything else is the database's state, which may change."""


@dataclass
class Source:
    """A spool that is carried over, and how far it is; None: not asked for yet."""

    reader: SpoolReader
    position: Position | None = None

    @property
    def directory(self) -> SpoolDirectory:
        return self.reader.directory


Batch = Sequence[tuple[Source, Spooled]]
"""Records in the order in which they are to be stored, with where they come from."""


class Writer:
    """Carries over the process's own spool, and those that dead processes left under the same root.

    Args:
        follows: how the names of spools begin that living processes write to and this one carries over; "": none.
        look_every_s: between two looks for spools to follow, and for those of the dead.
        rejected_kept_s: what could not be stored goes when nothing joined it for so long.

    Attributes:
        stored_count, rejected_count: records carried over, and set aside, since the start.
    """

    def __init__(
        self,
        spool: FileSpool,
        conninfo: str,
        *,
        find_rates: FindRates | None = None,
        follows: str = "",
        pause_s: float = PAUSE_S,
        look_every_s: float = LOOK_EVERY_S,
        rejected_kept_s: float = float("inf"),
    ) -> None:
        self._spool = spool
        self._store = Store(conninfo)
        self._find_rates = find_rates
        self._pause_s = pause_s
        self._look_every_s = look_every_s
        self._rejected_kept_s = rejected_kept_s
        self._own = Source(SpoolReader(spool.directory, is_growing=True))
        self._follows = follows
        self._followed: dict[str, Source] = {}
        self._adopted: list[Source] = []
        self._look_again_at_s = float("-inf")
        self._stopping = threading.Event()
        self._give_up_at_s = float("inf")
        self._thread = threading.Thread(target=self._run, name="spool-writer", daemon=True)
        self.stored_count = 0
        self.rejected_count = 0
        self._forgotten_id = 0
        self._is_behind = False

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def find_troubles(self) -> list[str]:
        """Why records do not reach the database, in words; nothing where they do."""
        return [] if self.is_alive else ["the writer of exchanges is not running: they wait in the spool"]

    @property
    def gauges(self) -> dict[str, tuple[str, Callable[[], float]]]:
        """What is measured of it; what was set aside is a person's to look at, and nothing waits for it."""
        root = self._spool.root
        return {
            "set_aside": ("Records that could not be stored since the start.", lambda: self.rejected_count),
            "set_aside_bytes": ("Records that could not be stored, in spool/rejected.", lambda: find_rejected(root)),
            "stored": ("Records stored since the start.", lambda: self.stored_count),
        }

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, timeout_s: float = 10.0) -> None:
        """Carry over what is left, as far as time allows, and let go of the spools; after the last `append`.

        What is left then is adopted by the next process.
        """
        self._give_up_at_s = time.monotonic() + timeout_s
        self._own.reader.is_growing = False
        self._look_again_at_s = float("-inf")  # those who were followed may be gone
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        wait_s = PATIENCE_S[0]
        is_done = False
        while not is_done and time.monotonic() < self._give_up_at_s:
            is_last = self._stopping.is_set()
            try:
                has_moved = self._carry_all()
                is_done = is_last and not has_moved
                wait_s = PATIENCE_S[0]
                if not self._is_behind:
                    self._stopping.wait(self._pause_s)
            except (psycopg.Error, OSError) as error:
                logger.warning("exchanges wait in the spool: %s", str(error).strip() or type(error).__name__)
                self._store.forget()
                for source in (self._own, *self._followed.values(), *self._adopted):
                    source.position = None
                time.sleep(wait_s)
                wait_s = min(PATIENCE_S[1], wait_s * 2)
        self._let_go(is_done=is_done)

    def _carry_all(self) -> bool:
        """A batch of what lies in the spools; whether there was any."""
        began = time.time()
        if time.monotonic() >= self._look_again_at_s:
            self._look_for_others()
        known = {*self._followed, *(source.directory.name for source in self._adopted)}
        for directory in find_followed(self._spool.root, self._follows):
            if directory.name not in known:
                self._followed[directory.name] = Source(SpoolReader(directory, is_growing=True))
        batches = [
            (source, batch)
            for source in (self._own, *self._followed.values(), *self._adopted)
            if (batch := self._read(source))
        ]
        self._is_behind = any(_is_full(batch) for _, batch in batches)
        for source in list(self._adopted):
            if not any(source is one for one, _ in batches):
                self._retire(source)
                self._adopted.remove(source)
        found = _put_in_order(batches, began) if self._followed or len(batches) > 1 else _flatten(batches)
        if found:
            self._carry(found)
        return bool(batches)

    def _read(self, source: Source) -> list[Spooled]:
        if source.position is None:
            source.position = self._store.read_position(source.directory.name)
        return source.reader.read(source.position, most_bytes=BATCH_BYTES, most_records=BATCH_RECORDS)

    def _carry(self, found: Batch) -> None:
        sources = list({id(source): source for source, _ in found}.values())
        before = [source.position for source in sources]
        try:
            self._write_batch(found)
        except MovedError as error:
            logger.info("%s", error)
            for source in sources:
                source.position = None
        for source, start in zip(sources, before, strict=True):
            if source.position is not None and start is not None and source.position.segment > start.segment:
                source.directory.drop_before(source.position)
                self._spool.measure()

    def _write_batch(self, found: Batch) -> None:
        try:
            self._write(found)
        except _REFUSED as error:
            logger.info("a batch of %d records was refused (%s); one by one", len(found), str(error).strip())
            for one in found:
                self._write_alone(one)

    def _write(self, found: Batch) -> None:
        captured: list[Captured] = []
        for _, spooled in found:
            captured += self._capture(spooled)
        self._move(captured, found)
        self.stored_count += len(found)

    def _write_alone(self, one: tuple[Source, Spooled]) -> None:
        """As `_write`, with nothing remembered: what was may be what Postgres refused."""
        self._store.forget()
        try:
            self._write([one])
        except _REFUSED as error:
            self._store.forget()
            self._reject(one[1], str(error).strip())
            self._move([], [one])

    def _move(self, captured: Sequence[Captured], found: Batch) -> None:
        ends = {id(source): (source, spooled.end) for source, spooled in found}.values()
        self._store.write(
            captured, [Move(source.directory.name, source.position or Position(), end) for source, end in ends]
        )
        for source, end in ends:
            source.position = end

    def _capture(self, spooled: Spooled) -> list[Captured]:
        try:
            return [one for record in unpack_records(spooled.body) for one in capture(record, self._find_rates)]
        except _UNREADABLE as error:
            self._reject(spooled, f"{type(error).__name__}: {error}")
            return []

    def _reject(self, spooled: Spooled, reason: str) -> None:
        path = keep_aside(self._spool.root, spooled.body)
        self.rejected_count += 1
        logger.error("an exchange cannot be stored and is %s: %s", f"kept in {path}" if path else "dropped", reason)

    def _look_for_others(self) -> None:
        self._look_again_at_s = time.monotonic() + self._look_every_s
        for directory in adopt_orphans(self._spool.root):
            logger.info("carrying over the spool %s, whose gateway is gone", directory.name)
            if (source := self._followed.pop(directory.name, None)) is not None:
                source.reader.close()
            self._adopted.append(Source(SpoolReader(directory, is_growing=False)))
        for name in sweep_stored(self._spool.root):
            self._store.drop_position(name)
        self._forget_rejected()
        if size_bytes := drop_old_rejected(self._spool.root, kept_s=self._rejected_kept_s):
            logger.warning("%d bytes of what could not be stored are kept no longer", size_bytes)
        self._spool.measure()

    def _forget_rejected(self) -> None:
        """Take out of what could not be stored what was said by people who were forgotten since."""
        if not find_rejected(self._spool.root):
            return
        forgotten = self._store.read_forgotten(after=self._forgotten_id)
        if forgotten and (count := drop_rejected(self._spool.root, lambda body: _is_theirs(body, forgotten))):
            logger.info("%d records of people who were forgotten are dropped from what could not be stored", count)
        self._forgotten_id = max((one.id for one in forgotten), default=self._forgotten_id)

    def _retire(self, source: Source) -> None:
        """All of it is stored: delete it, then what is known of it."""
        source.reader.close()
        name = source.directory.name
        source.directory.retire()
        with contextlib.suppress(psycopg.Error):  # whoever looks for orphans next drops it
            for stored in sweep_stored(self._spool.root):
                self._store.drop_position(stored)
        source.directory.release()
        logger.info("the spool %s is stored", name)

    def _let_go(self, *, is_done: bool) -> None:
        if is_done:
            self._retire(self._own)
        else:
            self._own.reader.close()
            self._own.directory.release()
        for source in self._adopted:
            source.reader.close()
            source.directory.release()
        for source in self._followed.values():
            source.reader.close()
        self._store.close()


def _is_full(batch: Sequence[Spooled]) -> bool:
    """Whether more may lie behind it."""
    return len(batch) == BATCH_RECORDS or sum(len(spooled.body) for spooled in batch) > BATCH_BYTES // 2


def _flatten(batches: Sequence[tuple[Source, Sequence[Spooled]]]) -> Batch:
    return [(source, spooled) for source, batch in batches for spooled in batch]


def _put_in_order(batches: Sequence[tuple[Source, Sequence[Spooled]]], began: float) -> Batch:
    """Records of several spools in the order in which they were kept, so that no turn stands before the one it answers.

    What was kept after `began` is left for the next time, since something that came before it may have been added to a
    spool that was read already; so is what came after the end of a batch that was cut short.
    """
    timed: list[tuple[float, Source, Spooled]] = []
    cut = float("inf")
    for source, batch in batches:
        at = 0.0
        for spooled in batch:
            at = max(at, _read_end(spooled.body))
            timed.append((at, source, spooled))
        if _is_full(batch):
            cut = min(cut, at)
    timed.sort(key=lambda one: one[0])  # as they lie, where the time is the same
    return [(source, spooled) for at, source, spooled in timed if at <= cut and not 0 < at - began < CLOCK_STEP_S]


def _read_end(body: bytes) -> float:
    """When a record was made, in seconds since the epoch; 0.0 of one that cannot be read."""
    try:
        return max(read_end(record.header) for record in unpack_records(body))
    except _UNREADABLE:
        return 0.0


def _is_theirs(body: bytes, forgotten: Sequence[ErasedPerson]) -> bool:
    """Whether a record was made by somebody forgotten; one that cannot be read cannot be shown not to be."""
    try:
        records = unpack_records(body)
        header = records[0].header  # of the others as well: they were asked the same
        project, at, session, agent = header["project"], header["at"], header["session"], header["agent"]
        end_user = header["end_user"]
        words = " ".join(map(_read_words, records))
        return any(
            one.covers(project=project, at=at, session=session, agent=agent, end_user=end_user, tell=lambda: words)
            for one in forgotten
        )
    except _UNREADABLE:
        return True


def _read_words(record: Record) -> str:
    """All of a record as text, JSON's escapes and a stream's cuts undone as far as that goes."""
    words = [
        json.dumps([one.messages, one.request, one.text, one.reasoning, one.error], ensure_ascii=False)
        for one in capture(record)
    ]
    raw = b" ".join([record.request, record.answer]).decode("utf-8", "replace")
    return " ".join([*words, raw, record.header["session"], record.header["end_user"]])
