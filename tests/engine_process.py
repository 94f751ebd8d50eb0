"""The local engine as a process of its own, for tests that ask it over HTTP."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.local_server import find_free_port


@contextmanager
def run_engine(model: str = "desk") -> Iterator[str]:
    """Serve a model on a free port; its address. Where it does not start the test fails with what it said.

    Args:
        model: "desk", or a model's directory.
    """
    port = find_free_port()
    argv = [sys.executable, "-m", "gpu_workers.engine", "--model", model, "--port", str(port)]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            said = []
            for line in process.stderr:
                said.append(line)
                if f"serving {Path(model).name} on" in line:
                    break
            else:
                pytest.fail(f"the engine did not start: {''.join(said)}")
            # it tells of each adapter, and would wait for who reads that
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(timeout=120)
