"""Shared model servers: which projects may ask them, and how much."""

import asyncio
import importlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from threading import Barrier
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import override_settings
from django.utils import timezone

from apps.accounts.models import Project, User
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, ConflictError, NotAllowedError
from apps.gateway.dialects.content import Usage
from apps.gateway.errors import RefusalError
from apps.gateway.limits import Budgets, connect_redis
from apps.gateway.tables import Backend, Caller
from apps.inference import allowances
from apps.inference.allowances import AllowanceHeldError, AllowanceSpentError, find_allowance
from apps.inference.costs import ServerUse, use_of_servers
from apps.inference.errors import NextMinuteError, ProviderBusyError, ProviderRefusedError
from apps.inference.grants import NotGrantedError, change_grant, grant_provider, revoke_grant
from apps.inference.models import Exchange, Price, Provider, ProviderGrant
from apps.inference.provider_kinds import find_kind
from apps.inference.services import client_for
from apps.workers.agents import get_agent
from apps.workers.models import Worker
from apps.workers.services import change_worker, create_worker
from tentalis.core.limits import Limits
from tests.factories import make_project, make_user, make_worker
from tests.fakes import FakeModelServer

ASKED: list[dict[str, Any]] = [{"role": "user", "content": "Say hello."}]


@pytest.fixture(autouse=True)
def forget_counts() -> None:
    """What other tests' projects of the same number used."""
    redis = allowances._connect()
    for kind in ("grant", "project", "provider"):
        if keys := list(redis.scan_iter(f"{allowances.PREFIX}:{kind}:*", count=1000)):
            redis.delete(*keys)


@pytest.fixture
def admin(db: None) -> User:
    return make_user("root", is_superuser=True)


@pytest.fixture
def shared(db: None) -> Provider:
    return Provider.objects.create(name="shared", kind="openai", base_url="https://api.openai.com")


@pytest.fixture
def server() -> Iterator[FakeModelServer]:
    with FakeModelServer(is_plain=True, models=["boss"]) as server:
        server.usage = {"prompt_tokens": 30, "completion_tokens": 10}
        yield server


@pytest.fixture
def served(server: FakeModelServer, db: None) -> Provider:
    return Provider.objects.create(name="served", kind="openai", base_url=server.url, allow_private=True)


def refuses(project: Project, provider: Provider) -> bool:
    try:
        client_for(provider, project.pk)
    except NotGrantedError:
        return True
    return False


def test_a_shared_server_is_asked_by_the_projects_that_an_admin_granted_it_to(
    project: Project, shared: Provider, admin: User
) -> None:
    other = make_project("other")
    grant = grant_provider(provider=shared, project=project, by=admin)
    assert [refuses(one, shared) for one in (project, other)] == [False, True]
    with pytest.raises(NotGrantedError, match="shared is not granted to project other: an admin of the install") as it:
        client_for(shared, other.pk)
    assert (it.value.status, it.value.code) == (403, "provider_not_granted")
    revoke_grant(grant=grant, by=admin)
    assert refuses(project, shared)
    kinds = (
        AuditEntry.objects.filter(kind__startswith="provider.grant").order_by("id").values_list("kind", "project_id")
    )
    assert list(kinds) == [("provider.granted", project.pk), ("provider.grant_revoked", project.pk)]


def test_an_open_server_ones_own_and_the_installations_engine_take_no_grant(project: Project) -> None:
    other = make_project("other")
    free = Provider.objects.create(name="free", kind="vllm", base_url="http://lab", granted_to="everyone")
    own = Provider.objects.create(project=project, name="own", kind="vllm", base_url="http://lab")
    assert not refuses(project, free)
    assert not refuses(project, own)
    assert refuses(other, own), "another project's own is nobody else's"
    assert client_for(None, other.pk).allowance is None


