"""Batches as files for the training box: JSONL, written whole or not at all, named by their hash."""

import hashlib
import os
import uuid
from pathlib import Path

from django.conf import settings

from apps.rollouts.models import Batch
from apps.rollouts.selectors import iterate_records
from tentalis.core.canon import canonical_json


def write_batch(batch: Batch) -> tuple[str, str]:
    """Write the batch's rollouts, one canonical JSON line each.

    Returns:
        (file:// URI, SHA-256 of the file in hex). The same rows give the same file.
    Raises:
        OSError: the artifact store cannot be written; nothing half-written keeps the final name.
    """
    directory: Path = settings.ARTIFACTS / "batches"
    directory.mkdir(parents=True, exist_ok=True)
    staging = directory / f".staging-{uuid.uuid4().hex}"
    digest = hashlib.sha256()
    try:
        with staging.open("wb") as file:
            for rollout in iterate_records(batch):
                line = canonical_json(rollout.to_json()) + b"\n"
                digest.update(line)
                file.write(line)
            file.flush()
            os.fsync(file.fileno())
        final = directory / f"{batch.pk}-{digest.hexdigest()}.jsonl"
        staging.replace(final)
        _sync_directory(directory)
    finally:
        staging.unlink(missing_ok=True)
    return final.resolve().as_uri(), digest.hexdigest()


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
