"""A Ray cluster of this one machine, whose nodes have OpenRLHF, vLLM's CPU build and the device shim."""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.gpu_workers.openrlhf.peer import PLACE
from tests.integrations.openrlhf.install import PYTHON
from tests.local_server import find_free_port

HERE = Path(__file__).parent


def node_environment() -> Mapping[str, str]:
    """A node's environment: the peer's Python first, OpenRLHF, the device shim, and nothing that asks the network."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("TENTALIS_", "PYTEST"))}
    return ours | {
        "PATH": f"{PYTHON.parent}:{os.environ['PATH']}",
        "PYTHONPATH": f"{HERE / 'shim'}:{PLACE}",
        "DS_ACCELERATOR": "cpu",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "RAY_worker_niceness": "0",
        "RAY_agent_register_timeout_ms": "300000",
        "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "500",
        "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT": "300",
    }


@contextmanager
def ray_cluster() -> Iterator[str]:
    """The address of a cluster's dashboard, for the length of a block."""
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        argv = [str(PYTHON), str(HERE / "ray_head.py"), folder, str(find_free_port())]
        with (Path(folder) / "head.log").open("w") as log:
            head = subprocess.Popen(
                argv, env=dict(node_environment()), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert head.stdout is not None
        url = head.stdout.readline().strip()
        try:
            assert url.startswith("http"), (Path(folder) / "head.log").read_text()[-2000:]
            yield url
        finally:
            head.communicate(timeout=120)  # which closes its standard input
