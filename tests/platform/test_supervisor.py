"""The supervisor, over small processes that are really started, killed and frozen."""

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from tentalis.cli.local import status
from tentalis.platform.errors import HomeError, StartError
from tentalis.platform.home import Home
from tentalis.platform.processes import is_same_process, process_name
from tentalis.platform.service import Backoff, Restarts, Service
from tentalis.platform.state import StackState, read_state
from tentalis.platform.supervisor import Supervisor
from tests.platform.services import OBEDIENT, STUBBORN, Workshop

pytestmark = pytest.mark.broker


@pytest.fixture
def workshop(home: Home) -> Workshop:
    home.prepare()
    return Workshop(home.root)


def supervise(home: Home, *services: Service) -> Supervisor:
    return Supervisor(home, services, directory=Path.cwd(), backoff=Backoff(first_s=0.01, cap_s=0.05))


async def wait_for(home: Home, run: "asyncio.Task[None]", wanted: Callable[[StackState], bool]) -> StackState:
    """The first state that is as wanted; the run's own error when it ends before."""
    while not run.done():
        state = read_state(home)
        if state and wanted(state):
            return state
        await asyncio.sleep(0.01)
    await run
    raise AssertionError("the supervisor ended before its state was as wanted")


def is_ready(state: StackState) -> bool:
    return state.phase == "ready"


async def test_services_start_in_order_and_stop_in_reverse(home: Home, workshop: Workshop) -> None:
    supervisor = supervise(
        home,
        workshop.service("store"),
        workshop.service("web", after=["store"]),
        workshop.service("proxy", after=["web"]),
    )
    run = asyncio.create_task(supervisor.run())
    await wait_for(home, run, is_ready)
    supervisor.request_stop()
    await run
    assert workshop.events() == ["start store", "start web", "start proxy", "stop proxy", "stop web", "stop store"]


async def test_a_store_outlives_what_came_after_a_finished_oneshot(home: Home, workshop: Workshop) -> None:
    supervisor = supervise(
        home,
        workshop.service("store"),
        workshop.oneshot("migrate", "", after=["store"]),
        workshop.service("web", after=["migrate"]),
    )
    run = asyncio.create_task(supervisor.run())
    await wait_for(home, run, is_ready)
    supervisor.request_stop()
    await run
    assert workshop.events() == ["start store", "start web", "stop web", "stop store"]


async def test_a_killed_service_comes_back_and_its_restarts_are_counted(home: Home, workshop: Workshop) -> None:
    supervisor = supervise(home, workshop.service("web"))
    run = asyncio.create_task(supervisor.run())
    first = (await wait_for(home, run, is_ready)).of("web")
    os.kill(first.pid or 0, signal.SIGKILL)
    second = (await wait_for(home, run, lambda state: state.of("web").restarts == 1 and _is_up(state))).of("web")
    supervisor.request_stop()
    await run
    assert second.pid != first.pid
    assert second.exit_code == -signal.SIGKILL
    assert workshop.events() == ["start web", "start web", "stop web"]


@pytest.mark.parametrize(
    ("ready_s", "waits_s"),
    [
        ([0, 0.9, 0, 0], [1, 2, 4, 5]),
        ([1, 2, 60], [1, 1, 1]),
        ([0, 0, 3, 0, 0], [1, 2, 1, 2, 4]),
    ],
)
def test_only_who_ends_as_soon_as_it_is_ready_waits_longer_each_time(
    ready_s: list[float], waits_s: list[float]
) -> None:
    restarts = Restarts(Backoff(first_s=1, cap_s=5, forgive_after_s=1))
    assert [restarts.next_wait_s(one) for one in ready_s] == waits_s


SECOND_TIME_BROKEN = """
import sys, pathlib
if "start" in pathlib.Path(sys.argv[1]).read_text():
    sys.exit(1)
"""


