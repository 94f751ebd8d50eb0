"""What is dangerous takes a fresh proof of a person, at the console and by REST, and of no program."""

import ast
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import URLResolver, get_resolver, reverse
from django.utils import timezone

from apps.accounts.browser_sessions import CONFIRMED
from apps.accounts.confirmation import HOLDS
from apps.accounts.models import ApiToken, Invitation, Member, Project, Role, User
from apps.accounts.services import sign_in
from apps.accounts.tokens import create_token
from apps.api.matrix import list_routes
from apps.api.views.base import ApiView
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.base.counting import forget_callers
from apps.console.fresh_proof import TAKES_PROOF
from tests.factories import make_user
from tests.second_factors import give_app

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).parent.parent.parent / "apps"
DANGEROUS = {
    # serving
    "promote", "start_canary", "raise_canary", "release",
    # keys
    "create_token", "create_provider", "change_provider", "delete_provider", "rotate_keys", "create_webhook",
    "rotate_secret",
    # members
    "invite", "withdraw", "leave", "add_member", "add_agent", "change_member", "remove_member",
    "create_person", "reset_password", "set_active",
    # erasing
    "forget_person", "delete_project", "delete_sessions",
    # signing in
    "begin_app", "confirm_app", "remove_app", "make_recovery_codes", "finish_registration", "remove_passkey",
}  # fmt: skip
"""Names of services."""
NOT_THOSE = {("reviews", "release"), ("judgement", "release"), ("supervision", "release"), ("identity", "leave")}
"""Of other things by the same name."""
PASSWORD = "ada-has-a-password"


@pytest.fixture(autouse=True)
def fresh_counts() -> None:
    forget_callers()


@pytest.fixture
def ada(project: Project) -> User:
    """Owns the project."""
    ada = make_user("ada")
    Member.objects.create(project=project, user=ada, role=Role.OWNER)
    return ada


CALLED_BY = {"take_back": "destroy"}
"""Method of a view that is no route -> the route that calls it."""


