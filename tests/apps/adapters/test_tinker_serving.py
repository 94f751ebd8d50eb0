"""A desk worker that lives at Tinker: its tries, its training, its gate and its deployment, by the door's process."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

pytest.importorskip("tinker", reason="the client of Tinker is not installed: pip install 'tentalis[tinker]'")

from apps.accounts.models import Project, User
from apps.adapters import serving
from apps.adapters.artifacts import path_of
from apps.adapters.errors import AdapterNotServableError
from apps.adapters.models import Adapter, Deployment
from apps.adapters.services import promote_verified
from apps.gate import gating
from apps.inference.providers import create_provider
from apps.outbox.models import Segment
from apps.pipeline import flow
from apps.rollouts.models import Rollout
from apps.rollouts.services import build_rollouts
from apps.scoring.services import score_tasks
from apps.tasks.models import Task
from apps.tasks.services import work_tasks
from apps.training.models import TrainingRun
from apps.training.services import dispatch_run
from apps.workers.models import Worker
from gpu_workers.desk import base_directory
from tentalis.core.contracts import TrainSpec
from tentalis.core.desk import make_tickets
from tests.apps.adapters.desk_adapters import make_served
from tests.factories import make_user, make_worker
from tests.gpu_workers.tinker_door import run_door
from tests.gpu_workers.tinker_server import KEY, MODEL, TinkerServer, serve

pytestmark = [pytest.mark.torch, pytest.mark.django_db(transaction=True), pytest.mark.slow]
TASKS, TRIES = 6, 4


@pytest.fixture(scope="module")
def server() -> Iterator[TinkerServer]:
    with serve(TinkerServer(model="desk")) as server:
        yield server


@pytest.fixture(scope="module")
def door(server: TinkerServer) -> Iterator[str]:
    with run_door(server, base_directory(), name="desk") as url:
        yield url


@pytest.fixture
def clerk(
    project: Project,
    server: TinkerServer,
    door: str,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Worker:
    settings.ARTIFACTS = tmp_path
    options = {"TRAINER_BACKEND": "tinker", "TINKER_API_KEY": KEY, "TINKER_OPTIONS": {"model": MODEL}}
    settings.TENTALIS = {**settings.TENTALIS, **options}
    monkeypatch.setenv("TENTALIS_TINKER_URL", server.url)
    monkeypatch.setenv("TENTALIS_TINKER_API_KEY", KEY)
    project.batch_tasks, project.group_size = TASKS, TRIES
    project.recipe = {"lora_rank": 4, "lora_alpha": 8.0, "learning_rate": 1e-4, "w_opd": 0.0}
    sizes = {"panel_size": 60, "fresh_size": 12, "skills_size": 6, "sweep_size": 6}
    project.gate_policy = sizes | {"margin": 0.9, "second_margin": 0.9}  # so few tasks can prove nothing narrower
    project.save()
    provider = create_provider(
        project=project,
        name="tinker",
        kind="vllm",
        base_url=door,
        api_key="",
        allow_private=True,
        default_model="desk",
        by=make_user("root", is_superuser=True),
    )
    return make_worker(project, "clerk", "desk", provider=provider, base_directory="desk")


def work(clerk: Worker, alice: User) -> None:
    for ticket in make_tickets(11, TASKS, held_out=False):
        task = flow.submit(project=clerk.project, prompt=ticket.text, environment="desk", by=alice, worker=clerk)
        work_tasks([task.pk], by="test")
        score_tasks([task.pk])
        Task.objects.filter(pk=task.pk).update(state=Task.State.LEARNING)
        build_rollouts([task.pk], by="test")
        flow.train_when_full([task.pk])
    Segment.objects.update(state="done")


def test_what_was_sampled_and_trained_there_is_gated_and_deployed_there(
    clerk: Worker, server: TinkerServer, alice: User
) -> None:
    from gpu_workers.runner import run as train

    work(clerk, alice)
    assert Rollout.objects.count() == TASKS * TRIES, "the service's tokens are exact: every try can be learnt from"
    run = TrainingRun.objects.get()
    dispatch_run(run.pk, by="test")
    run.refresh_from_db()
    result = train(TrainSpec.from_json(run.spec), lambda _: None)
    assert result.ok, f"{result.error_type}: {result.error_message}"
    assert result.metrics[0]["max_ratio"] == pytest.approx(1.0, abs=1e-3), "trained on the policy that sampled"
    flow.handle_training_result(result.to_json(), by="control")
    adapter = Adapter.objects.get()
    gating.gate_adapter(adapter.pk, by="gate")
    adapter.refresh_from_db()
    verdict = adapter.verdicts.get(question="safe")
    assert adapter.state == Adapter.State.VERIFIED, verdict.words
    assert "other strengths were not tried" in verdict.words
    assert "only what was trained at Tinker is served there" in verdict.words
    promote_verified(adapter.pk, by="gate")
    assert Deployment.objects.get().adapter == adapter
    left = path_of(adapter.uri) / "tinker.json"
    assert set(server.samplers.values()) >= {None, read_sampler(left)}
    client = serving.client_of(clerk)
    assert client.find_directories()[adapter.name] == str(path_of(adapter.uri))
    client.unload_adapter(adapter.name)
    assert serving.restore_served() == 1, "a door that was started again gets its adapter back, and it is proved"


def read_sampler(path: Path) -> str:
    return str(json.loads(path.read_bytes())["sampler"])


def test_the_services_own_address_serves_no_adapter_and_says_what_does(
    project: Project, server: TinkerServer, settings: Settings, tmp_path: Path
) -> None:
    settings.ARTIFACTS = tmp_path
    provider = create_provider(
        project=project,
        name="address",
        kind="tinker",
        base_url=f"{server.url}/oai/api/v1",
        api_key=KEY,
        allow_private=True,
        default_model=MODEL,
        by=make_user("root", is_superuser=True),
    )
    adapter = make_served(make_worker(project, "clerk", "desk", provider=provider), 1, tmp_path)
    with pytest.raises(
        AdapterNotServableError, match=r"Tinker .* loads no adapters: .* python -m gpu_workers\.backends"
    ):
        serving.load(adapter)
