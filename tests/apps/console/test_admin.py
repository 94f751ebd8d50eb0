"""The admin: staff see every row, nobody changes one there, and secrets stay out of sight."""

import json
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.core.checks import Tags, run_checks
from django.test import Client
from django.urls import reverse, reverse_lazy

import tentalis.urls  # noqa: F401  which brings the admin of every app
from apps.accounts.models import ApiToken, Member, Project, Role, User
from apps.audit.chain import find_chain_status, seal_entries
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.audit.services import record
from apps.inference.models import Provider
from tests.e2e.scenery import build_scene
from tests.factories import make_user

pytestmark = pytest.mark.django_db

AUDIT = reverse_lazy("admin:audit_auditentry_changelist")
OURS = [model for model in apps.get_models() if model.__module__.startswith("apps.")]


@pytest.fixture
def root(db: None) -> Client:
    client = Client()
    client.force_login(make_user("root", is_superuser=True, is_staff=True))
    return client


def test_every_model_of_ours_can_be_audited() -> None:
    assert [model.__name__ for model in OURS if not admin.site.is_registered(model)] == []


def test_djangos_checks_of_the_admin_find_nothing() -> None:
    """`manage.py check` may look before the URLs are read."""
    assert run_checks(tags=[Tags.admin]) == []


def test_every_list_and_every_row_opens_and_offers_no_change(root: Client) -> None:
    build_scene(updates=2)
    for model in OURS:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        assert root.get(reverse(f"{name}_changelist")).status_code == 200, name
        assert root.get(reverse(f"{name}_add")).status_code == 403, name
        row = model._default_manager.first()
        if row is not None:
            page = root.get(reverse(f"{name}_change", args=[row.pk]))
            assert page.status_code == 200, name
            assert 'name="_save"' not in page.content.decode(), name
            assert root.post(reverse(f"{name}_change", args=[row.pk]), {}).status_code == 403, name
            assert root.post(reverse(f"{name}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403, name


def test_the_audit_can_be_searched_and_links_to_its_subjects(root: Client) -> None:
    scene = build_scene(updates=1)
    page = root.get(reverse("admin:audit_auditentry_changelist"), {"q": "pipeline", "kind": "run.succeeded"})
    assert reverse("admin:training_trainingrun_change", args=[scene.run.pk]) in page.content.decode()


def test_no_secret_is_shown(root: Client) -> None:
    user = User.objects.get(username="root")
    token = ApiToken.objects.create(
        key_id="k1", secret_hash="f00d" * 16, name="cli", user=user, expires_at="2030-01-01T00:00:00Z"
    )
    provider = Provider.objects.create(name="p", base_url="http://127.0.0.1:1/v1", api_key_sealed=b"sealed-key-bytes")
    shown = [
        root.get(reverse("admin:accounts_apitoken_change", args=[token.pk])).content.decode(),
        root.get(reverse("admin:inference_provider_change", args=[provider.pk])).content.decode(),
        root.get(reverse("admin:accounts_user_change", args=[user.pk])).content.decode(),
    ]
    for page, secret in zip(shown, ("f00df00d", "sealed-key-bytes", user.password[:20]), strict=True):
        assert secret not in page


def test_the_way_in_is_the_consoles_and_only_for_who_may_audit(bob: User) -> None:
    assert Client().get("/admin/").headers["Location"] == "/admin/login/?next=/admin/"
    assert Client().get("/admin/login/?next=/admin/").headers["Location"] == "/sign-in/?next=/admin/"
    client = Client()
    client.force_login(bob)
    assert client.get("/admin/login/").status_code == 403
    assert client.post("/admin/login/", {"username": "root", "password": "x"}).status_code == 403


def enter_as(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_an_auditor_sees_the_audit_of_their_projects_and_nothing_else(project: Project, charlie: User) -> None:
    mine = Project.objects.create(slug="mine", name="Mine")
    Member.objects.create(project=mine, user=charlie, role=Role.AUDITOR)
    shown, hidden = (record(Kind.PROJECT_CHANGED, subject=row, by="user:zed") for row in (mine, project))
    client = enter_as(charlie)
    page = client.get(AUDIT).content.decode()
    assert f'/auditentry/{shown.pk}/change/"' in page
    assert f'/auditentry/{hidden.pk}/change/"' not in page
    assert "/accounts/project/" not in page
    assert client.get(reverse("admin:audit_auditentry_change", args=[shown.pk])).status_code == 200
    assert client.get(reverse("admin:audit_auditentry_change", args=[hidden.pk])).status_code == 302
    assert client.get(AUDIT, {"project_id": project.pk}).context["cl"].result_count == 0
    assert client.get(reverse("admin:accounts_user_changelist")).status_code == 403
    answer: Any = client.post(reverse("admin:audit_auditentry_export"), {"format": "jsonl"})
    data = b"".join(answer.streaming_content)
    assert {json.loads(line)["project_id"] for line in data.splitlines()} == {mine.pk}


def test_a_viewer_has_no_admin(project: Project, charlie: User) -> None:
    Member.objects.create(project=project, user=charlie, role=Role.VIEWER)
    client = enter_as(charlie)
    assert client.get(AUDIT).status_code == 302
    assert client.get("/admin/login/").status_code == 403
    assert client.post(reverse("admin:audit_auditentry_export"), {"format": "csv"}).status_code in (302, 403)


@pytest.mark.django_db(transaction=True)
def test_the_chain_is_verified_in_stretches_and_the_result_stays_on_record(root: Client, project: Project) -> None:
    for _ in range(3):
        record(Kind.PROJECT_CHANGED, subject=project, by="user:zed")
    assert "No entry has a place" in root.get(AUDIT).content.decode()
    while seal_entries():
        pass
    assert "never verified here" in root.get(AUDIT).content.decode()
    sealed = find_chain_status().sealed_to
    page = root.post(reverse("admin:audit_auditentry_verify"), follow=True).content.decode()
    assert f"Places 1 to {sealed} of {sealed} are verified" in page
    assert "user:root" in page
    assert find_chain_status().verified_to == sealed
    assert "Nothing new" in root.post(reverse("admin:audit_auditentry_verify"), follow=True).content.decode()


def test_an_export_of_the_list_holds_what_its_filter_leaves_and_is_on_record(root: Client) -> None:
    build_scene(updates=1)
    path = f"{reverse('admin:audit_auditentry_export')}?kind=run.succeeded"
    answer: Any = root.post(path, {"format": "csv"})
    lines = b"".join(answer.streaming_content).decode("utf-8-sig").splitlines()
    assert len(lines) == 1 + AuditEntry.objects.filter(kind="run.succeeded").count()
    made = AuditEntry.objects.get(kind=Kind.EXPORT_MADE)
    assert (made.actor, made.payload["filters"]) == ("user:root", {"kind": "run.succeeded"})
