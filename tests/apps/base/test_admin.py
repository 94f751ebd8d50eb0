"""Django's admin: what no page shows is not found out by filters in the address either."""

import pytest
from django.contrib import admin
from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.test import Client, RequestFactory
from django.urls import reverse

from apps.accounts.models import Member, Project, User
from apps.base.admin import ReadOnlyAdmin

admin.autodiscover()
PAGES = [(model, pages) for model, pages in admin.site._registry.items() if isinstance(pages, ReadOnlyAdmin)]


def is_allowed(model: type[models.Model], lookup: str) -> bool:
    request = RequestFactory().get("/")
    request.user = AnonymousUser()
    return admin.site._registry[model].lookup_allowed(lookup, "x", request)


@pytest.mark.parametrize(
    ("model", "column"), [(model, column) for model, pages in PAGES for column in pages.exclude or ()]
)
def test_nothing_is_filtered_by_a_column_that_no_page_shows(model: type[models.Model], column: str) -> None:
    for way in ("", "__startswith", "__regex", "__isnull"):
        assert not is_allowed(model, column + way)
    ways = [(one, field) for one, _ in PAGES for field in one._meta.get_fields() if field.related_model is model]
    for one, field in ways:
        assert not is_allowed(one, f"{field.name}__{column}__startswith")


def test_a_hidden_column_two_relations_away_is_not_asked() -> None:
    assert not is_allowed(Member, "project__members__user__password__startswith")
    assert not is_allowed(Member, "user_id__password__startswith")


def test_what_is_shown_is_filtered_as_before() -> None:
    for model, lookup in ((User, "username__startswith"), (Member, "user__id__exact"), (Member, "role__exact")):
        assert is_allowed(model, lookup)
    for shown, pages in PAGES:
        for column in pages.list_filter:
            assert is_allowed(shown, str(column))


@pytest.mark.django_db
@pytest.mark.parametrize("page", ["accounts_user_changelist", "accounts_member_changelist"])
def test_the_page_itself_refuses(client: Client, alice: User, project: Project, page: str) -> None:
    User.objects.filter(pk=alice.pk).update(is_superuser=True, is_staff=True)
    client.force_login(alice)
    lookup = "password__startswith" if "user" in page else "user__password__startswith"
    path = reverse(f"admin:{page}")
    assert client.get(path).status_code == 200
    assert client.get(path, {lookup: "argon2"}).status_code == 400
