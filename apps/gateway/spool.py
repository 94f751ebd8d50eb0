"""The gateway's write-ahead spool: a directory of segment files a process, one frame a record.

What `append` returned from survives `kill -9` of the process, though not a power cut: the kernel has it, the disk may
not. A gateway that starts makes a directory of its own and holds its lock; what a dead one left is adopted by whoever
finds it unlocked. Names that begin with a dot are half made or already stored, and nobody's.
"""

import contextlib
import fcntl
import logging
import os
import shutil
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, cast
from uuid import uuid4

from apps.gateway.record import Header, Record, SpoolError, pack_records
from tentalis.limits import LIMITS

logger = logging.getLogger(__name__)

SEGMENT_BYTES = 16 * 2**20
LIMIT_BYTES = 2**30
FAILURE_COUNTS_S = 10.0
_FRAME = struct.Struct("<II")  # bytes of the record, their CRC-32
_CHECKED_AT_ONCE = 4096
REJECTED = "rejected"
_LOCK = "lock"
_SUFFIX = ".spool"
_STORED = ".stored-"


class Position(NamedTuple):
    """A place in a spool: number of a segment, and a byte in it."""

    segment: int = 0
    offset: int = 0


class Spooled(NamedTuple):
    """A record as it lies in the spool, and the place behind it."""

    body: bytes
    end: Position


class SpoolDirectory:
    """A spool's directory, held by this process until it is closed or dies; by another where `lock` is None."""

    def __init__(self, path: Path, lock: int | None) -> None:
        self.path = path
        self._lock = lock

    @property
    def name(self) -> str:
        return self.path.name

    def find_segments(self) -> list[int]:
        """Numbers of the segments there are, lowest first."""
        names = [path.name for path in self.path.iterdir()]
        return sorted(int(name[: -len(_SUFFIX)]) for name in names if name.endswith(_SUFFIX))

    def segment_path(self, number: int) -> Path:
        return self.path / f"{number:012}{_SUFFIX}"

    def drop_before(self, position: Position) -> None:
        """Delete the segments that lie wholly before it."""
        for number in self.find_segments():
            if number < position.segment:
                self.segment_path(number).unlink(missing_ok=True)

    def retire(self) -> None:
        """All of it is stored: nobody is to find it again."""
        self.path = self.path.rename(self.path.with_name(_STORED + self.name))

    def release(self) -> None:
        """Let the lock go; another process may adopt what is here."""
        if self._lock is not None:
            os.close(self._lock)


