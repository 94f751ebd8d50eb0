"""Runs on a cluster: what is sent where, how it is asked after, and what a next attempt goes on from."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings as installed
from django.db import transaction
from pytest_django import Settings

from apps.accounts.models import Project, User
from apps.adapters.artifacts import path_of
from apps.base.errors import BadInputError
from apps.erasure import unlearn_adapters
from apps.pipeline import flow, trainings
from apps.rollouts.models import Batch, PreferencePair
from apps.scoring.models import StepLabel
from apps.training import cluster, retrying, services
from apps.training.models import RewardEndpoint, TrainingRun
from apps.workers.models import Worker
from tentalis.celery import app
from tentalis.core.contracts import TrainSpec
from tentalis.core.learning.head_recipes import HeadRecipe
from tests.factories import add_call, make_attempt, make_judged_task, make_task, make_worker


@pytest.fixture
def run(project: Project, settings: Settings, tmp_path: Path) -> TrainingRun:
    """A desk's run that waits for the cluster."""
    settings.ARTIFACTS = tmp_path
    settings.TENTALIS = {**settings.TENTALIS, "OPENRLHF_OPTIONS": {"engines": 2}, "REWARD_BASE_URL": "http://web"}
    worker = make_worker(project, name="clerk", kind="desk")
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
    ((spec_json, reward_url, key),) = read_sent(cluster.QUEUE)
    spec = TrainSpec.from_json(spec_json)
    assert (run.state, run.external_id) == ("running", f"run-{run.pk}-1")
    assert spec.options == {"stops": ["</call>"], "engines": 2}
    assert reward_url.startswith("http://web/api/v1/rewards/")
    assert reward_url.rpartition("/")[2] not in json.dumps([run.spec, spec_json])
    assert len(key) == 64
    assert key not in json.dumps([run.spec, spec_json])
    assert RewardEndpoint.objects.get().attempt == 1
    assert spec.resume_uri is None


@pytest.mark.django_db(transaction=True)
def test_a_run_at_work_is_asked_after_with_the_same_words(run: TrainingRun) -> None:
    services.dispatch_run(run.pk, by="control")
    first = read_sent(cluster.QUEUE)
    assert cluster.poll_all_jobs() == 1
    assert read_sent(cluster.QUEUE) == first
    TrainingRun.objects.update(state="succeeded")
    assert cluster.poll_all_jobs() == 0
    assert read_sent(cluster.QUEUE) == []


def leave_checkpoint(run: TrainingRun, store: Path) -> Path:
    """Send a run to the cluster, which keeps one of it and is lost; the checkpoints' directory."""
    services.dispatch_run(run.pk, by="control")
    run.refresh_from_db()
    kept = store / "runs" / str(run.pk) / "1" / "checkpoints"
    (kept / "_actor").mkdir(parents=True)
    (kept / "_actor" / "latest").write_text("global_step2")
    (kept.parent / "spec.json").write_text(json.dumps(run.spec))
    return kept


@pytest.mark.django_db(transaction=True)
def test_the_next_attempt_goes_on_from_what_the_last_one_kept(run: TrainingRun, tmp_path: Path) -> None:
    kept = leave_checkpoint(run, tmp_path)
    retrying.retry_run(run=run, by="sweep")
    read_sent(cluster.QUEUE)
    services.dispatch_run(run.pk, by="control")
    ((spec_json, _, _),) = read_sent(cluster.QUEUE)
    assert (spec_json["attempt"], spec_json["resume_uri"]) == (2, kept.resolve().as_uri())


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("change", [{"learning_rate": 1e-5}, {"lora_rank": 4}])
def test_with_another_recipe_it_begins_anew(run: TrainingRun, tmp_path: Path, change: dict[str, Any]) -> None:
    leave_checkpoint(run, tmp_path)
    TrainingRun.objects.filter(pk=run.pk).update(state="failed")
    run.refresh_from_db()
    recipe = retrying.change_recipe(run, changes=change)
    retrying.retry_run(run=run, by="alice", recipe=recipe.to_json(), recipe_hash=recipe.hash)
    read_sent(cluster.QUEUE)
    services.dispatch_run(run.pk, by="control")
    ((spec_json, _, _),) = read_sent(cluster.QUEUE)
    assert (spec_json["attempt"], spec_json["resume_uri"]) == (2, None)


@pytest.fixture
def asked(project: Project, settings: Settings) -> Worker:
    """A worker whose batch holds something, on a platform with a cluster."""
    settings.TENTALIS = {**settings.TENTALIS, "RAY_URL": "http://ray:8265", "OPENRLHF_OPTIONS": {}}
    worker = make_worker(project, name="clerk")
    Batch.objects.create(project=project, worker=worker, number=1, target_tasks=9, task_count=20, rollout_count=20)
    return worker


POSSIBLE = {"algorithm": "grpo", "step_mix": 0.0, "w_rl": 1.0, "w_opd": 0.0}


