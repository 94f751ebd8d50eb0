"""Base weights: asked for where the model is not the built-in one, and checked before anything trains."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter
from apps.base.errors import BadInputError, ConflictError
from apps.inference.client import ModelClient
from apps.inference.errors import ProviderAnswerError
from apps.inference.models import Provider
from apps.pipeline import flow
from apps.rollouts.models import Batch
from apps.rollouts.selectors import why_nothing_trains
from apps.training import preflight, services
from apps.training.models import TrainingRun
from apps.workers.bases import BaseWeightsError, check_against_server, read_base, say_missing
from apps.workers.models import Worker
from apps.workers.recipes import choose_recipe
from apps.workers.services import change_worker, create_worker
from tentalis.core.learning.recipes import RECIPES
from tests.apps.workers.base_files import WORDS, write_base
from tests.factories import make_worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def box(project: Project) -> Provider:
    return Provider.objects.create(
        project=project,
        name="box",
        kind="vllm",
        base_url="http://127.0.0.1:1",
        default_model="mine",
        allow_private=True,
    )


@pytest.fixture
def adder(project: Project, box: Provider) -> Worker:
    """A chat worker as the guides make it, without base weights."""
    return make_worker(project, "adder", Worker.Kind.CHAT, provider=box, base_model="mine")


@dataclass
class Server:
    """A model server's tokenizer."""

    words: tuple[str, ...] = WORDS
    tells_tokens: bool = True
    is_away: bool = False

    def spell(self, token_ids: list[int], *, model: str) -> list[str] | None:
        if self.is_away:
            raise ProviderAnswerError(f"{model} is away")
        return [self.words[one] for one in token_ids]


def compare(worker: Worker, server: Server) -> str:
    return check_against_server(worker, cast("ModelClient", server))


def ask(worker: Worker) -> TrainingRun:
    batch = Batch.objects.create(project=worker.project, worker=worker, number=1, target_tasks=1, state="closed")
    run = services.queue_run(batch=batch, by="ledger")
    preflight.ask_run(run.pk, by="gate")
    run.refresh_from_db()
    return run


def test_a_worker_on_a_server_of_its_own_never_trains_the_built_in_model(adder: Worker, alice: User) -> None:
    run = ask(adder)
    assert run.state == TrainingRun.State.REFUSED
    assert "G11: adder has no base weights: 'mine' is served by box" in run.failure
    TrainingRun.objects.update(state="queued")
    with pytest.raises(BaseWeightsError, match="no base weights"):
        services.dispatch_run(run.pk, by="control")
    with pytest.raises(ConflictError, match="no base weights"):
        flow.close_batch(worker=adder, by=alice)


def test_what_is_missing_stands_where_people_ask_why_nothing_trains(project: Project, adder: Worker) -> None:
    found = [one.words for one in why_nothing_trains(project) if one.kind == "workers"]
    assert found == [f"{say_missing(adder)}. Nothing of it trains before."]
    Provider.objects.update(kind="anthropic")  # nothing of such a server trains for a reason of its own
    assert not [one for one in why_nothing_trains(project) if one.kind == "workers"]


def test_the_installations_own_engine_serves_the_built_in_model(project: Project, settings: Any) -> None:
    clerk = make_worker(project, "clerk", "desk")
    assert say_missing(clerk) == ""
    settings.TENTALIS = settings.TENTALIS | {"INFERENCE_BACKEND": "vllm"}
    assert "the installation's model server" in say_missing(clerk)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda root: (root / "config.json").unlink(), "found no readable config.json"),
        (lambda root: (root / "config.json").write_text("{}"), "names no model_type"),
        (lambda root: (root / "config.json").write_text("{"), "found no readable config.json"),
        (lambda root: (root / "config.json").write_text("[]"), "is no JSON object"),
        (lambda root: (root / "tokenizer.json").unlink(), "found no tokenizer.json"),
        (lambda root: (root / "model.safetensors").unlink(), r"found no \*\.safetensors"),
        (lambda root: (root / "model.safetensors").write_bytes(b"no"), "is no whole safetensors file"),
        (lambda root: (root / "model.safetensors").write_bytes(b"\xff" * 16), "is no whole safetensors file"),
    ],
)
def test_a_directory_without_a_base_model_is_refused_at_once(
    project: Project, box: Provider, alice: User, tmp_path: Path, spoil: Any, words: str
) -> None:
    root = write_base(tmp_path / "base")
    spoil(root)
    with pytest.raises(BadInputError, match=words) as raised:
        create_worker(project=project, name="a", kind="chat", provider=box, base_directory=str(root), by=alice)
    assert list(raised.value.errors) == ["base_directory"]


@pytest.mark.parametrize("directory", ["/nowhere/at/all", "relative/path"])
def test_a_directory_that_does_not_exist_is_refused_at_once(adder: Worker, alice: User, directory: str) -> None:
    with pytest.raises(BadInputError, match=r"wanted a directory with config\.json"):
        change_worker(worker=adder, by=alice, base_directory=directory)
    assert Worker.objects.get(pk=adder.pk).base_directory == ""


