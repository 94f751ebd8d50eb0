"""Running a stack: here in the foreground, or as a child with a handle on it (tests, benchmarks, `up --detach`)."""

import asyncio
import atexit
import contextlib
import logging
import logging.handlers
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tentalis.kept_models import link_shipped
from tentalis.platform.config import load_config, load_or_make_config
from tentalis.platform.errors import HomeError, NotRunningError, StartError, StopError
from tentalis.platform.home import Home
from tentalis.platform.logs import open_log, read_last_lines
from tentalis.platform.processes import die_with_parent, is_same_process, wait_until_gone
from tentalis.platform.stack import PROJECT_DIRECTORY, STORES, plan_stack, web_environment
from tentalis.platform.state import StackState, read_running_state, read_state, wait_for_state
from tentalis.platform.supervisor import STOP_SIGNALS, Supervisor
from tentalis.platform.tenancy import hold_home, stop_leftovers

logger = logging.getLogger("tentalis.platform")

START_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 90.0


def run_stack(home: Home, environ: Mapping[str, str], *, is_throwaway: bool = False, only: Sequence[str] = ()) -> None:
    """Run everything in the foreground until a signal says stop.

    Raises:
        PlatformError: it cannot start, or a service did not become ready; nothing is left running.
    """
    home.prepare()
    refuse_half_restored(home, only)
    with hold_home(home):
        link_shipped(home.root)
        config, _ = load_or_make_config(home)
        if left := stop_leftovers(home):
            logger.warning("stopped what an earlier supervisor left: %s", ", ".join(left))
        stack = plan_stack(home, config, environ, is_throwaway=is_throwaway, only=only)
        supervisor = Supervisor(home, stack.services, directory=PROJECT_DIRECTORY, addresses=stack.addresses)
        asyncio.run(supervisor.run())


def refuse_half_restored(home: Home, only: Sequence[str]) -> None:
    """Whole installations start; the database alone is what a restore itself starts.

    Raises:
        HomeError: a restore into this home was broken off, or runs.
    """
    if home.restoring_file.exists() and tuple(only) != ("postgres",):
        raise HomeError(
            f"{home.root} is only half restored: wait for `tentalis restore`, or empty the directory and call it again"
        )


@dataclass
class RunningStack:
    """A supervisor in a process of its own: ask for its services by name, send them signals, stop it."""

    home: Home
    process: subprocess.Popen[bytes]

    def state(self) -> StackState:
        """What runs now.

        Raises:
            NotRunningError: the supervisor is gone.
        """
        return read_running_state(self.home)

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """What a process of the web side (a management command, a benchmark) needs to work on this stack."""
        return web_environment(self.home, load_config(self.home), environ, self.state().addresses)

    def pid_of(self, name: str) -> int:
        """A service's process, whose restart is awaited when it is just down.

        Raises:
            UnknownServiceError: the stack has no such service.
            StartError: it does not come back.
        """
        self.state().of(name)
        return int(self.wait_until(lambda state: state.of(name).pid is not None).of(name).pid or 0)

    def signal(self, name: str, number: signal.Signals) -> int:
        """Send a service a signal and return the number of the process that got it."""
        pid = self.pid_of(name)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        return pid

    def wait_until(self, wanted: Callable[[StackState], bool], *, timeout_s: float = START_TIMEOUT_S) -> StackState:
        """Wait until the supervisor's state is what is wanted.

        Raises:
            StartError: it is gone, or the time is over.
        """
        return wait_for_state(
            self.home, wanted, timeout_s=timeout_s, still_starting=lambda: self.process.poll() is None
        )

    def stop(self) -> int:
        """Stop everything in order and return the supervisor's exit code.

        Raises:
            StopError: it is still there; it was killed, and its children with it.
        """
        self.process.terminate()
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise StopError(f"the supervisor of {self.home.root} did not leave within {STOP_TIMEOUT_S:g} s") from None


