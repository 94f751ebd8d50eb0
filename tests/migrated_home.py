"""A migrated database, made once for the same migrations: for each platform of a test, and for the tests' own database.

From nothing a cluster and its tables cost 15 s of CPU. tests/e2e/test_demo.py goes that way each time.
"""

import atexit
import fcntl
import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from tentalis.platform.home import Home
from tentalis.platform.postgres_server import MAJOR_VERSION, find_postgres_binaries
from tentalis.platform.processes import die_with_parent
from tentalis.platform.stack import PROJECT_DIRECTORY
from tentalis.platform.up import running_stack
from tests.local_server import choose_ports

SHARED = "TESTS_SHARED_DIRECTORY"
"""Of all processes of a parallel run; whoever is first makes it and takes it away."""


def share_directory() -> None:
    if SHARED not in os.environ:
        os.environ[SHARED] = tempfile.mkdtemp(prefix="tentalis-tests-shared-")
        atexit.register(shutil.rmtree, os.environ[SHARED], ignore_errors=True)


def find_kept() -> Path:
    """Where the dump of these very migrations is kept from one run to the next, of whatever checkout."""
    digest = hashlib.sha256(MAJOR_VERSION.encode() + (PROJECT_DIRECTORY / "docker/requirements/dev.lock").read_bytes())
    for path in sorted(PROJECT_DIRECTORY.glob("apps/*/migrations/*.py")):
        digest.update(str(path.relative_to(PROJECT_DIRECTORY)).encode() + path.read_bytes())
    return Path(tempfile.gettempdir()) / f"tentalis-tests-{os.getuid()}-migrated-{digest.hexdigest()[:16]}"


def begin_migrating() -> None:
    """A run's first process migrates, where no run has, while tests are collected; they wait for the lock it holds."""
    kept, programs = find_kept(), find_postgres_binaries()
    migrate = shlex.join([sys.executable, "-m", "django", "migrate", "-v", "0"])
    dump = shlex.join([str(programs / "pg_dump"), "-Fc", "-Z0", "-f", "dumping", os.environ["TENTALIS_DATABASE_URL"]])
    keep = f"cp dumping {kept}.{os.getpid()} && mv {kept}.{os.getpid()} {kept}"
    with (Path(os.environ[SHARED]) / "dump.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if kept.exists() and kept.stat().st_uid == os.getuid():
            shutil.copyfile(kept, Path(os.environ[SHARED]) / "dump")
            return
        migrating = subprocess.Popen(
            ["sh", "-c", f"{migrate} && {dump} && {keep} && mv dumping dump"],
            cwd=os.environ[SHARED],
            env=os.environ | {"DJANGO_SETTINGS_MODULE": "tentalis.settings.test", "PYTHONPATH": str(Path.cwd())},
            pass_fds=[lock.fileno()],
            preexec_fn=die_with_parent(signal.SIGTERM),
            process_group=0,
        )
    atexit.register(end_group, migrating)


def end_group(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    process.wait()


def load_migrated(url: str, name: str) -> None:
    """Make the database as the run's first process migrated it; nothing where no such process does, or it failed."""
    if not (dump := wait_for_dump()):
        return
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    restore(dump, urlsplit(url)._replace(path=f"/{name}").geturl())


def wait_for_dump() -> Path | None:
    shared = Path(os.environ[SHARED])
    if not (shared / "dump.lock").exists():
        return None
    with (shared / "dump.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
    return shared / "dump" if (shared / "dump").exists() else None


def restore(dump: Path, url: str) -> None:
    """Into an empty database."""
    program = str(find_postgres_binaries() / "pg_restore")
    subprocess.run([program, "--exit-on-error", "--no-owner", "-d", url, str(dump)], check=True)


def copy_migrated_home(home: Home) -> None:
    """Its configuration, with the passwords, and its data. Outside a test run (benchmarks) a home begins empty."""
    if SHARED not in os.environ:
        return
    shared = Path(os.environ[SHARED])
    made = Home(shared / "migrated")
    with (shared / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.root.exists():
            making = Home(shared / "migrating")
            clean = {name: value for name, value in os.environ.items() if not name.startswith("TENTALIS_")}
            clean.pop("DJANGO_SETTINGS_MODULE", None)
            clean |= choose_ports(None)  # another run on this machine may do the same at this moment
            if dump := wait_for_dump():  # all that is left to do is to make the roles, and to give them their rights
                with running_stack(making, clean, is_throwaway=True, only=("postgres",)) as stack:
                    restore(dump, stack.state().addresses["admin_database_url"])
            with running_stack(making, clean, is_throwaway=True, only=("migrate",)):
                pass
            making.root.rename(made.root)
    home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    parts = [str(made.config_file), str(made.postgres_data)]
    subprocess.run(["cp", "-a", *parts, str(home.root)], check=True)  # as Postgres' own user where we are root
    shutil.copymode(made.root, home.root)
