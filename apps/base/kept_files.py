"""Files whose name says their content: whole or not there, however many write the same at once."""

import os
import uuid
from contextlib import suppress
from pathlib import Path


def keep_file(path: Path, data: bytes) -> None:
    """Write a file whose name follows from its content; one that is there already counts as written now."""
    with suppress(FileNotFoundError):
        os.utime(path)  # how long it is kept is counted from here
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = path.with_name(f".staging-{uuid.uuid4().hex}")
    try:
        with staging.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        staging.replace(path)
    finally:
        staging.unlink(missing_ok=True)
