"""A home whose database is migrated, made once in a test run and copied for each platform that a test starts.

From nothing a cluster and its tables cost 15 s of CPU. tests/e2e/test_demo.py goes that way each time.
"""

import atexit
import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tentalis.platform.home import Home
from tentalis.platform.up import running_stack

SHARED = "TESTS_SHARED_DIRECTORY"
"""Of all processes of a parallel run; whoever is first makes it and takes it away."""


def share_directory() -> None:
    if SHARED not in os.environ:
        os.environ[SHARED] = tempfile.mkdtemp(prefix="tentalis-tests-shared-")
        atexit.register(shutil.rmtree, os.environ[SHARED], ignore_errors=True)


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
