"""What processes that share a training are given to do in tests: functions of a module that loads fast."""

import json
import multiprocessing
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpu_workers.artifacts import path_from_uri
from gpu_workers.backends import TrainedAdapter
from gpu_workers.backends.errors import CancelledError
from gpu_workers.backends.rank_processes import train_together
from gpu_workers.backends.ranks import gather_all, is_first
from tentalis.core.contracts import TrainSpec

Report = Callable[[Mapping[str, float]], None]
SPEC = TrainSpec(
    run_id=1,
    attempt=1,
    worker="tester",
    base_model="none",
    parent_adapter_uri=None,
    parent_sha256=None,
    policy_version=0,
    rollouts_uri="file:///none",
    rollouts_sha256="0" * 64,
    recipe={},
    seed=7,
    output_uri="file:///none",
)
"""Of which nothing is read."""


def fail_in_the_second(spec: TrainSpec, *, output: Path, report: Report, is_cancelled: Any) -> TrainedAdapter | None:
    """The first waits for what the second never tells."""
    if not is_first():
        raise MemoryError("no room for 3 GiB")
    gather_all([1])
    raise AssertionError("nobody else told anything")


def train_each(spec: TrainSpec, *, output: Path, report: Report, is_cancelled: Any) -> TrainedAdapter | None:
    """Train the specs that lie in the directory, in the order of their names, cancelled ones too."""
    from gpu_workers.backends.standalone import train_share

    trained = None
    for path in sorted(output.glob("*.json")):
        each = TrainSpec.from_json(json.loads(path.read_bytes()))
        with suppress(CancelledError):
            trained = train_share(each, output=path_from_uri(each.output_uri), report=report, is_cancelled=is_cancelled)
    return trained


def wait_for_ever(spec: TrainSpec, *, output: Path, report: Report, is_cancelled: Any) -> TrainedAdapter | None:
    gather_all([1])
    if is_first():
        report({"update": 1})
    threading.Event().wait()
    return None


def main() -> None:
    """Start two processes that never end, and tell their names in one line when both compute."""

    def tell(_: Mapping[str, float]) -> None:
        sys.stdout.write(", ".join(sorted(child.name for child in multiprocessing.active_children())) + "\n")
        sys.stdout.flush()

    train_together(
        wait_for_ever, SPEC, count=2, output=Path(tempfile.gettempdir()), report=tell, is_cancelled=lambda: False
    )


if __name__ == "__main__":
    main()
