"""The closed loop, as the README's first command runs it, cut to two updates."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tentalis.platform.stack import PROJECT_DIRECTORY


@pytest.mark.broker
@pytest.mark.torch
@pytest.mark.slow
def test_the_demo_closes_the_loop_and_counts_every_attempt_once(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TENTALIS_")}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    done = subprocess.run(
        [sys.executable, "-m", "tentalis", "demo", "--updates", "2", "--seed", "1"],
        env=environment | {"TENTALIS_HOME": str(tmp_path / "home")},
        cwd=PROJECT_DIRECTORY,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr
    result = json.loads(last)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (result["attempts"], result["rollouts"], result["audit_ok"]) == (384, 384, True)
    assert 0.2 <= result["base_sampled"] <= 0.35
    assert result["final_sampled"] > result["base_sampled"]