class FileSpool:
    """The end of a spool that is written to; from one thread. See `apps.gateway.record.Spool`.

    Attributes:
        size_bytes: of all spools under the root, as far as this process knows; `measure` corrects it.
    """

    def __init__(
        self, root: Path, *, segment_bytes: int = SEGMENT_BYTES, limit_bytes: int = LIMIT_BYTES, name: str = ""
    ) -> None:
        self.root = root
        self.directory = _make_directory(root, name or f"gateway-{uuid4().hex}")
        self.size_bytes = measure_spools(root)
        self._segment_bytes = segment_bytes
        self._limit_bytes = limit_bytes
        self._syncer = ThreadPoolExecutor(1, thread_name_prefix="spool-sync")
        self._segment = 0
        self._offset = 0
        self._file = self._open_segment()
        self._failed_at_s = float("-inf")

    @property
    def is_full(self) -> bool:
        return self.size_bytes >= self._limit_bytes

    def append(self, header: Header, request: bytes, answer: bytes, *others: Record) -> None:
        """One write. About 20 µs for 8 kB.

        Raises:
            SpoolError: the disk is full or away; nothing of the record is kept.
        """
        records = (Record(header, request, answer), *others)
        try:
            parts = pack_records(records)
        except TypeError:  # a header of the caller's in bytes that are no text
            parts = pack_records(one._replace(header=_make_readable(one.header)) for one in records)
        size, check = 0, 0
        for part in parts:
            size += len(part)
            check = _go_on_checking(part, check)
        frame = _FRAME.pack(size, check)
        whole = size + len(frame)
        try:
            if self._offset and self._offset + whole > self._segment_bytes:
                self._roll()
            written = os.writev(self._file, (frame, *parts))
        except OSError as error:
            self._failed_at_s = time.monotonic()
            raise SpoolError(
                error.errno, f"the spool {self.directory.path} takes no record: {error.strerror}"
            ) from error
        if written != whole:
            self._take_back()
            self._failed_at_s = time.monotonic()
            raise SpoolError(f"the spool {self.directory.path} took {written} of {whole} bytes: the disk is full")
        self._offset += whole
        self.size_bytes += whole

    def find_troubles(self) -> list[str]:
        """Why a record could not be kept if one came now, in words; nothing where it could."""
        if shutil.disk_usage(self.root).free < self._segment_bytes:
            return ["the disk is full: what is answered cannot be recorded"]
        if time.monotonic() - self._failed_at_s < FAILURE_COUNTS_S:
            return ["what was answered could not be recorded a moment ago"]
        return []

    def measure(self) -> None:
        """Count again what lies under the root, after segments were deleted."""
        self.size_bytes = measure_spools(self.root)

    def close(self) -> None:
        """No record comes any more; the directory stays held."""
        os.close(self._file)
        self._syncer.shutdown()

    def _open_segment(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return os.open(self.directory.segment_path(self._segment), flags, 0o600)

    def _roll(self) -> None:
        full = self._file
        self._segment += 1
        try:
            self._file = self._open_segment()
        except OSError:
            self._segment -= 1
            raise
        self._offset = 0
        self._syncer.submit(_sync_and_close, full)

    def _take_back(self) -> None:
        """Cut off what a short write left, or leave it behind as a segment's torn end."""
        try:
            os.ftruncate(self._file, self._offset)
        except OSError:
            self._roll()


class SpoolReader:
    """The end of a spool that is read; from one thread, of any process."""

    def __init__(self, directory: SpoolDirectory, *, is_growing: bool) -> None:
        """`is_growing`: somebody appends to it, so that an unfinished record at its end may yet be finished."""
        self.directory = directory
        self.is_growing = is_growing
        self._opened: tuple[int, int] | None = None

    def read(self, start: Position, *, most_bytes: int, most_records: int) -> list[Spooled]:
        """What lies behind `start`: of one segment, in order; [] at the end.

        A record larger than `most_bytes` comes alone. An unfinished or damaged end is passed over once nothing can be
        added to its segment any more.
        """
        here = start
        while (found := self._read_segment(here, most_bytes, most_records)) is None:
            here = Position(here.segment + 1, 0)
        return found

    def _read_segment(self, here: Position, most_bytes: int, most_records: int) -> list[Spooled] | None:
        """None: nothing more comes from this segment, and there is a later one."""
        numbers = self.directory.find_segments()  # before the read: what a later segment follows is complete
        is_last = not numbers or numbers[-1] <= here.segment
        if here.segment not in numbers:
            return [] if is_last else None
        file = self._open(here.segment)
        size = os.fstat(file).st_size
        data = os.pread(file, min(most_bytes, size - here.offset), here.offset) if size > here.offset else b""
        if len(data) >= _FRAME.size and (first := _FRAME.size + _FRAME.unpack_from(data)[0]) > len(data):
            data = os.pread(file, first, here.offset) if first <= size - here.offset else data
        records = _split_frames(data, here, most_records)
        if records or (is_last and self.is_growing):
            return records
        if size > here.offset:
            path = self.directory.segment_path(here.segment)
            logger.warning("%s: %d bytes from %d on are no whole record", path, size - here.offset, here.offset)
        return [] if is_last else None

    def close(self) -> None:
        if self._opened is not None:
            os.close(self._opened[1])
            self._opened = None

    def _open(self, segment: int) -> int:
        if self._opened is None or self._opened[0] != segment:
            self.close()
            self._opened = segment, os.open(self.directory.segment_path(segment), os.O_RDONLY | os.O_CLOEXEC)
        return self._opened[1]


def adopt_orphans(root: Path) -> list[SpoolDirectory]:
    """Take hold of every spool whose process is gone, oldest first."""
    found = sorted((path for path in root.iterdir() if _is_spool(path)), key=lambda path: path.stat().st_ctime)
    return [held for path in found if (held := _hold(path)) is not None]


def find_followed(root: Path, beginning: str) -> list[SpoolDirectory]:
    """Spools whose names begin so, whoever holds them; none where `beginning` is ""."""
    found = sorted(root.glob(f"{beginning}*")) if beginning else ()
    return [SpoolDirectory(path, None) for path in found if _is_spool(path)]


def measure_ends(root: Path, beginning: str) -> dict[str, Position]:
    """Of the spools whose names begin so: where the last record ends that was kept there."""
    ends = {}
    for directory in find_followed(root, beginning):
        with contextlib.suppress(FileNotFoundError):  # all of it was stored meanwhile
            if segments := directory.find_segments():
                size = directory.segment_path(segments[-1]).stat().st_size
                ends[directory.name] = Position(segments[-1], size)
    return ends


def keep_aside(root: Path, body: bytes) -> Path | None:
    """Append a record that could not be stored to a file beside the spools, in their format.

    Returns:
        The file; None where it has grown so large that this one is not kept.
    """
    path = root / REJECTED
    if find_rejected(root) + len(body) > LIMITS.set_aside_bytes:
        return None
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "ab") as file:
        os.fchmod(file.fileno(), 0o600)  # one that an earlier version made was for everybody to read
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(_FRAME.pack(len(body), zlib.crc32(body)) + body)
    return path


