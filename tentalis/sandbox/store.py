"""What sandboxes start from: images, copied in once, and snapshots. All of it is this host's, and ends with it."""

import fcntl
import hashlib
import itertools
import os
import shutil
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tentalis.sandbox.confine import MOUNT_POINT
from tentalis.sandbox.copying import copy_tree
from tentalis.sandbox.errors import SandboxRefusedError, SandboxUnavailableError

MAX_LAYERS: Final = 64
"""Snapshots of snapshots: mount(2) takes one page of names."""
MAX_SANDBOX_IMAGE_BYTES: Final = 8 * 2**30
MAX_IMAGE_ENTRIES: Final = 1_000_000
SKELETON: Final = "skeleton"
_MACHINES_FILES: Final = ("ld.so.cache", "services", "protocols", "mime.types", "localtime")
_DIRECTORIES: Final = {
    **dict.fromkeys("dev dev/pts etc home mnt opt proc root run srv usr var var/log work".split(), 0o755),  # noqa: SIM905
    **dict.fromkeys(("dev/shm", "tmp", "var/tmp"), 0o1777),
}
_FILES: Final = {
    "etc/passwd": "root:x:0:0:root:/root:/usr/sbin/nologin\nworker:x:1000:1000::/work:/bin/bash\n",
    "etc/group": "root:x:0:\nworker:x:1000:\n",
    "etc/hosts": "127.0.0.1 localhost sandbox\n",
    "etc/hostname": "sandbox\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    **dict.fromkeys(("dev/null", "dev/zero", "dev/full", "dev/random", "dev/urandom"), ""),
}
_LINKS: Final = {
    "dev/fd": "/proc/self/fd",
    "dev/ptmx": "pts/ptmx",
    "dev/stdin": "/proc/self/fd/0",
    "dev/stdout": "/proc/self/fd/1",
    "dev/stderr": "/proc/self/fd/2",
    "etc/mtab": "/proc/self/mounts",
}


@dataclass(frozen=True)
class Image:
    """Something to start from.

    Args:
        layers: directories in the store, the topmost first, the skeleton of a system not among them.
        has_system: one of them brings a /usr, so that the machine's is not shown.
    """

    id: str
    layers: tuple[str, ...]
    has_system: bool