def launch_stack(
    home: Home,
    environ: Mapping[str, str],
    *,
    is_throwaway: bool = False,
    only: Sequence[str] = (),
    dies_with_us: bool = True,
    timeout_s: float = START_TIMEOUT_S,
) -> RunningStack:
    """Start a supervisor as a child and wait until everything is ready.

    Args:
        dies_with_us: the stack ends when this process does, however it does (Linux).
    Raises:
        PlatformError: it did not start; the message is the supervisor's own.
    """
    home.prepare()
    log = open_log(home.log_file("supervisor"))
    argv = [sys.executable, "-m", "tentalis", "up", "--quiet"]
    argv += ["--throwaway"] * is_throwaway + [word for name in only for word in ("--only", name)]
    try:
        process = subprocess.Popen(
            argv,
            env=dict(environ) | {"TENTALIS_HOME": str(home.root)},
            cwd=PROJECT_DIRECTORY,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=die_with_parent(signal.SIGTERM) if dies_with_us else None,
        )
    finally:
        os.close(log)
    stack = RunningStack(home, process)
    try:
        wait_for_state(
            home,
            lambda state: state.supervisor_pid == process.pid and state.phase == "ready",
            timeout_s=timeout_s,
            still_starting=lambda: process.poll() is None,
        )
    except StartError as error:
        if process.poll() is None:
            stack.stop()
            raise
        raise StartError(_last_words(home) or str(error)) from None
    except BaseException:
        process.terminate()
        process.wait()
        raise
    return stack


@contextlib.contextmanager
def running_stack(
    home: Home, environ: Mapping[str, str], *, is_throwaway: bool = False, only: Sequence[str] = ()
) -> Iterator[RunningStack]:
    """A stack for the length of a block: benchmarks, the demo, the tests of queue processes."""
    stack = launch_stack(home, environ, is_throwaway=is_throwaway, only=only)
    try:
        yield stack
    finally:
        stack.stop()


def ensure_embedded_servers(home: Home, environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Postgres and Redis alone, as throw-away servers that end with this process (the tests' session fixture).

    Returns:
        (admin_database_url, redis_url): who may make databases; of a stack that runs on this home, if one does.
    Raises:
        PlatformError: they do not start.
    """
    state = read_state(home)
    if state is None or not state.is_alive():
        external = {"TENTALIS_DATABASE_URL", "TENTALIS_REDIS_URL"}
        stores_only = {name: value for name, value in (environ or os.environ).items() if name not in external}
        stack = launch_stack(home, stores_only, is_throwaway=True, only=STORES)
        atexit.register(stack.stop)
        state = stack.state()
    else:
        identity = state.supervisor_identity
        state = wait_for_state(
            home,
            lambda found: found.phase == "ready",
            timeout_s=START_TIMEOUT_S,
            still_starting=lambda: is_same_process(identity),
        )
    return state.addresses["admin_database_url"], state.addresses["redis_url"]


def stop_stack(home: Home, *, is_hard: bool = False, timeout_s: float = STOP_TIMEOUT_S) -> None:
    """Stop the stack another process runs on this home and wait until it is gone.

    Args:
        is_hard: kill everything at once.
    Raises:
        NotRunningError: nothing runs.
        StopError: it did not leave in time.
    """
    state = read_running_state(home)
    try:
        for number in STOP_SIGNALS[: 2 if is_hard else 1]:
            os.kill(state.supervisor_pid, number)
    except ProcessLookupError:
        raise NotRunningError(f"nothing runs on {home.root}") from None
    if not wait_until_gone(state.supervisor_identity, timeout_s=timeout_s):
        raise StopError(
            f"the supervisor (pid {state.supervisor_pid}) did not leave within {timeout_s:g} s; "
            "`tentalis down --hard` kills everything"
        )


def log_to(home: Home, *, to_console: bool) -> None:
    """Send the supervisor's own words to its log file, and to the console when a person is watching."""
    line = logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S")
    handlers: list[logging.Handler] = [logging.StreamHandler()]
    if to_console:
        file = logging.handlers.RotatingFileHandler(
            home.log_file("supervisor"), maxBytes=2**20, backupCount=1, encoding="utf-8"
        )
        handlers.append(file)
    for handler in handlers:
        handler.setFormatter(line)
        logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


def _last_words(home: Home) -> str:
    lines = [line for line in read_last_lines(home.log_file("supervisor"), 5) if line.startswith("tentalis: ")]
    return lines[-1].removeprefix("tentalis: ") if lines else ""
