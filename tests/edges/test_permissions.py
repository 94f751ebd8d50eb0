"""Who may do what on every route: each role, the outsider, the anonymous, and each kind of bad token."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory

from apps.accounts.models import ApiToken, Member, Project, Role, User
from apps.accounts.rights import ROLE_RIGHTS, Right
from apps.accounts.tokens import create_token, revoke_token
from apps.api.permissions import PUBLIC, SIGNED_IN
from apps.api.views.base import ApiView
from apps.base.counting import forget_callers
from apps.worlds.repos import uploads
from tentalis.verification.store import DIRECTORY
from tests.edges.caller import Answer, Caller
from tests.edges.lived_in import EVERY_ROLE, QUERIES, make_bodies
from tests.edges.routes import TABLE, find_unclassified, list_api_routes, list_other_paths
from tests.edges.writes import noting_writes
from tests.factories import make_user

ROUTES: dict[str, str] = TABLE["routes"]
RAN = frozenset({200, 201, 204, 409, 422})
"""The request was let through: it was done, or the row's state (not the caller's rights) stood against it."""
REQUEST_ID = {"X-Request-Id": "the-same"}


@pytest.fixture
def ids(ids: dict[str, Any], tmp_path: Path, settings: Any) -> dict[str, Any]:
    settings.ARTIFACTS = tmp_path
    (tmp_path / DIRECTORY / "train" / ids["repo_task"]).mkdir(parents=True)
    (tmp_path / uploads.DIRECTORY).mkdir()
    (tmp_path / uploads.DIRECTORY / ids["upload"]).write_bytes(b"sent")
    return ids


class Sender:
    """Sends each route's request and takes back what it did."""

    def __init__(self, ids: dict[str, Any], caller: Caller) -> None:
        self.ids, self.caller, self.bodies = ids, caller, make_bodies(ids)

    def send(self, route: str, **changed: Any) -> Answer:
        verb, path = route.split(" ")
        ids = {**self.ids, **changed}
        query = QUERIES.get(route, "").format(**ids)
        forget_callers()
        with transaction.atomic(), noting_writes() as wrote:
            answer = self.caller.send(
                verb, path.format(**ids) + query, make_bodies(ids).get(route), headers=dict(REQUEST_ID)
            )
            if answer.status in {401, 403, 404} and route != "POST login":
                assert not wrote, f"{route} was denied and did something: {wrote[0]}"
            transaction.set_rollback(True)
        return answer


def token_of(user: User, scopes: Any = Right.values, project: Project | None = None) -> str:
    return create_token(user=user, name="test", scopes=scopes, project=project, by=user)[1]


def rights_said(role: str) -> set[str]:
    """The hand-written table's rights of a role."""
    rights: set[str] = set()
    for word in TABLE["roles"][role]:
        if word.startswith("-"):
            rights.discard(word[1:])
        elif word.startswith("*"):
            rights |= {right for right in Right.values if right.endswith(word[1:])}
        else:
            rights.add(word)
    return rights


def test_every_route_is_classified() -> None:
    assert find_unclassified(list_api_routes()) == []


def test_a_route_nobody_classified_is_found() -> None:
    assert find_unclassified([*list_api_routes(), "POST backdoor"]) == ["POST backdoor"]


@pytest.mark.parametrize("role", Role.values)
def test_the_roles_are_what_the_table_says(role: str) -> None:
    assert {right.value for right in ROLE_RIGHTS[Role(role)]} == rights_said(role)


@pytest.mark.parametrize("role", Role.values)
def test_each_role_does_what_it_may_and_nothing_else(ids: dict[str, Any], role: str) -> None:
    sender = Sender(ids, Caller(token_of(User.objects.get(username=EVERY_ROLE[role]))))
    make_user("newcomer")
    wrong = []
    for route, right in ROUTES.items():
        answer = sender.send(route)
        if right in {"public", "signed in"}:
            is_right = answer.status in RAN
        elif right == "a person":
            is_right = answer.status in ({403} if role == "agent" else RAN)
        elif right == "author or manager":
            is_right = answer.status in (RAN if role in {"owner", "manager"} else {403})
        elif right == "own":
            is_right = answer.status in (RAN if role == "owner" else {403} if role == "agent" else {404})
        else:
            is_right = answer.status in (RAN if set(right.split(" and ")) <= rights_said(role) else {403})
        if not is_right:
            wrong.append((route, right, answer.status, answer.content[:200]))
    assert wrong == []


def test_an_outsider_sees_nothing_and_cannot_tell_foreign_from_missing(ids: dict[str, Any], charlie: User) -> None:
    other = Project.objects.create(slug="other", name="Other")
    Member.objects.create(project=other, user=charlie, role=Role.OWNER)
    _check_blind(Sender(ids, Caller(token_of(charlie))))


def test_a_token_bound_to_another_project_is_as_blind_as_an_outsider(ids: dict[str, Any]) -> None:
    owner = User.objects.get(username=EVERY_ROLE["owner"])
    other = Project.objects.create(slug="other", name="Other")
    Member.objects.create(project=other, user=owner, role=Role.OWNER)
    _check_blind(Sender(ids, Caller(token_of(owner, project=other))))


