"""Loaded before Django: the tests' own Postgres and Redis, unless the environment names some."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

NAMES = ("TENTALIS_DATABASE_URL", "TENTALIS_REDIS_URL")


def start_servers() -> None:
    """Start throw-away servers in a home of their own, gone with this process."""
    if all(os.environ.get(name) for name in NAMES):
        return
    from tentalis.platform.home import Home
    from tentalis.platform.up import ensure_embedded_servers

    root = Path(tempfile.mkdtemp(prefix="tentalis-tests-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    os.environ["TENTALIS_HOME"] = str(root)
    for name, url in zip(NAMES, ensure_embedded_servers(Home(root)), strict=True):
        os.environ[name] = url


start_servers()
