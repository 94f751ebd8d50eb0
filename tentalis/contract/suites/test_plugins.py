"""What is asked of every plug-in: an installation that knows nothing of its package uses it."""

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tentalis.plugin_trials import try_plugin
from tentalis.plugins import NAME

GROUP = ""


@pytest.fixture(scope="session")
def used(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], str]:
    """(group, name) -> why a fresh installation does not use it."""
    home: Path = tmp_path_factory.mktemp("home")
    told = {name: value for name, value in os.environ.items() if not name.startswith("TENTALIS_")}
    done = subprocess.run(
        [sys.executable, "-m", "tentalis", "plugin", "list", "--json"],
        env={**told, "TENTALIS_HOME": str(home)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {(row["group"], row["name"]): row["error"] for row in json.loads(done.stdout)}


def test_its_name_is_one(point: EntryPoint) -> None:
    assert NAME.fullmatch(point.name), "lower-case letters, digits and _, a letter first, at most 32"


def test_it_is_imported_in_silence_and_in_time(point: EntryPoint) -> None:
    assert try_plugin(point, anew=True).error == ""


def test_a_fresh_installation_uses_it(point: EntryPoint, used: dict[tuple[str, str], str]) -> None:
    assert used[point.group, point.name] == ""
