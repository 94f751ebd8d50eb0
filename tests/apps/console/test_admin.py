"""The admin: staff see every row, nobody changes one there, and secrets stay out of sight."""

import pytest
from django.apps import apps
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from apps.accounts.models import ApiToken, User
from apps.inference.models import Provider
from tests.e2e.scenery import build_scene
from tests.factories import make_user

pytestmark = pytest.mark.django_db

OURS = [model for model in apps.get_models() if model.__module__.startswith("apps.")]


@pytest.fixture
def root(db: None) -> Client:
    client = Client()
    client.force_login(make_user("root", is_superuser=True, is_staff=True))
    return client


def test_every_model_of_ours_can_be_audited() -> None:
    assert [model.__name__ for model in OURS if not admin.site.is_registered(model)] == []


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


def test_the_way_in_is_the_consoles_and_only_for_staff(alice: User) -> None:
    assert Client().get("/admin/").headers["Location"] == "/admin/login/?next=/admin/"
    assert Client().get("/admin/login/?next=/admin/").headers["Location"] == "/sign-in/?next=/admin/"
    client = Client()
    client.force_login(alice)
    assert client.get("/admin/login/").status_code == 403
    assert client.post("/admin/login/", {"username": "root", "password": "x"}).status_code == 403
