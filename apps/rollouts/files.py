"""Batches, and other records that train, as JSONL for the box: written whole or not at all, named by their hash."""

import hashlib
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from django.conf import settings

from apps.rollouts.examples import iterate_demonstrations, iterate_pairs
from apps.rollouts.models import Batch
from apps.rollouts.selectors import iterate_records
from apps.rollouts.voices import find_factors
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import DemonstrationRecord, PairRecord, RolloutRecord


class _Record(Protocol):
    def to_json(self) -> dict[str, Any]: ...


def write_batch(batch: Batch, *, most_voice_share: float = 1.0) -> tuple[str, str]:
    """Write what the batch holds, by its kind, one canonical JSON line each.

    Args:
        most_voice_share: see `iterate_batch`.

    Returns:
        (file:// URI, SHA-256 of the file in hex). The same rows give the same file.
    Raises:
        OSError: the artifact store cannot be written; nothing half-written keeps the final name.
    """
    return write_records("batches", batch.pk, iterate_batch(batch, most_voice_share=most_voice_share))


def write_records(directory_name: str, number: int, records: Iterable[_Record]) -> tuple[str, str]:
    """Write records into a directory of the artifact store, one canonical JSON line each.

    Args:
        number: of what they belong to; the file's name begins with it.
    Returns:
        (file:// URI, SHA-256 of the file in hex).
    Raises:
        OSError: the artifact store cannot be written; nothing half-written keeps the final name.
    """
    directory: Path = settings.ARTIFACTS / directory_name
    directory.mkdir(parents=True, exist_ok=True)
    staging = directory / f".staging-{uuid.uuid4().hex}"
    digest = hashlib.sha256()
    try:
        with staging.open("wb") as file:
            for record in records:
                line = canonical_json(record.to_json()) + b"\n"
                digest.update(line)
                file.write(line)
            file.flush()
            os.fsync(file.fileno())
        final = directory / f"{number}-{digest.hexdigest()}.jsonl"
        staging.replace(final)
        _sync_directory(directory)
    finally:
        staging.unlink(missing_ok=True)
    return final.resolve().as_uri(), digest.hexdigest()


def find_files(directory_name: str, numbers: Iterable[int]) -> list[Path]:
    """What `write_records` wrote for these."""
    return [path for number in numbers for path in (settings.ARTIFACTS / directory_name).glob(f"{number}-*")]


def iterate_batch(
    batch: Batch, *, most_voice_share: float = 1.0
) -> Iterator[RolloutRecord] | Iterator[PairRecord] | Iterator[DemonstrationRecord]:
    """What the batch holds, by its kind, as the trainer reads it.

    Args:
        most_voice_share: of its rollouts' weight, that one reviewer's judgement may have; 1: any.
    """
    if batch.kind == Batch.Kind.PAIRS:
        return iterate_pairs(batch)
    if batch.kind == Batch.Kind.DEMONSTRATIONS:
        return iterate_demonstrations(batch)
    return _hold_down(iterate_records(batch), find_factors(batch, most_voice_share))


def _hold_down(records: Iterator[RolloutRecord], factors: Mapping[int, float]) -> Iterator[RolloutRecord]:
    for record in records:
        factor = factors.get(record.rollout_id, 1.0)
        yield record if factor == 1.0 else replace(record, weight=record.weight * factor)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
