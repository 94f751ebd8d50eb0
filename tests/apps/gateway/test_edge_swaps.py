"""Adapters change under load: nobody is refused, and every answer says truly what served it."""

import asyncio
import itertools
import time

import aiohttp
import pytest
from django.db import connection, transaction

from apps.accounts.models import Project
from apps.adapters.models import Adapter, Deployment
from apps.adapters.services import deploy
from apps.audit.kinds import Kind
from apps.gateway.edge import Patience
from apps.gateway.merging import load_merged
from apps.workers.models import Worker
from tests.apps.gateway.running import HELLO, GatewayThread
from tests.apps.gateway.test_edge import wait_for
from tests.apps.gateway.upstream import StubUpstream

SWAPS, A_SECOND, BETWEEN_S = 20, 200, 0.25


def make_adapter(worker: Worker, version: int) -> Adapter:
    name = f"{worker.project.slug}.{worker.name}@v{version}-{version:08x}"
    return Adapter.objects.create(
        project=worker.project,
        worker=worker,
        name=name,
        version=version,
        line_version=version,
        uri=f"adapters/{version}",
        sha256=f"{version:064x}",
        manifest={},
        state=Adapter.State.VERIFIED,
    )


def swap(worker: Worker, version: int, upstream: StubUpstream) -> None:
    """As the pipeline does it: load, deploy, and unload what served before the previous one."""
    adapter = make_adapter(worker, version)
    upstream.load(adapter.name)
    with transaction.atomic():
        deploy(worker, adapter, by="gate", kind=Kind.DEPLOYMENT_MOVED)
    if version > 2:
        upstream.unload(f"{worker.project.slug}.{worker.name}@v{version - 2}-{version - 2:08x}")


def swap_and_leave(worker: Worker, version: int, upstream: StubUpstream) -> None:
    """In a thread, whose connection to the database would stay open."""
    try:
        swap(worker, version, upstream)
    finally:
        connection.close()


class Load:
    """Callers that ask at a steady rate, half of them for streams, until told to stop."""

    def __init__(self, url: str, token: str) -> None:
        self._url = f"{url}/v1/chat/completions"
        self._headers = {"Authorization": f"Bearer {token}"}
        self.answers: list[tuple[int, str, str]] = []
        self.is_over = False

    async def run(self) -> None:
        async with aiohttp.ClientSession(headers=self._headers) as session:
            tasks: list[asyncio.Task[None]] = []
            started = time.monotonic()
            for number in itertools.count():
                if self.is_over:
                    break
                tasks.append(asyncio.create_task(self._ask(session, number)))
                await asyncio.sleep(max(0.0, started + (number + 1) / A_SECOND - time.monotonic()))
            await asyncio.gather(*tasks)

    async def _ask(self, session: aiohttp.ClientSession, number: int) -> None:
        body = HELLO | {"model": "helper", "stream": bool(number % 2), "session_id": f"s{number % 50}"}
        async with session.post(self._url, json=body) as response:
            text = await response.text()
            whole = "[DONE]" in text if number % 2 else '"finish_reason":"stop"' in text
            words = "" if response.status == 200 and whole else text
            self.answers.append((response.status, words, response.headers.get("X-Tentalis-Adapter", "")))


@pytest.mark.slow
def test_twenty_swaps_under_load_refuse_nobody_and_every_version_is_right(
    token: str, helper: Worker, upstream: StubUpstream
) -> None:
    upstream.plan(think_s=0.05, token_s=0.002)

    async def swap_under_load(load: Load) -> None:
        running = asyncio.create_task(load.run())
        for version in range(1, SWAPS + 1):
            await asyncio.to_thread(swap_and_leave, helper, version, upstream)
            await asyncio.sleep(BETWEEN_S)
        load.is_over = True
        await running

    with GatewayThread(patience=Patience()) as gateway:
        load = Load(gateway.url, token)
        asyncio.run(swap_under_load(load))
    assert [answer for answer in load.answers if answer[0] != 200 or answer[1]] == []
    assert len(load.answers) > SWAPS * BETWEEN_S * A_SECOND / 4
    assert len({adapter for _, _, adapter in load.answers}) >= SWAPS // 2
    for record in gateway.records:
        header = record.header
        assert header["asked"] == header["served"]
        said = header["adapter"].partition("@v")[2].partition("-")[0]
        assert int(said or 0) == header["policy_version"]
        assert load_merged(record.answer)[1].models == [header["served"]]


def test_an_adapter_the_server_lost_is_waited_for(
    gateway: GatewayThread, token: str, helper: Worker, upstream: StubUpstream
) -> None:
    swap(helper, 1, upstream)
    name = "shop.helper@v1-00000001"
    wait_for(lambda: gateway.chat("helper", token=token).headers.get("X-Tentalis-Adapter") == name)
    upstream.unload(name)
    response = gateway.chat("helper", token=token)
    assert (response.status_code, response.json()["error"]["code"]) == (429, "model_loading")
    assert response.headers["Retry-After"] == "1"
    upstream.load(name)
    assert gateway.chat("helper", token=token).headers["X-Tentalis-Adapter"] == name


def test_a_swap_that_the_tables_have_not_heard_of_yet_is_looked_up(
    gateway: GatewayThread, token: str, helper: Worker, upstream: StubUpstream
) -> None:
    swap(helper, 1, upstream)
    wait_for(lambda: gateway.chat("helper", token=token).headers["X-Tentalis-Adapter"].endswith("@v1-00000001"))
    for version in (2, 3):
        swap(helper, version, upstream)
    response = gateway.chat("helper", token=token)
    assert response.status_code == 200
    assert response.headers["X-Tentalis-Adapter"].split("@")[1][:2] in {"v2", "v3"}


def test_a_pinned_adapter_goes_on_serving_who_named_it(
    gateway: GatewayThread, token: str, helper: Worker, upstream: StubUpstream
) -> None:
    for version in (1, 2):
        swap(helper, version, upstream)
    wait_for(lambda: gateway.chat("helper", token=token).headers["X-Tentalis-Adapter"].endswith("@v2-00000002"))
    for name in ("shop.helper@v1-00000001", "helper@v1-00000001"):
        assert gateway.chat(name, token=token).headers["X-Tentalis-Adapter"] == "shop.helper@v1-00000001"
    header = gateway.records[-1].header
    assert (header["worker"], header["adapter"], header["policy_version"]) == ("helper", "shop.helper@v1-00000001", 1)


def test_a_canary_serves_its_sessions_and_they_stay(
    gateway: GatewayThread, token: str, project: Project, helper: Worker, upstream: StubUpstream
) -> None:
    swap(helper, 1, upstream)
    canary = make_adapter(helper, 2)
    upstream.load(canary.name)
    Deployment.objects.filter(worker=helper).update(canary=canary, canary_percent=50)
    wait_for(lambda: any(route.canary for route in gateway.edge.config.tables.workers.values()))
    sides: dict[str, set[str]] = {}
    for session in [f"s{number}" for number in range(20)] * 2:
        response = gateway.chat("helper", token=token, headers={"X-Session-Id": session})
        sides.setdefault(session, set()).add(response.headers["X-Tentalis-Adapter"])
    assert all(len(side) == 1 for side in sides.values())
    assert set.union(*sides.values()) == {"shop.helper@v1-00000001", canary.name}