@pytest.mark.parametrize(
    ("recipe", "options", "words"),
    [
        ({"step_mix": 0.3}, {}, r"recipe.step_mix must be 0 with OpenRLHF.*, found 0\.3; the standalone backend"),
        ({"algorithm": "cispo"}, {}, "found cispo, which the standalone backend does"),
        ({"w_opd": 0.3}, {}, r"options.teacher_url must name a server"),
        ({"minibatches": 5}, {}, r"wanted a multiple of 20 answers, found 128"),
        ({}, {"zero_stage": 3}, r"options.zero_stage must be 0 to 2"),
        ({}, {"engine": 3}, "options: wanted fields of actor_gpus"),
    ],
)
@pytest.mark.django_db
def test_what_the_cluster_cannot_do_is_refused_in_words_and_nothing_is_queued(
    asked: Worker, alice: User, settings: Settings, recipe: dict[str, Any], options: dict[str, Any], words: str
) -> None:
    settings.TENTALIS = {**settings.TENTALIS, "OPENRLHF_OPTIONS": options}
    with pytest.raises(BadInputError, match=words):
        flow.close_batch(worker=asked, by=alice, backend="openrlhf", recipe={**POSSIBLE, **recipe})
    assert not TrainingRun.objects.exists()
    assert Batch.objects.get().state == "open", "what it holds is still there for another try"


@pytest.mark.django_db
def test_what_it_can_do_is_queued_and_without_a_cluster_nothing_is(
    asked: Worker, alice: User, settings: Settings
) -> None:
    with_cluster = settings.TENTALIS
    settings.TENTALIS = {**with_cluster, "RAY_URL": ""}
    with pytest.raises(BadInputError, match="TENTALIS_RAY_URL must name one"):
        flow.close_batch(worker=asked, by=alice, backend="openrlhf", recipe=POSSIBLE)
    settings.TENTALIS = with_cluster
    assert flow.close_batch(worker=asked, by=alice, backend="openrlhf", recipe=POSSIBLE).backend == "openrlhf"


@pytest.mark.django_db
def test_preferences_of_unequal_trust_are_not_for_it(asked: Worker, alice: User) -> None:
    for number, weight in enumerate((1.0, 0.25)):
        task = make_task(asked.project, asked, prompt=str(number))
        PreferencePair.objects.create(
            project=asked.project, worker=asked, task=task, source="edit", weight=weight, text="yes",
            rejected_text="no", messages=[{"role": "user", "content": "?"}],
        )  # fmt: skip
    with pytest.raises(BadInputError, match=r"counts every record alike: wanted one trust, found 0\.25 to 1\.0"):
        flow.close_batch(worker=asked, by=alice, backend="openrlhf", recipe={"algorithm": "dpo", "kl_coef": 0.0})
    assert not TrainingRun.objects.exists()
    assert not PreferencePair.objects.filter(batch__isnull=False).exists()


@pytest.mark.django_db
def test_attempts_of_several_sequences_are_not_for_its_preferences(asked: Worker, alice: User) -> None:
    task = make_judged_task(asked.project, asked, group_size=2)
    for attempt in task.attempts.all():
        add_call(attempt, [7, attempt.index], [20, 21])
    PreferencePair.objects.create(
        project=asked.project, worker=asked, task=task, source="attempts", weight=1.0,
        **dict(zip(("chosen", "rejected"), task.attempts.all(), strict=True)),
    )  # fmt: skip
    with pytest.raises(BadInputError, match=r"compares two sequences of tokens: .* found 1 with several"):
        flow.close_batch(worker=asked, by=alice, backend="openrlhf", recipe={"algorithm": "dpo", "kl_coef": 0.0})


@pytest.mark.django_db
def test_a_step_scorer_is_asked_of_it_or_refused_in_words(asked: Worker, alice: User, settings: Settings) -> None:
    with_cluster = settings.TENTALIS
    with pytest.raises(BadInputError, match="step scorers are trained by standalone or openrlhf, found 'tinker'"):
        trainings.train_scorer(worker=asked, by=alice, backend="tinker")
    settings.TENTALIS = {**with_cluster, "OPENRLHF_OPTIONS": {"micro_batch": 7}}
    with pytest.raises(BadInputError, match=r"recipe.batch 256 .*: wanted a multiple of 7"):
        trainings.train_scorer(worker=asked, by=alice, backend="openrlhf")
    settings.TENTALIS = with_cluster
    attempt = make_attempt(make_task(asked.project, asked))
    StepLabel.objects.create(attempt=attempt, step=attempt.steps.get(index=0), source="verified", value=1.0)
    run = trainings.train_scorer(worker=asked, by=alice, backend="openrlhf")
    assert (run.backend, run.purpose, HeadRecipe.from_json(run.recipe)) == ("openrlhf", "reward_model", HeadRecipe())


@pytest.mark.django_db(transaction=True)
def test_what_was_given_up_here_is_asked_after_until_the_cluster_has_stopped_it(run: TrainingRun) -> None:
    """Else who was forgotten is learnt from to the end, on somebody's GPUs."""
    services.dispatch_run(run.pk, by="control")
    run.refresh_from_db()
    with transaction.atomic():
        unlearn_adapters.end_line(project=run.project, end_user="", stand_in="nobody", by="user:olivia")
    read_sent(cluster.QUEUE)
    assert cluster.poll_all_jobs() == 1
    ((spec_json, reward_url, _),) = read_sent(cluster.QUEUE)
    assert (spec_json["run_id"], reward_url) == (run.pk, "")
    (path_of(run.spec["output_uri"]) / "result.json").write_text("{}")
    assert cluster.poll_all_jobs() == 0
    assert read_sent(cluster.QUEUE) == []
