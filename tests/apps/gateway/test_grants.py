"""Shared model servers at the gateway: asked with a grant, as much as it allows."""

from typing import Any

import pytest

from apps.accounts.models import Project
from apps.gateway.errors import RefusalError
from apps.gateway.limits import Budgets
from apps.inference import allowances
from apps.inference.allowances import AllowanceSpentError
from apps.inference.models import Provider, ProviderGrant
from apps.inference.services import client_for
from apps.workers.models import Worker
from tentalis.core.limits import Limits
from tests.apps.gateway.running import GatewayThread, make_agent_token, make_chat_worker, make_provider
from tests.apps.gateway.test_edge import wait_for
from tests.apps.gateway.test_routing import NOW, begin, make_backend, make_caller
from tests.apps.gateway.upstream import StubUpstream


@pytest.fixture(autouse=True)
def forget_counts() -> None:
    redis = allowances._connect()
    if keys := list(redis.scan_iter(f"{allowances.PREFIX}:grant:*", count=1000)):
        redis.delete(*keys)


@pytest.fixture
def shared(helper: Worker, upstream: StubUpstream) -> Provider:
    return make_provider(None, upstream.url, name="shared")


def grant(project: Project, provider: Provider, **allowed: Any) -> ProviderGrant:
    return ProviderGrant.objects.create(project=project, provider=provider, granted_by="user:root", **allowed)


def test_a_shared_server_is_asked_while_the_project_has_a_grant(
    gateway: GatewayThread, project: Project, token: str, shared: Provider
) -> None:
    make_chat_worker(project, shared, "borrower")
    for model in ("shared/base", "borrower"):
        wait_for(lambda model=model: gateway.chat(model, token=token).status_code == 403)
        error = gateway.chat(model, token=token).json()["error"]
        assert error["code"] == "provider_not_granted"
        assert "shared is not granted to this project: an admin of the installation grants it" in error["message"]
    listed = gateway.client.get("/v1/models", headers={"Authorization": f"Bearer {token}"}).text
    assert "shared" not in listed
    assert "borrower" not in listed
    made = grant(project, shared)
    wait_for(lambda: gateway.chat("shared/base", token=token).status_code == 200)
    assert gateway.chat("borrower", token=token).status_code == 200
    made.delete()
    wait_for(lambda: gateway.chat("borrower", token=token).status_code == 403)
    Provider.objects.filter(pk=shared.pk).update(granted_to="everyone")
    wait_for(lambda: gateway.chat("borrower", token=token).status_code == 200)


def test_what_callers_and_workers_use_of_a_grant_is_one_sum(project: Project, helper: Worker, shared: Provider) -> None:
    grant(project, shared, tokens_per_day=20)
    with GatewayThread() as gateway:
        tokens = [make_agent_token(project, name) for name in ("one", "two")]
        answers = [gateway.chat("shared/base", token=each) for each in (*tokens, *tokens)]
        assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
        assert answers[-1].json()["error"]["code"] == "insufficient_quota"
        assert "at model server shared may use 20 tokens a day" in answers[-1].json()["error"]["message"]
        assert gateway.chat("helper", token=tokens[0]).status_code == 200, "another server has its own"

        def is_refused() -> bool:
            try:
                client_for(shared, project.pk).chat([{"role": "user", "content": "hi"}], model="base", max_tokens=5)
            except AllowanceSpentError:
                return True
            return False

        wait_for(is_refused)


@pytest.mark.parametrize("allowed", [{"tokens_per_day": 3}, {"usd_per_month": 0.03}])
def test_of_requests_at_the_same_time_only_the_first_may_go_beyond_a_grant(allowed: dict[str, Any]) -> None:
    budgets, caller, backend, allowance = Budgets(), make_caller(), make_backend(), Limits(**allowed)
    first = begin(budgets, caller, backend, allowance=allowance)
    assert first is not None
    for _ in range(19):
        with pytest.raises(RefusalError, match="what is being answered may use the rest"):
            begin(budgets, caller, backend, allowance=allowance)
    budgets.charge(caller, backend, tokens=3, count_usd=lambda: 0.03, now=NOW, allowance=allowance)
    first.release()
    with pytest.raises(RefusalError, match="project shop at model server stub may use"):
        begin(budgets, caller, backend, allowance=allowance)
