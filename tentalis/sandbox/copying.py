"""Copying a tree that somebody hostile may have made, and may still be changing.

Nothing is followed out of it, and the copy takes no more room than the tree does.
"""

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from tentalis.sandbox.errors import SandboxRefusedError

PIECE_BYTES = 2**20
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
            os.mkdir(name, 0o700, dir_fd=target)
            inner_source = os.open(name, _READ | os.O_DIRECTORY, dir_fd=source)
            inner_target = os.open(name, _READ | os.O_DIRECTORY, dir_fd=target)
            try:
                self.copy_entries(inner_source, inner_target, path)
                self.settle(inner_source, inner_target)
            finally:
                os.close(inner_source)
                os.close(inner_target)
        elif kind == stat.S_IFREG:
            self._copy_file(name, source, target, path)
        elif kind == stat.S_IFIFO:
            os.mkfifo(name, stat.S_IMODE(found.st_mode), dir_fd=target)
            self._give(name, target)
        elif kind == stat.S_IFCHR and found.st_rdev == 0:  # an overlay's mark that something was deleted
            os.mknod(name, stat.S_IFCHR, 0, dir_fd=target)
        # sockets have nobody behind them in a copy, and devices are none of a sandbox's

    def _copy_file(self, name: str, source: int, target: int, path: Path) -> None:
        reading = os.open(name, _READ, dir_fd=source)
        try:
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
                self.settle(reading, writing)
            finally:
                os.close(writing)
        finally:
            os.close(reading)

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

    def settle(self, source: int, target: int) -> None:
        found = os.fstat(source)
        for mark in os.listxattr(source):
            if mark.startswith(_OVERLAY_MARKS):
                os.setxattr(target, mark, os.getxattr(source, mark))
        if self.owner is not None:
            os.fchown(target, self.owner, self.owner)
        os.fchmod(target, stat.S_IMODE(found.st_mode))
        os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))

    def _give(self, name: str, target: int) -> None:
        if self.owner is not None:
            os.chown(name, self.owner, self.owner, dir_fd=target, follow_symlinks=False)


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
            copy.settle(source, target)
    except OSError as error:
        raise SandboxRefusedError(f"cannot copy {error.filename or 'a tree'}: {error.strerror}") from None