def test_only_an_admin_grants_changes_and_revokes(project: Project, shared: Provider, alice: User, admin: User) -> None:
    own = Provider.objects.create(project=project, name="own", kind="vllm", base_url="http://lab")
    with pytest.raises(NotAllowedError):
        grant_provider(provider=shared, project=project, by=alice)
    with pytest.raises(BadInputError, match="a project's own"):
        grant_provider(provider=own, project=project, by=admin)
    grant = grant_provider(provider=shared, project=project, by=admin, tokens_per_day=5)
    with pytest.raises(ConflictError, match="granted to shop already"):
        grant_provider(provider=shared, project=project, by=admin)
    with pytest.raises(NotAllowedError):
        change_grant(grant=grant, by=alice, tokens_per_day=None)
    with pytest.raises(NotAllowedError):
        revoke_grant(grant=grant, by=alice)
    for wrong in ({"tokens_per_day": 0}, {"usd_per_month": -1.0}, {"usd_per_month": float("nan")}, {"votes": 3}):
        with pytest.raises(BadInputError):
            change_grant(grant=grant, by=admin, **wrong)
    assert change_grant(grant=grant, by=admin, usd_per_month=2.5).tokens_per_day == 5


def test_workers_and_agents_of_a_project_without_a_grant_are_refused_in_words(
    project: Project, shared: Provider, alice: User, admin: User
) -> None:
    words = "shared is not granted to project shop"
    with pytest.raises(BadInputError, match=words):
        create_worker(project=project, name="writer", kind="chat", base_model="m", provider=shared, by=alice)
    worker = make_worker(project, name="old", kind="chat", base_model="m", provider=shared)
    with pytest.raises(BadInputError, match=words):
        change_worker(worker=worker, by=alice, base_model="n")
    with pytest.raises(NotGrantedError, match=words):
        get_agent(worker)
    claw = make_worker(project, name="claw", kind="openclaw", agent_server=shared)
    with pytest.raises(NotGrantedError, match=words):
        get_agent(claw)
    grant_provider(provider=shared, project=project, by=admin)
    get_agent(Worker.objects.get(pk=worker.pk))


def test_who_used_a_shared_server_before_is_granted_it_by_the_upgrade(project: Project, shared: Provider) -> None:
    judged, talked, idle = make_project("judged"), make_project("talked"), make_project("idle")
    own = Provider.objects.create(project=idle, name="own", kind="vllm", base_url="http://lab")
    make_worker(project, name="w", kind="chat", provider=shared)
    make_worker(idle, name="w", kind="chat", provider=own)
    Exchange.objects.create(project=talked, provider=shared, model="m")
    migration = importlib.import_module("apps.inference.migrations.0013_who_uses_a_shared_server_may")
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE scoring_judge (provider_id bigint, project_id bigint) ON COMMIT DROP")
        cursor.execute("INSERT INTO scoring_judge VALUES (%s, %s)", [shared.pk, judged.pk])
        cursor.execute(migration._GRANT)
        cursor.execute(migration._GRANT)
    assert set(ProviderGrant.objects.values_list("provider", "project__slug")) == {
        (shared.pk, "shop"),
        (shared.pk, "judged"),
        (shared.pk, "talked"),
    }


def allow(project: Project, provider: Provider, **allowed: Any) -> None:
    ProviderGrant.objects.create(project=project, provider=provider, granted_by="user:root", **allowed)


def ask(project: Project, provider: Provider, *, clock: Callable[[], float] | None = None) -> None:
    client = client_for(provider, project.pk)
    if clock is not None and client.allowance is not None:
        client = replace(client, allowance=replace(client.allowance, clock=clock))
    client.chat(ASKED, model="boss", max_tokens=50)


def test_what_a_grant_allows_ends_in_words_and_begins_again_with_the_day(project: Project, served: Provider) -> None:
    allow(project, served, tokens_per_day=60)
    noon = datetime(2031, 5, 6, 12, tzinfo=UTC).timestamp()
    for _ in range(2):  # 40 tokens each
        ask(project, served, clock=lambda: noon)
    with pytest.raises(AllowanceSpentError, match="project shop may use of model server served 60 tokens a day") as it:
        ask(project, served, clock=lambda: noon)
    assert (it.value.status, it.value.code, it.value.retry_after_s) == (429, "allowance_spent", 43_200)
    ask(project, served, clock=lambda: noon + 43_200)


