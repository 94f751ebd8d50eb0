"""The whole of what a world said, where its model was shown a part: a file by the hash of its text."""

import hashlib
import os
from pathlib import Path

from django.conf import settings

DIRECTORY = "observations"


def find_text(sha256: str) -> Path:
    """Where the text of that hash lies."""
    return Path(settings.ARTIFACTS) / DIRECTORY / sha256


def keep_text(text: str) -> str:
    """Write it where it is not yet. Returns its sha256."""
    data = text.encode()
    sha256 = hashlib.sha256(data).hexdigest()
    path = find_text(sha256)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        staging = path.with_name(f".staging-{sha256}-{os.getpid()}")
        with staging.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        staging.rename(path)
    return sha256
