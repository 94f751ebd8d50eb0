"""What models cost: whose price counts, from when, and what exchanges add up to."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings
from django.utils import timezone

from apps.accounts.models import Project, User
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, ConflictError, NotAllowedError, NotFoundError
from apps.inference.costs import Cost, cost_of_project, cost_of_task, cost_of_tasks
from apps.inference.metering import charge
from apps.inference.models import Exchange, Price, Provider
from apps.inference.price_list import SHIPPED
from apps.inference.prices import Rates, find_price, load_prices, remove_price, set_price
from apps.inference.provider_kinds import KINDS
from apps.inference.services import open_client, record_exchanges
from tentalis.core.token_use import TokenUse
from tentalis.core.worlds import AttemptDraft
from tests.factories import make_project, make_user
from tests.fakes import FakeModelServer

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def admin(db: None) -> User:
    return make_user("root", is_superuser=True)


@pytest.fixture
def provider(project: Project) -> Provider:
    return Provider.objects.create(project=project, name="lab", kind="openai", base_url="http://lab:8000")


def add(by: User, model: str, price: int, **values: Any) -> Price:
    return set_price(by=by, model=model, input=Decimal(price), output=Decimal(price * 4), **values)


def test_a_cost_worked_by_hand() -> None:
    rates = Rates(input=Decimal("2.50"), output=Decimal("10"), cached_input=Decimal("1.25"))
    # 600 fresh at 2.50, 400 cached at 1.25, 200 made at 10, a million each: .0015 + .0005 + .002
    assert rates.cost(prompt=1000, completion=200, cached=400) == Decimal("0.004")
    assert rates.cost(prompt=10, completion=0, cached=99) == Decimal("0.0000125"), "no more cached than there are"
    assert rates.cost(prompt=0, completion=0) == 0


def test_the_nearest_price_counts(admin: User, provider: Provider) -> None:
    add(admin, "*", 1, kind="openai", valid_from=NOON)
    add(admin, "gpt-*", 2, kind="openai", valid_from=NOON)
    add(admin, "gpt-5*", 3, kind="openai", valid_from=NOON)
    add(admin, "gpt-5-mini", 4, kind="openai", valid_from=NOON)
    add(admin, "gpt-*", 5, provider=provider, valid_from=NOON)
    table = load_prices()

    def price(model: str, provider_id: int | None = None) -> Decimal | None:
        found = table.find(provider_id=provider_id, kind="openai", model=model, at=NOON)
        return found and found.input

    assert [price(name) for name in ("o9", "gpt-4", "gpt-5.1", "gpt-5-mini")] == [1, 2, 3, 4]
    assert price("gpt-5-mini", provider.pk) == 5, "a price of this very provider goes before any of its kind"
    assert price("o9", provider.pk) == 1
    assert table.find(provider_id=None, kind="groq", model="gpt-5", at=NOON) is None


def test_a_price_counts_from_its_moment_on(admin: User, provider: Provider) -> None:
    add(admin, "gpt", 1, provider=provider, valid_from=NOON)
    add(admin, "gpt", 2, provider=provider, valid_from=NOON + timedelta(days=1))
    moments = (NOON - timedelta(seconds=1), NOON, NOON + timedelta(hours=23), NOON + timedelta(days=1))
    found = [find_price(provider=provider, kind="openai", model="gpt", at=at) for at in moments]
    assert [rates and rates.input for rates in found] == [None, 1, 1, 2]


def test_a_shipped_price_stands_behind_those_of_people(admin: User) -> None:
    def price() -> Decimal | None:
        found = load_prices().find(provider_id=None, kind="anthropic", model="claude-opus-4-5-20251101")
        return found and found.input

    assert price() == 5
    add(admin, "claude-*", 7, kind="anthropic", valid_from=NOON)
    assert price() == 7


def test_every_shipped_price_says_where_it_was_read() -> None:
    assert SHIPPED
    for row in SHIPPED:
        assert row.kind in KINDS
        assert row.source.startswith("https://")
        assert row.input > 0
        assert row.output >= row.input >= (row.cached_input or 0)


def test_who_may_say_what_a_model_costs(admin: User, alice: User, bob: User, charlie: User, provider: Provider) -> None:
    price = add(alice, "gpt", 1, provider=provider)
    assert price.source == alice.handle
    with pytest.raises(NotAllowedError):
        add(bob, "gpt", 1, provider=provider)
    with pytest.raises(NotFoundError):
        remove_price(price=price, by=charlie)
    with pytest.raises(NotAllowedError, match="an admin of the installation"):
        add(alice, "gpt", 1, kind="openai")
    remove_price(price=price, by=alice)
    kinds = AuditEntry.objects.filter(kind__startswith="price.").order_by("id").values_list("kind", "project_id")
    assert list(kinds) == [("price.set", provider.project_id), ("price.removed", provider.project_id)]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"input": Decimal(-1)}, "input"),
        ({"output": Decimal("NaN")}, "output"),
        ({"cached_input": Decimal(-1)}, "cached_input"),
        ({"model": "a*b"}, "model"),
        ({"model": ""}, "model"),
        ({"input": Decimal("1e9")}, "input"),
    ],
)
def test_a_bad_price_names_its_field(admin: User, values: dict[str, Any], field: str) -> None:
    good: dict[str, Any] = {"model": "m", "input": Decimal(1), "output": Decimal(1), "kind": "openai"}
    with pytest.raises(BadInputError) as raised:
        set_price(by=admin, **good | values)
    assert list(raised.value.errors) == [field]


def test_a_price_of_nothing_or_of_two_things_is_none(admin: User, provider: Provider) -> None:
    owners: list[dict[str, Any]] = [{}, {"provider": provider, "kind": "openai"}]
    for owner in owners:
        with pytest.raises(BadInputError, match="of a provider or of a kind"):
            set_price(by=admin, model="m", input=Decimal(1), output=Decimal(1), **owner)
    add(admin, "m", 1, kind="openai", valid_from=NOON)
    with pytest.raises(ConflictError, match="already"):
        add(admin, "m", 2, kind="openai", valid_from=NOON)


def test_a_lookup_asks_the_database_nothing(admin: User, provider: Provider, django_assert_num_queries: Any) -> None:
    add(admin, "gpt-*", 1, kind="openai")
    with django_assert_num_queries(1):
        table = load_prices()
    with django_assert_num_queries(0):
        for name in ("gpt-5", "o9", "x"):
            table.find(provider_id=provider.pk, kind="openai", model=name)


def test_an_exchange_keeps_what_it_cost_then(admin: User, project: Project, provider: Provider) -> None:
    add(admin, "gpt", 2, provider=provider, valid_from=NOON)
    draft = AttemptDraft(text="hi", use=TokenUse(prompt=1000, completion=500, cached=0))
    record_exchanges(project=project, drafts=[draft], worker_name="w", model="gpt", provider=provider, task_ids=[7])
    record_exchanges(project=project, drafts=[draft], worker_name="w", model="unknown", provider=provider, task_ids=[7])
    add(admin, "gpt", 9, provider=provider)
    bill = cost_of_task(7)
    assert bill.total == Cost(usd=Decimal("0.006"), exchanges=2, unpriced=1, prompt_tokens=2000, completion_tokens=1000)
    assert Exchange.objects.filter(model="unknown").values_list("cost_usd", flat=True).get() is None


def test_tokens_are_paid_as_the_server_counts_them_and_else_as_told(project: Project, admin: User) -> None:
    add(admin, "desk", 1, kind="engine", valid_from=NOON)
    exact = AttemptDraft(text="hi", prompt_token_ids=[1] * 30, token_ids=[2] * 10, logprobs=[0.0] * 10)
    [told] = record_exchanges(project=project, drafts=[exact], worker_name="w", model="desk")
    assert told.cost_usd == Decimal("0.00007")


def test_judges_and_managers_are_on_the_bill_from_whatever_thread(project: Project, admin: User) -> None:
    with FakeModelServer(is_plain=True, models=["boss"]) as server:
        server.usage = {"prompt_tokens": 100, "completion_tokens": 10}
        own = Provider.objects.create(
            project=project, name="far", kind="openai", base_url=server.url, allow_private=True
        )
        add(admin, "boss", 1, provider=own, valid_from=NOON)

        def ask(number: int) -> None:
            client.chat([{"role": "user", "content": str(number)}], model="boss", max_tokens=9)

        with charge(project=project, turn="judge", task_id=3):
            client = open_client(own)
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(ask, range(5)))
        with pytest.raises(ZeroDivisionError), charge(project=project, turn="manager", task_id=3):
            open_client(own).chat([{"role": "user", "content": "x"}], model="boss", max_tokens=9)
            raise ZeroDivisionError
        open_client(own).chat([{"role": "user", "content": "x"}], model="boss", max_tokens=9)
    bill = cost_of_task(3)
    each = Decimal("0.00014")  # 100 at 1 and 10 at 4, a million each
    assert {turn: (cost.exchanges, cost.usd) for turn, cost in bill.by_turn().items()} == {
        "judge": (5, 5 * each),
        "manager": (1, each),
    }


def test_a_project_pays_for_its_own_and_from_the_moment_asked_for(
    project: Project, django_assert_num_queries: Any
) -> None:
    now = timezone.now()
    rows = [
        Exchange(project=project, model="m", cost_usd=Decimal(1), task_id=task, created_at=now) for task in (1, 1, 2)
    ]
    rows.append(Exchange(project=make_project("other"), model="m", cost_usd=Decimal(100)))
    old = Exchange.objects.bulk_create(rows)[2]
    Exchange.objects.filter(pk=old.pk).update(created_at=now - timedelta(days=40))
    with django_assert_num_queries(1):
        assert cost_of_project(project, since=now - timedelta(days=30)).total.usd == 2
    assert cost_of_project(project, since=now - timedelta(days=50)).total.usd == 3
    assert cost_of_project(project, since=now - timedelta(days=50), until=now - timedelta(days=30)).total.usd == 1
    with django_assert_num_queries(1):
        assert cost_of_tasks([1, 2]).total.usd == 3
    assert cost_of_task(99).total == Cost()


def test_without_a_provider_the_installations_own_server_is_priced_by_its_kind(project: Project, admin: User) -> None:
    add(admin, "boss", 3, kind="openai", valid_from=NOON)
    with override_settings(TENTALIS=settings.TENTALIS | {"INFERENCE_BACKEND": "openai"}):
        draft = AttemptDraft(text="hi", use=TokenUse(prompt=1_000_000))
        [row] = record_exchanges(project=project, drafts=[draft], worker_name="w", model="boss")
    assert row.cost_usd == 3
