"""A tree as a stream of bytes, where no directory is shared: holes stay holes, and one file under two names stays one.

Both ends are inside a sandbox. Whoever carries the stream keeps and counts it, and looks at nothing in it.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tentalis.sandbox.frames import pack, take_frame

PIECE_BYTES: Final = 2**18
ENTRY_COSTS_BYTES: Final = 8_192
"""What an entry without content takes at the most: names and targets of 4,096 bytes are rare, and so are wild ones."""
_FLAGS: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def pack_trees(tops: Sequence[str]) -> Iterator[bytes]:
    """What lies beneath these directories, while nothing in them moves."""
    linked: dict[tuple[int, int], str] = {}
    for top in tops:
        yield from _pack_entries(Path(top), linked)
    yield pack({"kind": "end"})


def _pack_entries(place: Path, linked: dict[tuple[int, int], str]) -> Iterator[bytes]:
    for entry in sorted(os.scandir(place), key=lambda entry: entry.name):
        yield from _pack_entry(Path(entry.path), linked)


def _pack_directory(place: Path, linked: dict[tuple[int, int], str]) -> Iterator[bytes]:
    found = place.lstat()
    readable = stat.S_IMODE(found.st_mode) | stat.S_IRWXU
    if readable != stat.S_IMODE(found.st_mode):
        place.chmod(readable)  # its owner may, and what moves in it is stopped
    yield pack({"kind": "directory", **_told(place, found)})
    yield from _pack_entries(place, linked)
    if readable != stat.S_IMODE(found.st_mode):
        place.chmod(stat.S_IMODE(found.st_mode))


def _pack_entry(path: Path, linked: dict[tuple[int, int], str]) -> Iterator[bytes]:
    found = path.lstat()
    if stat.S_ISDIR(found.st_mode):
        yield from _pack_directory(path, linked)
    elif stat.S_ISLNK(found.st_mode):
        yield pack({"kind": "link", **_told(path, found), "target": str(path.readlink())})
    elif stat.S_ISFIFO(found.st_mode):
        yield pack({"kind": "pipe", **_told(path, found)})
    elif stat.S_ISREG(found.st_mode):
        first = linked.setdefault((found.st_dev, found.st_ino), str(path)) if found.st_nlink > 1 else str(path)
        if first != str(path):
            yield pack({"kind": "again", **_told(path, found), "target": first})
        else:
            yield from _pack_file(path, found)
    # sockets have nobody behind them in a copy, and devices are none of a sandbox's


def _pack_file(path: Path, found: os.stat_result) -> Iterator[bytes]:
    mode = stat.S_IMODE(found.st_mode)
    if not mode & stat.S_IRUSR:
        path.chmod(mode | stat.S_IRUSR)
    descriptor = os.open(path, os.O_RDONLY | _FLAGS)
    try:
        yield pack({"kind": "file", **_told(path, found), "size": found.st_size})
        place = 0
        while place < found.st_size:
            try:
                place = os.lseek(descriptor, place, os.SEEK_DATA)
            except OSError:  # nothing but a hole until its end
                break
            end = min(os.lseek(descriptor, place, os.SEEK_HOLE), found.st_size)
            while place < end:
                piece = os.pread(descriptor, min(end - place, PIECE_BYTES), place)
                if not piece:
                    break
                yield pack({"kind": "piece", "at": place}, piece)
                place += len(piece)
    finally:
        os.close(descriptor)
        if not mode & stat.S_IRUSR:
            path.chmod(mode)


def _told(path: Path, found: os.stat_result) -> dict[str, Any]:
    return {"path": str(path), "mode": stat.S_IMODE(found.st_mode), "changed_ns": found.st_mtime_ns}


@dataclass
class Unpacking:
    """Lays the stream out again, piece by piece as it comes."""

    _buffer: bytearray = field(default_factory=bytearray)
    _directories: list[dict[str, Any]] = field(default_factory=list)
    _file: tuple[int, dict[str, Any]] | None = None

    def feed(self, data: bytes) -> None:
        self._buffer += data
        while frame := take_frame(self._buffer):
            self._lay(*frame)

    def _lay(self, head: dict[str, Any], payload: bytes) -> None:
        if head["kind"] == "piece" and self._file:
            os.pwrite(self._file[0], payload, head["at"])
            return
        self._end_file()
        if head["kind"] == "end":
            for told in reversed(self._directories):
                self._settle(told["path"], told)
            self._directories.clear()
            return
        path = Path(head["path"])
        if head["kind"] == "directory":
            path.mkdir(mode=0o700, exist_ok=True)
            self._directories.append(head)
        elif head["kind"] == "link":
            path.symlink_to(head["target"])
        elif head["kind"] == "again":
            path.hardlink_to(head["target"])
        elif head["kind"] == "pipe":
            os.mkfifo(path)
            self._settle(path, head)
        elif head["kind"] == "file":
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600), head

    def _end_file(self) -> None:
        if self._file:
            descriptor, head = self._file
            self._file = None
            os.ftruncate(descriptor, head["size"])
            os.close(descriptor)
            self._settle(head["path"], head)

    def _settle(self, path: str | Path, head: dict[str, Any]) -> None:
        Path(path).chmod(head["mode"])
        os.utime(path, ns=(head["changed_ns"], head["changed_ns"]))
