"""Limits and costs: what tokens and projects may ask of models, and what was paid."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import ApiToken, Member, Project, Role, User
from apps.console.selectors.spending import exchanges_since, spent_today, usage_today
from apps.inference.models import Exchange
from tests.apps.console.builders import sign_in
from tests.factories import make_project, make_task, make_user

pytestmark = pytest.mark.django_db


def path(name: str, *args: object) -> str:
    return reverse(f"console:{name}", args=("shop", *args))


@pytest.fixture
def owner(project: Project, alice: User) -> Client:
    Member.objects.filter(project=project, user=alice).update(role=Role.OWNER)
    return sign_in(alice)


def call(project: Project, usd: str | None = "0.50", **values: object) -> Exchange:
    return Exchange.objects.create(
        project=project, model="desk", cost_usd=usd, prompt_tokens=100, completion_tokens=20, **values
    )


def test_a_new_token_has_its_limits_and_they_can_be_changed(owner: Client, alice: User) -> None:
    said = {"name": "claw", "holder": alice.pk, "expires_in_days": 30, "scopes": ["tasks:read"]}
    answer = owner.post(path("tokens"), said | {"new-requests_per_minute": 60, "new-usd_per_day": "2.5"})
    assert answer.status_code == 201
    token = ApiToken.objects.get()
    assert token.limits == {"requests_per_minute": 60, "usd_per_day": 2.5}
    page = owner.get(path("tokens")).content.decode()
    assert "60 requests a minute" in page
    assert "$2.50 a day" in page
    owner.post(path("token-limits", token.pk), {"tokens_per_day": "1000000"})
    token.refresh_from_db()
    assert token.limits == {"tokens_per_day": 1_000_000}


@pytest.mark.parametrize("wrong", [{"requests_per_minute": "0"}, {"usd_per_day": "-1"}, {"tokens_per_day": "many"}])
def test_limits_that_cannot_be_are_refused_beside_their_field(owner: Client, wrong: dict[str, str]) -> None:
    answer = owner.post(path("project-limits"), wrong)
    assert answer.status_code == 400
    assert 'class="errorlist"' in answer.content.decode()
    assert Project.objects.get(slug="shop").limits == {}


def test_the_projects_limits_are_an_owners(owner: Client, project: Project) -> None:
    assert owner.post(path("project-limits"), {"tokens_per_minute": "9000"}).status_code == 302
    project.refresh_from_db()
    assert project.limits == {"tokens_per_minute": 9000}
    assert sign_in(make_user("bob")).post(path("project-limits"), {}).status_code == 403


def test_costs_are_of_this_project_and_of_today(project: Project, alice: User) -> None:
    old = call(project, agent="agent:claw", token="first")
    Exchange.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(days=2))
    call(make_project("other"), agent="agent:claw", token="first")
    call(project, agent="agent:claw", token="first")
    call(project, usd=None, agent="agent:claw", token="first")
    call(project, usd=None, agent="agent:claw", token="second")
    used = usage_today(project, ["first", "another"])
    assert list(used) == ["first"]
    found = used["first"]
    assert (found.usd, found.exchanges, found.unpriced, found.prompt_tokens) == (Decimal("0.5"), 2, 1, 200)
    assert spent_today(project).total.exchanges == 3
    assert exchanges_since(project, timezone.now() - timedelta(days=9)).count() == 4


def test_a_tasks_page_says_what_it_cost(project: Project, alice: User) -> None:
    task = make_task(project)
    assert "no calls recorded" in sign_in(alice).get(path("task", task.pk)).content.decode()
    call(project, task_id=task.pk)
    call(project, usd=None, task_id=task.pk)
    page = sign_in(alice).get(path("task", task.pk)).content.decode()
    assert "$0.5" in page
    assert "1 without a price" in page
