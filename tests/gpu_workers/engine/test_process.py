"""The engine as a process: how it starts, fails to start, and stops."""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_workers.engine import __main__
from tests.local_server import find_free_port

pytestmark = pytest.mark.torch

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def run_engine(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "gpu_workers.engine", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)


def wait_until_healthy(port: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1):
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.05)
    raise AssertionError(f"the engine did not come up: exit code {process.poll()}")


@pytest.mark.parametrize("damage", ["no directory", "empty", "no weights", "garbage weights", "config is a list"])
def test_a_model_that_cannot_be_read_is_one_line_and_exit_code_1(
    model_directory: Callable[[str], Path],
    tmp_path: Path,
    damage: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By the command itself, in this process; that its code is the process's, the next test shows."""
    monkeypatch.setattr(__main__, "prepare_process", lambda **_: None)
    directory = tmp_path / "model"
    if damage != "no directory":
        directory.mkdir()
    if damage not in ("no directory", "empty"):
        for file in model_directory("qwen2").iterdir():
            (directory / file.name).write_bytes(file.read_bytes())
    if damage == "no weights":
        (directory / "model.safetensors").unlink()
    if damage == "garbage weights":
        (directory / "model.safetensors").write_bytes(b"x" * 100)
    if damage == "config is a list":
        (directory / "config.json").write_text("[]")
    capsys.readouterr()  # what making the model wrote
    assert __main__.main(["--model", str(directory), "--port", str(find_free_port())]) == 1
    errors = capsys.readouterr().err
    assert errors.startswith("engine: ")
    assert errors.count("\n") == 1
    assert str(directory) in errors


def test_it_serves_until_sigterm_and_a_taken_port_is_one_line_and_exit_code_1() -> None:
    port = find_free_port()
    process = run_engine("--port", str(port))
    try:
        wait_until_healthy(port, process)
        second = run_engine("--port", str(port))
        _, errors = second.communicate(timeout=300)
        assert second.returncode == 1
        assert errors.startswith(f"engine: cannot listen on 127.0.0.1:{port}")
        assert errors.count("\n") == 1
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0
        assert "Traceback" not in errors
    finally:
        process.kill()
        process.wait()
