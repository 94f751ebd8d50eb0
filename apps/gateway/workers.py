"""Several gateway processes at one address: started, started again where one dies, stopped, and shown as one.

The kernel spreads the callers' connections over them. Each has a spool of its own, and the process that started them
carries all of these over: stored by one, a session's exchanges keep the order in which they were answered.
"""

import asyncio
import logging
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from uuid import uuid4

from django.conf import settings

from apps.base.tasks import cancel_and_wait
from apps.gateway.group import SHARE_EVERY_S, share_metrics
from apps.gateway.metrics import Metrics
from apps.gateway.process import GC_THRESHOLDS, make_writer
from apps.gateway.sockets import bind
from apps.gateway.spool import FileSpool
from tentalis.garbage import settle_garbage
from tentalis.platform.processes import die_with_parent
from tentalis.platform.service import Backoff, Restarts

logger = logging.getLogger(__name__)

AGAIN = Backoff(first_s=0.1, cap_s=5.0)


class WorkerError(OSError):
    """A worker did not start, and has said why itself; or what is kept is not stored any more."""


async def run_workers(*, host: str, port: int, count: int) -> None:
    """Serve with so many processes until SIGTERM or SIGINT.

    Raises:
        OSError: the port cannot be bound, or a worker did not start.
    """
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    port = _find_port(host, port)
    group = f"gateway-{uuid4().hex[:12]}"
    spool = FileSpool(settings.HOME / "spool", name=group)
    writer = make_writer(spool, follows=f"{group}-")
    metrics = Metrics()
    metrics.gauges |= writer.gauges
    settle_garbage(GC_THRESHOLDS)
    async with AsyncExitStack() as stack:
        stack.callback(spool.close)
        writer.start()
        stack.push_async_callback(asyncio.to_thread, writer.stop)
        workers = [_Worker(f"{group}-{number}", bind(host, port, is_shared=True)) for number in range(1, count + 1)]
        stack.push_async_callback(_stop, workers)
        await asyncio.gather(*(worker.start() for worker in workers))
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()
        while not stopping.is_set():
            if troubles := writer.find_troubles():
                raise WorkerError(troubles[0])
            share_metrics(spool.directory.path, metrics)
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), SHARE_EVERY_S)


class _Worker:
    """One of the processes, and the sockets at which it listens; those stay open, and who calls waits, while it dies
    and is started again."""

    def __init__(self, name: str, sockets: Sequence[socket.socket]) -> None:
        self._name = name
        self._sockets = sockets
        self._count = 0
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises WorkerError."""
        if not await self._start():
            raise WorkerError(f"the worker {self._name} did not start")
        self._keeper = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """Take no new connection, and let what is under way end."""
        await cancel_and_wait(self._keeper)
        for each in self._sockets:
            each.close()
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.terminate()
            await self._process.wait()

    async def _start(self) -> bool:
        """Whether it listens."""
        files = [each.fileno() for each in self._sockets]
        argv = [sys.executable, "-m", "apps.gateway", "--spool", f"{self._name}-{self._count}"]
        argv += ["--sockets", *map(str, files)]
        self._count += 1
        self._process = await asyncio.create_subprocess_exec(
            *argv, stdout=asyncio.subprocess.PIPE, pass_fds=files, preexec_fn=die_with_parent(signal.SIGKILL)
        )
        assert self._process.stdout is not None
        return bool(await self._process.stdout.readline())

    async def _keep(self) -> None:
        restarts, ready_at = Restarts(AGAIN), time.monotonic()
        while True:
            assert self._process is not None
            code = await self._process.wait()
            wait_s = restarts.next_wait_s(time.monotonic() - ready_at)
            logger.error("the worker %s ended (%s), and is started again in %g s", self._name, code, wait_s)
            await asyncio.sleep(wait_s)
            await self._start()
            ready_at = time.monotonic()


async def _stop(workers: Sequence[_Worker]) -> None:
    await asyncio.gather(*(worker.stop() for worker in workers))


def _find_port(host: str, port: int) -> int:
    """The port, or any that is free where that is 0. Raises OSError where somebody else has it, who may share it."""
    first, *others = bind(host, port)
    found = int(first.getsockname()[1])
    for each in (first, *others):
        each.close()
    return found
