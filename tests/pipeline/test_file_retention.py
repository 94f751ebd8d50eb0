"""Every directory the product writes has a rule, and files that nothing needs any longer go in bounded parts."""

import os
import re
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from apps.accounts.models import Project
from apps.adapters.models import Adapter, Deployment
from apps.audit.models import AuditEntry
from apps.audit.services import move
from apps.gateway.spool import REJECTED, drop_old_rejected, find_rejected, keep_aside
from apps.pipeline.file_retention import DIRECTORY_RULES, delete_old_files
from apps.pipeline.retention import describe
from apps.rollouts import services as ledger
from apps.rollouts.models import Batch
from apps.training import services
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from tests.apps.training.test_per_user import make_adapter
from tests.factories import make_judged_task, make_worker

ROOT = Path(__file__).parents[2]
LONG_AGO = timezone.now() - timedelta(days=400)
WRITTEN = {
    r"""\bHOME / "(\w+)\"""": "",
    r"""\bARTIFACTS / "(\w+)\"""": "artifacts/",
    r"""write_records\(\s*"(\w+)\"""": "artifacts/",
    r"""^DIRECTORY = "(\w+)\"""": "artifacts/",
    r"""home\.root / "(\w+)\"""": "",
}
"""How the code names a directory of the home or of the artifact store -> where that lies."""


@pytest.fixture(autouse=True)
def store(settings: Settings, tmp_path: Path) -> Path:
    """An artifact store of the test's own."""
    settings.ARTIFACTS = tmp_path
    return tmp_path


@pytest.fixture
def run(project: Project) -> TrainingRun:
    """A run whose first attempt was sent, and that left what attempts leave."""
    project.batch_tasks = 1
    project.save()
    ledger.build_rollouts([make_judged_task(project).pk], by="ledger")
    queued = services.queue_run(batch=Batch.objects.get(), by="ledger")
    services.dispatch_run(queued.pk, by="control")
    queued.refresh_from_db()
    return queued


def make_old(path: Path, content: bytes = b"old") -> Path:
    """A file, and all above it in its store, of long ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    long_ago = LONG_AGO.timestamp()
    os.utime(path, (long_ago, long_ago))
    os.utime(path.parent, (long_ago, long_ago))
    return path


def end(run: TrainingRun, state: str, at: Any = LONG_AGO) -> None:
    TrainingRun.objects.filter(pk=run.pk).update(state=state, finished_at=at)


def find_written() -> set[str]:
    found = {"artifacts", "postgres", "redis", "logs", "run"}
    home = (ROOT / "tentalis" / "platform" / "home.py").read_text()
    for path in [*ROOT.glob("apps/**/*.py"), *ROOT.glob("tentalis/**/*.py")]:
        if "migrations" in path.parts or path.name == "checkpoints.py":  # a directory of an attempt, of `runs`
            continue
        for pattern, parent in WRITTEN.items():
            found |= {parent + name for name in re.findall(pattern, path.read_text(), re.MULTILINE)}
    return found | set(re.findall(r"""self\.root / "(\w+)\"""", home)) - {"restoring"}


def test_every_directory_that_is_written_has_a_rule_and_every_rule_a_directory() -> None:
    assert find_written() == set(DIRECTORY_RULES)


def test_the_manual_tells_every_rule() -> None:
    assert describe() in (ROOT / "docs" / "install.md").read_text()


@pytest.mark.django_db
def test_what_a_training_is_sent_lies_in_directories_with_a_rule(run: TrainingRun, store: Path) -> None:
    assert {f"artifacts/{path.name}" for path in store.iterdir()} <= set(DIRECTORY_RULES)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("state", "at", "left"),
    [
        ("running", None, True),
        ("paused", LONG_AGO, True),
        ("failed", timezone.now(), True),
        ("succeeded", LONG_AGO, True),
        ("failed", LONG_AGO, False),
        ("cancelled", LONG_AGO, False),
    ],
)
def test_records_go_when_no_training_needs_them(run: TrainingRun, store: Path, state: str, at: Any, left: bool) -> None:
    (path,) = (store / "batches").iterdir()
    make_old(path, path.read_bytes())
    end(run, state, at)
    assert delete_old_files() == ({} if left else {"artifacts/batches": 1})
    assert path.exists() is left


@pytest.mark.django_db
def test_of_a_training_that_succeeded_records_of_an_earlier_attempt_and_half_written_ones_go(
    run: TrainingRun, store: Path
) -> None:
    make_old(store / "batches" / f"{run.batch_id}-0123.jsonl")
    make_old(store / "batches" / ".staging-0123")
    end(run, "succeeded")
    assert delete_old_files() == {"artifacts/batches": 2}
    assert [path.as_uri() for path in (store / "batches").iterdir()] == [run.spec["rollouts_uri"]]


