"""Copying a tree that somebody hostile may have made, and may still be changing.

Nothing is followed out of it, and the copy takes no more room than the tree does.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tentalis.sandbox.errors import SandboxRefusedError

PIECE_BYTES = 2**20
MOST_DEEP = 200
"""Directories in each other: of each two are open while what lies in it is copied."""
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OVERLAY_MARKS = "user.overlay."


@dataclass
class _Copy:
    """One copy under way.

    Args:
        root: the directory that it is written to, with nobody else's hands in it.
        owner: whose everything in it is to be; None: whoever writes it.
        most_bytes, most_entries: more are refused.
    """

    root: int
    owner: int | None
    most_bytes: int
    most_entries: int
    linked: dict[tuple[int, int], Path] = field(default_factory=dict)
    deep: int = 0

    def count(self, size_bytes: int) -> None:
        self.most_bytes -= size_bytes
        if self.most_bytes < 0:
            raise SandboxRefusedError("wanted a tree within its limit of bytes, found more")

    def copy_entries(self, source: int, target: int, path: Path) -> None:
        with os.scandir(source) as entries:
            for entry in entries:
                self.most_entries -= 1
                if self.most_entries < 0:
                    raise SandboxRefusedError("wanted a tree within its limit of files, found more")
                self._copy_entry(entry.name, source, target, path / entry.name)

    def _copy_entry(self, name: str, source: int, target: int, path: Path) -> None:
        found = os.stat(name, dir_fd=source, follow_symlinks=False)
        kind = stat.S_IFMT(found.st_mode)
        if kind == stat.S_IFLNK:
            os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
            self._give(name, target)
        elif kind == stat.S_IFDIR:
            self._copy_directory(name, source, target, path)
        elif kind == stat.S_IFREG:
            self._copy_file(name, source, target, path)
        elif kind == stat.S_IFIFO:
            os.mkfifo(name, stat.S_IMODE(found.st_mode), dir_fd=target)
            self._give(name, target)
        elif kind == stat.S_IFCHR and found.st_rdev == 0:  # an overlay's mark that something was deleted
            os.mknod(name, stat.S_IFCHR, 0, dir_fd=target)
        # sockets have nobody behind them in a copy, and devices are none of a sandbox's

    def _copy_directory(self, name: str, source: int, target: int, path: Path) -> None:
        self.deep += 1
        if self.deep > MOST_DEEP:
            raise SandboxRefusedError(f"wanted a tree of at most {MOST_DEEP} directories in each other, found more")
        os.mkdir(name, 0o700, dir_fd=target)
        inner_target = os.open(name, _READ | os.O_DIRECTORY, dir_fd=target)
        try:
            with _opened(name, _READ | os.O_DIRECTORY, source) as (inner_source, mode):
                self.copy_entries(inner_source, inner_target, path)
                self.settle(inner_source, inner_target, mode)
        finally:
            os.close(inner_target)
        self.deep -= 1

    def _copy_file(self, name: str, source: int, target: int, path: Path) -> None:
        with _opened(name, _READ, source) as (reading, mode):
            found = os.fstat(reading)
            if not stat.S_ISREG(found.st_mode):  # it was one a moment ago
                return
            if found.st_nlink > 1:
                first = self.linked.setdefault((found.st_dev, found.st_ino), path)
                if first != path:
                    os.link(first, name, src_dir_fd=self.root, dst_dir_fd=target)
                    return
            writing = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=target)
            try:
                self._copy_content(reading, writing, found.st_size)
                self.settle(reading, writing, mode)
            finally:
                os.close(writing)

    def _copy_content(self, reading: int, writing: int, size: int) -> None:
        """What was written of it: a hole stays a hole, for one byte at its end may make a file of terabytes."""
        place = 0
        while place < size:
            try:
                place = os.lseek(reading, place, os.SEEK_DATA)
            except OSError:  # nothing but a hole until its end
                break
            end = min(os.lseek(reading, place, os.SEEK_HOLE), size)
            os.lseek(writing, place, os.SEEK_SET)
            while place < end:
                sent = os.sendfile(writing, reading, place, min(end - place, PIECE_BYTES))
                if not sent:
                    break
                self.count(sent)
                place += sent
        os.ftruncate(writing, size)

    def settle(self, source: int, target: int, mode: int) -> None:
        found = os.fstat(source)
        for mark in os.listxattr(source):
            if mark.startswith(_OVERLAY_MARKS):
                os.setxattr(target, mark, os.getxattr(source, mark))
        if self.owner is not None:
            os.fchown(target, self.owner, self.owner)
        os.fchmod(target, mode)
        os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))

    def _give(self, name: str, target: int) -> None:
        if self.owner is not None:
            os.chown(name, self.owner, self.owner, dir_fd=target, follow_symlinks=False)


@contextlib.contextmanager
def _opened(name: str, flags: int, directory: int) -> Iterator[tuple[int, int]]:
    """An entry, opened, and its permissions. One that its owner locked is unlocked meanwhile where that is us, so that
    we read what root would."""
    held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    place, mode, opened, is_unlocked = f"/proc/self/fd/{held}", stat.S_IMODE(os.fstat(held).st_mode), -1, False
    try:
        try:
            opened = os.open(name, flags, dir_fd=directory)
            if flags & os.O_DIRECTORY:
                os.stat(".", dir_fd=opened)  # what lies in it may be looked at
        except PermissionError:
            Path(place).chmod(mode | stat.S_IRUSR | stat.S_IXUSR)
            is_unlocked = True
            opened = os.open(place, flags & ~os.O_NOFOLLOW) if opened < 0 else opened
        yield opened, mode
    finally:
        if is_unlocked:
            Path(place).chmod(mode)
        if opened >= 0:
            os.close(opened)
        os.close(held)


def copy_tree(
    source: int, target: int, *, owner: int | None, most_bytes: int, most_entries: int, is_ours: bool = True
) -> None:
    """Copy what one open directory holds into another, which is empty.

    Args:
        is_ours: the directory itself may be changed too: it becomes as the other one is.
    Raises:
        SandboxRefusedError: it holds more than it may, or something we may not read.
    """
    try:
        copy = _Copy(target, owner, most_bytes, most_entries)
        copy.copy_entries(source, target, Path())
        if is_ours:
            copy.settle(source, target, stat.S_IMODE(os.fstat(source).st_mode))
    except OSError as error:
        raise SandboxRefusedError(f"cannot copy {error.filename or 'a tree'}: {error.strerror}") from None
