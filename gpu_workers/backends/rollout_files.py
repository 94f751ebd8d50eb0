"""Rollouts as the box reads them: JSON lines, checked against the digest the spec promised."""

import json
from pathlib import Path

from gpu_workers.artifacts import read_checked
from gpu_workers.backends.errors import RolloutsUnreadableError
from tentalis.core.contracts import RolloutRecord


def read_rollouts(path: Path, *, sha256: str) -> list[RolloutRecord]:
    """Every rollout of the file, in its order.

    Raises:
        ArtifactError: the file cannot be read or is another one.
        RolloutsUnreadableError: a line is no rollout; the message numbers it, from 1.
    """
    rollouts = []
    for number, line in enumerate(read_checked(path, sha256=sha256).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            rollouts.append(RolloutRecord.from_json(json.loads(line)))
        except (ValueError, TypeError, AttributeError) as error:
            raise RolloutsUnreadableError(f"{path.name} line {number}: {error}") from error
    return rollouts
