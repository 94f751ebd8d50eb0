"""What the training box sends home, on queue `control`. Every link's job is in the app that does its work."""

from typing import Any

from apps.pipeline import flow
from apps.training import services as training
from tentalis.celery import app


@app.task(name="training.record")
def record_training(result: dict[str, Any]) -> None:
    flow.take_result(result, by="control")


@app.task(name="training.heartbeat")
def note_heartbeat(run_id: int, attempt: int, metrics: dict[str, Any]) -> None:
    training.note_heartbeat(run_id, attempt, metrics)