def test_a_projects_budget_holds_for_its_own_workers_and_judges_and_is_one_sum_with_the_gateways(
    project: Project, served: Provider
) -> None:
    Project.objects.filter(pk=project.pk).update(limits={"tokens_per_day": 60, "requests_per_minute": 1})
    own = Provider.objects.create(
        project=project, name="own", kind="openai", base_url=served.base_url, allow_private=True
    )
    noon = datetime(2031, 5, 6, 12, tzinfo=UTC).timestamp()
    ask(project, own, clock=lambda: noon)  # 40 tokens
    backend = Backend(
        key=own.pk, name="own", kind=find_kind("openai"), urls=(), headers={}, default_model="", trusts_private=True,
        timeout_s=1, limits=Limits(),
    )  # fmt: skip
    caller = Caller(
        token="t", project=project.pk, project_slug="shop", agent="agent:claw", is_agent=True, may_ask=True,
        may_read=True, token_limits=Limits(), project_limits=Limits(tokens_per_day=60), expires_at=noon * 2,
    )  # fmt: skip

    async def ask_at_the_gateway() -> None:
        budgets = Budgets(connect_redis(settings.REDIS_URL))
        budgets.charge(caller, backend, tokens=30, count_usd=lambda: 0.0, now=noon)
        await budgets.sync(noon)
        with pytest.raises(RefusalError, match="may use 60 tokens a day, and has"):
            budgets.admit(caller, backend, noon, guess=lambda: Usage(1, 1, 0, 0, 0), count_usd=lambda use: 0.0)
        await budgets.stop()

    asyncio.run(ask_at_the_gateway())
    with pytest.raises(AllowanceSpentError, match="project shop may use 60 tokens a day, and has: its managers"):
        ask(project, own, clock=lambda: noon)
    Provider.objects.filter(pk=served.pk).update(granted_to="everyone")
    served.refresh_from_db()
    ask(make_project("other"), served, clock=lambda: noon)
    Project.objects.filter(pk=project.pk).update(limits={"tokens_per_day": 50})
    ask(project, own)
    [budget] = allowances.use_of_budgets()
    assert (budget.project, budget.name, budget.used, budget.limit) == ("shop", "tokens_per_day", 40.0, 50.0)


def test_money_is_counted_by_the_calendars_month(project: Project, served: Provider) -> None:
    Price.objects.create(provider=served, model="boss", input=1000, output=1000, valid_from=timezone.now())
    allow(project, served, usd_per_month=0.05)
    may = datetime(2031, 5, 31, 23, 59, 59, tzinfo=UTC).timestamp()
    for _ in range(2):  # 4 cents each
        ask(project, served, clock=lambda: may)
    with pytest.raises(AllowanceSpentError, match=r"0\.05 US dollars a month"):
        ask(project, served, clock=lambda: may)
    ask(project, served, clock=lambda: may + 1)


def test_of_calls_at_the_same_time_only_one_may_go_beyond_what_is_allowed(project: Project, served: Provider) -> None:
    allow(project, served, tokens_per_day=3)
    client = client_for(served, project.pk)
    assert client.allowance is not None
    together = Barrier(8)

    def hold(number: int) -> object:
        assert client.allowance is not None
        together.wait()
        try:
            return client.allowance.hold("boss", client._guess({"messages": ASKED, "max_tokens": 50}))
        except AllowanceHeldError as error:
            return error

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(hold, range(8)))
    refused = [one for one in found if isinstance(one, AllowanceHeldError)]
    assert len(refused) == 7
    assert isinstance(refused[0], ProviderBusyError), "a job tries again"
    [room] = [one for one in found if not isinstance(one, AllowanceHeldError)]
    room.release()  # type: ignore[attr-defined]
    ask(project, served)


