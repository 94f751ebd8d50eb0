"""Adapters on a vLLM server, which is a stub that answers as vLLM does: immutable, proved, drained, restored."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from apps.accounts.models import Project
from apps.adapters import services, serving
from apps.adapters.artifacts import path_of
from apps.adapters.errors import AdapterBrokenError, AdapterNotServableError, WrongAdapterServedError
from apps.adapters.models import Adapter
from apps.adapters.vllm_compat import require_servable
from apps.audit.kinds import Kind
from apps.inference.client import ModelClient
from apps.inference.errors import AdapterNameTakenError, AdapterNotLoadedError, ProviderBusyError
from apps.inference.models import Provider
from apps.workers.models import Worker
from tests.apps.adapters.desk_adapters import make_served, write_adapter
from tests.apps.adapters.vllm_stub import VllmStub
from tests.factories import make_worker
from tests.fakes import Mode


@pytest.fixture
def server() -> Iterator[VllmStub]:
    with VllmStub() as stub:
        yield stub


@pytest.fixture
def client(server: VllmStub) -> ModelClient:
    return ModelClient(server.url, kind="vllm", allow_private=True)


@pytest.fixture
def store(tmp_path: Path, settings: Any) -> Path:
    settings.ARTIFACTS = tmp_path
    return tmp_path


@pytest.fixture
def helper(project: Project, server: VllmStub) -> Worker:
    provider = Provider.objects.create(
        project=project, name="box", kind="vllm", base_url=server.url, allow_private=True, default_model="desk"
    )
    return make_worker(project, "helper", provider=provider)


def deploy(worker: Worker, adapter: Adapter) -> None:
    adapter.refresh_from_db()
    with transaction.atomic():
        services.deploy(worker, adapter, by="gate", kind=Kind.DEPLOYMENT_MOVED)


def swap(worker: Worker, adapter: Adapter) -> None:
    """As the pipeline does it, gate aside."""
    serving.load(adapter)
    serving.probe(adapter)
    deploy(worker, adapter)
    serving.unload_unused(adapter.pk)


# --- refusals, told apart


def test_a_name_that_has_the_same_content_is_loaded(client: ModelClient, server: VllmStub, tmp_path: Path) -> None:
    path = str(write_adapter(tmp_path / "v1", 1))
    client.load_adapter("p.w@v1", path)
    client.load_adapter("p.w@v1", path)
    asked = [request.body for request in server.requests if request.path == "/v1/load_lora_adapter"]
    assert asked == [{"lora_name": "p.w@v1", "lora_path": path}] * 2, "never in place"


def test_a_name_that_has_other_content_is_an_error_that_names_both(client: ModelClient, tmp_path: Path) -> None:
    first, second = (str(write_adapter(tmp_path / name, 1)) for name in ("a", "b"))
    client.load_adapter("p.w@v1", first)
    with pytest.raises(AdapterNameTakenError, match="never given to other weights") as caught:
        client.load_adapter("p.w@v1", second)
    assert caught.value.loaded_from == first
    assert second in str(caught.value)


def test_a_base_models_name_is_no_adapters(client: ModelClient, tmp_path: Path) -> None:
    with pytest.raises(AdapterNameTakenError, match="desk is taken"):
        client.load_adapter("desk", str(write_adapter(tmp_path / "a", 1)))


def test_a_directory_that_the_server_does_not_see_is_told_as_that(client: ModelClient) -> None:
    with pytest.raises(AdapterNotLoadedError, match="does not see /nowhere/v1: it must be there under that path"):
        client.load_adapter("p.w@v1", "/nowhere/v1")


def test_a_rank_too_large_says_what_to_start_the_server_with(client: ModelClient, tmp_path: Path) -> None:
    path = str(write_adapter(tmp_path / "big", 1, rank=24))
    with pytest.raises(AdapterNotLoadedError, match=r"rank of 24 is larger .* start it with --max-lora-rank 32"):
        client.load_adapter("p.w@v1", path)


def test_what_the_server_cannot_serve_is_not_worth_another_try(client: ModelClient, tmp_path: Path) -> None:
    path = str(write_adapter(tmp_path / "odd", 1, rename="qq_proj"))
    with pytest.raises(AdapterNotLoadedError, match=r"the server cannot serve this adapter.*expected target modules"):
        client.load_adapter("p.w@v1", path)


def test_an_engine_that_died_is_worth_another_try(client: ModelClient, server: VllmStub, tmp_path: Path) -> None:
    server.mode = "broken"
    with pytest.raises(ProviderBusyError, match="the engine died"):
        client.load_adapter("p.w@v1", str(tmp_path))


def test_a_server_that_was_started_without_loading_says_how(
    client: ModelClient, server: VllmStub, tmp_path: Path
) -> None:
    server.allows_loading = False
    with pytest.raises(AdapterNotLoadedError, match="--enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"):
        client.load_adapter("p.w@v1", str(write_adapter(tmp_path / "a", 1)))


# --- refusals that we say first


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"use_dora": True}, r"DoRA \(use_dora\) is unknown"),
        ({"bias": "all"}, "bias must be 'none', found 'all'"),
        ({"lora_bias": True}, r"\(lora_bias\)"),
        ({"modules_to_save": ["lm_head", "score"]}, r"modules_to_save: lm_head\)"),
        ({"init_lora_weights": "pissa_niter_4"}, r"init_lora_weights: pissa_niter_4\) changed the base"),
        ({"layer_replication": [[0, 2]]}, "layers said twice"),
        ({"r": 1024}, "its rank is 1024, and 512 is the largest"),
        ({"rank_pattern": {"q_proj": 600}}, "its rank is 600"),
        ({"r": "8"}, r"a rank must be a whole number from 1, found \['8'\]"),
        ({"target_modules": ["q_proj"]}, r"and \d+ more in adapter_model.safetensors: wanted LoRA halves of \['q_"),
        ({"peft_type": "IA3"}, "of peft_type LORA"),
    ],
)  # fmt: skip
def test_what_vllm_would_refuse_is_refused_first(config: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(AdapterNotServableError, match=words):
        require_servable(write_adapter(tmp_path / "a", 1, rank=2, **config))


def test_every_reason_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(AdapterNotServableError, match=r"bias must be .*; DoRA .*"):
        require_servable(write_adapter(tmp_path / "a", 1, rank=2, use_dora=True, bias="lora_only"))


@pytest.mark.parametrize(
    "config",
    [
        {"use_rslora": True},
        {"rank_pattern": {"q_proj": 4}, "alpha_pattern": {"q_proj": 8}},
        {"init_lora_weights": "gaussian"},
        {"target_modules": ".*_proj"},
    ],
)
def test_what_vllm_serves_is_not_refused(config: dict[str, Any], tmp_path: Path) -> None:
    require_servable(write_adapter(tmp_path / "a", 1, rank=2, **config))


def test_tensors_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    directory = write_adapter(tmp_path / "a", 1, rank=2)
    (directory / "adapter_model.safetensors").write_bytes(b"\x09\0\0\0\0\0\0\0[1,2,3,4]")
    with pytest.raises(AdapterBrokenError, match="tensors cannot be read"):
        require_servable(directory)


@pytest.mark.django_db
def test_a_server_is_not_even_asked_for_what_it_would_refuse(helper: Worker, server: VllmStub, store: Path) -> None:
    adapter = make_served(helper, 1, store, use_dora=True)
    with pytest.raises(AdapterNotServableError):
        serving.load(adapter)
    assert "/v1/load_lora_adapter" not in {request.path for request in server.requests}


@pytest.mark.django_db
def test_a_server_that_loads_no_adapters_is_told_so(helper: Worker, store: Path) -> None:
    Provider.objects.update(kind="ollama")
    helper.refresh_from_db()
    with pytest.raises(AdapterNotServableError, match="Ollama loads no adapters: wanted the Tentalis engine or vLLM"):
        serving.load(make_served(helper, 1, store))


# --- what serves is what should


@pytest.mark.django_db
def test_two_versions_are_served_side_by_side_under_their_own_names(
    helper: Worker, server: VllmStub, store: Path
) -> None:
    first, second = make_served(helper, 1, store), make_served(helper, 2, store)
    for adapter in (first, second):
        swap(helper, adapter)
    assert server.models == ["desk", first.name, second.name]
    known = {one.name: one.fingerprint["logprobs"] for one in Adapter.objects.all()}
    assert known[first.name] != known[second.name]


@pytest.mark.django_db
def test_other_weights_under_a_name_are_found_out(helper: Worker, server: VllmStub, store: Path) -> None:
    first, second = make_served(helper, 1, store), make_served(helper, 2, store)
    for adapter in (first, second):
        serving.load(adapter)
        serving.probe(adapter)
    server.serve_instead(second.name, Path(path_of(first.uri)))
    with pytest.raises(WrongAdapterServedError, match=rf"serves other weights as {second.name}: log-probs are 0\."):
        serving.probe(second)


@pytest.mark.django_db
def test_a_copy_of_an_adapter_is_the_same_one(helper: Worker, client: ModelClient, store: Path) -> None:
    adapter = make_served(helper, 1, store)
    shutil.copytree(path_of(adapter.uri), store / "copy")
    client.load_adapter(adapter.name, str(store / "copy"))
    serving.load(adapter)
    assert client.find_directories()[adapter.name] == str(store / "copy")


@pytest.mark.django_db
def test_another_adapters_copy_under_the_name_is_refused(helper: Worker, client: ModelClient, store: Path) -> None:
    first, second = make_served(helper, 1, store), make_served(helper, 2, store)
    client.load_adapter(second.name, str(path_of(first.uri)))
    with pytest.raises(AdapterNameTakenError, match=f"{second.name} is taken by what was loaded from"):
        serving.load(second)


@pytest.mark.django_db
def test_every_address_of_a_server_has_the_adapter(helper: Worker, server: VllmStub, store: Path) -> None:
    with VllmStub() as other:
        Provider.objects.update(more_urls=[other.url])
        helper.refresh_from_db()
        adapter = make_served(helper, 1, store)
        swap(helper, adapter)
        assert adapter.name in server.models
        assert adapter.name in other.models
        other.restart()
        assert serving.restore_served() == 1
        assert adapter.name in other.models


# --- leaving and coming back


@pytest.mark.django_db
def test_an_adapter_with_requests_under_way_stays_until_they_have_ended(
    helper: Worker, server: VllmStub, store: Path
) -> None:
    versions = [make_served(helper, number, store) for number in (1, 2, 3)]
    for adapter in versions[:2]:
        swap(helper, adapter)
    server.waiting = {versions[0].name, "other@v1"}
    swap(helper, versions[2])
    assert versions[0].name in server.models
    assert serving.unload_drained() == 0
    server.waiting, server.running = set(), {versions[0].name}
    assert serving.unload_drained() == 0
    server.running = {versions[2].name}
    assert serving.unload_drained() == 1
    assert server.models == ["desk", versions[1].name, versions[2].name], "the previous one stays for a roll back"


@pytest.mark.django_db
def test_behind_a_proxy_without_metrics_what_is_idle_is_unloaded(helper: Worker, server: VllmStub, store: Path) -> None:
    versions = [make_served(helper, number, store) for number in (1, 2, 3)]
    server.shows_metrics = False
    for adapter in versions:
        swap(helper, adapter)
    assert server.models == ["desk", versions[1].name, versions[2].name]


@pytest.mark.django_db
@pytest.mark.parametrize("mode", ["broken", "refusing"])
def test_a_server_that_cannot_be_asked_keeps_what_is_idle_and_fails_nothing(
    helper: Worker, server: VllmStub, store: Path, mode: Mode
) -> None:
    versions = [make_served(helper, number, store) for number in (1, 2, 3)]
    for adapter in versions[:2]:
        swap(helper, adapter)
    serving.load(versions[2])
    deploy(helper, versions[2])
    server.mode = mode
    serving.unload_unused(versions[2].pk)
    assert versions[0].name in server.models
    server.mode = "ok"
    assert serving.unload_drained() == 1


@pytest.mark.django_db
def test_a_server_that_was_restarted_gets_back_what_serves_and_it_is_proved(
    helper: Worker, server: VllmStub, store: Path
) -> None:
    adapter = make_served(helper, 1, store)
    swap(helper, adapter)
    assert serving.restore_served() == 0
    server.restart()
    assert serving.restore_served() == 1
    assert server.models == ["desk", adapter.name]


@pytest.mark.django_db
def test_an_adapter_whose_files_were_changed_is_not_restored(helper: Worker, server: VllmStub, store: Path) -> None:
    adapter = make_served(helper, 1, store)
    swap(helper, adapter)
    server.restart()
    file = path_of(adapter.uri) / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"lora_alpha": 99}))
    with pytest.raises(AdapterBrokenError, match="must hash to"):
        serving.restore_served()
    assert server.models == ["desk"]


@pytest.mark.django_db
def test_the_directory_of_what_a_server_knows_may_not_be_deleted(
    helper: Worker, client: ModelClient, store: Path
) -> None:
    adapter = make_served(helper, 1, store)
    directory = path_of(adapter.uri)
    serving.require_forgotten(directory, [client])
    serving.load(adapter)
    with pytest.raises(AdapterNameTakenError, match=f"must stay: .* serves {adapter.name} from it"):
        serving.require_forgotten(directory, [client])
    client.unload_adapter(adapter.name)
    serving.require_forgotten(directory, [client])


@pytest.mark.django_db
def test_a_measurement_at_another_strength_leaves_nothing_behind(
    helper: Worker, client: ModelClient, server: VllmStub, store: Path
) -> None:
    adapter = make_served(helper, 1, store)
    client.load_adapter(f"{adapter.name}-x0.5", str(write_adapter(store / "of-a-gate-that-was-killed", 9)))
    with serving.serve_scaled(client, adapter, 0.5) as name:
        assert name in server.models
    assert server.models == ["desk"]
    assert list((store / "scales").iterdir()) == []


@pytest.mark.django_db
def test_a_directory_that_the_server_may_still_read_is_kept(
    helper: Worker, client: ModelClient, server: VllmStub, store: Path
) -> None:
    adapter = make_served(helper, 1, store)
    with serving.serve_scaled(client, adapter, 0.5):
        server.mode = "broken"
    assert len(list((store / "scales").iterdir())) == 1
