"""Every probe gets through when its walls are away, and in a sandbox none does: `probes.py` has them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.probes import PROBES, PYTHON, applicable

Rows = dict[str, dict[str, Any]]
AT_LEAST = 40


@pytest.fixture(scope="module")
def rows() -> Rows:
    """All of them, tried once, on a machine of decoys of its own."""
    if not Path(PYTHON).exists():
        pytest.skip(f"probes are written for {PYTHON}, and there is none")
    argv = [sys.executable, "-m", "tests.sandbox.escaping", "--alone"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return {row["probe"]: row for row in json.loads(done.stdout)}


@pytest.mark.parametrize("probe", [probe.name for probe in PROBES])
def test_a_sandbox_stops_it_and_only_its_walls_do(rows: Rows, probe: str) -> None:
    if probe not in rows:
        pytest.skip("its decoy can only be set up by root")
    row = rows[probe]
    assert row["control"], f"without {row['stopped_by']} it did not get through either: this shows nothing"
    assert not row["inside"]
    assert all(row.get("alone", {}).values()), "one of its walls stops nothing"


def test_there_are_enough_of_them_and_every_wall_has_one() -> None:
    from tentalis.sandbox.limits import Wall

    assert len(applicable()) >= AT_LEAST
    assert {wall for probe in PROBES for wall in probe.walls} == set(Wall)