def test_room_of_a_call_that_failed_or_whose_process_died_is_free_again(
    project: Project, served: Provider, server: FakeModelServer
) -> None:
    allow(project, served, tokens_per_day=3)
    server.mode = "refusing"
    for _ in range(3):
        with pytest.raises(ProviderRefusedError, match="against the policy"):
            ask(project, served)
    server.mode = "ok"
    allowance = find_allowance(served, project.pk)
    assert allowance is not None
    now = datetime(2031, 5, 6, 12, tzinfo=UTC).timestamp()
    killed = replace(allowance, clock=lambda: now)
    use = client_for(served, project.pk)._guess({"max_tokens": 50})
    killed.hold("boss", use)
    with pytest.raises(AllowanceHeldError):
        killed.hold("boss", use)
    replace(allowance, clock=lambda: now + 3601).hold("boss", use).release()


def test_a_server_that_counts_no_tokens_is_charged_what_was_held(
    project: Project, served: Provider, server: FakeModelServer
) -> None:
    server.usage = {}
    allow(project, served, tokens_per_day=40)
    ask(project, served)
    with pytest.raises(AllowanceSpentError):
        ask(project, served)


def test_nothing_is_asked_while_nobody_can_count(project: Project, served: Provider, server: FakeModelServer) -> None:
    allow(project, served, tokens_per_day=40)
    allowances._connect.cache_clear()
    try:
        with override_settings(REDIS_URL="redis://127.0.0.1:1/0"), pytest.raises(ProviderBusyError, match="not known"):
            ask(project, served)
    finally:
        allowances._connect.cache_clear()
    assert server.requests == []


def test_use_is_counted_by_project_and_server(project: Project, shared: Provider) -> None:
    other = make_project("other")
    now = timezone.now()
    for owner, usd in ((project, "0.5"), (project, None), (other, "9")):
        Exchange.objects.create(
            project=owner, provider=shared, model="m", cost_usd=usd, prompt_tokens=10, completion_tokens=5
        )
    Exchange.objects.filter(project=other).update(created_at=now.replace(year=now.year - 1))
    uses = use_of_servers([(project.pk, shared.pk), (other.pk, shared.pk)], now=now)
    found = uses[project.pk, shared.pk]
    assert (found.tokens_this_month, found.calls_this_month, found.unpriced) == (30, 2, 1)
    assert float(found.usd_this_month) == 0.5
    assert uses[other.pk, shared.pk] == ServerUse()


def test_what_a_server_takes_in_a_minute_is_one_count_of_all_who_ask_it(project: Project, served: Provider) -> None:
    """The gateway's count, the links' and another process's; who comes too late is told when its turn is."""
    served.project, served.requests_per_minute = project, 2
    served.save()
    now = datetime(2031, 5, 6, 12, 0, 15, tzinfo=UTC).timestamp()
    ask(project, served, clock=lambda: now)
    window = int(now // 60)
    count = allowances.name_count(f"provider:{served.pk}:requests_per_minute", window)
    allowances.tell_redis(lambda client: client.incrbyfloat(count, 1))  # as the gateway counts one of its callers'
    waits = []
    for _ in range(3):
        with pytest.raises(
            NextMinuteError, match="model server served is asked at most 2 times a minute, and was"
        ) as it:
            ask(project, served, clock=lambda: now)
        waits.append(it.value.wait_s)
    assert (waits, it.value.is_away, it.value.has_a_turn) == ([45.0, 45.0, 105.0], False, True)
    ask(project, served, clock=lambda: now + 45)
    Provider.objects.filter(pk=served.pk).update(requests_per_minute=None, tokens_per_minute=50)
    served.refresh_from_db()
    for _ in range(2):  # 40 tokens each
        ask(project, served, clock=lambda: now + 60)
    with pytest.raises(NextMinuteError, match="model server served is asked for at most 50 tokens a minute, and was"):
        ask(project, served, clock=lambda: now + 60)
