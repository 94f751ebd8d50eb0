"""Keeps a set of services alive: starts them in order, restarts what dies, stops them in reverse, leaves no orphan.

One task per service. A task starts its process when everything in `after` is ready, and stops it when everything that
names it in `after`, near or far, is gone: start and stop walk one graph from its two ends.
"""

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tentalis.platform.errors import HomeError, PlatformError, StartError
from tentalis.platform.home import Home
from tentalis.platform.logs import find_last_words, open_log, read_last_lines, rotate_log
from tentalis.platform.processes import die_with_parent, process_identity, signal_group
from tentalis.platform.service import Backoff, Restarts, Service, State
from tentalis.platform.state import ServiceState, StackState, mark_outdated

logger = logging.getLogger("tentalis.platform")

PROBE_INTERVAL_S = 0.05
WATCH_INTERVAL_S = 2.0
HOUSEKEEPING_INTERVAL_S = 10.0
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""All ask the same. Two of one kind that wait to be heard are one: who asks twice at once sends two kinds."""


@dataclass
class Unit:
    """A service and what is true of it now.

    Attributes:
        ready_s: how long its last process was ready.
    """

    service: Service
    state: State = State.WAITING
    process: asyncio.subprocess.Process | None = None
    identity: str = ""
    restarts: int = 0
    exit_code: int | None = None
    ready_at: float | None = None
    ready_s: float = 0.0
    is_ready: asyncio.Event = field(default_factory=asyncio.Event)
    is_gone: asyncio.Event = field(default_factory=asyncio.Event)


class Supervisor:
    """Runs services under one home, which the caller holds, until told to stop.

    Args:
        addresses: published in state.json as they are.
        directory: where the processes run.
        publish: writes state.json; raises HomeError where it cannot.
        housekeeping_s: logs are looked at, and a state that could not be written is tried again, so often.
    """

    def __init__(
        self,
        home: Home,
        services: Sequence[Service],
        *,
        directory: Path,
        addresses: dict[str, str] | None = None,
        backoff: Backoff | None = None,
        publish: Callable[[StackState, Home], None] = StackState.write,
        housekeeping_s: float = HOUSEKEEPING_INTERVAL_S,
    ) -> None:
        names = [service.name for service in services]
        for service in services:
            if missing := set(service.after) - set(names[: names.index(service.name)]):
                raise ValueError(f"{service.name} comes after {', '.join(sorted(missing))}, which must stand before it")
        self._home = home
        self._needs: dict[str, set[str]] = {}  # by name: all it comes after, near and far
        for service in services:
            self._needs[service.name] = set(service.after).union(*(self._needs[name] for name in service.after))
        self._units = {service.name: Unit(service) for service in services}
        self._directory = directory
        self._addresses = addresses or {}
        self._backoff = backoff or Backoff()
        self._write_state = publish
        self._is_published = True
        self._housekeeping_s = housekeeping_s
        self._stop = asyncio.Event()
        self._failure: PlatformError | None = None
        self._phase = "starting"
        self._started_at = time.time()

    async def run(self) -> None:
        """Start everything, keep it alive, and return when it was told to stop and everything is gone.

        Raises:
            PlatformError: a service did not become ready; everything else was stopped again.
        """
        self._listen_to_signals()
        self._publish()
        housekeeping = asyncio.create_task(self._keep_house())
        announcing = asyncio.create_task(self._announce_ready())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._stop.wait())
                for unit in self._units.values():
                    group.create_task(self._live(unit), name=unit.service.name)
        finally:
            for task in (housekeeping, announcing):
                task.cancel()
            for unit in self._units.values():
                self._kill_group(unit)
            self._home.state_file.unlink(missing_ok=True)
        if self._failure:
            raise self._failure

    def request_stop(self) -> None:
        """Stop in order; asked a second time, kill everything at once."""
        if self._stop.is_set():
            logger.warning("stopping hard")
            for unit in self._units.values():
                self._kill_group(unit)
            return
        logger.info("stopping")
        self._phase = "stopping"
        self._stop.set()

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self.request_stop)

    async def _live(self, unit: Unit) -> None:
        """One service from its first start to its end."""
        try:
            await self._wait_for_dependencies(unit)
            restarts = Restarts(self._backoff)
            while not self._stop.is_set():
                try:
                    reason = await self._run_once(unit)
                except PlatformError as error:
                    if not unit.is_ready.is_set():
                        self._give_up(unit, error)
                        return
                    reason = f"cannot be started ({error})"
                if reason is None or self._stop.is_set():
                    return
                if not unit.is_ready.is_set():
                    self._fail(unit, reason)
                    return
                delay_s = restarts.next_wait_s(unit.ready_s)
                unit.restarts += 1
                self._move(unit, State.BACKING_OFF)
                logger.warning("%s %s; restart %d in %.2g s", unit.service.name, reason, unit.restarts, delay_s)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), delay_s)
        finally:
            if unit.state not in (State.DONE, State.FAILED):
                self._move(unit, State.STOPPED)
            unit.is_gone.set()

    async def _run_once(self, unit: Unit) -> str | None:
        """Start the process and stay with it until it ends. Returns why it ended, None when that is as it should be."""
        service = unit.service
        unit.ready_s = 0.0
        if service.prepare:
            try:
                await asyncio.to_thread(service.prepare)
            except OSError as error:
                raise StartError(f"{service.name}: {error.filename or 'the disk'}: {error.strerror}") from None
        process = await self._spawn(unit)
        exited = asyncio.create_task(process.wait())
        try:
            if service.is_oneshot:
                await self._first(exited, self._stop.wait())
            else:
                reason = await self._become_ready(unit, exited)
                if reason:
                    return reason
                await self._first(exited, self._stop.wait(), self._watch(unit))
            if not exited.done() and self._stop.is_set():
                await self._stop_in_turn(unit, exited)
                return None
            if not exited.done():
                return f"gave no sign of life for {service.patience_s:g} s"
            if service.is_oneshot and process.returncode == 0:
                self._move(unit, State.DONE)
                unit.is_ready.set()
                logger.info("%s done", service.name)
                return None
            return f"ended with {_name_exit(process.returncode)}"
        finally:
            self._kill_group(unit)
            await exited
            unit.exit_code = process.returncode
            unit.ready_s = time.time() - unit.ready_at if unit.ready_at else 0.0
            unit.process, unit.identity, unit.ready_at = None, "", None

    async def _spawn(self, unit: Unit) -> asyncio.subprocess.Process:
        service = unit.service
        log = None
        try:
            log = open_log(self._home.log_file(service.name))
            process = await asyncio.create_subprocess_exec(
                *service.argv,
                env=dict(service.environment),
                cwd=self._directory,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                user=service.user,
                extra_groups=[] if service.user else None,
                preexec_fn=die_with_parent(service.death_signal),
            )
        except OSError as error:
            raise StartError(f"{service.name}: {error.filename or service.argv[0]}: {error.strerror}") from None
        finally:
            if log is not None:
                os.close(log)
        unit.process = process
        unit.identity = process_identity(process.pid)
        self._move(unit, State.STARTING)
        return process

    async def _become_ready(self, unit: Unit, exited: asyncio.Task[int]) -> str | None:
        """Wait until the probe says yes. Returns why it never will, None when ready or told to stop."""
        service = unit.service
        started_at = time.monotonic()
        while service.probe and not await service.probe():
            if self._stop.is_set():
                return None
            if exited.done():
                return f"ended with {_name_exit(exited.result())}"
            if time.monotonic() - started_at > service.start_timeout_s:
                return f"was not ready within {service.start_timeout_s:g} s"
            await asyncio.sleep(PROBE_INTERVAL_S)
        unit.ready_at = time.time()
        unit.is_ready.set()
        self._move(unit, State.READY)
        logger.info("%s ready after %.1f s (pid %d)", service.name, time.monotonic() - started_at, self._pid(unit))
        return None

    async def _watch(self, unit: Unit) -> None:
        """Return when the service is frozen: its probe has failed for longer than its patience. Else never."""
        service = unit.service
        if service.probe is None or service.patience_s is None:
            await asyncio.Event().wait()
            return
        last_life = time.monotonic()
        while time.monotonic() - last_life < service.patience_s:
            await asyncio.sleep(min(WATCH_INTERVAL_S, service.patience_s / 3))
            asked_at = time.monotonic()
            if await service.probe():
                last_life = asked_at

    async def _wait_for_dependencies(self, unit: Unit) -> None:
        for name in unit.service.after:
            await self._first(self._units[name].is_ready.wait(), self._stop.wait())

    async def _stop_in_turn(self, unit: Unit, exited: asyncio.Task[int]) -> None:
        """Ask the process to leave once nothing that needs it is left; kill it when it does not."""
        service = unit.service
        for name, other in self._units.items():
            if service.name in self._needs[name]:
                await self._first(other.is_gone.wait(), exited)
        self._move(unit, State.STOPPING)
        if not exited.done() and unit.process:
            unit.process.send_signal(service.stop_signal)  # the leader alone: it stops its own children
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(exited), service.stop_timeout_s)
            return
        logger.warning("%s did not leave within %g s and is killed", service.name, service.stop_timeout_s)

    def _fail(self, unit: Unit, reason: str) -> None:
        """Give up the start: remember the first failure and stop the rest."""
        log = self._home.log_file(unit.service.name)
        last = find_last_words("\n".join(read_last_lines(log, 20)))
        words = f"{unit.service.name} {reason}" + (f": {last[:300]}" if last else "")
        self._give_up(unit, StartError(f"{words} (see {log})"))

    def _give_up(self, unit: Unit, error: PlatformError) -> None:
        self._failure = self._failure or error
        self._move(unit, State.FAILED)
        if not self._stop.is_set():
            self.request_stop()

    async def _first(self, *waits: Coroutine[Any, Any, Any] | asyncio.Task[Any]) -> None:
        """Wait for the first of several; the coroutines among the others are cancelled, the tasks go on."""
        own = [asyncio.ensure_future(wait) for wait in waits if not isinstance(wait, asyncio.Task)]
        given = [wait for wait in waits if isinstance(wait, asyncio.Task)]
        try:
            await asyncio.wait([*own, *given], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in own:
                task.cancel()

    async def _announce_ready(self) -> None:
        for unit in self._units.values():
            await unit.is_ready.wait()
        if not self._stop.is_set():
            self._phase = "ready"
            self._publish()
            logger.info("everything is ready after %.1f s", time.time() - self._started_at)

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(self._housekeeping_s)
            if not self._is_published:
                self._publish()
            for name in self._units:
                try:
                    rotate_log(self._home.log_file(name))
                except OSError as error:  # a full disk: tried again
                    logger.warning("the log of %s is not rotated: %s", name, error.strerror)

    def _pid(self, unit: Unit) -> int:
        return unit.process.pid if unit.process else 0

    def _kill_group(self, unit: Unit) -> None:
        if unit.process:
            signal_group(unit.process.pid, signal.SIGKILL)

    def _move(self, unit: Unit, state: State) -> None:
        unit.state = state
        self._publish()

    def _publish(self) -> None:
        rows = tuple(
            ServiceState(
                name=unit.service.name,
                state=unit.state.value,
                pid=unit.process.pid if unit.process else None,
                identity=unit.identity,
                restarts=unit.restarts,
                port=unit.service.port,
                ready_at=unit.ready_at,
                exit_code=unit.exit_code,
            )
            for unit in self._units.values()
        )
        state = StackState(
            supervisor_pid=os.getpid(),
            supervisor_identity=process_identity(os.getpid()),
            phase=self._phase,
            started_at=self._started_at,
            services=rows,
            addresses=self._addresses,
        )
        was_published = self._is_published
        try:
            self._write_state(state, self._home)
            self._is_published = True
        except HomeError as error:  # a full disk must not take the services down
            self._is_published = False
            mark_outdated(self._home)
            if was_published:
                logger.warning("the state is not published: %s", error)
        else:
            if not was_published:
                logger.info("the state is published again")


def _name_exit(code: int | None) -> str:
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
    return f"exit code {code}"
