"""Runs on a cluster: what is sent where, how it is asked after, and what a next attempt goes on from."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings as installed
from pytest_django import Settings

from apps.accounts.models import Project
from apps.rollouts.models import Batch
from apps.training import cluster, services
from apps.training.models import RewardDoor, TrainingRun
from apps.workers.models import Worker
from tentalis.celery import app
from tentalis.core.contracts import TrainSpec
from tests.factories import make_worker


@pytest.fixture
def run(project: Project, settings: Settings, tmp_path: Path) -> TrainingRun:
    """A desk's run that waits for the cluster."""
    settings.ARTIFACTS = tmp_path
    settings.TENTALIS = {**settings.TENTALIS, "OPENRLHF_OPTIONS": {"engines": 2}, "REWARD_BASE_URL": "http://web"}
    worker = make_worker(project, name="clerk", kind=Worker.Kind.DESK)
    batch = Batch.objects.create(project=project, worker=worker, number=1, target_tasks=1, state="closed")
    read_sent(cluster.QUEUE)
    return services.queue_run(batch=batch, by="ledger", backend="openrlhf")


def read_sent(queue: str) -> list[list[Any]]:
    """Arguments of what lies in a queue, which is empty afterwards."""
    key = f"{app.conf.broker_transport_options['global_keyprefix']}{queue}"
    broker: Any = redis.Redis.from_url(installed.REDIS_URL)
    found: list[list[Any]] = []
    while (message := broker.rpop(key)) is not None:
        body = json.loads(base64.b64decode(json.loads(message)["body"]))
        found.append(body[0])
    return found


@pytest.mark.django_db(transaction=True)
def test_a_run_goes_to_the_cluster_with_its_options_and_its_door(run: TrainingRun) -> None:
    services.dispatch_run(run.pk, by="control")
    run.refresh_from_db()
    ((spec_json, reward_url),) = read_sent(cluster.QUEUE)
    spec = TrainSpec.from_json(spec_json)
    assert (run.state, run.external_id) == ("running", f"run-{run.pk}-1")
    assert spec.options == {"stops": ["</call>"], "engines": 2}
    assert reward_url.startswith("http://web/api/v1/rewards/")
    assert reward_url.rpartition("/")[2] not in json.dumps([run.spec, spec_json])
    assert RewardDoor.objects.get().attempt == 1
    assert spec.resume_uri is None


@pytest.mark.django_db(transaction=True)
def test_a_run_at_work_is_asked_after_with_the_same_words(run: TrainingRun) -> None:
    services.dispatch_run(run.pk, by="control")
    first = read_sent(cluster.QUEUE)
    assert cluster.tend_all() == 1
    assert read_sent(cluster.QUEUE) == first
    TrainingRun.objects.update(state="succeeded")
    assert cluster.tend_all() == 0
    assert read_sent(cluster.QUEUE) == []


@pytest.mark.django_db(transaction=True)
def test_the_next_attempt_goes_on_from_what_the_last_one_kept(run: TrainingRun, tmp_path: Path) -> None:
    services.dispatch_run(run.pk, by="control")
    kept = tmp_path / "runs" / str(run.pk) / "1" / "checkpoints"
    (kept / "_actor").mkdir(parents=True)
    (kept / "_actor" / "latest").write_text("global_step2")
    run.refresh_from_db()
    services.retry_run(run=run, by="sweep")
    read_sent(cluster.QUEUE)
    services.dispatch_run(run.pk, by="control")
    ((spec_json, _),) = read_sent(cluster.QUEUE)
    assert (spec_json["attempt"], spec_json["resume_uri"]) == (2, kept.resolve().as_uri())
