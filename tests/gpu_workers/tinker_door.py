"""The door to Tinker as a process of its own, before a service on loopback."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.gpu_workers.tinker_server import KEY, MODEL, TinkerServer
from tests.local_server import find_free_port


@contextmanager
def run_door(server: TinkerServer, base: Path, *, name: str = "base") -> Iterator[str]:
    """Serve on a free port; its address. Where it does not start the test fails with what it said."""
    port = find_free_port()
    argv = [sys.executable, "-m", "gpu_workers.backends.tinker", "--base", str(base), "--model", MODEL]
    argv += ["--served-name", name, "--port", str(port)]
    environ = {**os.environ, "TENTALIS_TINKER_URL": server.url, "TENTALIS_TINKER_API_KEY": KEY}
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stderr is not None
        try:
            said = []
            for line in process.stderr:
                said.append(line)
                if f"serving {name}" in line:
                    break
            else:
                pytest.fail(f"the door did not open: {''.join(said)}")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            rest = process.communicate(timeout=30)[1]
            written = "".join(said) + rest
            assert KEY not in written, [line for line in written.splitlines() if KEY in line]
