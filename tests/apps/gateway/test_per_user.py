"""Adapters of one person each: who asks decides what serves, and nobody else's ever does."""

from typing import Any

import pytest
from django.db import transaction

from apps.adapters.models import Adapter, Deployment
from apps.adapters.services import deploy
from apps.audit.kinds import Kind
from apps.gateway.errors import RefusalError
from apps.gateway.routing import find_route
from apps.gateway.sessions import Place
from apps.gateway.tables import Served, Tables, WorkerRoute
from apps.workers.models import Worker
from tests.apps.gateway.running import GatewayThread
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
    assert make_tables().list_models(1) == ["helper", EVERYBODYS.name, "stub/base"]


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
