"""A run that is killed goes on from its newest checkpoint and ends with the very bytes of one that was not."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_workers.artifacts import path_from_uri
from gpu_workers.runner import run
from tentalis.core.contracts import TrainResult, TrainSpec
from tests.gpu_workers.learning.training_factory import RECIPE, make_rollouts, make_spec

pytestmark = pytest.mark.torch
FILES = ("adapter_model.safetensors", "optimizer.safetensors")


def read_bytes(result: TrainResult) -> list[bytes]:
    assert result.ok, f"{result.error_type}: {result.error_message}"
    return [(path_from_uri(result.adapter_uri) / name).read_bytes() for name in FILES]


def attempt_of(spec: TrainSpec, number: int, directory: Path, *, resumes: Path | None) -> TrainSpec:
    return dataclasses.replace(
        spec,
        attempt=number,
        output_uri=(directory / str(number)).as_uri(),
        resume_uri=None if resumes is None else (resumes / "checkpoint").as_uri(),
    )


def interrupt(spec: TrainSpec, *, after: int) -> None:
    """Train until `after` updates are made, then end as abruptly as one can in a process that lives on."""

    def stop(metrics: Mapping[str, float]) -> None:
        if metrics["update"] == after:
            (path_from_uri(spec.output_uri) / "cancel").touch()

    assert run(spec, stop).error_type == "CancelledError"


@pytest.fixture
def spec(tmp_path: Path) -> TrainSpec:
    """Six updates, with everything in the loss that has a state or an order."""
    recipe = dataclasses.replace(RECIPE, epochs=3, kl_coef=0.01, entropy_coef=0.01, importance_cap=2.0)
    return make_spec(tmp_path, make_rollouts(), recipe=recipe)


def test_a_run_interrupted_after_any_update_ends_with_the_same_bytes(tmp_path: Path, spec: TrainSpec) -> None:
    whole = read_bytes(run(attempt_of(spec, 1, tmp_path / "whole", resumes=None), lambda _: None))
    for after in range(1, 6):
        directory = tmp_path / f"after-{after}"
        interrupt(attempt_of(spec, 1, directory, resumes=None), after=after)
        seen: list[Mapping[str, float]] = []
        result = run(attempt_of(spec, 2, directory, resumes=directory / "1"), seen.append)
        assert read_bytes(result) == whole
        assert [metric["update"] for metric in seen] == list(range(after + 1, 7))
        assert [metric["update"] for metric in result.metrics] == list(range(1, 7))
        assert not (directory / "2" / "checkpoint").exists()


def start_process(spec: TrainSpec, path: Path) -> "subprocess.Popen[str]":
    path.write_text(json.dumps(spec.to_json()))
    return subprocess.Popen(
        [sys.executable, "-m", "gpu_workers", "run", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def kill_after(spec: TrainSpec, path: Path, *, update: int) -> None:
    """Start a training process and send it SIGKILL as soon as it says that this update is made."""
    with start_process(spec, path) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith(f"update {update}/"):
                process.send_signal(signal.SIGKILL)
                break
        assert process.wait() == -signal.SIGKILL


def test_a_process_killed_twice_ends_with_the_same_bytes(tmp_path: Path, spec: TrainSpec) -> None:
    whole = read_bytes(run(attempt_of(spec, 1, tmp_path / "whole", resumes=None), lambda _: None))
    directory = tmp_path / "killed"
    kill_after(attempt_of(spec, 1, directory, resumes=None), tmp_path / "1.json", update=2)
    kill_after(attempt_of(spec, 2, directory, resumes=directory / "1"), tmp_path / "2.json", update=4)
    result = run(attempt_of(spec, 3, directory, resumes=directory / "2"), lambda _: None)
    assert read_bytes(result) == whole
    assert len(result.metrics) == 6


def change_nothing(state: Path) -> None: ...


def cut_in_half(state: Path) -> None:
    state.write_bytes(state.read_bytes()[: state.stat().st_size // 2])


@pytest.mark.parametrize(
    ("damage", "change", "message"),
    [
        (cut_in_half, {}, "cannot read the checkpoint"),
        (Path.unlink, {}, "cannot read the checkpoint"),
        (change_nothing, {"seed": 8}, "must be a tentalis.checkpoint/1 of work"),
        (change_nothing, {"run_id": 2}, "must be a tentalis.checkpoint/1 of work"),
    ],
)
def test_a_checkpoint_that_is_broken_or_of_another_run_is_refused(
    tmp_path: Path, spec: TrainSpec, damage: Any, change: dict[str, Any], message: str
) -> None:
    interrupt(attempt_of(spec, 1, tmp_path, resumes=None), after=1)
    damage(tmp_path / "1" / "checkpoint" / "state.safetensors")
    second = dataclasses.replace(attempt_of(spec, 2, tmp_path, resumes=tmp_path / "1"), **change)
    result = run(second, lambda _: None)
    assert (result.ok, result.error_type) == (False, "CheckpointError")
    assert message in result.error_message
