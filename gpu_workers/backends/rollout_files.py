"""Records as the box reads them: JSON lines, checked against the digest the spec promised."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from gpu_workers.artifacts import read_checked
from gpu_workers.backends.errors import RolloutsUnreadableError
from tentalis.core.contracts import RolloutRecord


class _Record(Protocol):
    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self: ...


Record = TypeVar("Record", bound=_Record)


def read_rollouts(path: Path, *, sha256: str) -> list[RolloutRecord]:
    """Every rollout of the file; see `read_records`."""
    return read_records(path, RolloutRecord, sha256=sha256)


def read_records(path: Path, kind: type[Record], *, sha256: str) -> list[Record]:
    """Every record of the file, in its order.

    Raises:
        ArtifactError: the file cannot be read or is another one.
        RolloutsUnreadableError: a line is no record of this kind; the message numbers it, from 1.
    """
    records = []
    for number, line in enumerate(read_checked(path, sha256=sha256).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            records.append(kind.from_json(json.loads(line)))
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise RolloutsUnreadableError(f"{path.name} line {number}: {error}") from error
    return records