async def test_the_time_before_a_service_is_ready_is_no_service(
    home: Home, workshop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    workshop.journal.touch()
    script = SECOND_TIME_BROKEN + OBEDIENT
    backoff = Backoff(first_s=0.01, cap_s=60, forgive_after_s=1e-6)
    supervisor = Supervisor(home, [workshop.service("web", script=script)], directory=Path.cwd(), backoff=backoff)
    run = asyncio.create_task(supervisor.run())
    first = (await wait_for(home, run, is_ready)).of("web")
    os.kill(first.pid or 0, signal.SIGKILL)
    await wait_for(home, run, lambda state: state.of("web").restarts == 3)
    supervisor.request_stop()
    await run
    told = [message.partition("restart ")[2] for message in caplog.messages if "restart" in message]
    assert told[:3] == ["1 in 0.01 s", "2 in 0.02 s", "3 in 0.04 s"]


def _is_up(state: StackState) -> bool:
    return state.of("web").state == "ready"


async def test_a_frozen_service_is_killed_and_comes_back(home: Home, workshop: Workshop) -> None:
    moved_on = asyncio.Event()
    probe = workshop.service("web").probe
    assert probe

    async def answers() -> bool:
        state = read_state(home)
        is_frozen = state is not None and state.of("web").restarts == 0 and moved_on.is_set()
        return await probe() and not is_frozen

    supervisor = supervise(home, workshop.service("web", probe=answers, patience_s=0.1))
    run = asyncio.create_task(supervisor.run())
    first = (await wait_for(home, run, is_ready)).of("web")
    os.kill(first.pid or 0, signal.SIGSTOP)
    moved_on.set()
    await wait_for(home, run, lambda state: state.of("web").restarts == 1 and _is_up(state))
    assert not is_same_process(first.identity)
    supervisor.request_stop()
    await run


async def test_a_service_that_does_not_leave_is_killed_after_its_time(home: Home, workshop: Workshop) -> None:
    supervisor = supervise(home, workshop.service("web", script=STUBBORN, stop_timeout_s=0.2))
    run = asyncio.create_task(supervisor.run())
    web = (await wait_for(home, run, is_ready)).of("web")
    supervisor.request_stop()
    await run
    assert not is_same_process(web.identity)


async def test_the_second_request_to_stop_kills_at_once(home: Home, workshop: Workshop) -> None:
    supervisor = supervise(home, workshop.service("web", script=STUBBORN, stop_timeout_s=3600))
    run = asyncio.create_task(supervisor.run())
    web = (await wait_for(home, run, is_ready)).of("web")
    supervisor.request_stop()
    await wait_for(home, run, lambda state: state.of("web").state == "stopping")
    supervisor.request_stop()
    await run
    assert not is_same_process(web.identity)


async def test_children_of_a_killed_service_go_with_it(home: Home, workshop: Workshop) -> None:
    script = (
        "import subprocess, sys, pathlib, time\n"
        "child = subprocess.Popen(['sleep', '3600'])\n"
        "pathlib.Path(sys.argv[1]).write_text(str(child.pid))\n"
        "pathlib.Path(sys.argv[3]).touch()\n"
        "child.wait()\n"
    )
    supervisor = supervise(home, workshop.service("web", script=script))
    run = asyncio.create_task(supervisor.run())
    web = (await wait_for(home, run, is_ready)).of("web")
    child = int(workshop.journal.read_text())
    assert process_name(child) == "sleep"
    os.kill(web.pid or 0, signal.SIGKILL)
    await wait_for(home, run, lambda state: state.of("web").restarts == 1 and process_name(child) != "sleep")
    supervisor.request_stop()
    await run


async def test_a_oneshot_that_fails_stops_the_start_with_its_last_line(home: Home, workshop: Workshop) -> None:
    supervisor = supervise(
        home,
        workshop.service("store"),
        workshop.oneshot("migrate", "raise SystemExit('no such table: tickets')", after=["store"]),
        workshop.service("web", after=["migrate"]),
    )
    with pytest.raises(
        StartError, match=r"migrate ended with exit code 1: no such table: tickets \(see .*migrate\.log"
    ):
        await supervisor.run()
    assert workshop.events() == ["start store", "stop store"]
    assert read_state(home) is None


async def test_a_service_that_ends_before_it_was_ready_stops_the_start(home: Home, workshop: Workshop) -> None:
    supervisor = supervise(home, workshop.service("web", script="raise SystemExit(7)"))
    with pytest.raises(StartError, match="web ended with exit code 7"):
        await supervisor.run()


async def test_a_service_that_is_never_ready_stops_the_start(home: Home, workshop: Workshop) -> None:
    async def never() -> bool:
        return False

    supervisor = supervise(home, workshop.service("web", probe=never, start_timeout_s=0.3))
    with pytest.raises(StartError, match=r"web was not ready within 0\.3 s"):
        await supervisor.run()


async def test_a_program_that_is_not_there_is_named(home: Home, workshop: Workshop) -> None:
    supervisor = supervise(home, workshop.service("web", argv=["/no/such/program"]))
    with pytest.raises(StartError, match="web: /no/such/program: No such file"):
        await supervisor.run()


async def test_a_home_that_vanishes_takes_no_service_down(
    home: Home, workshop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    def prepare() -> None:
        (workshop.directory / "web.up").unlink(missing_ok=True)
        (home.root / "web.alive").touch()

    supervisor = supervise(home, workshop.service("web", prepare=prepare))
    run = asyncio.create_task(supervisor.run())
    web = (await wait_for(home, run, is_ready)).of("web")
    home.root.rename(home.root.with_name("moved"))
    os.kill(web.pid or 0, signal.SIGKILL)
    while "cannot be started" not in caplog.text:
        assert not run.done(), run
        await asyncio.sleep(0.01)
    home.root.with_name("moved").rename(home.root)
    again = await wait_for(home, run, lambda state: _is_up(state) and state.of("web").pid != web.pid)
    supervisor.request_stop()
    await run
    assert again.of("web").restarts >= 2
    assert "the state is not published" in caplog.text


class FullDisk:
    """Takes the state while there is room, and refuses it as `write_private_file` does while there is none."""

    def __init__(self) -> None:
        self.is_full = False

    def __call__(self, state: StackState, home: Home) -> None:
        if self.is_full:
            raise HomeError(f"{home.state_file} cannot be written: No space left on device")
        state.write(home)


async def test_what_a_full_disk_did_not_take_is_marked_as_old_and_true_again_when_there_is_room(
    home: Home, workshop: Workshop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk()
    supervisor = Supervisor(
        home,
        [workshop.service("web")],
        directory=Path.cwd(),
        backoff=Backoff(first_s=0.01, cap_s=0.05),
        publish=disk,
        housekeeping_s=0.02,
    )
    monkeypatch.setenv("TENTALIS_HOME", str(home.root))
    run = asyncio.create_task(supervisor.run())
    before = (await wait_for(home, run, is_ready)).of("web")
    status()
    assert capsys.readouterr().err == ""
    disk.is_full = True
    os.kill(before.pid or 0, signal.SIGKILL)
    old = await wait_for(home, run, lambda state: not state.is_current)
    assert old.of("web") == before
    with pytest.raises(typer.Exit) as exited:
        status()
    assert exited.value.exit_code == 1
    assert "this is old: the supervisor cannot write" in capsys.readouterr().err
    with pytest.raises(typer.Exit):
        status(as_json=True)
    assert json.loads(capsys.readouterr().out)["is_current"] is False
    disk.is_full = False
    now = await wait_for(home, run, lambda state: state.is_current and _is_up(state))
    assert (now.of("web").restarts, now.of("web").pid != before.pid) == (1, True)
    supervisor.request_stop()
    await run


def test_a_service_before_what_it_needs_is_a_defect(home: Home, workshop: Workshop) -> None:
    with pytest.raises(ValueError, match="web comes after store, which must stand before it"):
        supervise(home, workshop.service("web", after=["store"]), workshop.service("store"))
