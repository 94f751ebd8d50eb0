"""Curves written by MLflow and Weights & Biases themselves, in an environment of their own: `pytest -m tracking`."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from gpu_workers.artifacts import path_from_uri

ROOT = Path(__file__).parents[2]
PEERS = ROOT / ".cache" / "tracking" / "venv"
WANTED = ("mlflow-skinny==3.17.2", "wandb==0.31.0", "tensorboardX==2.6.5", "tensorboard==2.20.0")
PROGRAM = """
import pathlib, sys, json
from tests.gpu_workers.test_tracking import *
where = pathlib.Path(sys.argv[1])
tracking = Tracking(make_spec(where, tracking={"mlflow": {}, "wandb": {}}), where)
for update in UPDATES: tracking.write(update)
print(json.dumps(tracking.close(make_result())))
from mlflow import MlflowClient
uri = tracking.kept["mlflow"]["uri"]
client = MlflowClient(tracking_uri=uri.partition("#")[0])
run = client.get_run(uri.rpartition("/")[2])
history = client.get_metric_history(run.info.run_id, "train/loss")
print(json.dumps([[(one.step, one.value) for one in history], run.info.status, run.data.params["recipe.algorithm"]]))
"""


RUN = """
import json, pathlib, site, sys
site.addsitedir(sys.argv[2])  # the trainer's libraries, behind the tools' own
import dataclasses
from gpu_workers.runner import run
from tests.gpu_workers.learning import training_factory
where = pathlib.Path(sys.argv[1])
spec = training_factory.make_spec(where, training_factory.make_rollouts())
tracking = {"tensorboard": {}, "mlflow": {"experiment": "clerks"}, "wandb": {"project": "clerks"}}
result = run(dataclasses.replace(spec, tracking=tracking), lambda _: None)
print(json.dumps(result.to_json()))
"""
READ = """
import json, os, pathlib, struct, sys
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # MLflow 3 wants to be asked, by who reads too
from mlflow import MlflowClient
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from wandb.proto import wandb_internal_pb2
kept = json.loads(sys.argv[1])
found = {}
events = EventAccumulator(kept["tensorboard"]["uri"].removeprefix("file://"))
events.Reload()
found["tensorboard"] = [[one.step, one.value] for one in events.Scalars("train/loss")]
uri = kept["mlflow"]["uri"]
client = MlflowClient(tracking_uri=uri.partition("#")[0])
history = client.get_metric_history(uri.rpartition("/")[2], "train/loss")
found["mlflow"] = [[one.step, one.value] for one in history]
(file,) = pathlib.Path(kept["wandb"]["uri"].removeprefix("file://")).glob("run-*.wandb")
content, place, parts, records = file.read_bytes(), 7, b"", []  # LevelDB's log behind a header of seven bytes
while place + 7 <= len(content):
    if (left := 32768 - place % 32768) < 7:
        place += left
        continue
    _, length, kind = struct.unpack("<IHB", content[place:place + 7])
    parts += content[place + 7:place + 7 + length]
    place += 7 + length
    if kind in (1, 4):  # whole, or the last part
        records.append(parts)
        parts = b""
found["wandb"], project = [], ""
for data in records:
    record = wandb_internal_pb2.Record()
    record.ParseFromString(data)
    project = record.run.project or project
    items = {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
    if "train/loss" in items:
        found["wandb"].append([record.history.step.num, items["train/loss"]])
found["projects"] = [client.get_experiment_by_name("clerks") is not None, project]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def python() -> str:
    """The interpreter of an environment that holds the tools; made where there is none."""
    if not (PEERS / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=True, timeout=120)
    python = str(PEERS / "bin" / "python")
    if subprocess.run(
        [python, "-c", "import mlflow, wandb, tensorboardX, tensorboard, pytest"], capture_output=True
    ).returncode:
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", *WANTED, "pytest"]
        done = subprocess.run(pip, capture_output=True, text=True, timeout=600)
        if done.returncode:
            pytest.skip(f"{' '.join(WANTED)} could not be installed: {done.stderr.strip()[-300:]}")
    return python


def call(home: Path, *argv: str) -> list[Any]:
    """The last lines that a program printed, each as JSON."""
    environ = {**os.environ, "WANDB_MODE": "offline", "HOME": str(home), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(argv, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.strip().splitlines()[-2:] if line.startswith(("{", "["))]


@pytest.mark.tracking
@pytest.mark.torch
def test_a_run_writes_curves_that_all_three_tools_read_again(tmp_path: Path, python: str) -> None:
    (result,) = call(tmp_path, python, "-c", RUN, str(tmp_path), sysconfig.get_paths()["purelib"])
    assert result["ok"], result["error_message"]
    assert all("uri" in told for told in result["tracking"].values()), result["tracking"]
    (found,) = call(tmp_path, python, "-c", READ, json.dumps(result["tracking"]))
    losses = [[int(one["update"]), pytest.approx(one["loss"], rel=1e-6)] for one in result["metrics"]]
    assert len(losses) == 2
    assert found == {"tensorboard": losses, "mlflow": losses, "wandb": losses, "projects": [True, "clerks"]}


@pytest.mark.tracking
def test_mlflow_and_wandb_write_what_was_measured(tmp_path: Path, python: str) -> None:
    kept, (losses, status, algorithm) = call(tmp_path, python, "-c", PROGRAM, str(tmp_path))
    assert set(kept) == {"mlflow", "wandb"}
    assert all("uri" in told for told in kept.values()), kept
    assert (losses, status, algorithm) == ([[1, 0.5], [2, 0.25]], "FINISHED", "grpo")
    assert list(path_from_uri(kept["wandb"]["uri"]).glob("run-*.wandb"))
