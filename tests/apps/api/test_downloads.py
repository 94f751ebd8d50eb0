"""Exports: what the trainer reads, and what an adapter's directory holds, whole and checked."""

import hashlib
import json
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from django.test import override_settings

from apps.accounts.models import Project
from apps.adapters.models import Adapter
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.inference.models import Exchange
from apps.rollouts.files import write_batch
from apps.rollouts.models import Batch, Rollout, TrainingUse
from apps.tasks.models import Attempt, Task
from apps.training.models import ManagerRun
from apps.workers.models import Worker
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import AdapterManifest, RolloutRecord
from tentalis.core.desk import make_tickets
from tentalis.core.packing import pack_bools, pack_float32, pack_int32
from tests.edges.caller import Caller
from tests.factories import make_measured, make_task

TOKENS = [5, 6, 7]


@pytest.fixture
def rollouts(project: Project, worker: Worker) -> list[Rollout]:
    """Three usable ones of one task, the first two in a batch, and one that trains nothing."""
    task = make_task(project, worker, group_size=4)
    batch = Batch.objects.create(project=project, worker=worker, number=1, target_tasks=1, task_count=1)
    rows = []
    for index in range(4):
        exchange = Exchange.objects.create(
            project=project, worker_name=worker.name, model="m", messages=[{"role": "user", "content": "hi"}],
            prompt_token_ids=pack_int32([1, 2]), token_ids=pack_int32(TOKENS), logprobs=pack_float32([-0.5, -1.0, 0.0]),
            sampled=pack_bools([True, True, False]),
        )  # fmt: skip
        attempt = Attempt.objects.create(task=task, index=index, worker=worker, exchange=exchange)
        is_usable = index < 3
        rows.append(
            Rollout.objects.create(
                project=project,
                worker=worker,
                task=task,
                attempt=attempt,
                is_usable=is_usable,
                reward=0.5,
                unusable_reason="" if is_usable else "for a test",
                steps=[[0, 2, 1.0], [2, 3, None]],
            )
        )
    for row in rows[:2]:
        TrainingUse.objects.create(rollout=row, batch=batch)
    return rows


def test_usable_rollouts_are_exported_as_the_trainer_reads_them(as_alice: Caller, rollouts: list[Rollout]) -> None:
    answer = as_alice.get("rollouts/export?project=shop")
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    records = [RolloutRecord.from_json(json.loads(line)) for line in answer.content.splitlines()]
    assert [canonical_json(record.to_json()) for record in records] == answer.content.splitlines()
    assert [record.rollout_id for record in records] == [row.pk for row in rollouts[:3]]
    assert list(records[0].token_ids) == TOKENS
    assert list(records[0].sampled) == [True, True, False]
    assert [(step.start, step.end, step.score) for step in records[0].steps] == [(0, 2, 1.0), (2, 3, None)]


def test_parquet_holds_the_same_and_filters_hold_too(as_alice: Caller, rollouts: list[Rollout]) -> None:
    batch = rollouts[0].training_use.batch_id
    answer = as_alice.get(f"rollouts/export?format=parquet&batch={batch}")
    table = pyarrow.parquet.read_table(BytesIO(answer.content)).to_pylist()
    lines = [json.loads(line) for line in as_alice.get(f"rollouts/export?batch={batch}").content.splitlines()]
    assert len(table) == len(lines) == 2
    for row, line in zip(table, lines, strict=True):
        for name in ("messages", "candidate_hints", "rendering"):
            assert json.loads(row.pop(name)) == line.pop(name)
        assert row.pop("logprobs") == pytest.approx(line.pop("logprobs"))
        assert row == line


def test_a_download_is_on_record_with_who_what_how_many_and_hash(as_alice: Caller, rollouts: list[Rollout]) -> None:
    batch = rollouts[0].training_use.batch_id
    for form in ("jsonl", "parquet"):
        content = as_alice.get(f"rollouts/export?format={form}&batch={batch}").content
        made, sent = AuditEntry.objects.filter(kind__startswith="export.").order_by("-id")[:2][::-1]
        assert (made.kind, made.actor, made.project_id) == (Kind.EXPORT_MADE, "user:alice", rollouts[0].project_id)
        assert made.payload == {"source": "rollouts", "format": form, "filters": {"batch": str(batch)}}
        assert (sent.kind, sent.project_id) == (Kind.EXPORT_SENT, rollouts[0].project_id)
        assert sent.payload == {"export": made.pk, "rows": 2, "sha256": hashlib.sha256(content).hexdigest()}


