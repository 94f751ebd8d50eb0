"""Codes of an app and recovery codes: which work, how often, and how many may be tried."""

import base64
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from apps.accounts.models import ApiToken, AuthenticatorApp, RecoveryCode, User
from apps.accounts.second_factor import (
    MOST_WRONG,
    TooManyCodesError,
    find_factors,
    find_step,
    remove_app,
    reset_second_factor,
    use_code,
)
from apps.accounts.tokens import create_token
from apps.accounts.tries import MOST_BY_BOTH, TooManySignInsError
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.audit.services import record
from apps.base.counting import forget_callers
from apps.base.errors import NotSignedInError
from tests.second_factors import Phone, give_app

pytestmark = pytest.mark.django_db

PASSWORD = "alice-has-a-password"
RFC_SECRET = b"12345678901234567890"


@pytest.fixture(autouse=True)
def fresh_counts() -> None:
    forget_callers()


def login(**said: Any) -> Any:
    body = {"username": "alice", "password": PASSWORD, **said}
    return Client().post("/api/v1/login", body, content_type="application/json")


@pytest.mark.parametrize(
    ("at", "code"), [(59, "287082"), (1_111_111_109, "081804"), (1_234_567_890, "005924"), (20_000_000_000, "353130")]
)
def test_codes_are_those_of_the_standard(at: int, code: str) -> None:
    """RFC 6238, appendix B, its last six digits."""
    assert find_step(RFC_SECRET, code, at=at) == at // 30


def test_a_clock_may_be_one_step_off_and_not_two() -> None:
    now, app = 1_800_000_000, Phone(base64.b32encode(RFC_SECRET).decode()).app
    codes = {off: app.generate(now + 30 * off).decode() for off in (-2, -1, 0, 1, 2)}
    found = {off: find_step(RFC_SECRET, code, at=now) for off, code in codes.items()}
    assert found == {-2: None, -1: now // 30 - 1, 0: now // 30, 1: now // 30 + 1, 2: None}


def test_the_password_alone_signs_nobody_in_who_has_an_app(alice: User) -> None:
    assert login().status_code == 201
    phone, _ = give_app(alice)
    answer = login()
    assert (answer.status_code, answer.json()["code"]) == (401, "second_factor_required")
    assert login(password="wrong").json()["code"] == "not_signed_in"
    assert login(code=phone.next_code()).status_code == 201
    assert AuditEntry.objects.filter(kind=Kind.USER_SIGNED_IN).count() == 2


def test_one_code_does_not_work_twice_nor_one_before_it(alice: User) -> None:
    phone, _ = give_app(alice)
    before, code = phone.next_code(), phone.next_code()
    assert login(code=code).status_code == 201
    assert login(code=code).status_code == 401
    assert login(code=before).status_code == 401


def test_each_recovery_code_works_once_however_it_is_typed(alice: User) -> None:
    _, codes = give_app(alice)
    assert len(set(codes)) == 10
    assert login(code=codes[0]).status_code == 201
    assert login(code=codes[0]).status_code == 401
    assert login(code=codes[1].upper().replace("-", " ")).status_code == 201
    assert find_factors(alice).codes_left == 8
    assert AuditEntry.objects.filter(kind=Kind.RECOVERY_CODE_USED).count() == 2


def test_what_stands_in_the_database_is_no_code_and_no_secret(alice: User) -> None:
    phone, codes = give_app(alice)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT row::text FROM accounts_recoverycode row UNION SELECT row::text FROM accounts_authenticatorapp row"
        )
        stored = " ".join(text for (text,) in cursor.fetchall())
    told = [phone.secret, phone.secret.encode().hex(), base64.b32decode(phone.secret).hex(), *codes]
    told += [code.replace("-", "") for code in codes]
    assert not [text for text in told if text in stored]


def test_wrong_codes_are_counted_for_the_person_from_wherever_they_come(alice: User) -> None:
    phone, codes = give_app(alice)
    for _ in range(MOST_WRONG - 1):
        record(Kind.SECOND_FACTOR_FAILED, subject=alice, by="nobody")
    with pytest.raises(NotSignedInError):
        use_code(user=alice, code="000000", address="192.0.2.7")
    for code in (phone.next_code(), codes[0]):
        with pytest.raises(TooManyCodesError):
            use_code(user=alice, code=code, address="198.51.100.9")
    assert login(code=codes[0]).status_code == 429


def test_many_codes_at_once_are_fewer_than_a_minute_allows(alice: User) -> None:
    give_app(alice)
    for _ in range(MOST_BY_BOTH):
        with pytest.raises(NotSignedInError):
            use_code(user=alice, code="no code", address="192.0.2.7")
    with pytest.raises(TooManySignInsError):
        use_code(user=alice, code="no code", address="192.0.2.7")


def test_with_the_first_factor_ends_what_a_password_alone_had_opened(alice: User) -> None:
    token = login().json()["token"]
    program, _ = create_token(user=alice, name="ci", scopes=["tasks:read"], by=alice)
    give_app(alice)
    asked = Client().get("/api/v1/whoami", headers={"Authorization": f"Bearer {token}"})
    assert asked.status_code == 401
    assert ApiToken.objects.get(pk=program.pk).revoked_at is None


def test_with_the_last_factor_go_the_recovery_codes(alice: User) -> None:
    give_app(alice)
    remove_app(user=alice)
    assert not RecoveryCode.objects.exists()
    assert login().status_code == 201


def test_a_lost_factor_is_taken_away_and_all_they_are_signed_in_with_ends(alice: User) -> None:
    phone, _ = give_app(alice)
    token = login(code=phone.next_code()).json()["token"]
    assert reset_second_factor(user=alice, by="command line")
    assert not AuthenticatorApp.objects.exists()
    assert Client().get("/api/v1/whoami", headers={"Authorization": f"Bearer {token}"}).status_code == 401
    entry = AuditEntry.objects.get(kind=Kind.SECOND_FACTOR_REMOVED)
    assert (entry.actor, entry.subject_id, entry.payload) == ("command line", alice.pk, {"kind": "all"})
    assert not reset_second_factor(user=alice, by="command line")


def test_where_all_must_have_one_nobody_gets_a_token_without(alice: User, settings: Any) -> None:
    settings.TENTALIS = settings.TENTALIS | {"REQUIRE_SECOND_FACTOR": "staff"}
    assert login().status_code == 201
    settings.TENTALIS = settings.TENTALIS | {"REQUIRE_SECOND_FACTOR": "all"}
    answer = login()
    assert (answer.status_code, answer.json()["code"]) == (403, "second_factor_missing")
    phone, _ = give_app(alice)
    assert login(code=phone.next_code()).status_code == 201


def test_a_phone_of_another_installation_shows_other_codes(alice: User) -> None:
    give_app(alice)
    assert login(code=Phone(base64.b32encode(b"x" * 20).decode()).next_code()).status_code == 401


def test_the_command_line_takes_a_lost_factor_away(alice: User) -> None:
    give_app(alice)
    call_command("reset_second_factor", "alice", stdout=StringIO())
    assert not find_factors(alice).is_any
    with pytest.raises(CommandError, match="no second factor"):
        call_command("reset_second_factor", "alice")
    with pytest.raises(CommandError, match="nobody is called"):
        call_command("reset_second_factor", "no-such-person")