@pytest.mark.django_db
def test_a_training_whose_records_went_is_tried_again_with_the_same(run: TrainingRun, store: Path) -> None:
    (path,) = (store / "batches").iterdir()
    content = path.read_bytes()
    make_old(path, content)
    end(run, "failed")
    delete_old_files()
    TrainingRun.objects.update(state="queued")
    services.dispatch_run(run.pk, by="control")
    assert path.read_bytes() == content


@pytest.mark.django_db
@pytest.mark.parametrize(("state", "left"), [("running", True), ("failed", False), ("succeeded", False)])
def test_checkpoints_go_when_the_training_is_over_and_what_came_of_it_stays(
    run: TrainingRun, store: Path, state: str, left: bool
) -> None:
    output = store / "runs" / str(run.pk) / "1"
    for name in ("checkpoint/state.safetensors", "checkpoints/_actor/latest", "data.jsonl", "spec.json", "result.json"):
        make_old(output / name)
    end(run, state)
    deleted = delete_old_files(most=2).get("artifacts/runs", 0) + delete_old_files(most=2).get("artifacts/runs", 0)
    assert deleted == (0 if left else 3)
    stays = {"spec.json", "result.json"} | ({"checkpoint", "checkpoints", "data.jsonl"} if left else set())
    assert {path.name for path in output.iterdir()} == stays


def refuse(adapter: Adapter, at: Any) -> Adapter:
    Adapter.objects.filter(pk=adapter.pk).update(state="verified")
    adapter.refresh_from_db()
    move(adapter, Adapter.State.REFUSED, by="test")
    if at is not None:
        entry = AuditEntry.objects.get(kind="adapter.refused", subject_id=adapter.pk)
        AuditEntry.objects.bulk_create(
            [AuditEntry(kind=entry.kind, subject_type=entry.subject_type, subject_id=adapter.pk, actor="test", at=at)]
        )
    return adapter


@pytest.mark.django_db
def test_weights_of_adapters_refused_long_ago_go_and_manifests_and_what_is_continued_stay(
    project: Project, store: Path
) -> None:
    made = {}
    for name in ("refused", "lately", "continued", "serves", "tried"):
        worker = make_worker(project, name, Worker.Kind.CHAT)
        made[name] = make_adapter(worker, store)
    make_adapter(make_worker(project, "next", Worker.Kind.CHAT), store, parent=made["continued"])
    refuse(made["refused"], LONG_AGO)
    refuse(made["lately"], None)
    refuse(made["continued"], LONG_AGO)
    tried = refuse(made["tried"], LONG_AGO)
    Deployment.objects.filter(worker=tried.worker).update(adapter=None, canary=tried, canary_percent=10)
    weights = {name: Path(adapter.uri.removeprefix("file://")) for name, adapter in made.items()}
    assert delete_old_files() == {"artifacts/runs": 1}
    assert delete_old_files() == {}
    left = {name for name, path in weights.items() if (path / "adapter_model.safetensors").exists()}
    assert left == {"lately", "continued", "serves", "tried"}
    assert (weights["refused"] / "manifest.json").exists()


@pytest.mark.django_db
def test_scales_that_were_left_go_in_parts_after_the_days_that_are_set(settings: Settings, store: Path) -> None:
    for number in range(3):
        make_old(store / "scales" / str(number) / "adapter_model.safetensors")
    (store / "scales" / "new").mkdir()
    settings.TENTALIS = settings.TENTALIS | {"RETENTION_FILE_DAYS": 500}
    assert delete_old_files() == {}
    settings.TENTALIS = settings.TENTALIS | {"RETENTION_FILE_DAYS": 399}
    assert delete_old_files(most=2) == {"artifacts/scales": 2}
    assert delete_old_files(most=2) == {"artifacts/scales": 1}
    assert [path.name for path in (store / "scales").iterdir()] == ["new"]


def test_what_could_not_be_stored_goes_when_nothing_joined_it_for_long(tmp_path: Path) -> None:
    assert drop_old_rejected(tmp_path, kept_s=86_400) == 0
    keep_aside(tmp_path, b"a record")
    assert drop_old_rejected(tmp_path, kept_s=86_400) == 0
    long_ago = time.time() - 2 * 86_400
    os.utime(tmp_path / REJECTED, (long_ago, long_ago))
    assert drop_old_rejected(tmp_path, kept_s=86_400) > 0
    assert find_rejected(tmp_path) == 0
