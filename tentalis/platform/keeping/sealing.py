"""Files sealed for who holds a key, in the age format (https://age-encryption.org/v1): other tools open them too."""

import hashlib
import os
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

from pyrage import DecryptError, IdentityError, decrypt_io, encrypt_io, x25519

from tentalis.platform.errors import BackupError, HomeError
from tentalis.platform.home import write_private_file

SECRET_PREFIX = "AGE-SECRET-KEY-"  # noqa: S105
HEADER_BYTES = 4096
"""More than the header of a file that was sealed for one key."""


class Reader(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class Writer(Protocol):
    def write(self, data: bytes, /) -> Any: ...

    def flush(self) -> None: ...


@dataclass(frozen=True)
class Content:
    """What lies in a sealed file: SHA-256 in hex and size of it unsealed."""

    sha256: str
    size_bytes: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Measure:
    """Passes bytes on, to or from, and counts and hashes them."""

    def __init__(self, *, reader: Reader | None = None, writer: Writer | None = None) -> None:
        self._reader, self._writer = reader, writer
        self._digest, self._size = hashlib.sha256(), 0

    def read(self, size: int = -1, /) -> bytes:
        data = self._reader.read(size) if self._reader else b""
        self._note(data)
        return data

    def write(self, data: bytes, /) -> int:
        self._note(data)
        if self._writer:
            self._writer.write(data)
        return len(data)

    def flush(self) -> None:
        if self._writer:
            self._writer.flush()

    def _note(self, data: bytes) -> None:
        self._digest.update(data)
        self._size += len(data)

    @property
    def content(self) -> Content:
        return Content(self._digest.hexdigest(), self._size)


def read_key(path: Path) -> x25519.Identity:
    """A key from a file such as `age-keygen` writes.

    Raises:
        BackupError: there is no such file, or no key in it.
    """
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        raise BackupError(f"the key {path} is missing: bring back the copy you keep elsewhere") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BackupError(f"the key {path} cannot be read: {error}") from None
    text = next((line.strip() for line in lines if line.startswith(SECRET_PREFIX)), "")
    try:
        return x25519.Identity.from_str(text)
    except IdentityError:
        raise BackupError(
            f"{path} must have a line that begins with {SECRET_PREFIX}, as age-keygen writes it"
        ) from None


def make_key(path: Path) -> x25519.Identity:
    """A new key in a file that only its owner may read.

    Raises:
        BackupError: it cannot be written.
    """
    key = x25519.Identity.generate()
    write_key(path, key)
    return key


def write_key(path: Path, key: x25519.Identity) -> None:
    """Raises BackupError where it cannot be written."""
    try:
        write_private_file(path, f"# public key: {key.to_public()}\n{key}\n")
    except HomeError as error:
        raise BackupError(str(error)) from None


def seal(reader: Reader, path: Path, key: x25519.Identity) -> Content:
    """Write what `reader` gives to a new file that only `key` opens; on disk when this returns.

    Raises:
        BackupError: the disk refuses.
    """
    measure = Measure(reader=reader)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            encrypt_io(measure, file, [key.to_public()])
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise BackupError(f"{path} cannot be written: {error.strerror or error}") from None
    return measure.content


def require_key(path: Path, key: x25519.Identity) -> None:
    """See by its header that a sealed file was sealed for this key; its content is not looked at.

    Raises:
        BackupError: it was sealed for another, or cannot be read.
    """
    try:
        with path.open("rb") as file:
            decrypt_io(BytesIO(file.read(HEADER_BYTES)), BytesIO(), [key])
    except DecryptError as error:
        raise BackupError(
            f"{path} was sealed for another key than {key.to_public()} ({error}): bring the one it was made with"
        ) from None
    except OSError as error:
        if error.errno is not None:
            raise BackupError(f"{path} cannot be read: {error.strerror}") from None
        # the header opened, and the content was cut here


def unseal(path: Path, key: x25519.Identity, writer: Writer | None = None) -> Content:
    """Read a sealed file, to the writer or only to see what it holds.

    Raises:
        BackupError: it cannot be read, was sealed for another key, was cut or changed.
    """
    measure = Measure(writer=writer)
    try:
        with path.open("rb") as file:
            decrypt_io(file, measure, [key])
    except FileNotFoundError:
        raise BackupError(f"{path} is missing") from None
    except (DecryptError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise BackupError(f"{path} cannot be read: {error.strerror}") from None
        raise BackupError(f"{path} cannot be opened: sealed for another key, cut or changed ({error})") from None
    return measure.content


def check(path: Path, key: x25519.Identity, wanted: Content, writer: Writer | None = None) -> None:
    """Read a sealed file and see that it holds what it must.

    Raises:
        BackupError: it does not.
    """
    found = unseal(path, key, writer)
    if found != wanted:
        raise BackupError(
            f"{path} must hold {wanted.size_bytes} bytes with SHA-256 {wanted.sha256}, found {found.size_bytes} "
            f"bytes with {found.sha256}"
        )
