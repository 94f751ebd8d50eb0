"""Tokens end with what made them: the token that asked for them, or the password of who signed in."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.accounts import services, tokens
from apps.accounts.models import ApiToken, Member, Project, Role, User
from apps.accounts.rights import ALL_RIGHTS, Right
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, NotSignedInError
from tests.edges.caller import Caller
from tests.factories import make_user

NEW = "quite-another-password-2"


def make_caller(user: User, **values: Any) -> tuple[ApiToken, Caller]:
    token, text = tokens.create_token(user=user, name="parent", scopes=Right.values, by=user, **values)
    return token, Caller(text)


def test_a_token_makes_none_that_outlives_it(alice: User) -> None:
    parent, caller = make_caller(alice, expires_in_days=1)
    refused = caller.post("tokens", {"name": "child", "expires_in_days": 365})
    assert (refused.status, list(refused.body["errors"])) == (403, ["expires_in_days"])
    assert ApiToken.objects.get() == parent
    made = caller.post("tokens", {"name": "child"})
    assert (made.status, made.body["made_with"]) == (201, parent.pk)
    assert ApiToken.objects.get(name="child").expires_at == parent.expires_at


def test_a_token_takes_its_children_and_theirs_with_it(alice: User) -> None:
    parent, caller = make_caller(alice)
    child = Caller(caller.post("tokens", {"name": "child"}).body["token"])
    grandchild = Caller(child.post("tokens", {"name": "grandchild"}).body["token"])
    assert grandchild.get("whoami").status == 200
    tokens.revoke_token(token=parent, by=alice)
    assert [one.get("whoami").status for one in (caller, child, grandchild)] == [401, 401, 401]
    assert AuditEntry.objects.filter(kind="token.revoked").count() == 3


def test_signing_out_ends_what_was_made_meanwhile_and_nothing_else(alice: User) -> None:
    other, _ = make_caller(alice)
    _, text = services.sign_in(username="alice", password="alice-has-a-password", name="here")
    signed_in = Caller(text)
    child = Caller(signed_in.post("tokens", {"name": "child"}).body["token"])
    assert signed_in.post("logout", {}).status == 204
    assert child.get("whoami").status == 401
    assert ApiToken.objects.get(revoked_at=None) == other


def test_a_revoked_or_expired_token_makes_none_though_it_was_read_before(alice: User) -> None:
    parent, _ = make_caller(alice)
    ApiToken.objects.update(revoked_at=timezone.now())
    with pytest.raises(NotSignedInError):
        tokens.create_token(user=alice, name="late", scopes=["tasks:read"], by=alice, made_with=parent)


@pytest.mark.parametrize("how", ["self", "administrator"])
def test_a_changed_password_ends_the_tokens_of_that_person_alone(alice: User, bob: User, how: str) -> None:
    _, caller = make_caller(alice)
    _, neighbour = make_caller(bob)
    child = Caller(caller.post("tokens", {"name": "child"}).body["token"])
    if how == "self":
        services.change_password(user=alice, current="alice-has-a-password", new=NEW)
    else:
        alice.set_password(NEW)
        alice.save()
    assert [one.get("whoami").status for one in (caller, child, neighbour)] == [401, 401, 200]


def test_a_password_is_changed_by_who_knows_the_old_one_to_one_that_will_do(alice: User) -> None:
    with pytest.raises(NotSignedInError):
        services.change_password(user=alice, current="wrong", new=NEW)
    for bad in ("short", "password12", "1234567890"):
        with pytest.raises(BadInputError):
            services.change_password(user=alice, current="alice-has-a-password", new=bad)
    services.change_password(user=alice, current="alice-has-a-password", new=NEW)
    assert User.objects.get(pk=alice.pk).check_password(NEW)
    assert AuditEntry.objects.get(kind="user.password_changed").actor == "user:alice"


def test_a_sign_in_has_the_scopes_that_the_roles_have(project: Project) -> None:
    vera = make_user("vera")
    Member.objects.create(project=project, user=vera, role=Role.VIEWER)
    token, _ = services.sign_in(username="vera", password="vera-has-a-password", name="here")
    assert set(token.scopes) == services.find_needed_scopes(vera)
    narrow, _ = services.sign_in(
        username="vera", password="vera-has-a-password", name="here", scopes=[Right.TASKS_READ]
    )
    assert narrow.scopes == ["tasks:read"]
    assert services.find_needed_scopes(make_user("root", is_superuser=True)) == ALL_RIGHTS
    assert narrow.expires_at < timezone.now() + timedelta(days=31)
