"""Adapters of one person each: who asks decides what serves, and nobody else's ever does."""

import json
from pathlib import Path
from typing import Any

import numpy
import pytest
from django.db import transaction
from safetensors.numpy import save_file

from apps.accounts.models import Project
from apps.adapters.models import Adapter, Deployment
from apps.adapters.services import deploy
from apps.audit.kinds import Kind
from apps.gateway.errors import RefusalError
from apps.gateway.routing import find_route
from apps.gateway.sessions import Place
from apps.gateway.tables import Served, Tables, WorkerRoute
from apps.workers.models import Worker
from tests.apps.gateway.running import GatewayThread, make_chat_worker, make_provider
from tests.apps.gateway.test_capture_of_the_engine import ask as call
from tests.apps.gateway.test_edge import wait_for
from tests.apps.gateway.test_routing import make_backend, make_place
from tests.apps.gateway.upstream import StubUpstream

EVERYBODYS = Served("shop.helper@v1-aa", "shop.helper@v1-aa", 1)
GRACES = Served("shop.helper@v2-bb", "shop.helper@v2-bb", 2)


def make_tables(**values: object) -> Tables:
    backend = make_backend()
    route = WorkerRoute(
        project=1,
        name="helper",
        backend=backend,
        base=Served("base"),
        deployed=EVERYBODYS,
        people={"grace": GRACES},
        **values,  # type: ignore[arg-type]
    )
    return Tables(
        workers={(1, "helper"): route},
        adapters={(1, served.name): (route, served) for served in (EVERYBODYS, GRACES)},
        owners={EVERYBODYS.name: 1, GRACES.name: 1},
        private={GRACES.name: "grace"},
        backends={(None, "stub"): backend},
    )


def place_of(end_user: str) -> Place:
    return make_place()._replace(end_user=end_user)


def served_to(end_user: str, model: str = "helper", tables: Tables | None = None) -> Served:
    return find_route(model, place_of(end_user), project=1, tables=tables or make_tables()).served


def test_who_has_an_adapter_of_their_own_is_served_by_it_and_the_others_by_the_workers() -> None:
    assert served_to("grace") == GRACES
    assert [served_to(name) for name in ("ada", "Grace", "")] == [EVERYBODYS] * 3


def test_no_trial_takes_a_person_from_their_own_adapter() -> None:
    tables = make_tables(canary=Served("new", "new", 3), canary_percent=50, canary_key="1:3")
    found = {served_to("grace", tables=tables)} | {
        find_route("helper", place_of("grace")._replace(session=f"s{n}"), project=1, tables=tables).served
        for n in range(50)
    }
    assert found == {GRACES}


@pytest.mark.parametrize("model", [GRACES.name, f"stub/{GRACES.name}"])
def test_a_persons_adapter_cannot_be_named_by_anybody_else(model: str) -> None:
    assert served_to("grace", model) == GRACES
    for end_user in ("ada", ""):
        with pytest.raises(RefusalError) as caught:
            served_to(end_user, model)
        assert (caught.value.status, caught.value.code) == (404, "model_not_found")


def test_a_persons_adapter_is_on_no_list() -> None:
    assert list(make_tables().list_models(1)) == ["helper", EVERYBODYS.name, "stub/base"]


# --- through a gateway ---


def put(worker: Worker, version: int, end_user: str = "") -> Adapter:
    """An adapter in service for everybody, or for one person."""
    adapter = Adapter.objects.create(
        project=worker.project,
        worker=worker,
        name=f"{worker.project.slug}.{worker.name}@v{version}-{version:08x}",
        version=version,
        line_version=version,
        end_user=end_user,
        uri="file:///nowhere",
        sha256=f"{version:064x}",
        manifest={},
        state=Adapter.State.VERIFIED,
    )
    with transaction.atomic():
        deploy(worker, adapter, by="gate", kind=Kind.DEPLOYMENT_MOVED, end_user=end_user)
    return adapter