def test_a_batch_is_exported_as_its_run_reads_it_and_that_is_on_record(
    as_alice: Caller, as_charlie: Caller, rollouts: list[Rollout], tmp_path: Path
) -> None:
    batch = rollouts[0].training_use.batch
    with override_settings(ARTIFACTS=tmp_path):
        uri, sha256 = write_batch(batch)
    answer = as_alice.get(f"batches/{batch.pk}/export")
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    assert answer.content == Path(uri.removeprefix("file://")).read_bytes()
    assert [json.loads(line)["rollout_id"] for line in answer.content.splitlines()] == [row.pk for row in rollouts[:2]]
    made, sent = AuditEntry.objects.filter(kind__startswith="export.").order_by("id")
    assert (made.actor, made.payload) == ("user:alice", {"source": "batch", "batch": batch.pk, "format": "jsonl"})
    assert sent.payload == {"export": made.pk, "rows": 2, "sha256": sha256}
    assert as_charlie.get(f"batches/{batch.pk}/export").status == 404
    Attempt.objects.filter(pk=rollouts[1].attempt_id).update(exchange=None)
    refused = as_alice.get(f"batches/{batch.pk}/export")
    assert (refused.status, "cannot be told to a trainer" in refused.body["detail"]) == (409, True), refused
    assert AuditEntry.objects.filter(kind__startswith="export.").count() == 2


def test_what_is_held_out_is_in_no_download(as_alice: Caller, rollouts: list[Rollout]) -> None:
    [ticket] = make_tickets(7, 1, held_out=True)
    Task.objects.update(environment="desk", prompt=ticket.text)
    assert as_alice.get("rollouts/export?project=shop").content == b""


def test_a_form_nobody_knows_is_refused(as_alice: Caller) -> None:
    answer = as_alice.get("rollouts/export?format=xml")
    assert (answer.status, "jsonl, parquet" in answer.body["errors"]["format"][0]) == (400, True)


def test_one_rollout_shows_its_exact_tokens(as_alice: Caller, rollouts: list[Rollout]) -> None:
    tokens = as_alice.get(f"rollouts/{rollouts[0].pk}").body["tokens"]
    assert (tokens["token_ids"], tokens["logprobs"]) == (TOKENS, [-0.5, -1.0, 0.0])
    listed = as_alice.get("rollouts?is_usable=false").body["results"]
    assert [(row["id"], row["unusable_reason"]) for row in listed] == [(rollouts[3].pk, "for a test")]


@pytest.fixture
def adapter(project: Project, worker: Worker, tmp_path: Path) -> Iterator[Adapter]:
    """An adapter whose directory stands in an artifact store of its own."""
    directory = tmp_path / "a"
    directory.mkdir()
    (directory / "adapter_config.json").write_bytes(b"{}")
    manifest = AdapterManifest(
        worker="echo", base_model="desk", base_sha256="", parent_sha256="", run_id=1, attempt=1, recipe_hash="",
        rollouts_sha256="", rank=1, alpha=1.0, target_modules=["q_proj"], versions={},
        files={"adapter_config.json": {"sha256": hashlib.sha256(b"{}").hexdigest(), "size_bytes": 2}},
    )  # fmt: skip
    content = canonical_json(manifest.to_json())
    (directory / "manifest.json").write_bytes(content)
    row = Adapter.objects.create(
        project=project, worker=worker, name="shop.echo@v1-0", version=1, line_version=1, uri=directory.as_uri(),
        sha256=hashlib.sha256(content).hexdigest(), manifest=manifest.to_json(),
    )  # fmt: skip
    with override_settings(ARTIFACTS=tmp_path):
        yield row