def test_what_the_files_are_is_kept_and_a_run_of_it_goes_on(adder: Worker, alice: User, tmp_path: Path) -> None:
    root = write_base(tmp_path / "base")
    worker = change_worker(worker=adder, by=alice, base_directory=str(root))
    assert worker.base_facts == read_base(str(root), with_weights=True).to_json()
    assert (worker.base_facts["parameters"], worker.base_facts["context_tokens"]) == (4096, 512)
    run = ask(worker)
    assert run.state == TrainingRun.State.QUEUED
    assert any(one["gate"] == "G11" and "could not be asked" in one["words"] for one in run.gates)
    worker.refresh_from_db()
    assert worker.base_compared["is_good"]
    assert worker.base_compared["fingerprint"] == worker.base_facts["fingerprint"]
    assert worker.base_compared["model"] == "mine"
    assert change_worker(worker=worker, by=alice, base_directory="").base_compared == {}, "it was of other files"


def test_files_that_were_changed_since_are_another_model(adder: Worker, alice: User, tmp_path: Path) -> None:
    root = write_base(tmp_path / "base")
    worker = change_worker(worker=adder, by=alice, base_directory=str(root))
    write_base(root, width=128)
    run = ask(worker)
    assert run.state == TrainingRun.State.REFUSED
    assert "are no longer the same model" in run.failure


def test_a_service_that_has_the_weights_needs_the_small_files_alone(tmp_path: Path) -> None:
    root = write_base(tmp_path / "base")
    (root / "model.safetensors").unlink()
    assert read_base(str(root), with_weights=False).parameters is None


def test_the_server_is_asked_what_tokens_write(adder: Worker, tmp_path: Path) -> None:
    adder.base_directory = str(write_base(tmp_path / "base"))
    assert compare(adder, Server()) == "its tokenizer spells 6 tokens as the model server does"
    with pytest.raises(BaseWeightsError, match="has another tokenizer"):
        compare(adder, Server(words=tuple(reversed(WORDS))))
    assert "could not be asked" in compare(adder, Server(is_away=True))
    assert "tells nothing" in compare(adder, Server(tells_tokens=False))


@pytest.mark.parametrize(("state", "may_change"), [("refused", True), ("candidate", False), ("retired", False)])
def test_a_refused_adapter_does_not_block_another_directory(
    project: Project, adder: Worker, alice: User, tmp_path: Path, state: str, may_change: bool
) -> None:
    Adapter.objects.create(
        project=project, worker=adder, name="adder@v1-ab", version=1, line_version=1, uri="file:///x", state=state,
        sha256="0" * 64, manifest={"base_model": "desk"},
    )  # fmt: skip
    root = str(write_base(tmp_path / "base"))
    if may_change:
        assert change_worker(worker=adder, by=alice, base_directory=root).base_directory == root
        return
    with pytest.raises(ConflictError, match="has adapters trained on"):
        change_worker(worker=adder, by=alice, base_directory=root)
    assert change_worker(worker=adder, by=alice, base_directory="desk").base_directory == "desk"


@pytest.mark.parametrize(
    ("parameters", "rate"),
    [(136_000, 4e-3), (5_000_000, 1e-3), (90_000_000, 2e-4), (600_000_000, 5e-5), (7_600_000_000, 1e-5), (None, 1e-5)],
)
def test_the_learning_rate_follows_the_models_size(adder: Worker, parameters: int | None, rate: float) -> None:
    for adder.kind in (Worker.Kind.CHAT, "desk"):
        adder.base_directory, adder.base_facts = "/models/mine", {"parameters": parameters}
        assert choose_recipe(adder.project, adder).learning_rate == rate


def test_another_kind_of_worker_on_the_built_in_model_learns_at_that_models_rate(adder: Worker) -> None:
    adder.provider, adder.base_model = None, "desk"
    recipe = choose_recipe(adder.project, adder)
    assert (recipe.learning_rate, recipe.lora_rank) == (4e-3, RECIPES["chat"].lora_rank)


def test_the_built_in_models_rate_does_not_reach_a_large_one(adder: Worker, alice: User, tmp_path: Path) -> None:
    worker = change_worker(worker=adder, by=alice, base_directory=str(write_base(tmp_path / "base", width=20_000)))
    Project.objects.update(recipe={"learning_rate": 4e-3})
    worker.project.refresh_from_db()
    run = ask(worker)
    assert run.state == TrainingRun.State.REFUSED
    assert "G12: learning rate 0.004 on a model of 400,000,000 parameters: at most 0.001" in run.failure


@pytest.mark.parametrize("purpose", ["manager", "reward_model"])
def test_nothing_else_of_it_is_trained_on_the_built_in_model_either(adder: Worker, purpose: str) -> None:
    run = ask(adder)
    TrainingRun.objects.filter(pk=run.pk).update(state="queued", purpose=purpose, batch=None)
    services.dispatch_run(run.pk, by="control")
    run.refresh_from_db()
    assert (run.state, run.attempt) == ("failed", 0)
    assert "no base weights" in run.failure
