"""`tentalis up` for real: embedded Postgres and Redis under a supervisor, killed and stopped in every way."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
import redis

from tentalis.platform.errors import NotRunningError, StartError
from tentalis.platform.home import Home
from tentalis.platform.processes import wait_until_gone
from tentalis.platform.state import read_state
from tentalis.platform.up import RunningStack, ensure_embedded_servers, launch_stack, running_stack, stop_stack
from tentalis.sandbox.client import SandboxClient
from tests.chaos.stage import make_environ

pytestmark = pytest.mark.broker

STORES = ("postgres", "redis")
LONG_ENOUGH_S = 30.0


@pytest.fixture
def stack(home: Home, environ: dict[str, str]) -> Iterator[RunningStack]:
    with running_stack(home, environ, is_throwaway=True, only=STORES) as running:
        yield running


@pytest.fixture(scope="module")
def its_environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of `standing`."""
    return make_environ() | {"TENTALIS_HOME": str(tmp_path_factory.mktemp("standing") / "home")}


@pytest.fixture(scope="module")
def standing(its_environ: dict[str, str]) -> Iterator[RunningStack]:
    """One for all tests that leave it as it is."""
    with running_stack(
        Home(Path(its_environ["TENTALIS_HOME"])), its_environ, is_throwaway=True, only=STORES
    ) as running:
        yield running


def run_tentalis(environ: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tentalis", *words], env=environ, capture_output=True, text=True, check=False, timeout=60
    )


def count_waiting_signals(pid: int) -> int:
    """How many different signals a stopped process has yet to hear."""
    status = Path(f"/proc/{pid}/status").read_text()
    return sum(int(line.split()[1], 16).bit_count() for line in status.splitlines() if line.startswith("ShdPnd:"))


def identities(stack: RunningStack) -> list[str]:
    return [service.identity for service in stack.state().services]


def test_the_servers_want_their_passwords_and_answer_with_them(standing: RunningStack) -> None:
    addresses = standing.state().addresses
    with psycopg.connect(addresses["admin_database_url"]) as connection:
        assert connection.execute("SELECT current_database(), current_user").fetchone() == ("tentalis", "tentalis")
    with redis.Redis.from_url(addresses["redis_url"]) as client:
        assert client.ping()
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(addresses["admin_database_url"].replace("tentalis:", "tentalis:not"))
    with (
        redis.Redis(port=standing.state().of("redis").port or 0) as stranger,
        pytest.raises(redis.AuthenticationError),
    ):
        stranger.ping()


def test_a_sandbox_host_is_among_the_services(home: Home, environ: dict[str, str]) -> None:
    with running_stack(home, environ, is_throwaway=True, only=("sandboxes",)) as running:
        assert [service.name for service in running.state().services] == ["sandboxes"]
        client = SandboxClient(home.sandboxes)
        assert client.describe()["backend"] == "embedded"
        client.close()
    assert not (home.sandboxes / "host.sock").exists()


def test_no_password_stands_on_a_command_line(standing: RunningStack) -> None:
    config = standing.home.config_file.read_text()
    secrets = [line.split('"')[1] for line in config.splitlines() if "password" in line and '"' in line]
    assert len(secrets) == 3
    for service in standing.state().services:
        words = Path(f"/proc/{service.pid}/cmdline").read_bytes().decode()
        assert not [secret for secret in secrets if secret in words]


@pytest.mark.parametrize("name", STORES)
def test_a_killed_server_comes_back_with_what_it_knew(stack: RunningStack, name: str) -> None:
    addresses = stack.state().addresses
    with psycopg.connect(addresses["admin_database_url"], autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
    first = stack.signal(name, signal.SIGKILL)
    stack.wait_until(lambda state: state.of(name).restarts >= 1 and state.of(name).state == "ready")
    assert stack.pid_of(name) != first
    with psycopg.connect(addresses["admin_database_url"]) as connection:
        assert connection.execute("SELECT number FROM kept").fetchone() == (7,)
    with redis.Redis.from_url(addresses["redis_url"]) as client:
        assert client.ping()


def test_a_second_start_on_the_same_home_is_refused(standing: RunningStack, its_environ: dict[str, str]) -> None:
    before = standing.state()
    refused = run_tentalis(its_environ, "up", "--only", "redis")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"tentalis: already running on {standing.home.root}")
    assert standing.state() == before


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the next start collects what was left")
def test_nothing_outlives_a_killed_supervisor(stack: RunningStack) -> None:
    left = identities(stack)
    stack.process.kill()
    stack.process.wait()
    assert [wait_until_gone(identity, timeout_s=LONG_ENOUGH_S) for identity in left] == [True, True]


