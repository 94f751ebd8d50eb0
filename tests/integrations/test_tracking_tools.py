"""Curves written by MLflow and Weights & Biases themselves, in an environment of their own: `pytest -m tracking`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_workers.artifacts import path_from_uri

ROOT = Path(__file__).parents[2]
PEERS = ROOT / ".cache" / "tracking" / "venv"
WANTED = ("mlflow-skinny==3.17.2", "wandb==0.31.0")
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


@pytest.mark.tracking
def test_mlflow_and_wandb_write_what_was_measured(tmp_path: Path) -> None:
    if not (PEERS / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=True, timeout=120)
    python = str(PEERS / "bin" / "python")
    if subprocess.run([python, "-c", "import mlflow, wandb, pytest"], capture_output=True).returncode:
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", *WANTED, "pytest"]
        done = subprocess.run(pip, capture_output=True, text=True, timeout=600)
        if done.returncode:
            pytest.skip(f"{' '.join(WANTED)} could not be installed: {done.stderr.strip()[-300:]}")
    done = subprocess.run(
        [python, "-c", PROGRAM, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "WANDB_MODE": "offline", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    kept, (losses, status, algorithm) = (json.loads(line) for line in done.stdout.strip().splitlines()[-2:])
    assert set(kept) == {"mlflow", "wandb"}
    assert all("uri" in told for told in kept.values()), kept
    assert (losses, status, algorithm) == ([[1, 0.5], [2, 0.25]], "FINISHED", "grpo")
    assert list(path_from_uri(kept["wandb"]["uri"]).glob("run-*.wandb"))
