"""Signing in with a second factor, and proving anew who one is, at the command line."""

import sys
from collections.abc import Callable
from datetime import timedelta
from io import StringIO

import pytest
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

from apps.accounts.confirmation import HOLDS
from apps.accounts.models import ApiToken, Invitation, Member, Role, User
from apps.base.counting import forget_callers
from tests.cli.conftest import Outcome, Run
from tests.factories import make_project, make_user
from tests.second_factors import give_app

PASSWORD = "ada-has-a-password"
INVITING = ("member", "invite", "erin", "reviewer", "--project", "shop")

Typing = Callable[..., Run]


@pytest.fixture
def ada(live_server: LiveServer) -> User:
    """Owns the project."""
    forget_callers()
    ada = make_user("ada")
    make_user("erin")
    Member.objects.create(project=make_project(), user=ada, role=Role.OWNER)
    return ada


@pytest.fixture
def typing(run: Run, monkeypatch: pytest.MonkeyPatch) -> Typing:
    """`typing("a line", …)(command, …)`: runs it and types those lines at what it asks."""

    def sit_down(*lines: str) -> Run:
        monkeypatch.setattr(sys, "stdin", StringIO("".join(f"{line}\n" for line in lines)))
        monkeypatch.setattr("getpass.getpass", lambda prompt="", stream=None: sys.stdin.readline().strip())
        return run

    return sit_down


@pytest.fixture
def signing_in(typing: Typing, live_server: LiveServer) -> Callable[..., Outcome]:
    """`signing_in(*what is typed, code=…)` as ada."""

    def sign_in(*lines: str, code: str = "") -> Outcome:
        return typing(*lines)("login", "--url", live_server.url, "-u", "ada", *(["--code", code] if code else []))

    return sign_in


def grow_stale() -> None:
    """As if the last proof were too old."""
    ApiToken.objects.update(confirmed_at=timezone.now() - HOLDS - timedelta(seconds=1))


def test_a_code_beside_the_password_signs_in(ada: User, run: Run, signing_in: Callable[..., Outcome]) -> None:
    phone, _ = give_app(ada)
    wrong = signing_in(PASSWORD, code="not-a-code")
    assert (wrong.code, "Traceback" in wrong.err) == (1, False)
    assert "code" in wrong.err
    assert not ApiToken.objects.exists()
    right = signing_in(PASSWORD, code=phone.next_code())
    assert right.code == 0, right
    assert run("whoami", "--json").json["username"] == "ada"


def test_a_right_code_does_not_make_up_for_a_wrong_password(ada: User, signing_in: Callable[..., Outcome]) -> None:
    phone, _ = give_app(ada)
    outcome = signing_in("wrong", code=phone.next_code())
    assert (outcome.code, "name and password do not belong together" in outcome.err) == (1, True)
    assert not ApiToken.objects.exists()


def test_the_code_is_asked_for_where_it_is_wanted_and_a_recovery_code_will_do(
    ada: User, run: Run, signing_in: Callable[..., Outcome]
) -> None:
    _, codes = give_app(ada)
    outcome = signing_in(PASSWORD, codes[0])
    assert outcome.code == 0, outcome
    assert "Code of your app, or a recovery code" in outcome.out
    assert run("whoami", "--json").json["username"] == "ada"
    again = signing_in(PASSWORD, codes[0])
    assert again.code == 1, "a recovery code is used once"


def test_what_takes_a_fresh_proof_says_so_and_goes_on_after_the_password(
    ada: User, run: Run, typing: Typing, signing_in: Callable[..., Outcome]
) -> None:
    assert signing_in(PASSWORD).code == 0
    grow_stale()
    refused = run(*INVITING)
    assert (refused.code, "tentalis confirm" in refused.err) == (1, True)
    wrong = typing("wrong")("confirm")
    assert (wrong.code, "this is not your password" in wrong.err) == (1, True)
    assert run(*INVITING).code == 1
    confirmed = typing(PASSWORD)("confirm")
    assert confirmed.code == 0, confirmed
    assert "confirmed until " in confirmed.out
    assert run(*INVITING).code == 0
    assert Invitation.objects.get().username == "erin"


def test_with_a_second_factor_the_code_is_the_proof_given_or_asked_for(
    ada: User, run: Run, typing: Typing, signing_in: Callable[..., Outcome]
) -> None:
    phone, codes = give_app(ada)
    assert signing_in(PASSWORD, code=codes[0]).code == 0
    grow_stale()
    wrong = run("confirm", "--code", "not-a-code")
    assert (wrong.code, "Traceback" in wrong.err) == (1, False)
    assert run(*INVITING).code == 1
    assert run("confirm", "--code", phone.next_code()).code == 0
    assert run(*INVITING).code == 0
    grow_stale()
    asked = typing(PASSWORD, phone.next_code())("confirm")
    assert asked.code == 0, asked
    assert "Code of your app, or a recovery code" in asked.out


def test_a_token_made_for_a_program_is_told_that_it_needs_no_proof(signed_in: Run) -> None:
    outcome = signed_in("confirm", "--code", "123456")
    assert (outcome.code, "made for a program" in outcome.err) == (1, True)