def _check_blind(sender: Sender) -> None:
    missing = {name: "no-such" if name == "slug" else 999_999 for name in sender.ids}
    wrong = []
    for route, right in ROUTES.items():
        if right in {"public", "signed in", "admin"} or route in {"POST projects", "POST tokens", "GET audit/verify"}:
            continue
        answer = sender.send(route)
        names_something = "{" in route or route in QUERIES or route in sender.bodies
        if names_something:
            twin = sender.send(route, **missing)
            hidden = _blank(twin.content, "no-such", "999999")
            shown = _blank(answer.content, *map(str, sender.ids.values()))
            if answer.status != 404 or shown != hidden:
                wrong.append((route, answer.status, answer.content[:200], twin.content[:200]))
        elif answer.status != 200 or _mentions(answer):
            wrong.append((route, answer.status, answer.content[:300], b""))
    assert wrong == []


def _blank(content: bytes, *names: str) -> bytes:
    """The caller's own words taken out of an answer, which may repeat them."""
    for name in names:
        content = content.replace(f"'{name}'".encode(), b"'?'")
    return content


def _mentions(answer: Answer) -> bool:
    return b'"shop"' in answer.content or b'"task":' in answer.content


@pytest.mark.parametrize("kind", ["none", "unknown", "expired", "revoked", "switched off"])
def test_nobody_gets_past_without_a_valid_token(ids: dict[str, Any], kind: str) -> None:
    owner = User.objects.get(username=EVERY_ROLE["owner"])
    text = token_of(owner)
    token = ApiToken.objects.get(key_id=text.split("_")[1])
    if kind == "expired":
        ApiToken.objects.filter(pk=token.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    elif kind == "revoked":
        revoke_token(token=token, by=owner)
    elif kind == "switched off":
        User.objects.filter(pk=owner.pk).update(is_active=False)
    text = {"none": "", "unknown": text[:-1] + ("a" if text[-1] != "a" else "b")}.get(kind, text)
    sender = Sender(ids, Caller(text))
    statuses = {route: sender.send(route).status for route, right in ROUTES.items() if right != "public"}
    assert {route: status for route, status in statuses.items() if status != 401} == {}


def test_a_token_does_what_its_scopes_name_and_no_more(ids: dict[str, Any]) -> None:
    owner = User.objects.get(username=EVERY_ROLE["owner"])
    make_user("newcomer")
    callers: dict[tuple[str, bool], Sender] = {}
    wrong = []
    for route, right in ROUTES.items():
        needed = right.split(" and ")
        if not set(needed) <= set(Right.values):
            continue
        for has_it in (True, False):
            if (right, has_it) not in callers:
                scopes = needed if has_it else [scope for scope in Right.values if scope != needed[-1]]
                callers[right, has_it] = Sender(ids, Caller(token_of(owner, scopes)))
            answer = callers[right, has_it].send(route)
            if answer.status not in (RAN if has_it else {403}):
                wrong.append((route, right, has_it, answer.status, answer.content[:200]))
    assert wrong == []


def test_a_superuser_who_is_no_member_may_everything(ids: dict[str, Any]) -> None:
    root = User.objects.create_superuser("root", password="root-has-a-password")
    make_user("newcomer")
    sender = Sender(ids, Caller(token_of(root)))
    statuses = {route: sender.send(route).status for route in ROUTES}
    assert {route: status for route, status in statuses.items() if status not in RAN} == {}


class Forgetful(ApiView):
    """A view whose author said nothing of rights."""

    def get(self, request: Request) -> Response:
        return Response({"secret": 1})


def test_a_view_that_names_no_right_is_closed(ids: dict[str, Any]) -> None:
    token = token_of(User.objects.get(username="alice"))
    request = APIRequestFactory().get("/", headers={"Authorization": f"Bearer {token}"})
    answer = Forgetful.as_view()(request)
    assert answer.status_code == 403
    assert "secret" not in str(answer.data)


def test_every_right_that_a_view_names_exists() -> None:
    from django.urls import get_resolver

    from tests.edges.routes import walk

    for path, entry in walk(get_resolver()):
        view: Any = getattr(entry.callback, "cls", None)
        if path.startswith("api/") and view is not None:
            assert set(view.rights.values()) <= {*Right, PUBLIC, SIGNED_IN}, path


OPEN_PATHS = frozenset(
    {
        "healthz",
        "readyz",
        "metrics",
        "sign-in/",
        "sign-in/passkey/options/",
        "api/schema/",
        "api/docs/",
        r"api/[\s\S]*\Z",
    }
)


def test_every_other_page_sends_the_anonymous_to_sign_in(ids: dict[str, Any]) -> None:
    import re

    for pattern in list_other_paths():
        if pattern in OPEN_PATHS:
            continue
        path = "/" + re.sub(r"<(int|slug|str):\w+>", lambda match: "1" if match[1] == "int" else "shop", pattern)
        for verb in ("get", "post"):
            response = getattr(Client(), verb)(path)
            went = response.headers.get("Location", "")
            assert response.status_code in {405} or (response.status_code == 302 and "sign-in" in went), (verb, path)