def test_an_adapter_is_downloaded_as_its_directory(as_alice: Caller, adapter: Adapter) -> None:
    answer = as_alice.get(f"adapters/{adapter.pk}/download")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="shop.echo@v1-0.zip"'
    with zipfile.ZipFile(BytesIO(answer.content)) as archive:
        assert archive.namelist() == ["manifest.json", "adapter_config.json"]
        assert hashlib.sha256(archive.read("manifest.json")).hexdigest() == adapter.sha256


def test_an_adapter_that_was_changed_is_not_sent(as_alice: Caller, adapter: Adapter, tmp_path: Path) -> None:
    (tmp_path / "a" / "adapter_config.json").write_bytes(b"[]")
    answer = as_alice.get(f"adapters/{adapter.pk}/download")
    assert (answer.status, answer.body["code"]) == (422, "adapter_broken")


def make_fit(of: Adapter, **values: Any) -> ManagerRun:
    """A fit of a manager that was trained the very files of an adapter."""
    own = {"name": "shop.echo.verdict@v1-0", "uri": of.uri, "sha256": of.sha256}
    fields = {"manager": "agent:verdict:echo", "kind": "adapter", "state": "refused", "adapter": own}
    fit: ManagerRun = ManagerRun.objects.create(project=of.project, **fields | values)
    return fit


def test_a_managers_own_adapter_is_downloaded_as_a_workers_is(as_alice: Caller, adapter: Adapter) -> None:
    path = f"manager-runs/{make_fit(adapter).pk}/download"
    answer = as_alice.get(path)
    assert answer.headers["Content-Disposition"] == 'attachment; filename="shop.echo.verdict@v1-0.zip"'
    assert answer.content == as_alice.get(f"adapters/{adapter.pk}/download").content
    assert as_alice.get(path, **{"If-None-Match": f'"{adapter.sha256}"'}).status == 304


def test_a_managers_own_adapter_that_was_changed_is_not_sent(
    as_alice: Caller, adapter: Adapter, tmp_path: Path
) -> None:
    (tmp_path / "a" / "adapter_config.json").write_bytes(b"[]")
    answer = as_alice.get(f"manager-runs/{make_fit(adapter).pk}/download")
    assert (answer.status, answer.body["code"]) == (422, "adapter_broken")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"kind": "rubric"}, "found a rubric's weights"),
        ({"state": "training", "adapter": {}}, "wanted one that was trained, found one training"),
    ],
)
def test_a_fit_without_an_adapter_has_nothing_to_download(
    as_alice: Caller, adapter: Adapter, values: dict[str, Any], words: str
) -> None:
    answer = as_alice.get(f"manager-runs/{make_fit(adapter, **values).pk}/download")
    assert (answer.status, words in answer.body["detail"]) == (409, True)


def test_a_lineage_names_run_rollouts_and_who_judged(
    as_alice: Caller, adapter: Adapter, rollouts: list[Rollout]
) -> None:
    from apps.feedback.models import Feedback
    from apps.training.models import TrainingRun

    batch = Batch.objects.get()
    run = TrainingRun.objects.create(
        project=batch.project, worker=batch.worker, batch=batch, recipe={}, recipe_hash="f" * 64
    )
    Adapter.objects.filter(pk=adapter.pk).update(run_id=run.pk)
    Rollout.objects.update(reward_source="human")
    Feedback.objects.create(project=batch.project, task=rollouts[0].task, source="human", author="user:bob", score=1)
    lineage = as_alice.get(f"adapters/{adapter.pk}/provenance").body["lineage"]
    assert len(lineage) == 1
    wanted = {"run": run.pk, "batch": batch.pk, "rollouts": 2, "tasks": 1, "authors": ["user:bob"]}
    assert wanted.items() <= lineage[0].items()
    assert lineage[0]["sources"] == [{"reward_source": "human", "rollouts": 2}]


def test_a_learning_curve_starts_at_the_base_model(as_alice: Caller, adapter: Adapter) -> None:
    for row, outcomes in ((adapter, [1.0, 1.0]), (None, [0.0, 1.0])):
        make_measured(adapter.worker, row, outcomes)
    points = as_alice.get("metrics/learning?project=shop&worker=echo").body["points"]
    assert [(point["version"], point["accuracy"], point["items"]) for point in points] == [(0, 0.5, 2), (1, 1.0, 2)]
