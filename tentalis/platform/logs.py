"""The log files of the services: each its own, kept to a size, and read back for `tentalis logs`."""

import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tentalis.platform.errors import NotRunningError, UnknownServiceError
from tentalis.platform.home import Home

MAX_SIZE_BYTES = 10 * 2**20
KEPT_FILES = 3
FOLLOW_INTERVAL_S = 0.2
TAIL_BLOCK_BYTES = 64 * 2**10
ERROR = re.compile(r"(ERROR|model|[\w.]+(Error|Exception)): ")
"""How pip, our own reader of models, Django and a traceback's end begin; what follows in further lines explains it."""


def open_log(path: Path) -> int:
    """A descriptor that appends: a child writes to it directly, so that no line is lost when the supervisor dies."""
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def rotate_log(path: Path, *, max_size_bytes: int = MAX_SIZE_BYTES, kept: int = KEPT_FILES) -> bool:
    """Copy a file that grew too large to `.1` (which moves to `.2`, …) and empty it. True when it was done.

    The writers keep their descriptors, so the file is emptied rather than moved; a line written between the copy and
    the cut is lost.

    Raises:
        OSError: the disk has no room for the copy; nothing is lost of what was there.
    """
    try:
        if path.stat().st_size < max_size_bytes:
            return False
    except FileNotFoundError:
        return False
    copy = path.with_name(f"{path.name}.0")
    try:
        shutil.copyfile(path, copy)
    except OSError:
        copy.unlink(missing_ok=True)
        raise
    for number in range(kept - 1, 0, -1):
        older = path.with_name(f"{path.name}.{number}")
        if older.exists():
            older.replace(path.with_name(f"{path.name}.{number + 1}"))
    copy.replace(path.with_name(f"{path.name}.1"))
    os.truncate(path, 0)
    return True


def read_last_lines(path: Path, count: int) -> list[str]:
    """The file's last lines without their ends; [] when there is no file."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            text = b""
            while end > 0 and text.count(b"\n") <= count:
                start = max(0, end - TAIL_BLOCK_BYTES)
                file.seek(start)
                text = file.read(end - start) + text
                end = start
    except FileNotFoundError:
        return []
    return text.decode("utf-8", errors="replace").splitlines()[-count:] if count else []


def find_last_words(text: str) -> str:
    """The last error that a program told, in its first line, or else the last thing that it said; "" for nothing."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return ([line for line in lines if ERROR.match(line)] or lines or [""])[-1].strip()


def choose_logs(home: Home, names: Sequence[str]) -> dict[str, Path]:
    """The log files by service name, all of them when no name is given.

    Raises:
        UnknownServiceError: a name that never wrote anything.
        NotRunningError: nothing ever did.
    """
    there = {path.stem: path for path in sorted(home.logs.glob("*.log"))}
    if not there:
        raise NotRunningError(f"no logs under {home.logs}; nothing was started on this home yet")
    for name in names:
        if name not in there:
            raise UnknownServiceError(f"no log of {name!r}; there are {', '.join(there)}")
    return {name: there[name] for name in names} if names else there


def follow_logs(files: dict[str, Path]) -> Iterator[tuple[str, str]]:
    """Yield (service, line) for what is written from this call on, for ever."""
    return _follow(files, {name: path.stat().st_size if path.exists() else 0 for name, path in files.items()})


def _follow(files: dict[str, Path], positions: dict[str, int]) -> Iterator[tuple[str, str]]:
    rests = dict.fromkeys(files, b"")
    while True:
        for name, path in files.items():
            size = path.stat().st_size if path.exists() else 0
            if size < positions[name]:  # it was rotated
                positions[name], rests[name] = 0, b""
            if size == positions[name]:
                continue
            with path.open("rb") as file:
                file.seek(positions[name])
                chunk = rests[name] + file.read(size - positions[name])
            positions[name] = size
            *lines, rests[name] = chunk.split(b"\n")
            for line in lines:
                yield name, line.decode("utf-8", errors="replace")
        time.sleep(FOLLOW_INTERVAL_S)
