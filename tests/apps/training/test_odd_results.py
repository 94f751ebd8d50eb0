"""What a box sends home may be anything: every odd result and manifest ends its run, with a reason."""

import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from apps.accounts.models import Project
from apps.adapters.models import Adapter
from apps.pipeline import flow
from apps.rollouts.models import Batch
from apps.training import services
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from tests.apps.training.test_runs import make_result, write_adapter

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 7, 10**40, 1.5, -0.0, 1e308, "", "a", "\0", "\ud800", "../../etc/passwd", "x" * 5000),
    *([], ["a"], [None], [[]], {}, {"a": "b"}, {"": {}}, {"\0": {"sha256": "0" * 64, "size_bytes": 1}}),
    *({"..": {"sha256": "", "size_bytes": 0}}, {"a": ["sha256"]}, {"a": {"sha256": 1, "size_bytes": "1"}}, {"a": {}}),
    *([{"reward": "high"}], [{"reward": [1]}], [{"\0": 1.0}], [{"reward": True}], {"a": 10**400}, {"a": None}),
)
RAW: tuple[bytes, ...] = (
    *(b"", b"null", b"[]", b"7", b'"x"', b"{", b"\xff\xfe", b'{"schema": NaN}', b"[" * 100_000, b"9" * 5000),
    b'{"files": ["a"], "schema": "tentalis.adapter-manifest/1"}',
)


@pytest.fixture
def run(project: Project, worker: Worker, settings: Settings, tmp_path: Path) -> TrainingRun:
    settings.ARTIFACTS = tmp_path
    batch = Batch.objects.create(project=project, worker=worker, number=1, target_tasks=1, state="closed")
    run = services.queue_run(batch=batch, by="ledger")
    output = tmp_path / "runs" / "1"
    output.mkdir(parents=True)
    TrainingRun.objects.filter(pk=run.pk).update(spec={"output_uri": output.as_uri()})
    wait_again(run)
    return run


def wait_again(run: TrainingRun) -> None:
    """The run awaits the result of its first attempt, as if none had come."""
    TrainingRun.objects.filter(pk=run.pk).update(state="running", attempt=1, failure="", metrics=[], gates=[])
    run.refresh_from_db()


def odd_manifests(good: dict[str, Any]) -> Iterator[bytes]:
    yield from RAW
    for name in good:
        yield json.dumps({key: value for key, value in good.items() if key != name}).encode()
        for value in ODD:
            yield json.dumps(good | {name: value}).encode()
    rng = random.Random(5)
    for _ in range(100):
        yield json.dumps(good | {name: rng.choice(ODD) for name in rng.sample(sorted(good), 3)}).encode()


def odd_results(good: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name in good.keys() - {"run_id", "attempt"}:
        yield {key: value for key, value in good.items() if key != name}
        for value in ODD:
            yield good | {name: value}


def test_every_odd_manifest_with_a_right_hash_settles_its_run(run: TrainingRun, tmp_path: Path) -> None:
    good_result = make_result(run, tmp_path)
    directory = tmp_path / "adapter"
    good = json.loads((directory / "manifest.json").read_bytes())
    for content in odd_manifests(good):
        (directory / "manifest.json").write_bytes(content)
        flow.handle_training_result(good_result | {"sha256": hashlib.sha256(content).hexdigest()}, by="control")
        run.refresh_from_db()
        assert run.state in {"failed", "succeeded"}, content[:200]
        assert (run.state == "failed") == bool(run.failure), content[:200]
        if run.state == "succeeded":
            Adapter.objects.all().delete()
        wait_again(run)


def test_a_manifest_whose_files_are_a_list_says_so_in_the_runs_failure(run: TrainingRun, tmp_path: Path) -> None:
    digest = write_adapter(tmp_path / "adapter", files=["a"])
    flow.handle_training_result(
        make_result(run, tmp_path / "x") | {"sha256": digest, "adapter_uri": (tmp_path / "adapter").as_uri()}, by="c"
    )
    run.refresh_from_db()
    assert run.state == "failed"
    assert "files must be an object, found a list" in run.failure


def test_every_odd_result_settles_its_run(run: TrainingRun, tmp_path: Path) -> None:
    good = make_result(run, tmp_path)
    for odd in odd_results(good):
        flow.handle_training_result(odd, by="control")
        run.refresh_from_db()
        assert run.state != "running", odd
        assert run.state == "succeeded" or run.failure, odd
        if run.state == "succeeded":
            Adapter.objects.all().delete()
        wait_again(run)
