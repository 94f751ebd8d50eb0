"""The walk from a training's result to what serves goes through few files."""

from pathlib import Path

import pytest
from django.db.models.functions import Now

from apps.adapters.models import Adapter
from apps.outbox.kinds import KINDS, SegmentKind
from apps.outbox.links import LINKS
from apps.outbox.models import Segment
from apps.pipeline import flow
from apps.rollouts import services as ledger
from apps.rollouts.models import Batch, TrainingUse
from apps.training import services
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from tentalis.core.contracts import Outcome, TrainResult
from tests.apps.adapters.desk_adapters import write_adapter, write_manifest
from tests.apps.gate.conftest import hold_out
from tests.factories import make_judged_task
from tests.links import run_link
from tests.support.walk import list_files

pytestmark = pytest.mark.django_db

MOST_FILES = 14
"""To the adapter, whatever runs. Five of them every change of any row goes through: the contract and its types, audit,
outbox and its kinds."""
MOST_STOPS = 15
"""From there into service as well, where a function is given the result, its run or its adapter."""
HANDED, NAMED = (TrainResult, TrainingRun, Adapter), ("run_id", "adapter_id")
WORDS = ("apps/base/", "apps/audit/", "apps/outbox/", "tentalis/core/contracts.py")
"""What every walk has: words of the house, rows (`models.py`) and messages."""


def make_result(worker: Worker, store: Path) -> dict[str, object]:
    """A result that is awaited, of a service that tells nothing of its steps, trained with one judged attempt."""
    batch = Batch.objects.create(project=worker.project, worker=worker, number=1, target_tasks=1, state="closed")
    run = services.queue_run(batch=batch, by="ledger", backend="tinker")
    ledger.build_rollouts([make_judged_task(worker.project, worker).pk], by="test")
    TrainingUse.objects.update(batch=batch)
    spec = {"output_uri": (store / "runs").as_uri()}
    TrainingRun.objects.filter(pk=run.pk).update(state="running", attempt=1, heartbeat_at=Now(), spec=spec)
    directory = write_adapter(store / "runs" / "adapter", 1)
    sha256, uri = write_manifest(directory), directory.as_uri()
    result = TrainResult(run_id=run.pk, attempt=1, outcome=Outcome.DONE, sha256=sha256, adapter_uri=uri, metrics=[])
    return result.to_json()


def test_from_a_result_to_its_adapter_and_into_service_few_files_are_gone_through(clerk: Worker, store: Path) -> None:
    hold_out(clerk.project, 40)
    result = make_result(clerk, store)

    def do(position: int, link: str) -> None:
        segment = Segment.objects.get(kind=SegmentKind.ADOPT)
        run_link(lambda pk: LINKS[link]([pk]), segment.pk, position)

    def adopt() -> None:
        for position, link in enumerate(KINDS[SegmentKind.ADOPT].names):
            do(position, link)

    to_adapter = list_files(lambda: flow.handle_training_result(result, by="control"), handed=HANDED, named=NAMED)
    assert len(to_adapter) <= MOST_FILES, "\n".join(to_adapter)
    into_service = list_files(adopt, handed=HANDED, named=NAMED)
    adapter = Adapter.objects.get()
    assert (adapter.state, adapter.is_anchor) == ("deployed", True), adapter.verdicts.values_list("words")
    assert adapter.taught["rollouts"]
    way = (*to_adapter.items(), *into_service.items())
    stops = {file for file, is_handed in way if is_handed and not file.startswith(WORDS) and "/models" not in file}
    assert "apps/gate/gating.py" in stops
    assert len(stops) <= MOST_STOPS, "\n".join(sorted(stops))
