"""OpenRLHF itself, in the pinned version and without what it depends on: 200 kB under .cache, fetched once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

VERSION = "0.11.2"
PLACE = Path(__file__).parents[3] / ".cache" / "openrlhf" / f"wheel-{VERSION}"


def fetch_openrlhf() -> Path:
    """The directory to import it from. Its wheel also brings a package `tests`, so that it never goes into the venv.

    Where it cannot be fetched the test is skipped with the reason; in CI it fails.
    """
    if not (PLACE / "openrlhf" / "cli" / "train_ppo_ray.py").is_file():
        argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(PLACE)]
        done = subprocess.run([*argv, f"openrlhf=={VERSION}"], capture_output=True, text=True, timeout=120)
        if done.returncode:
            give_up = pytest.fail if os.environ.get("CI") else pytest.skip
            give_up(f"openrlhf {VERSION} could not be fetched: {done.stderr.strip()[-300:]}")
    return PLACE
