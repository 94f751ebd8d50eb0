"""Secrets at rest: encrypted, bound to the row they belong to, under a ring of keys that can be renewed while running.

Each secret is a Fernet token under a key of its own, drawn by HKDF from one key of the ring and from what the secret is
bound to (its row, project and origins). So a ciphertext copied to another row, or a row whose address was changed
behind our back, does not open: what is bound plays the part of associated data, which Fernet itself does not know.

The ring: the lines of the file `TENTALIS_KEY_RING`, newest first, then the installation's secret key and its fallbacks.
The first seals, all open. The file is read again when it changes, so a new key needs no restart.
"""

import base64
import hashlib
import os
import secrets
import stat
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

from apps.base.errors import TentalisError

MIN_KEY_CHARS = 32
_PURPOSE = b"tentalis provider key v2|"


class SealedKeyError(TentalisError):
    """A stored secret cannot be opened: not with the present keys, or not for this row and address."""

    status = 409
    code = "sealed_key_unreadable"
    is_final = True


@dataclass(frozen=True)
class KeyRing:
    """Keys by their id, the one that seals first."""

    keys: dict[str, bytes]

    @property
    def newest(self) -> str:
        return next(iter(self.keys))


def seal(secret: str, *, bound_to: str = "") -> bytes:
    """Encrypt a secret for the database; "" stays empty.

    Args:
        bound_to: what the secret belongs to; the same words open it.
    Returns:
        Id of the ring's key, a colon, a Fernet token.
    """
    if not secret:
        return b""
    ring = read_ring()
    token = _draw(ring.keys[ring.newest], bound_to).encrypt(secret.encode())
    return ring.newest.encode() + b":" + token


def unseal(sealed: bytes | memoryview, *, bound_to: str = "") -> str:
    """The secret again.

    Raises:
        SealedKeyError: its key is not in the ring, or it was sealed for another row or address.
    """
    if not sealed:
        return ""
    key_id, _, token = bytes(sealed).partition(b":")
    key = read_ring().keys.get(key_id.decode("ascii", "replace"))
    if key is None:
        raise SealedKeyError(
            "the secret was sealed with a key that is not in the ring: bring back that line of TENTALIS_KEY_RING, or"
            " that TENTALIS_SECRET_KEY, or give the secret (an API key, say) again"
        )
    try:
        return _draw(key, bound_to).decrypt(token).decode()
    except InvalidToken:
        raise SealedKeyError(
            "the secret was sealed for another row or another address (was the row changed by hand?): give it again"
        ) from None


def read_ring() -> KeyRing:
    """The ring as it stands now.

    Raises:
        SealedKeyError: the ring's file cannot be read, or holds a key that is too short.
    """
    keys = [*_read_file(), *(str(key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS))]
    return KeyRing({_name(key): key.encode() for key in keys if key})


def add_key(path: Path) -> str:
    """Write a fresh key before all others into the ring's file; its id. From then on it seals.

    A new file is for its owner alone (mode 0600), one that is there keeps its owner, group and mode.

    Raises:
        SealedKeyError: the file is not ours to write as it stands.
    """
    lines = path.read_text().splitlines() if path.exists() else []
    key = secrets.token_urlsafe(48)
    _write(path, [key, *lines])
    return _name(key)


def drop_keys(path: Path, *, keep: set[str]) -> list[str]:
    """Take the keys of other ids out of the ring's file, never its newest; the ids that went. Raises as `add_key`."""
    lines = path.read_text().splitlines()
    keys = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    gone = [key for key in keys[1:] if _name(key) not in keep]
    if gone:
        _write(path, [line for line in lines if line.strip() not in gone])
    return [_name(key) for key in gone]


def _read_file() -> list[str]:
    path: Path | None = settings.TENTALIS["KEY_RING"]
    if path is None:
        return []
    try:
        found = path.stat()
        return _read_lines(path, found.st_mtime_ns, found.st_size)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SealedKeyError(f"TENTALIS_KEY_RING: {path} cannot be read: {error.strerror}") from error


@lru_cache(maxsize=4)
def _read_lines(path: Path, mtime_ns: int, size_bytes: int) -> list[str]:
    """Cached for the file as it was then."""
    keys = [line.strip() for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    for place, key in enumerate(keys, 1):
        if len(key) < MIN_KEY_CHARS:
            raise SealedKeyError(f"TENTALIS_KEY_RING: key {place} of {path} is shorter than {MIN_KEY_CHARS} characters")
    return keys


def _write(path: Path, lines: list[str]) -> None:
    staging = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        handle = os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w") as file:
            if path.exists():
                known = path.stat()
                os.fchown(handle, known.st_uid, known.st_gid)
                os.fchmod(handle, stat.S_IMODE(known.st_mode))
            file.write("\n".join(lines) + "\n")
            file.flush()
            os.fsync(handle)
        staging.replace(path)
    except PermissionError as error:
        raise SealedKeyError(
            f"TENTALIS_KEY_RING: {path} must keep its owner, group and mode, and this user may not write it so"
            f" ({error.strerror}): do it as its owner or as root"
        ) from error
    finally:
        staging.unlink(missing_ok=True)


def _name(key: str) -> str:
    """A key's id: 16 hex digits that tell nothing of it."""
    return hashlib.blake2b(key.encode(), digest_size=8, person=b"tentalis-key-id").hexdigest()


@lru_cache(maxsize=1024)
def _draw(key: bytes, bound_to: str) -> Fernet:
    drawn = HKDF(algorithm=SHA256(), length=32, salt=None, info=_PURPOSE + bound_to.encode()).derive(key)
    return Fernet(base64.urlsafe_b64encode(drawn))
