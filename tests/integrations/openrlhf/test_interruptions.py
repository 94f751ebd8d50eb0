"""Trainings on a real Ray that are cancelled by a person, and killed: stopped there too, resumed once, never doubled.

Runs when asked for by name (`pytest -m openrlhf`) where `python -m tests.integrations.openrlhf.install` was run.
"""

import json
import os
import subprocess
import sys

import pytest

from tests.chaos.stage import chaos_stack
from tests.integrations.openrlhf.install import CACHE, PYTHON
from tests.integrations.openrlhf.nodes import ray_cluster
from tests.local_server import find_free_port

PATIENCE_S = 900.0
SERVICES = ("bootstrap", "relay", "queues", "cluster")

pytestmark = [
    pytest.mark.openrlhf,
    pytest.mark.timeout(PATIENCE_S + 600),
    pytest.mark.skipif(not PYTHON.exists(), reason="no environment: python -m tests.integrations.openrlhf.install"),
]


def test_a_cancelled_run_is_stopped_and_a_killed_one_goes_on_once() -> None:
    options = {
        "micro_batch": 32, "max_tokens": 160, "max_new_tokens": 44, "zero_stage": 0, "attention": "eager",
        "save_every": 3,
    }  # fmt: skip
    web_port = find_free_port()
    with ray_cluster() as url:
        settings = {
            "TENTALIS_RAY_URL": url,
            "TENTALIS_OPENRLHF_OPTIONS": json.dumps(options),
            "TENTALIS_WEB_PORT": str(web_port),
            "TENTALIS_REWARD_BASE_URL": f"http://127.0.0.1:{web_port}",
            "TENTALIS_RUN_SILENCE_SECONDS": "40",
            "TENTALIS_LEASE_SECONDS": "120",
            "TENTALIS_WATCHDOG_SECONDS": "120",
            "TENTALIS_QUEUE_PROCESSES": "workers,scorers,hints,gates,control=threads:8",
        }
        keep = CACHE / "home" if os.environ.get("KEEP") else None
        with chaos_stack(settings=settings, keep_in=keep, only=SERVICES) as stack:
            done = subprocess.run(
                [sys.executable, "-m", "tests.integrations.openrlhf.drive_interruptions", str(PATIENCE_S)],
                env=stack.environment({**os.environ, **settings}), capture_output=True, text=True,
                timeout=PATIENCE_S + 120,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    sys.stdout.write(json.dumps(found, indent=1))
    cancelled, killed = found["cancelled"], found["killed"]
    assert (cancelled["state"], cancelled["attempt"]) == ("cancelled", 1)
    assert cancelled["jobs"] == {"1": "STOPPED"}
    assert (cancelled["processes"], cancelled["adapters"]) == (0, 0), "nothing trains on, nothing came of it"

    assert killed["processes_before"] >= 2, "a launcher and who trains"
    assert killed["all_gone"], "who trains ends with the launcher, whatever ended that"
    assert (killed["state"], killed["failure"], killed["attempt"]) == ("succeeded", "", 2)
    assert killed["jobs"] == {"1": "FAILED", "2": "SUCCEEDED"}
    assert killed["external_id"].endswith("-2")
    assert killed["resumes"].endswith("/1/checkpoints")
    assert killed["updates"][-1] == 30.0
    assert killed["updates"] == [float(number) for number in range(int(killed["updates"][0]), 31)]
    assert killed["updates"][0] > 3, "it goes on behind what the first attempt kept"
    assert found["adapters"] == killed["adapters"] == 1
    assert found["started"] == 3
