"""What the processes at one address know of each other: they find what they tell in their spools' directories."""

import asyncio
import logging
import os
from contextlib import suppress
from pathlib import Path

from apps.gateway.metrics import Metrics, join_exposed
from apps.gateway.spool import FileSpool

logger = logging.getLogger(__name__)

SHARE_EVERY_S = 1.0
_METRICS = "metrics"


def name_group(spool: str) -> str:
    """How the spools of all processes at the address of one begin; of a process that is alone its spool's own name.

    They are `gateway-<group>` of who started them, `gateway-<group>-<number>-<start>` of a worker.
    """
    return "-".join(spool.split("-")[:2])


def share_metrics(directory: Path, metrics: Metrics) -> None:
    """Put a process's figures where the others at its address find them: into its spool, with which they go."""
    draft = directory / f".{_METRICS}"
    with suppress(OSError):  # a full disk is told elsewhere
        draft.write_bytes(metrics.expose())
        draft.replace(directory / _METRICS)


def expose_group(directory: Path, metrics: Metrics) -> bytes:
    """The figures of all processes at one address, told apart by the label `process`; of this one as they are now."""
    group = name_group(directory.name)
    exposed: dict[str, bytes] = {}
    for path in sorted(directory.parent.glob(f"{group}*/{_METRICS}"), key=_read_time):
        with suppress(OSError):
            exposed[_name_process(path.parent.name)] = path.read_bytes()
    exposed[_name_process(directory.name)] = metrics.expose()
    return join_exposed(exposed)


async def watch_parent(spool: FileSpool, metrics: Metrics, stopping: asyncio.Event) -> None:
    """Share a worker's figures, see what of its spool was stored, and stop where nobody is left to store it."""
    parent = os.getppid()
    while not stopping.is_set():
        share_metrics(spool.directory.path, metrics)
        await asyncio.sleep(SHARE_EVERY_S)
        spool.measure()
        if os.getppid() != parent:
            logger.error("whoever started this worker is gone: stopping")
            stopping.set()


def _name_process(spool: str) -> str:
    """The number of a worker; "writer" for who started them, and stores."""
    return next(iter(spool.split("-")[2:3]), "writer")


def _read_time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
