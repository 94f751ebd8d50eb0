"""What the training box sends home, bulk judgements and imports, on queue `control`, and a model's decisions, on queue
`gates`, with the segments of all but the first.

Every other link's job is in the app that does its work; these start segments, which only this app does.
"""

from typing import Any

from apps.outbox.kinds import KINDS, Chain, SegmentKind
from apps.outbox.links import link
from apps.pipeline import admitting, bulk, deciding, flow, importing
from apps.training import monitoring
from apps.worlds import jobs as worlds_jobs
from tentalis.celery import app


@app.task(name="training.record")
def record_training(result: dict[str, Any]) -> None:
    flow.handle_training_result(result, by="control")


@app.task(name="training.heartbeat")
def note_heartbeat(run_id: int, attempt: int, metrics: dict[str, Any], number: int) -> None:
    monitoring.note_heartbeat(run_id, attempt, metrics, number)


@link("pipeline.judge_bulk")
def judge_bulk(bulk_id: int) -> None:
    bulk.do_all(bulk_id)


@link("pipeline.undo_bulk")
def undo_bulk(bulk_id: int) -> None:
    bulk.undo_all(bulk_id)


@link("pipeline.import_rows")
def import_rows(import_id: int) -> None:
    importing.import_all(import_id)


@link("supervision.decide")
def decide(proposal_id: int) -> None:
    deciding.ask_model(proposal_id)


KINDS[SegmentKind.BULK] = Chain(links=(judge_bulk,))
KINDS[SegmentKind.UNBULK] = Chain(links=(undo_bulk,))
KINDS[SegmentKind.IMPORT] = Chain(links=(import_rows,))
KINDS[SegmentKind.ADMIT] = Chain(links=(worlds_jobs.admit,), then=admitting.go_on)
KINDS[SegmentKind.DECIDE] = Chain(links=(decide,))
