"""The whole of what a world said, where its model was shown a part, and its screenshots: files by their attempt and the
hash of their content."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from django.conf import settings

from apps.base.kept_files import keep_file

DIRECTORY = "observations"


def keep_observed(attempt_id: int, data: bytes) -> str:
    """Write it where it is not yet. Returns its sha256."""
    sha256 = hashlib.sha256(data).hexdigest()
    keep_file(settings.ARTIFACTS / DIRECTORY / f"{attempt_id}-{sha256}", data)
    return sha256


def find_observed(attempt_id: int, sha256: str) -> Path | None:
    """The file; None where it was deleted."""
    path: Path = settings.ARTIFACTS / DIRECTORY / f"{attempt_id}-{sha256}"
    return path if path.is_file() else None


def find_all_observed(attempt_ids: Iterable[int]) -> list[Path]:
    """The files of these attempts."""
    return [path for pk in attempt_ids for path in (settings.ARTIFACTS / DIRECTORY).glob(f"{pk}-*")]