def test_a_home_whose_supervisor_was_killed_starts_again(home: Home, environ: dict[str, str]) -> None:
    first = launch_stack(home, environ, only=STORES)
    first.process.kill()
    first.process.wait()
    home.state_file.write_text("")  # as a power cut may leave what was not yet on the disk
    with running_stack(home, environ, only=STORES) as second:
        assert [service.state for service in second.state().services] == ["ready", "ready"]


def test_ctrl_c_stops_everything_and_exits_cleanly(home: Home, environ: dict[str, str]) -> None:
    stack = launch_stack(home, environ, is_throwaway=True, only=STORES)
    left = identities(stack)
    stack.process.send_signal(signal.SIGINT)
    assert stack.process.wait(LONG_ENOUGH_S) == 0
    assert all(wait_until_gone(identity, timeout_s=0) for identity in left)
    assert "database system is shut down" in home.log_file("postgres").read_text()
    assert not (home.postgres_data / "postmaster.pid").exists()


def test_down_stops_what_up_started_and_then_says_that_nothing_runs(
    stack: RunningStack, environ: dict[str, str]
) -> None:
    left = identities(stack)
    assert run_tentalis(environ, "down").returncode == 0
    assert all(wait_until_gone(identity, timeout_s=0) for identity in left)
    again = run_tentalis(environ, "down")
    assert again.returncode == 1
    assert again.stderr == f"tentalis: nothing runs on {stack.home.root}; `tentalis up` starts it\n"
    with pytest.raises(NotRunningError):
        stop_stack(stack.home)


