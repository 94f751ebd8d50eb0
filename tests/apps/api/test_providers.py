"""Model servers, their prices and what was paid, by REST."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.inference.models import Exchange, Provider
from tests.edges.caller import Caller
from tests.factories import make_project, make_user
from tests.fakes import FakeModelServer

HERE = {"project": "shop", "name": "here", "kind": "ollama"}


def caller(user: User) -> Caller:
    return Caller(create_token(user=user, name="t", scopes=Right.values, by=user)[1])


@pytest.fixture
def as_alice(alice: User) -> Caller:
    return caller(alice)


@pytest.fixture
def as_admin(project: Project) -> Caller:
    return caller(make_user("root", is_superuser=True))


def test_the_kinds_say_where_a_key_comes_from(as_alice: Caller) -> None:
    kinds = {row["kind"]: row for row in as_alice.get("providers/kinds").body["kinds"]}
    assert kinds["anthropic"]["dialect"] == "anthropic"
    assert kinds["openai"]["key_url"].startswith("https://")
    assert kinds["vllm"]["tells_tokens"] is True
    assert as_alice.get("providers/kinds?x=1").status == 400


def test_a_private_address_takes_an_admin(as_alice: Caller, as_admin: Caller) -> None:
    refused = as_alice.post("providers", HERE)
    assert (refused.status, list(refused.body["errors"])) == (400, ["base_url"])
    assert as_alice.post("providers", HERE | {"allow_private": True}).status == 403
    made = as_admin.post("providers", HERE | {"allow_private": True})
    assert (made.status, made.body["base_url"]) == (201, "http://127.0.0.1:11434/v1")
    assert as_alice.patch(f"providers/{made.body['id']}", {"base_url": "http://127.0.0.1:6379"}).status == 403


def test_a_shared_server_takes_an_admin_and_is_seen_by_who_may_ask_it(as_alice: Caller, as_admin: Caller) -> None:
    body = {"project": None, "name": "cloud", "kind": "openai", "api_key": "sk-canary"}
    assert as_alice.post("providers", body).status == 403
    made = as_admin.post("providers", body)
    assert (made.status, made.body["project"], made.body["has_api_key"]) == (201, None, True)
    assert "sk-canary" not in str(made.body)
    assert made.body["granted_to"] == "listed"
    server, worker = made.body["id"], {"project": "shop", "name": "w", "kind": "chat", "base_model": "m"}
    assert as_alice.get(f"providers/{server}").status == 404
    refused = as_alice.post("workers", worker | {"provider": "cloud"})
    assert (refused.status, list(refused.body["errors"])) == (400, ["provider"])
    assert "cloud is not granted to project shop: an admin of the installation grants it" in refused.body["detail"]
    grant = {"provider": server, "project": "shop", "tokens_per_day": 1000}
    assert as_alice.post("provider-grants", grant).status == 404
    granted = as_admin.post("provider-grants", grant)
    assert granted.status == 201, granted
    assert as_alice.post("provider-grants", grant).status == 403
    assert as_alice.get(f"providers/{server}").body["name"] == "cloud"
    assert as_alice.post("workers", worker | {"provider": "cloud"}).status == 201
    project = Project.objects.get(slug="shop")
    Exchange.objects.create(project=project, provider_id=server, model="m", prompt_tokens=30, completion_tokens=12)
    [row] = as_alice.get(f"provider-grants?provider={server}&project=shop").body["results"]
    assert (row["provider_name"], row["tokens_per_day"], row["usd_per_month"]) == ("cloud", 1000, None)
    assert (row["used"]["tokens_today"], row["used"]["unpriced"]) == (42, 1)
    path = f"provider-grants/{row['id']}"
    assert as_alice.patch(path, {"tokens_per_day": None}).status == 403
    assert as_admin.patch(path, {"usd_per_month": 0}).status == 400
    assert as_admin.patch(path, {"tokens_per_day": None, "usd_per_month": 2.5}).body["usd_per_month"] == 2.5
    assert as_alice.delete(path).status == 403
    assert as_admin.delete(path).status == 204
    assert as_alice.get(f"providers/{server}").status == 404
    assert as_admin.patch(f"providers/{server}", {"granted_to": "everyone"}).status == 200
    assert as_alice.get(f"providers/{server}").body["granted_to"] == "everyone"


def test_a_test_tells_what_it_showed_and_is_kept(as_admin: Caller, as_alice: Caller) -> None:
    with FakeModelServer() as server:
        made = as_admin.post("providers", HERE | {"kind": "vllm", "base_url": server.url, "allow_private": True})
        path = f"providers/{made.body['id']}"
        assert made.body["probe"] is None
        tested = as_alice.post(f"{path}/test", {"model": ""})
        assert tested.status == 200, tested
        assert (tested.body["ok"], tested.body["can_train"], tested.body["model"]) == (True, True, "desk")
        assert as_alice.post(f"{path}/test", {"model": "no-such"}).body["fault"] == "model"
    shown = as_alice.get(path).body
    assert shown["probe"]["fault"] == "model"
    assert shown["probed_at"]


def test_only_an_admin_renews_keys(as_alice: Caller, as_admin: Caller) -> None:
    assert as_alice.post("providers/rotate-keys", {}).status == 403
    assert as_admin.post("providers/rotate-keys", {}).body["unreadable"] == []


def test_a_price_is_set_listed_and_taken_back(as_alice: Caller, as_admin: Caller, project: Project) -> None:
    provider = Provider.objects.create(project=project, name="lab", kind="openai", base_url="http://lab")
    body = {"provider": provider.pk, "model": "gpt-*", "input": 0.15, "output": 0.6}
    made = as_alice.post("prices", body)
    assert made.status == 201, made
    assert (made.body["input"], made.body["output"], made.body["cached_input"]) == (0.15, 0.6, None)
    assert [row["id"] for row in as_alice.get(f"prices?provider={provider.pk}").body["results"]] == [made.body["id"]]
    assert as_alice.post("prices", {**body, "provider": 999_999}).status == 404
    kind = {"kind": "openai", "model": "gpt-*", "input": 1, "output": 2}
    assert as_alice.post("prices", kind).status == 403
    assert as_admin.post("prices", kind).status == 201
    assert as_alice.delete(f"prices/{made.body['id']}").status == 204


@pytest.mark.parametrize("value", [-1, "NaN", "1", True, None, [1], 1e99, 1e300, 0.1234567])
def test_a_price_that_is_no_amount_is_refused(as_admin: Caller, value: object) -> None:
    refused = as_admin.post("prices", {"kind": "openai", "model": "m", "input": value, "output": 1})
    assert (refused.status, list(refused.body["errors"])) == (400, ["input"])


def test_a_project_sees_what_it_paid_and_nobody_elses(as_alice: Caller, project: Project) -> None:
    Exchange.objects.create(project=project, model="gpt", cost_usd=Decimal("1.5"), prompt_tokens=10)
    Exchange.objects.create(project=project, model="gpt", turn="judge", prompt_tokens=3)
    Exchange.objects.create(project=make_project("other"), model="gpt", cost_usd=Decimal(9))
    bill = as_alice.get("metrics/cost?project=shop").body
    assert bill["total"] == {
        "usd": 1.5, "exchanges": 2, "unpriced": 1, "prompt_tokens": 13, "completion_tokens": 0
    }  # fmt: skip
    assert [line["turn"] for line in bill["lines"]] == ["main", "judge"]
    Exchange.objects.update(created_at=timezone.now() - timedelta(days=8))
    assert as_alice.get("metrics/cost?project=shop&days=7").body["total"]["exchanges"] == 0
    for days in ("0", "x", "99999", "-1"):
        assert as_alice.get(f"metrics/cost?project=shop&days={days}").status == 400
