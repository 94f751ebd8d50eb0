"""Repositories that come as one file: a git bundle, or an archive of one commit's files."""

import stat
import tarfile
import zipfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Final

from tentalis.core.swe.repo_tasks import RepoTaskError
from tentalis.verification.loading import LEFT_OUT, MAX_REPO_BYTES, MAX_REPO_FILES, read_repo, say_large

_BUNDLE: Final = b"# v"
_ZIP: Final = b"PK\x03\x04"


def is_bundle(file: Path) -> bool:
    """Whether it is a git bundle, which may hold any number of commits; an archive holds the files of one."""
    return _read_start(file).startswith(_BUNDLE)


def unpack_repo(file: Path, commit: str, *, touched: Collection[str]) -> Mapping[str, bytes]:
    """The repository's files.

    Args:
        commit: of a bundle.
        touched: paths that are there: where all else is in one directory that leads to none of them, as in GitHub's
            archives, what is in it is the repository.
    Raises:
        RepoTaskError: it is neither, has no such commit, or is too large.
    """
    if is_bundle(file):
        return read_repo(file, commit)
    files: dict[str, bytes] = {}
    size = 0
    try:
        for path, stream in _list_members(file):
            parts = PurePosixPath(path).parts
            if path.startswith("/") or ".." in parts or "\0" in path:
                raise RepoTaskError(f"repo: wanted paths within the archive, found {path!r:.120}")
            if LEFT_OUT.isdisjoint(parts):
                files["/".join(parts)] = content = stream.read(MAX_REPO_BYTES - size + 1)
                size += len(content)
            if size > MAX_REPO_BYTES or len(files) > MAX_REPO_FILES:
                raise say_large()
    except RepoTaskError:
        raise
    except Exception as error:  # noqa: BLE001  # of bytes that are none both libraries raise what they happen to run into
        words = f"wanted a git bundle, or a zip or tar (gzip, bzip2, xz) of its files, found none: {error}"
        raise RepoTaskError(f"repo: {words}") from None
    return _strip(files, touched)


def _read_start(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.read(max(len(_BUNDLE), len(_ZIP)))


def _list_members(file: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Files alone: links lead elsewhere, and devices are none of a repository's."""
    if _read_start(file).startswith(_ZIP):
        with zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                if not entry.is_dir() and stat.S_IFMT(entry.external_attr >> 16) in (0, stat.S_IFREG):
                    with archive.open(entry) as content:
                        yield entry.filename, content
        return
    with tarfile.open(file) as tar:
        for member in tar:
            if tar.offset <= member.offset:  # what leads back would go on for ever
                raise tarfile.ReadError(f"{member.name!r:.80} leads back to where it begins")
            held = tar.extractfile(member) if member.isreg() else None
            if held is not None:
                yield member.name, held


def _strip(files: Mapping[str, bytes], touched: Collection[str]) -> Mapping[str, bytes]:
    tops = {path.partition("/")[0] for path in files}
    if len(tops) != 1 or any(path in files for path in touched):
        return files
    (top,) = tops
    return {path.removeprefix(f"{top}/"): content for path, content in files.items()}