@pytest.mark.skipif(sys.platform != "linux", reason="signals that wait are read in /proc")
def test_a_hard_stop_is_one_though_its_supervisor_hears_both_requests_at_once(stack: RunningStack) -> None:
    left = identities(stack)
    stack.process.send_signal(signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        stopping = pool.submit(stop_stack, stack.home, is_hard=True)
        until = time.monotonic() + 2.0
        while time.monotonic() < until and count_waiting_signals(stack.process.pid) < 2:
            time.sleep(0.02)
        stack.process.send_signal(signal.SIGCONT)
        stopping.result()
    assert "stopping hard" in stack.home.log_file("supervisor").read_text()
    assert all(wait_until_gone(identity, timeout_s=0) for identity in left)


def test_a_detached_stack_outlives_the_command_that_started_it(home: Home, environ: dict[str, str]) -> None:
    started = run_tentalis(environ, "up", "--detach", "--throwaway", *(w for name in STORES for w in ("--only", name)))
    try:
        assert started.returncode == 0, started.stderr
        assert started.stdout.count("password") == 1
        assert run_tentalis(environ, "status").returncode == 0
    finally:
        stop_stack(home)


def test_status_tells_name_pid_state_restarts_port_and_uptime(
    standing: RunningStack, its_environ: dict[str, str]
) -> None:
    answer = run_tentalis(its_environ, "status", "--json")
    document = json.loads(answer.stdout)
    assert (answer.returncode, document["phase"]) == (0, "ready")
    rows = {row["name"]: row for row in document["services"]}
    assert rows["redis"] | {"uptime_s": 0} == {
        "name": "redis",
        "pid": standing.pid_of("redis"),
        "state": "ready",
        "restarts": 0,
        "port": int(its_environ["TENTALIS_REDIS_PORT"]),
        "uptime_s": 0,
        "exit_code": None,
    }
    assert rows["redis"]["uptime_s"] >= 0
    assert "postgres" in run_tentalis(its_environ, "status").stdout


def test_logs_show_what_a_service_wrote_and_name_what_is_not_there(
    standing: RunningStack, its_environ: dict[str, str]
) -> None:
    shown = run_tentalis(its_environ, "logs", "postgres")
    assert "postgres | " in shown.stdout
    assert "ready to accept connections" in shown.stdout
    unknown = run_tentalis(its_environ, "logs", "nobody")
    assert unknown.returncode == 1
    assert "no log of 'nobody'; there are postgres, redis" in unknown.stderr


def test_a_port_somebody_asked_for_and_that_is_taken_stops_the_start(
    home: Home, environ: dict[str, str], taken_port: int
) -> None:
    environ["TENTALIS_REDIS_PORT"] = str(taken_port)
    with pytest.raises(StartError, match=f"TENTALIS_REDIS_PORT: port {taken_port} on 127.0.0.1 is taken"):
        launch_stack(home, environ, only=["redis"])
    assert read_state(home) is None


def test_a_home_that_cannot_be_written_stops_the_start_with_one_line(home: Home, environ: dict[str, str]) -> None:
    home.root.write_text("a file stands here")
    refused = run_tentalis(environ, "up")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == f"tentalis: {home.root} must be a directory we can write to: File exists\n"


def test_data_of_another_postgres_is_refused_and_left_alone(home: Home, environ: dict[str, str]) -> None:
    with running_stack(home, environ, is_throwaway=True, only=["postgres"]):
        pass
    version = home.postgres_data / "PG_VERSION"
    version.write_text("15\n")
    with pytest.raises(StartError, match=r"was made by Postgres 15, this installation runs 18"):
        launch_stack(home, environ, only=["postgres"])
    assert version.read_text() == "15\n"
    assert not (home.postgres_data / "postmaster.pid").exists()


def test_a_half_made_cluster_of_an_interrupted_start_is_made_again(home: Home, environ: dict[str, str]) -> None:
    home.prepare()
    staging = home.postgres_data.with_name("postgres.init")
    staging.mkdir()
    (staging / "PG_VERSION").write_text("18\n")
    with running_stack(home, environ, is_throwaway=True, only=["postgres"]) as stack:
        assert stack.state().of("postgres").state == "ready"
    assert not staging.exists()


def test_an_unknown_setting_stops_the_start_by_name(home: Home, environ: dict[str, str]) -> None:
    refused = run_tentalis(environ | {"TENTALIS_WEP_PORT": "1"}, "up")
    assert refused.returncode == 1
    assert "tentalis: unknown variable TENTALIS_WEP_PORT" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_servers_of_somebody_else_are_used_and_none_is_started(
    standing: RunningStack, its_environ: dict[str, str], tmp_path: Path
) -> None:
    addresses = standing.state().addresses
    elsewhere = Home(tmp_path / "elsewhere")
    outside = {
        "TENTALIS_DATABASE_URL": addresses["admin_database_url"],
        "TENTALIS_REDIS_URL": addresses["redis_url"],
        "TENTALIS_HOME": str(elsewhere.root),
    }
    with running_stack(elsewhere, its_environ | outside, only=STORES) as second:
        assert second.state().services == ()
        assert second.state().addresses["redis_url"] == addresses["redis_url"]
    assert not elsewhere.postgres_data.exists()


SESSION = """
import os, sys
from pathlib import Path
from tentalis.platform.home import Home
from tentalis.platform.up import ensure_embedded_servers
assert ensure_embedded_servers(Home(Path(sys.argv[1]))) == ensure_embedded_servers(Home(Path(sys.argv[1])))
print("started", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs the kernel's parent-death signal")
def test_servers_started_for_a_test_run_die_with_it_even_when_it_is_killed(home: Home, environ: dict[str, str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SESSION, str(home.root)], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as session:
        assert session.stdout
        assert session.stdout.readline() == b"started\n"
        state = read_state(home)
        assert state
        session.kill()
    left = [state.supervisor_identity, *(service.identity for service in state.services)]
    assert [wait_until_gone(identity, timeout_s=LONG_ENOUGH_S) for identity in left] == [True] * 3


def test_a_running_stack_lends_its_servers(standing: RunningStack, its_environ: dict[str, str]) -> None:
    addresses = standing.state().addresses
    assert ensure_embedded_servers(standing.home, its_environ) == (
        addresses["admin_database_url"],
        addresses["redis_url"],
    )
    assert os.getpid() not in {service.pid for service in standing.state().services}