class Store:
    """A directory of one host. `open` it first."""

    def __init__(self, root: Path, owner: int | None) -> None:
        self.root = root
        self._owner = owner
        self._numbers = itertools.count()
        self._images: dict[str, Image] = {}

    def open(self) -> int:
        """Take the directory and clear away what a host before us left. Returns how many layers that were.

        Raises:
            SandboxUnavailableError: another host has it.
        """
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = os.open(self.root.parent / f"{self.root.name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # of this process: what it forks does not hold it
        except OSError:
            raise SandboxUnavailableError(f"{self.root}: another sandbox host works here") from None
        old = self.root / "layers"
        count = len(list(old.iterdir())) if old.exists() else 0
        self.clear()
        for name in ("layers", MOUNT_POINT):
            (self.root / name).mkdir()
        self._make_skeleton()
        self._give(self.root)
        for path in self.root.rglob("*"):
            self._give(path)
        return count

    def clear(self) -> None:
        """Remove everything in it."""
        for entry in self.root.iterdir():
            remove_tree(entry)

    def _make_skeleton(self) -> None:
        skeleton = self.root / SKELETON
        skeleton.mkdir()
        for name, mode in _DIRECTORIES.items():
            (skeleton / name).mkdir()
            (skeleton / name).chmod(mode)
        for name, text in _FILES.items():
            (skeleton / name).write_text(text, encoding="utf-8")
        for name, target in _LINKS.items():
            (skeleton / name).symlink_to(target)
        for name in ("bin", "sbin", "lib", "lib64", "lib32"):
            if (Path("/usr") / name).is_dir():
                (skeleton / name).symlink_to(f"usr/{name}")
        for name in _MACHINES_FILES:
            if (Path("/etc") / name).is_file():
                shutil.copy(Path("/etc") / name, skeleton / "etc" / name)
        if Path("/etc/alternatives").is_dir():
            shutil.copytree("/etc/alternatives", skeleton / "etc/alternatives", symlinks=True)

    def _give(self, path: Path) -> None:
        if self._owner is not None:
            os.chown(path, self._owner, self._owner, follow_symlinks=False)

    def find(self, image_id: str) -> Image:
        try:
            return self._images[image_id]
        except KeyError:
            raise SandboxRefusedError(f"wanted an image or a snapshot, found none called {image_id!r}") from None

    def get(self, image_id: str) -> Image | None:
        return self._images.get(image_id)

    def add_image(self, directory: Path) -> Image:
        """Copy a directory in, unless one of just that content is here: its id is the hash of it."""
        if not directory.is_dir():
            raise SandboxRefusedError(f"wanted an image directory, found none at {directory}")
        image_id = hash_tree(directory)
        if known := self._images.get(image_id):
            return known
        source = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            layer = self._copy_in(source, MAX_SANDBOX_IMAGE_BYTES, MAX_IMAGE_ENTRIES)
        finally:
            os.close(source)
        return self._images.setdefault(image_id, Image(image_id, (layer,), (directory / "usr").is_dir()))

    def keep(self, image_id: str, written: int, below: Image, *, most_bytes: int, most_entries: int) -> Image:
        """What a sandbox wrote over its image, as an image of its own."""
        if len(below.layers) >= MAX_LAYERS:
            raise SandboxRefusedError(f"wanted at most {MAX_LAYERS} snapshots of each other, found one more")
        layer = self._copy_in(written, most_bytes, most_entries)
        image = Image(image_id, (layer, *below.layers), below.has_system)
        self._images[image_id] = image
        return image

    def keep_whole(self, image_id: str, files: Path, below: Image) -> Image:
        """Take what holds all that a sandbox of an image had in its own directories, as an image of its own.

        Args:
            files: a packed tree (`packing`) or a directory of this file system. It is moved.
        """
        layer = self._name_layer()
        files.rename(self.root / layer)
        image = Image(image_id, (layer, below.layers[-1]), below.has_system)
        self._images[image_id] = image
        return image

    def _name_layer(self) -> str:
        return f"layers/{next(self._numbers)}"

    def _copy_in(self, source: int, most_bytes: int, most_entries: int) -> str:
        layer = self._name_layer()
        (self.root / layer).mkdir(mode=0o700)
        target = os.open(self.root / layer, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            copy_tree(source, target, owner=self._owner, most_bytes=most_bytes, most_entries=most_entries)
        except BaseException:
            remove_tree(self.root / layer)
            raise
        finally:
            os.close(target)
        return layer

    def drop(self, image_id: str) -> None:
        """Forget one; what sandboxes still stand on is removed when they end."""
        self._images.pop(image_id, None)

    def collect(self, in_use: Iterable[Image]) -> list[str]:
        """Remove the layers that neither an image nor what is in use stands on. Returns which they were."""
        needed = {layer for image in (*self._images.values(), *in_use) for layer in image.layers}
        found = [f"layers/{entry.name}" for entry in (self.root / "layers").iterdir()]
        removed = [layer for layer in found if layer not in needed]
        for layer in removed:
            remove_tree(self.root / layer)
        return removed


def hash_tree(directory: Path) -> str:
    """sha256 of a directory's names, kinds, modes, links and contents, in the order of their names."""
    digest = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        found = path.lstat()
        digest.update(f"{path.relative_to(directory)}\0{found.st_mode:o}\0".encode(errors="surrogateescape"))
        if stat.S_ISLNK(found.st_mode):
            digest.update(os.fsencode(path.readlink()))
        elif stat.S_ISREG(found.st_mode):
            with path.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
        digest.update(b"\0")
    return f"sha256-{digest.hexdigest()}"


def remove_tree(path: Path) -> None:
    """Remove whatever there is, also directories that forbid it; nothing there is fine."""
    if path.is_symlink() or path.is_file():
        path.unlink()
        return
    for directory, _, _ in os.walk(path):
        Path(directory).chmod(0o700)  # before it is looked into
    shutil.rmtree(path, ignore_errors=False) if path.exists() else None
