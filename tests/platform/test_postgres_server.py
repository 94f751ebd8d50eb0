"""How Postgres is run: as whom, and on whose data."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tentalis.platform.errors import StartError
from tentalis.platform.home import Home
from tentalis.platform.postgres_server import drop_stale_lock, find_postgres_binaries
from tentalis.platform.up import launch_stack, running_stack

only_root_on_linux = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root on Linux runs Postgres as somebody else"
)


@pytest.fixture
def no_namespaces(environ: dict[str, str]) -> dict[str, str]:
    """An environment in which `unshare` is not to be found, as on a machine that refuses user namespaces."""
    return environ | {"PATH": "/nonexistent"}


@pytest.fixture
def open_home() -> Iterator[Home]:
    """A home that every user of the machine may walk to."""
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o711)
    yield Home(directory / "home")
    shutil.rmtree(directory)


@only_root_on_linux
@pytest.mark.broker
@pytest.mark.skipif(
    any(not directory.stat().st_mode & 0o001 for directory in find_postgres_binaries().parents),
    reason="the installation lies where no other user may enter",
)
def test_root_without_namespaces_runs_postgres_as_a_user_without_rights(
    open_home: Home, no_namespaces: dict[str, str]
) -> None:
    with running_stack(open_home, no_namespaces, is_throwaway=True, only=["postgres"]) as stack:
        assert open_home.postgres_data.stat().st_uid != 0
        assert Path(f"/proc/{stack.pid_of('postgres')}").stat().st_uid != 0
        with psycopg.connect(stack.state().addresses["admin_database_url"]) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    assert {path.name for path in open_home.root.iterdir()} >= {"config.toml", "postgres"}
    assert not (open_home.root / "postgres.password").exists()


@only_root_on_linux
@pytest.mark.broker
def test_root_without_namespaces_in_a_closed_place_is_told_what_to_do(
    home: Home, no_namespaces: dict[str, str]
) -> None:
    home.root.parent.chmod(0o700)
    with pytest.raises(StartError, match=rf"who may not enter .*: move TENTALIS_HOME \({home.root}\)"):
        launch_stack(home, no_namespaces, only=["postgres"])
    assert not home.postgres_data.exists()


def test_the_lock_of_a_server_that_is_gone_is_removed(home: Home) -> None:
    home.postgres_data.mkdir(parents=True)
    lock = home.postgres_data / "postmaster.pid"
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    for pid in (gone.pid, os.getpid()):
        lock.write_text(f"{pid}\n/somewhere\n")
        drop_stale_lock(home.postgres_data)
        assert not lock.exists()
