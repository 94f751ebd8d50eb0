"""Curves of runs, written by the real libraries: TensorBoard's here, the heavier two in tests/integrations."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_workers.artifacts import path_from_uri
from gpu_workers.backends.openrlhf.curves import read_curves
from gpu_workers.runner import run
from gpu_workers.tracking import Tracking
from tentalis.core.contracts import Outcome, TrainResult, TrainSpec

ROOT = Path(__file__).parents[2]
UPDATES: list[Mapping[str, float]] = [
    {"update": 1, "updates": 2, "loss": 0.5, "reward": 0.25, "odd": float("nan")},
    {"update": 2, "updates": 2, "loss": 0.25, "reward": 0.75},
]


def make_spec(directory: Path, **fields: Any) -> TrainSpec:
    values: dict[str, Any] = {
        "run_id": 7,
        "attempt": 1,
        "worker": "anna",
        "base_model": "desk",
        "parent_adapter_uri": None,
        "parent_sha256": None,
        "policy_version": 0,
        "rollouts_uri": "file:///no/rollouts",
        "rollouts_sha256": "0" * 64,
        "recipe": {"algorithm": "grpo"},
        "seed": 1,
        "output_uri": directory.as_uri(),
    }
    return TrainSpec(**(values | fields))


def make_result(**fields: Any) -> TrainResult:
    values: dict[str, Any] = {
        "run_id": 7,
        "attempt": 1,
        "outcome": Outcome.DONE,
        "metrics": UPDATES,
        "summary": {"reward": 0.5},
    }
    return TrainResult(**(values | fields))


def test_tensorboard_reads_every_update_once(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="tensorboardX is not installed: pip install 'tentalis[tracking]'")
    tracking = Tracking(make_spec(tmp_path, tracking={"tensorboard": {}}), tmp_path)
    tracking.write(UPDATES[0])
    kept = tracking.close(make_result())  # the second update comes with the result alone, as after a resume
    assert kept == {"tensorboard": {"uri": (tmp_path / "tensorboard").as_uri()}}
    assert read_curves(tmp_path / "tensorboard") == [
        {"step": 1.0, "train/loss": 0.5, "train/reward": 0.25},
        {"step": 2.0, "train/loss": 0.25, "train/reward": 0.75, "summary/reward": 0.5},
    ]


@pytest.mark.parametrize(
    ("tracking", "words"),
    [
        ({"paper": {}}, "nobody writes for 'paper'; wanted tensorboard, mlflow, wandb"),
        ({"tensorboard": {"colour": 1}}, "there is no setting colour; there are none"),
        ({"mlflow": {"colour": 1}}, "there is no setting colour; there are tracking_uri, experiment"),
    ],
)
def test_what_cannot_be_written_is_told_and_the_rest_goes_on(
    tmp_path: Path, tracking: dict[str, Any], words: str
) -> None:
    found = Tracking(make_spec(tmp_path, tracking=tracking), tmp_path)
    for update in UPDATES:
        found.write(update)
    ((_, told),) = found.close(make_result()).items()
    assert told == {"error": f"TrackingError: {words}"}


def test_a_library_that_is_not_there_is_named(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib; sys.modules['wandb'] = None\n"
        "from tests.gpu_workers.test_tracking import *\n"
        "where = pathlib.Path(sys.argv[1])\n"
        "print(Tracking(make_spec(where, tracking={'wandb': {}}), where).kept['wandb']['error'])"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.startswith("TrackingError: wanted the package wandb on this box, found none"), done.stderr


@pytest.mark.torch
def test_a_runs_result_says_where_its_curves_lie_or_why_not(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="tensorboardX is not installed: pip install 'tentalis[tracking]'")
    from tests.gpu_workers.learning import training_factory

    spec = training_factory.make_spec(tmp_path, training_factory.make_rollouts())
    result = run(dataclasses.replace(spec, tracking={"tensorboard": {}, "paper": {}}), lambda _: None)
    assert result.ok, result.error_message
    curves = read_curves(path_from_uri(result.tracking["tensorboard"]["uri"]))
    assert [point["train/loss"] for point in curves] == pytest.approx([one["loss"] for one in result.metrics])
    assert "nobody writes for 'paper'" in result.tracking["paper"]["error"]
    assert TrainResult.from_json(json.loads((tmp_path / "out" / "result.json").read_bytes())) == result
