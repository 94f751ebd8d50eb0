"""The whole of what a world said, where its model was shown a part: a file by its attempt and the hash of its text."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from django.conf import settings

DIRECTORY = "observations"


def keep_text(attempt_id: int, text: str) -> str:
    """Write it where it is not yet. Returns its sha256."""
    data = text.encode()
    sha256 = hashlib.sha256(data).hexdigest()
    directory: Path = settings.ARTIFACTS / DIRECTORY
    path, staging = directory / f"{attempt_id}-{sha256}", directory / f".staging-{attempt_id}-{sha256}"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        with staging.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        staging.replace(path)
    return sha256


def find_texts(attempt_ids: Iterable[int]) -> list[Path]:
    """The files of these attempts."""
    return [path for pk in attempt_ids for path in (settings.ARTIFACTS / DIRECTORY).glob(f"{pk}-*")]
