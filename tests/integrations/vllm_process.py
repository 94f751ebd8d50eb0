"""vLLM's CPU build as a process, for the tests that ask it over HTTP (`pytest -m vllm`).

`python -m tests.integrations.openrlhf.install` fetches it. Only attention is widened: the desk's heads are of 16, and
vLLM's on a CPU begin at 32.
"""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from gpu_workers.desk import base_directory
from tests.integrations.openrlhf.install import PYTHON

SHIM = Path(__file__).parent / "openrlhf" / "shim"
START_S = 400.0
API_KEY = "only-what-is-below-v1-asks-for-it"
MAX_LORAS, MAX_CPU_LORAS, MAX_RANK = 2, 4, 16
MARKS = [
    pytest.mark.vllm,
    pytest.mark.torch,
    pytest.mark.timeout(2 * START_S + 300),
    pytest.mark.skipif(not PYTHON.exists(), reason="no vLLM here: python -m tests.integrations.openrlhf.install"),
]


class VllmServer:
    """`vllm serve` of the desk's model with runtime loading, one API server, loopback, a process group of its own."""

    def __init__(self, log: Path, *, dtype: str = "float32") -> None:
        self._dtype = dtype
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            self.port = held.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.started_in_s = 0.0

    def start(self) -> None:
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("TENTALIS_", "PYTEST"))}
        environ = ours | {
            "PYTHONPATH": str(SHIM),
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "TORCHDYNAMO_DISABLE": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
        }
        argv = [PYTHON, "-m", "vllm.entrypoints.openai.api_server", "--model", base_directory()]
        argv += [
            "--served-model-name",
            "desk",
            "--dtype",
            self._dtype,
            "--enforce-eager",
            "--generation-config",
            "vllm",
        ]
        argv += [
            "--host",
            "127.0.0.1",
            "--port",
            self.port,
            "--max-num-seqs",
            64,
            "--api-key",
            API_KEY,
            "--enable-lora",
        ]
        argv += ["--max-loras", MAX_LORAS, "--max-cpu-loras", MAX_CPU_LORAS, "--max-lora-rank", MAX_RANK]
        started = time.monotonic()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                list(map(str, argv)), env=environ, stdout=log, stderr=log, start_new_session=True
            )
        while not self._is_well():
            if self._process.poll() is not None or time.monotonic() - started > START_S:
                pytest.fail(f"vLLM did not start: {self.log.read_text()[-3000:]}")
            time.sleep(0.5)
        self.started_in_s = time.monotonic() - started

    def _is_well(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health", timeout=5.0).is_success
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        """As a machine that went down: without a word to anybody."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(timeout=60)
            self._process = None
