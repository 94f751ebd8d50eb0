"""Files by file:// URI: read with their digest checked, written whole or not at all."""

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

STAGING_PREFIX = ".staging-"


class ArtifactError(Exception):
    """An artifact cannot be read, is not what its digest says, or cannot be written; the message names it."""


def path_from_uri(uri: str) -> Path:
    """The absolute path a file:// URI names.

    Raises:
        ArtifactError: another scheme, a host, or a relative path.
    """
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise ArtifactError(f"wanted a URI like file:///dir/name, found {uri!r}")
    return Path(unquote(parts.path))


def hash_files(paths: Iterable[Path]) -> str:
    """Lower-case hex SHA-256 over the files' bytes, one after the other.

    Raises:
        ArtifactError: a file cannot be read.
    """
    digest = hashlib.sha256()
    for path in paths:
        try:
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
        except OSError as error:
            raise ArtifactError(f"cannot read {path}: {error.strerror}") from error
    return digest.hexdigest()


def read_checked(path: Path, *, sha256: str) -> bytes:
    """The file's bytes, if they hash to what was promised.

    Raises:
        ArtifactError: it cannot be read, or hashes to something else.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror}") from error
    if (found := hashlib.sha256(data).hexdigest()) != sha256:
        raise ArtifactError(f"{path} must hash to {sha256}, found {found}")
    return data


def write_file(path: Path, data: bytes) -> None:
    """Write a file so that its name never holds half of it, even after a power cut.

    Raises:
        ArtifactError: the disk refuses.
    """
    staging = path.with_name(f"{STAGING_PREFIX}{os.getpid()}-{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        staging.write_bytes(data)
        _sync(staging)
        staging.replace(path)
        _sync(path.parent)
    except OSError as error:
        staging.unlink(missing_ok=True)
        raise ArtifactError(f"cannot write {path}: {error.strerror}") from error


@contextmanager
def staged_directory(parent: Path) -> Iterator[Path]:
    """A new directory to fill under `parent`; gone afterwards unless `publish_directory` moved it.

    Raises:
        ArtifactError: the disk refuses.
    """
    staging = parent / f"{STAGING_PREFIX}{os.getpid()}"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
    except OSError as error:
        raise ArtifactError(f"cannot write in {parent}: {error.strerror}") from error
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def publish_directory(staging: Path, final: Path) -> None:
    """Give a filled directory its final name, once every byte of it is on disk.

    A directory of that name that exists already has the same content, since names are digests: it stays.

    Raises:
        ArtifactError: the disk refuses.
    """
    try:
        for path in sorted(staging.iterdir()):
            _sync(path)
        _sync(staging)
        if not final.exists():
            staging.rename(final)
        _sync(final.parent)
    except OSError as error:
        raise ArtifactError(f"cannot publish {final}: {error.strerror}") from error


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
