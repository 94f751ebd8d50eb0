"""A line of adapters is made again without somebody by the real trainer, on a model of two layers."""

from pathlib import Path

import pytest
from pytest_django import Settings

from apps.accounts.models import Project, User
from apps.adapters.artifacts import path_of
from apps.adapters.models import Adapter
from apps.adapters.selectors import find_deployed
from apps.erasure.erase import forget_person
from apps.gate.gating import inspect_files
from apps.inference.models import Exchange
from apps.outbox.models import Segment
from apps.pipeline import flow
from apps.rollouts.models import Rollout
from apps.tasks.models import Task
from apps.training.models import TrainingRun
from apps.training.services import dispatch_run
from apps.workers.models import Worker
from tentalis.core.contracts import TrainSpec
from tentalis.core.packing import pack_float32, unpack_int32
from tests.apps.training.test_per_user import read_batch, serve, talk_once
from tests.factories import make_user, make_worker

pytestmark = pytest.mark.torch


def train(run: TrainingRun) -> Adapter:
    from gpu_workers.runner import run as train_spec

    dispatch_run(run.pk, by="test")
    run.refresh_from_db()
    result = train_spec(TrainSpec.from_json(run.spec), lambda _: None)
    assert result.ok, f"{result.error_type}: {result.error_message}"
    flow.handle_training_result(result.to_json(), by="control")
    Segment.objects.update(state="done")
    return Adapter.objects.get(run_id=run.pk)


def tell_logprobs(task: Task, adapter: Adapter | None) -> None:
    """Give a task's answers the log-probs that the model would have told."""
    from gpu_workers.engine.engine import Engine
    from tests.gpu_workers.learning.training_factory import tiny_model

    engine = Engine("tiny", tiny_model())
    if adapter is not None:
        engine.load_adapter("it", path_of(adapter.uri))
    for exchange in Exchange.objects.filter(attempt__task=task):
        prompt, tokens = unpack_int32(exchange.prompt_token_ids), unpack_int32(exchange.token_ids)
        (scored,) = engine.score([prompt], [tokens], "it" if adapter else None)
        Exchange.objects.filter(pk=exchange.pk).update(logprobs=pack_float32(scored.tolist()))


@pytest.fixture
def helper(project: Project, settings: Settings, tmp_path: Path) -> Worker:
    """A worker on the model of two layers; three conversations fill a batch."""
    from tests.gpu_workers.learning.training_factory import tiny_model

    settings.ARTIFACTS = tmp_path
    project.session_policy = {"learn": True, "judge": False, "fastest_s": 0}
    project.batch_tasks = 3
    project.recipe = {"lora_rank": 4, "lora_alpha": 8.0, "max_staleness": 0, "singles": "batch"}
    project.save()
    return make_worker(project, "helper", Worker.Kind.CHAT, base_directory=str(tiny_model()))


@pytest.fixture
def olivia(project: Project) -> User:
    olivia = make_user("olivia")
    project.members.create(user=olivia, role="owner")
    return olivia


def learn(helper: Worker, *people: str) -> Adapter:
    for place, name in enumerate(people):
        task = talk_once(helper, name, find_deployed(helper))
        Rollout.objects.filter(task=task).update(reward=float(place != 1))
        tell_logprobs(task, find_deployed(helper))
    adapter = train(TrainingRun.objects.get(state="queued"))
    serve(adapter)
    return adapter


def test_the_trainer_makes_a_line_again_of_what_is_left(project: Project, helper: Worker, olivia: User) -> None:
    first = learn(helper, "ada", "bob", "ada")
    second, third = learn(helper, "ada", "bob", "grace"), learn(helper, "ada", "bob", "bob")
    graces = set(Rollout.objects.filter(attempt__exchange__session__end_user="grace").values_list("pk", flat=True))
    done = forget_person(project=project, end_user="grace", by=olivia)
    assert (graces != set(), done.reruns) == (True, 2)
    runs = list(TrainingRun.objects.filter(rebuilds__isnull=False).order_by("pk"))
    again, tip = [train(run) for run in runs]
    for run in runs:
        run.refresh_from_db()
    taught = [{record.rollout_id for record in read_batch(run)} for run in runs]
    assert ([len(one) for one in taught], graces & (taught[0] | taught[1])) == ([2, 3], set())
    assert [(one.parent, one.manifest["parent_sha256"]) for one in (again, tip)] == [
        (first, first.sha256),
        (again, again.sha256),
    ]
    assert len({one.sha256 for one in (second, third, again, tip)}) == 4
    assert [run.summary["rollouts"] for run in runs] == [2, 3], "its rollouts are two versions old, and none is too old"
    third.refresh_from_db()
    assert third.barred
    assert inspect_files(tip, third) == (), "it continues no stale adapter: it takes the place of one that is barred"


def test_answers_of_a_step_that_is_missing_teach_what_comes_before_it(
    project: Project, helper: Worker, olivia: User
) -> None:
    """The second batch was the forgotten person's alone; the third was answered by what learnt from it."""
    first = learn(helper, "ada", "bob", "ada")
    learn(helper, "grace", "grace", "grace")
    learn(helper, "ada", "bob", "ada")
    assert forget_person(project=project, end_user="grace", by=olivia).reruns == 1
    run = TrainingRun.objects.get(rebuilds__isnull=False)
    made = train(run)
    run.refresh_from_db()
    assert (made.parent, run.spec["policy_version"]) == (first, 1)
    assert {record.policy_version for record in read_batch(run)} == {2}
    assert run.summary["rollouts"] == 3
    assert run.metrics[0]["displaced"] == 0, "how far answers fell is asked of those of the very version it begins with"
