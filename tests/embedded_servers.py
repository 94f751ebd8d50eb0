"""Loaded before Django: the tests' own Postgres and Redis, unless the environment names some.

And what each of the many processes that tests start is spared: to compile what another has compiled (5 s of CPU for
Django, 15 s for the training box, where PYTHONDONTWRITEBYTECODE is set), and threads that wait for each other.

Each process of a parallel run (`-n 2`) has servers of its own: many tests look at all of a Redis.
"""

import atexit
import fcntl
import os
import shutil
import sys
import tempfile
from pathlib import Path

NAMES = ("TENTALIS_DATABASE_URL", "TENTALIS_REDIS_URL")
STARTED_BY = "TESTS_SERVERS_STARTED_BY"
"""Process number of who started those the environment names; unset: they were given."""


def share_bytecode() -> None:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def start_servers() -> None:
    """Start throw-away servers in a home of their own, gone with this process."""
    if all(os.environ.get(name) for name in NAMES) and STARTED_BY not in os.environ:
        return
    from tentalis.platform.home import Home
    from tentalis.platform.up import ensure_embedded_servers

    root = Path(tempfile.mkdtemp(prefix="tentalis-tests-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    for name in NAMES:
        os.environ.pop(name, None)
    os.environ["TENTALIS_HOME"] = str(root)
    os.environ[STARTED_BY] = str(os.getpid())
    with (Path(tempfile.gettempdir()) / f"tentalis-tests-{os.getuid()}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two that start at once could choose one port
        urls = ensure_embedded_servers(Home(root))
    for name, url in zip(NAMES, urls, strict=True):
        os.environ[name] = url


os.environ["OMP_NUM_THREADS"] = "1"
share_bytecode()
start_servers()