def drop_rejected(root: Path, is_unwanted: Callable[[bytes], bool]) -> int:
    """Take records out of that file again; how many. What cannot be read is one of them."""
    try:
        file = (root / REJECTED).open("r+b")
    except FileNotFoundError:
        return 0
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        data = file.read()
        records = _split_frames(data, Position(), len(data))
        kept = [one.body for one in records if not is_unwanted(one.body)]
        whole = b"".join(_FRAME.pack(len(body), zlib.crc32(body)) + body for body in kept)
        if len(whole) == len(data):
            return 0
        file.seek(0)
        file.write(whole)
        file.truncate()
        os.fsync(file.fileno())
    if not whole:
        (root / REJECTED).unlink(missing_ok=True)
    return len(records) - len(kept)


def drop_old_rejected(root: Path, *, kept_s: float) -> int:
    """Empty that file when nothing joined it for so long; bytes that went."""
    try:
        file = (root / REJECTED).open("r+b")
    except FileNotFoundError:
        return 0
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        status = os.fstat(file.fileno())
        if not status.st_size or status.st_mtime > time.time() - kept_s:
            return 0
        file.truncate(0)
        os.fsync(file.fileno())
    return status.st_size


def find_rejected(root: Path) -> int:
    """Bytes of the records that could not be stored; 0 without any."""
    try:
        return (root / REJECTED).stat().st_size
    except FileNotFoundError:
        return 0


def sweep_stored(root: Path) -> Iterator[str]:
    """Names of spools that were stored; each is deleted when the next is asked for, once its row may be gone."""
    for path in root.glob(f"{_STORED}*"):
        yield path.name.removeprefix(_STORED)
        shutil.rmtree(path, ignore_errors=True)


def measure_spools(root: Path) -> int:
    """Bytes of all segments under the root."""
    size = 0
    for path in root.glob(f"[!.]*/*{_SUFFIX}"):
        with contextlib.suppress(FileNotFoundError):
            size += path.stat().st_size
    return size


def _make_directory(root: Path, name: str) -> SpoolDirectory:
    """Made under a name that nobody looks at, so that it is locked from its first moment on."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    hidden = root / f".new-{name}"
    hidden.mkdir(mode=0o700)
    held = _hold(hidden)
    if held is None:
        raise SpoolError(f"{hidden} was made here and is held by another process")
    held.path = hidden.rename(root / name)
    return held


def _hold(path: Path) -> SpoolDirectory | None:
    """Its lock, or None where a living process has it or just deleted it."""
    try:
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if (path / _LOCK).stat().st_ino == os.fstat(lock).st_ino:
            return SpoolDirectory(path, lock)
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(lock)
    return None


def _is_spool(path: Path) -> bool:
    return not path.name.startswith(".") and path.is_dir()


def _split_frames(data: bytes, start: Position, most_records: int) -> list[Spooled]:
    """Whole and undamaged records from the beginning of `data`, which lies at `start`."""
    records: list[Spooled] = []
    place = 0
    while len(records) < most_records and place + _FRAME.size <= len(data):
        size, check = _FRAME.unpack_from(data, place)
        body = data[place + _FRAME.size : place + _FRAME.size + size]
        if not size or len(body) != size or zlib.crc32(body) != check:
            break
        place += _FRAME.size + size
        records.append(Spooled(body, Position(start.segment, start.offset + place)))
    return records


def _make_readable(header: Header) -> Header:
    readable = {
        name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for name, value in header.items()
    }
    return cast(Header, readable)


def _go_on_checking(part: bytes, check: int) -> int:
    """CRC-32, a little at a time: for much at once zlib lets go of the interpreter, and it takes longer to get back."""
    if len(part) <= _CHECKED_AT_ONCE:
        return zlib.crc32(part, check)
    view = memoryview(part)
    for start in range(0, len(part), _CHECKED_AT_ONCE):
        check = zlib.crc32(view[start : start + _CHECKED_AT_ONCE], check)
    return check


def _sync_and_close(file: int) -> None:
    try:
        os.fsync(file)
    finally:
        os.close(file)
