"""OpenRLHF for real, on a machine without a GPU: Ray, a vLLM engine, GRPO with hints, and the adapter serves.

Runs when asked for by name (`pytest -m openrlhf`) where `python -m tests.integrations.openrlhf.install` was run.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.chaos.stage import chaos_stack
from tests.integrations.openrlhf.install import CACHE, PYTHON
from tests.integrations.openrlhf.nodes import ray_cluster
from tests.local_server import find_free_port

PATIENCE_S = 1500.0

pytestmark = [
    pytest.mark.openrlhf,
    pytest.mark.timeout(PATIENCE_S + 600),
    pytest.mark.skipif(not PYTHON.exists(), reason="no environment: python -m tests.integrations.openrlhf.install"),
]


@pytest.fixture(scope="module")
def ray_url() -> Iterator[str]:
    with ray_cluster() as url:
        yield url


def test_a_cluster_trains_an_adapter_that_is_gated_and_served(ray_url: str) -> None:
    engine_port, web_port = find_free_port(), find_free_port()
    options = {
        "samples_per_prompt": 8, "prompts_per_step": 24, "episodes": 4, "micro_batch": 8, "max_tokens": 160,
        "max_new_tokens": 44, "zero_stage": 0, "attention": "eager", "sync": "gloo", "gpu_memory": 0.5, "save_every": 2,
        "teacher_url": f"http://127.0.0.1:{engine_port}", "teacher_model": "desk",
    }  # fmt: skip
    settings = {
        "TENTALIS_TRAINER_BACKEND": "openrlhf",
        "TENTALIS_RAY_URL": ray_url,
        "TENTALIS_OPENRLHF_OPTIONS": json.dumps(options),
        "TENTALIS_ENGINE_PORT": str(engine_port),
        "TENTALIS_WEB_PORT": str(web_port),
        "TENTALIS_REWARD_BASE_URL": f"http://127.0.0.1:{web_port}",
        "TENTALIS_RUN_SILENCE_SECONDS": "600",
        "TENTALIS_LEASE_SECONDS": "120",
        "TENTALIS_WATCHDOG_SECONDS": "120",
    }
    with chaos_stack(settings=settings, keep_in=CACHE / "home" if os.environ.get("KEEP") else None) as stack:
        done = subprocess.run(
            [sys.executable, "-m", "tests.integrations.openrlhf.drive", str(PATIENCE_S)],
            env=stack.environment({**os.environ, **settings}), capture_output=True, text=True, timeout=PATIENCE_S + 120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        found = json.loads(done.stdout.splitlines()[-1])
    sys.stdout.write(json.dumps(found, indent=1))
    run, metrics = found["run"], found["metrics"]
    assert run == {"state": "succeeded", "failure": "", "external_id": run["external_id"], "attempt": run["attempt"]}
    assert run["external_id"].endswith(f"-{run['attempt']}")
    assert [update["update"] for update in metrics] == [1.0, 2.0, 3.0, 4.0]
    assert metrics[-1]["reward"] > metrics[0]["reward"], "it learns what is rewarded"
    assert all(abs(update["vllm_kl"]) < 0.01 for update in metrics), "vLLM samples with the weights that are trained"
    assert all(update["opd_hinted"] > 0 for update in metrics), "the teacher had a word on it"
    assert found["rewards"] > 24, "each answer was rewarded by the platform"
    assert found["adapter"]["state"] == "deployed", found["verdicts"]
    assert found["deployed"] == found["adapter"]["name"]
    kinds = Counter(found["audit"])
    for kind in (
        "run.queued",
        "run.started",
        "run.succeeded",
        "adapter.recorded",
        "adapter.verified",
        "adapter.deployed",
    ):
        assert kinds[kind] >= 1, kinds
    assert found["audit_ok"]
