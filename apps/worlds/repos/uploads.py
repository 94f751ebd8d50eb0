"""Files that come in parts, each known by the hash of its bytes, until tasks are made of them."""

import hashlib
import os
import re
from pathlib import Path
from typing import Final, NamedTuple

from django.conf import settings

from apps.accounts.models import User
from apps.accounts.services import require_admin
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError, ConflictError
from tentalis.limits import LIMITS
from tentalis.verification.store import locked

DIRECTORY = "uploads"
"""Below the artifacts."""
SHA256: Final = re.compile(r"[0-9a-f]{64}")
_PART: Final = ".part-"


class Upload(NamedTuple):
    """How far a file has come.

    Args:
        received_bytes: of its beginning; whole: all of it is there, and is what its hash says.
    """

    sha256: str
    received_bytes: int
    whole: bool


def find_upload(*, sha256: str, by: User) -> Upload:
    """Raises NotAllowedError: `by` is no admin of the installation."""
    require_admin(by)
    return _look(sha256)


def add_part(*, sha256: str, size_bytes: int, offset: int, part: bytes, by: User) -> Upload:
    """Put a part behind what has come; the last one ends the file. What is there already is not written again.

    Args:
        size_bytes: of the whole file. offset: of the part in it.
    Raises:
        NotAllowedError: `by` is no admin of the installation.
        BadInputError: it is too large, or what came is not what its hash says: then it begins anew.
        ConflictError: another part is the next one.
    """
    require_admin(by)
    if not 0 < size_bytes <= LIMITS.upload_bytes:
        raise BadInputError.at("size_bytes", f"wanted 1 to {LIMITS.upload_bytes:,} bytes, found {size_bytes:,}")
    if not part or offset + len(part) > size_bytes:
        raise BadInputError.at("part", f"wanted some of {size_bytes:,} bytes from {offset:,} on, found {len(part):,}")
    with locked(_place()):
        found = _look(sha256)
        if found.whole:
            return found
        if offset != found.received_bytes:
            raise ConflictError(f"wanted the part from {found.received_bytes:,} on, found one from {offset:,} on")
        if _measure_all() + len(part) > LIMITS.uploads_bytes:
            most = (
                f"{LIMITS.uploads_bytes:,} bytes of files that were sent; those that nothing asks for go by themselves"
            )
            raise ConflictError(f"wanted at most {most}, and this would be more")
        file = _place() / f"{_PART}{sha256}"
        with file.open("ab") as stream:
            stream.write(part)
        if offset + len(part) < size_bytes:
            return _look(sha256)
        _end(file, sha256, size_bytes)
    record(Kind.UPLOAD_STORED, by=by.handle, payload={"sha256": sha256, "size_bytes": size_bytes})
    return Upload(sha256, size_bytes, True)


def keep_whole(data: bytes, *, by: User) -> Upload:
    """A file that came in one piece. Raises what `add_part` raises."""
    sha256 = hashlib.sha256(data).hexdigest()
    found = find_upload(sha256=sha256, by=by)
    if found.whole:
        return found
    left, offset = data[found.received_bytes :], found.received_bytes
    return add_part(sha256=sha256, size_bytes=len(data), offset=offset, part=left, by=by)


def open_upload(sha256: str, *, field: str) -> Path:
    """Where a whole file lies; it is kept longer for that. Raises BadInputError at `field`: it is not there."""
    place = _place() / sha256
    if not SHA256.fullmatch(sha256) or not place.is_file():
        raise BadInputError.at(field, f"wanted the sha256 of a file that was sent, found {sha256!r:.80}")
    os.utime(place)
    return place


def _place() -> Path:
    place: Path = settings.ARTIFACTS / DIRECTORY
    return place


def _look(sha256: str) -> Upload:
    for name, whole in ((sha256, True), (f"{_PART}{sha256}", False)):
        try:
            return Upload(sha256, (_place() / name).stat().st_size, whole)
        except FileNotFoundError:
            continue
    return Upload(sha256, 0, False)


def _end(file: Path, sha256: str, size_bytes: int) -> None:
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
        os.fsync(stream.fileno())
    if found != sha256:
        file.unlink()
        raise BadInputError.at("part", f"wanted {size_bytes:,} bytes of sha256 {sha256:.12}…, found {found:.12}…")
    file.rename(_place() / sha256)


def _measure_all() -> int:
    return sum(one.stat().st_size for one in _place().iterdir() if one.is_file())