def ask(gateway: GatewayThread, token: str, model: str = "helper", **fields: Any) -> str:
    """What served; the error code where nothing did."""
    response = gateway.chat(model, token=token, **fields)
    if response.status_code != 200:
        return str(response.json()["error"]["code"])
    return str(response.headers["X-Tentalis-Adapter"])


def test_the_gateway_goes_by_the_deployments_of_people(
    gateway: GatewayThread, token: str, helper: Worker, upstream: StubUpstream
) -> None:
    everybodys, graces = put(helper, 1), put(helper, 2, "grace")
    for adapter in (everybodys, graces):
        upstream.load(adapter.name)
    wait_for(lambda: ask(gateway, token) == everybodys.name)
    assert ask(gateway, token, user="grace") == everybodys.name, "the worker keeps no adapters of people yet"
    Worker.objects.filter(pk=helper.pk).update(adapters_per=Worker.AdaptersPer.USER)
    wait_for(lambda: ask(gateway, token, user="grace") == graces.name)
    assert [ask(gateway, token, user=name) for name in ("ada", "")] == [everybodys.name] * 2
    assert ask(gateway, token, graces.name, user="ada") == "model_not_found"
    assert ask(gateway, token, graces.name, user="grace") == graces.name
    Deployment.objects.filter(end_user="grace").update(adapter=None)
    wait_for(lambda: ask(gateway, token, user="grace") == everybodys.name)


# --- with a real engine ---


@pytest.fixture
def adapters(tmp_path: Path) -> dict[str, Path]:
    """Two LoRA adapters of the desk's model that make it say different things, by end user."""
    size, layers = 64, 2
    shapes = {"self_attn.q_proj": (size, size), "self_attn.o_proj": (size, size)}
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "none", "target_modules": ["q_proj", "o_proj"]}
    found = {}
    for seed, name in enumerate(("grace", "ada")):
        random = numpy.random.default_rng(seed)
        weights = {}
        for layer in range(layers):
            for module, (inside, out) in shapes.items():
                for side, shape in (("A", (4, inside)), ("B", (out, 4))):
                    key = f"base_model.model.model.layers.{layer}.{module}.lora_{side}.weight"
                    weights[key] = random.normal(0, 0.3, shape).astype(numpy.float32)
        directory = found[name] = tmp_path / name
        directory.mkdir()
        save_file(weights, directory / "adapter_model.safetensors")
        (directory / "adapter_config.json").write_text(json.dumps(config))
    return found


@pytest.mark.torch
def test_two_people_of_one_worker_are_served_by_two_adapters_of_a_real_engine(
    project: Project, transactional_db: None, token: str, desk_engine: str, adapters: dict[str, Path]
) -> None:
    worker = make_chat_worker(project, make_provider(project, desk_engine))
    Worker.objects.filter(pk=worker.pk).update(base_model="desk", adapters_per=Worker.AdaptersPer.USER)
    own = {}
    for version, (name, directory) in enumerate(adapters.items(), start=1):
        own[name] = put(worker, version, name).name
        call(f"{desk_engine}/v1/load_lora_adapter", {"lora_name": own[name], "lora_path": str(directory)})
    said: dict[str, set[str]] = {}
    with GatewayThread() as gateway:
        for name in ["grace", "ada", "edith"] * 2:
            response = gateway.chat("helper", token=token, user=name, temperature=0, max_tokens=12, seed=1)
            assert response.headers["X-Tentalis-Adapter"] == own.get(name, "desk"), response.text
            said.setdefault(name, set()).add(response.json()["choices"][0]["message"]["content"])
        assert [len(words) for words in said.values()] == [1, 1, 1]
        assert len(set.union(*said.values())) == 3, "three models, three answers"
        refused = gateway.chat(own["grace"], token=token, user="ada")
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
    kept = [(record.header["end_user"], record.header["adapter"]) for record in gateway.records[:6]]
    assert kept == [("grace", own["grace"]), ("ada", own["ada"]), ("edith", "")] * 2