def find_dangerous(folder: Path) -> Iterator[tuple[str, str, str]]:
    """(module, function or Class.function, service) of every view that names a dangerous service."""
    for path in sorted(folder.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [("", node) for node in tree.body if isinstance(node, ast.FunctionDef)]
        for one in tree.body:
            if isinstance(one, ast.ClassDef):
                functions += [(f"{one.name}.", node) for node in one.body if isinstance(node, ast.FunctionDef)]
        for prefix, function in functions:
            named = {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
            named |= {node.id for node in ast.walk(function) if isinstance(node, ast.Name)} - {"leave"}  # the page's
            for service in sorted(named & DANGEROUS):
                if (path.stem, service) not in NOT_THOSE:
                    yield path.stem, prefix + function.name, service


def list_pages() -> dict[tuple[str, str], str]:
    """(module, function) -> name, of every page of the console."""
    found = {}

    def walk(resolver: Any) -> None:
        for entry in resolver.url_patterns:
            if isinstance(entry, URLResolver):
                walk(entry)
            elif entry.callback.__module__.startswith("apps.console.views."):
                found[entry.callback.__module__.rpartition(".")[2], entry.callback.__name__] = str(entry.name)

    walk(get_resolver())
    return found


def test_every_page_that_does_something_dangerous_stands_in_the_table() -> None:
    pages = list_pages()
    found = {
        pages[module, function]: service
        for module, function, service in find_dangerous(ROOT / "console" / "views")
        if (module, function) in pages
    }
    assert sorted(set(found) - set(TAKES_PROOF)) == []
    assert sorted(set(TAKES_PROOF) - set(pages.values())) == []
    assert len(found) > 10


def test_every_route_that_does_something_dangerous_takes_a_proof() -> None:
    views = {view.__name__: view for view in _subclasses(ApiView)}
    wrong = []
    for _, name, service in find_dangerous(ROOT / "api" / "views"):
        view, _, method = name.partition(".")
        if CALLED_BY.get(method, method) not in views[view].takes_proof:
            wrong.append((name, service))
    assert wrong == []
    assert sum(route.takes_proof for route in list_routes()) > 15


def _subclasses(root: type[Any]) -> Iterator[type[Any]]:
    for one in root.__subclasses__():
        yield one
        yield from _subclasses(one)


def make_stale(client: Client) -> Client:
    session = client.session
    session[CONFIRMED] = (timezone.now() - HOLDS - timedelta(seconds=1)).isoformat()
    session.save()
    return client


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


INVITED = {"username": "vera", "role": "viewer", "tags": ["a", "b"]}
PROOF = {"proof-password": PASSWORD}


def test_who_signed_in_just_now_is_not_asked(ada: User) -> None:
    assert signed_in(ada).post(reverse("console:members", args=["shop"]), INVITED).status_code in (200, 201, 302)
    assert Invitation.objects.count() == 1


def test_the_page_that_asks_carries_what_was_sent_and_it_goes_on_with_the_proof(ada: User) -> None:
    client, path = make_stale(signed_in(ada)), reverse("console:members", args=["shop"])
    asked = client.post(path, INVITED)
    assert asked.status_code == 403
    assert asked.context["carried"] == [("username", "vera"), ("role", "viewer"), ("tags", "a"), ("tags", "b")]
    assert 'action="/p/shop/members/"' in asked.content.decode()
    assert "no-store" in asked.headers["Cache-Control"]
    assert not Invitation.objects.exists()
    wrong = client.post(path, INVITED | {"proof-password": "no-such-secret"})
    assert (wrong.status_code, Invitation.objects.count()) == (403, 0)
    assert "no-such-secret" not in wrong.content.decode().split("<form", 1)[1]
    client.post(path, INVITED | PROOF)
    assert Invitation.objects.get().username == "vera"
    assert AuditEntry.objects.get(kind=Kind.USER_CONFIRMED).actor == "user:ada"
    client.post(path, INVITED | {"username": "otto"})
    assert Invitation.objects.count() == 2, "the proof holds"


def test_where_there_is_a_second_factor_the_password_is_no_proof(ada: User) -> None:
    phone, _ = give_app(ada)
    client, path = make_stale(signed_in(ada)), reverse("console:members", args=["shop"])
    assert client.post(path, INVITED | PROOF).status_code == 403
    assert not Invitation.objects.exists()
    client.post(path, INVITED | {"proof-code": phone.next_code()})
    assert Invitation.objects.count() == 1


def test_guessing_at_the_page_that_asks_is_counted_as_everywhere(ada: User) -> None:
    client, path = make_stale(signed_in(ada)), reverse("console:members", args=["shop"])
    statuses = [client.post(path, INVITED | {"proof-password": ""}).status_code for _ in range(2)]
    assert statuses == [403, 403]
    assert AuditEntry.objects.filter(kind=Kind.SIGN_IN_FAILED).count() == 0
    client.post(path, INVITED | {"proof-password": "wrong"})
    assert AuditEntry.objects.filter(kind=Kind.SIGN_IN_FAILED).count() == 1


def test_every_page_of_the_table_asks_a_stale_session_and_does_nothing(ada: User) -> None:
    client = make_stale(signed_in(ada))
    before = AuditEntry.objects.count()
    for page in TAKES_PROOF:
        for args in ([], [1], ["shop"], ["shop", 1]):
            try:
                path = reverse(f"console:{page}", args=args)
            except Exception:
                continue
            answer = client.post(path, {"is_sure": "on"})
            assert answer.status_code == 403, page
            assert answer.templates[0].name == "console/confirm.html", page
    assert AuditEntry.objects.count() == before


def test_looking_what_forgetting_would_delete_takes_no_proof(ada: User) -> None:
    client = make_stale(signed_in(ada))
    assert client.post(reverse("console:forget", args=["shop"]), {"end_user": "pia"}).status_code == 200


def call(token: str, path: str, body: dict[str, Any]) -> Any:
    headers = {"Authorization": f"Bearer {token}"}
    return Client().post(f"/api/v1/{path}", body, content_type="application/json", headers=headers)


WANTED = {"project": "shop", "username": "vera", "role": "viewer"}


def test_a_token_of_signing_in_is_asked_anew_after_a_while(ada: User) -> None:
    token, text = sign_in(username="ada", password=PASSWORD, name="laptop")
    assert call(text, "invitations", WANTED).status_code == 201
    ApiToken.objects.filter(pk=token.pk).update(confirmed_at=timezone.now() - HOLDS - timedelta(seconds=1))
    answer = call(text, "invitations", WANTED)
    assert (answer.status_code, answer.json()["code"]) == (403, "confirmation_required")
    assert "POST /api/v1/confirm" in answer.json()["detail"]
    assert call(text, "confirm", {}).json()["errors"] == {"password": ["wanted your password"]}
    assert call(text, "confirm", {"password": "wrong"}).status_code == 401
    assert call(text, "confirm", {"password": PASSWORD}).status_code == 200
    assert call(text, "invitations", WANTED).status_code == 201


def test_a_code_confirms_where_there_is_a_second_factor(ada: User) -> None:
    phone, _ = give_app(ada)
    token, text = sign_in(username="ada", password=PASSWORD, name="laptop", code=phone.next_code())
    ApiToken.objects.filter(pk=token.pk).update(confirmed_at=timezone.now() - HOLDS - timedelta(seconds=1))
    assert call(text, "confirm", {"password": PASSWORD}).status_code == 400
    assert call(text, "confirm", {"code": phone.next_code()}).status_code == 200
    assert call(text, "invitations", WANTED).status_code == 201


def test_a_token_made_for_a_program_keeps_its_scopes_and_making_it_took_the_proof(ada: User) -> None:
    _, program = create_token(user=ada, name="ci", scopes=["members:write", "tokens:write"], by=ada)
    assert call(program, "invitations", WANTED).status_code == 201
    assert call(program, "confirm", {"password": PASSWORD}).status_code == 409
    token, text = sign_in(username="ada", password=PASSWORD, name="laptop")
    ApiToken.objects.filter(pk=token.pk).update(confirmed_at=timezone.now() - HOLDS - timedelta(seconds=1))
    made = call(text, "tokens", {"name": "another", "scopes": ["tasks:read"]})
    assert (made.status_code, made.json()["code"]) == (403, "confirmation_required")


def test_a_failed_confirmation_counts_under_an_idempotency_key_too(ada: User) -> None:
    _, text = sign_in(username="ada", password=PASSWORD, name="laptop")
    headers = {"Authorization": f"Bearer {text}", "Idempotency-Key": "one"}
    for _ in range(2):
        Client().post("/api/v1/confirm", {"password": "wrong"}, content_type="application/json", headers=headers)
    assert AuditEntry.objects.filter(kind=Kind.SIGN_IN_FAILED).count() == 2


def test_the_console_session_confirms_for_the_api_and_the_other_way_round(ada: User) -> None:
    client = make_stale(signed_in(ada))
    assert client.post("/api/v1/invitations", WANTED, content_type="application/json").status_code == 403
    said = {"password": PASSWORD}
    assert client.post("/api/v1/confirm", said, content_type="application/json").status_code == 200
    assert client.post("/api/v1/invitations", WANTED, content_type="application/json").status_code == 201


def test_who_must_have_a_second_factor_sets_it_up_before_anything_else(ada: User, settings: Any) -> None:
    settings.TENTALIS = settings.TENTALIS | {"REQUIRE_SECOND_FACTOR": "all"}
    client = signed_in(ada)
    for path in ("/", "/p/shop/", "/preferences/", "/admin/"):
        assert client.get(path).headers["Location"] == reverse("console:signing-in"), path
    assert client.get("/api/v1/projects").json()["code"] == "second_factor_missing"
    page = client.get(reverse("console:signing-in"))
    assert page.context["must_have_factor"]
    client.post(reverse("console:app-begin"))
    assert client.get(reverse("console:app-set-up")).status_code == 200
    give_app(make_user("bob"))
    assert signed_in(make_user("bob")).get("/p/shop/").status_code == 200
