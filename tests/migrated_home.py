"""A migrated database, made once in a test run: for each platform that a test starts, and for the tests' own database.

From nothing a cluster and its tables cost 15 s of CPU. tests/e2e/test_demo.py goes that way each time.
"""

import atexit
import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from tentalis.platform.home import Home
from tentalis.platform.postgres_server import find_postgres_binaries
from tentalis.platform.processes import die_with_parent
from tentalis.platform.up import running_stack

SHARED = "TESTS_SHARED_DIRECTORY"
"""Of all processes of a parallel run; whoever is first makes it and takes it away."""


def share_directory() -> None:
    if SHARED not in os.environ:
        os.environ[SHARED] = tempfile.mkdtemp(prefix="tentalis-tests-shared-")
        atexit.register(shutil.rmtree, os.environ[SHARED], ignore_errors=True)


def begin_migrating() -> None:
    """A parallel run's first process migrates while the others collect their tests; they wait for the lock it holds."""
    programs = find_postgres_binaries()
    migrate = shlex.join([sys.executable, "-m", "django", "migrate", "-v", "0"])
    dump = shlex.join([str(programs / "pg_dump"), "-Fc", "-Z0", "-f", "dumping", os.environ["TENTALIS_DATABASE_URL"]])
    with (Path(os.environ[SHARED]) / "dump.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        migrating = subprocess.Popen(
            ["sh", "-c", f"{migrate} && {dump} && mv dumping dump"],
            cwd=os.environ[SHARED],
            env=os.environ | {"DJANGO_SETTINGS_MODULE": "tentalis.settings.test", "PYTHONPATH": str(Path.cwd())},
            pass_fds=[lock.fileno()],
            preexec_fn=die_with_parent(signal.SIGTERM),
        )
    atexit.register(migrating.terminate)


def load_migrated(url: str, name: str) -> None:
    """Make the database as the run's first process migrated it; nothing where no such process does, or it failed."""
    shared = Path(os.environ[SHARED])
    if not (shared / "dump.lock").exists():
        return
    with (shared / "dump.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
    if not (shared / "dump").exists():
        return
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    made = urlsplit(url)._replace(path=f"/{name}").geturl()
    restore = find_postgres_binaries() / "pg_restore"
    subprocess.run([str(restore), "--exit-on-error", "-d", made, str(shared / "dump")], check=True)


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
            with running_stack(making, clean, is_throwaway=True, only=("migrate",)):
                pass
            making.root.rename(made.root)
    home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    parts = [str(made.config_file), str(made.postgres_data)]
    subprocess.run(["cp", "-a", *parts, str(home.root)], check=True)  # as Postgres' own user where we are root
    shutil.copymode(made.root, home.root)
