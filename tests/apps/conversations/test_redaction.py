"""What the redactor takes for personal data or a secret, and what it leaves alone."""

import time
from pathlib import Path

import pytest

from apps.conversations.redaction import MOST_CHARS, MOST_PLACES, Redactor

ORDINARY = Path(__file__).with_name("ordinary.txt").read_text().splitlines()
"""Lines of code and sentences without anything private: most drawn from this tree's sources and guides, and a hundred
that were written because they look as if."""
MOST_FALSE = 0.01
HIDDEN = "aZ3kL9mQ2xR7tV5bN8cD"


def test_of_two_thousand_ordinary_lines_at_most_one_in_a_hundred_is_taken_for_private() -> None:
    assert len(ORDINARY) == 2_000
    assert len(set(ORDINARY)) > 1_990
    false = [line for line in ORDINARY if Redactor().find(line)]
    assert len(false) <= MOST_FALSE * len(ORDINARY), false


@pytest.mark.parametrize(
    "text",
    [
        "Run it again and pass --no-cache.",
        "Pass run_in_background: false to wait.",
        "pass user_name and then user_id-2",
        "This is React Router.",
        "Regards, Team",
        "git clone git@github.com:org/repo.git",
        "Co-Authored-By: Claude <noreply@anthropic.com>",
        "the router is 192.168.1.1, the box 10.1.2.3",
        "version 1.2.3.4 is out",
        "Chrome/120.0.0.0",
        "lodash@4.17.21 and logo@2x.png",
        'password = os.environ["DB_PASSWORD_2"]',
        "postgres://user:password@localhost/app",
    ],
)
def test_what_agents_say_all_day_is_not_private(text: str) -> None:
    assert Redactor().find(text) == []


@pytest.mark.parametrize(
    ("text", "planted"),
    [
        ("password: hunter2-really", "hunter2-really"),
        ("Password=Tr0ub4dor&3", "Tr0ub4dor&3"),
        ('"password": "correct-horse-battery"', "correct-horse-battery"),
        ("the password is Winter2026!", "Winter2026!"),
        ("password hunter2-really", "hunter2-really"),
        ("passphrase: 'S3same-0pen'", "S3same-0pen"),
        ("pwd = s3cr3t_Value9", "s3cr3t_Value9"),
        ("pass: k8Jw-22xx-Q", "k8Jw-22xx-Q"),
        ("DB_PASSWORD=x7!kkPq93", "x7!kkPq93"),
        (f"api_key='{HIDDEN}'", HIDDEN),
        (f"apiKey: {HIDDEN}", HIDDEN),
        (f"API-KEY => {HIDDEN}", HIDDEN),
        (f"secret: {HIDDEN}", HIDDEN),
        (f"client_secret={HIDDEN}", HIDDEN),
        (f"access_token: {HIDDEN}", HIDDEN),
        (f"refresh-token = {HIDDEN}", HIDDEN),
        (f"private_key: {HIDDEN}", HIDDEN),
        (f"Authorization: Bearer {HIDDEN}", HIDDEN),
        ("aws_secret_access_key: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY'", "wJalrXUtnFEMI"),
        ("AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "ghp_abc"),
        ("glpat-abcdefghij0123456789", "glpat-abc"),
        ("glagent-" + "a1" * 40, "glagent-"),
        ("xoxb-1234567890-abcdefghij", "xoxb-"),
        ("sk_live_abcdefghij0123456789abcd", "sk_live_"),
        ("sk-" + "a1" * 10 + "T3BlbkFJ" + "b2" * 10, "T3BlbkFJ"),
        ("npm //registry.npmjs.org/:_authToken=npm_abcdefghij0123456789", "npm_abc"),
        ("pypi-AgEIcHlwaS5vcmc" + "aB3" * 30, "aB3aB3"),
        ("SG." + "a" * 22 + "." + "b" * 43, "SG.a"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlLW9mLWl0", "eyJzdWIi"),
        ("https://hooks.slack.com/services/T0000/B0000/abcdefgh", "abcdefgh"),
        ("postgres://admin:s3cret-word@db.internal/app", "s3cret-word"),
        ("softlayer_api_key: " + "a1b2" * 16, "a1b2a1b2"),
        ("tnt_a1b2c3_0123456789abcdef", "tnt_a1b2c3"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY----- and on", "MIIEow"),
        ("-----BEGIN PRIVATE KEY-----\nMIIEow cut off", "MIIEow"),
    ],
)
def test_planted_secrets_are_found(text: str, planted: str) -> None:
    masked = Redactor().mask(f"Look: {text}")
    assert planted not in masked.text
    assert "SECRET" in masked.found


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("write to grace.hopper@navy.example.org:", "EMAIL"),
        ("<Jürgen.Groß@büro.example.de>", "EMAIL"),
        ("from 203.0.113.7 and", "IP"),
        ("http://198.51.100.23/x", "IP"),
        ("2001:db8::8a2e:370:7334", "IP"),
        ("ip=203.0.113.7", "IP"),
        ("call +49 30 901820 or", "PHONE"),
        ("tel:+1-202-555-0143", "PHONE"),
        ("Hi, this is Ada Byron from accounting", "NAME"),
        ("Regards,\nAda Byron", "NAME"),
        ("My name is Ada Byron.", "NAME"),
        ("4111 1111 1111 1111", "CARD"),
        ("DE89 3704 0044 0532 0130 00 please", "IBAN"),
    ],
)
def test_planted_persons_are_found(text: str, what: str) -> None:
    assert set(Redactor().mask(text).found) == {what}


def test_what_is_too_long_to_look_through_is_masked_and_counts_as_found() -> None:
    redactor = Redactor()
    masked = redactor.mask("words " * (MOST_CHARS // 6) + "words and ada@navy.example.org")
    assert masked.text.endswith("[UNREAD]")
    assert masked.found == {"UNREAD": 1}
    assert redactor.mask("more").text == "[UNREAD]"


def test_many_telephone_numbers_are_masked_though_not_each_is_looked_up() -> None:
    masked = Redactor().mask("+49 30 901820; " * 600)
    assert "901820" not in masked.text
    assert masked.found == {"PHONE": 600}


def test_a_text_that_holds_more_than_is_looked_at_is_masked_whole() -> None:
    redactor = Redactor()
    half = "GB83 WEST 1234 5698 7654 32. " * (MOST_PLACES // 2)  # none of them is an IBAN
    assert redactor.mask(half).found == {}
    assert redactor.mask(f"{half} {half}").text == "[UNREAD]"
    assert redactor.mask("ada@navy.example.org").text == "[UNREAD]"
    assert redactor.mask("words").text == "words"


def test_text_made_up_to_be_slow_takes_about_a_second() -> None:
    """A person may be waiting for it: these took 7, 5 and 9 s before places were counted."""
    for piece in ("GB82 ", "://a:b@", "+49 30 901820; ", "a@a."):
        redactor = Redactor(["Grace Hopper"])
        began = time.process_time()
        redactor.mask(piece * (MOST_CHARS // len(piece) // 2))
        redactor.mask(piece * (MOST_CHARS // len(piece) // 2 - 1))
        assert time.process_time() - began < 4, piece


def test_many_known_names_are_found_whole_and_one_within_another() -> None:
    names = [f"Person {chr(97 + place % 26)}{place}" for place in range(900)]
    masked = Redactor([*names, "Ann", "Lee Ann Smith", "Ünal"]).mask(
        "Lee Ann Smithson, ANN,ann; Joann, PERSON A0, ünal"
    )
    assert masked.text == "Lee [NAME] Smithson, [NAME],[NAME]; Joann, [NAME], [NAME]"


def test_in_standing_words_only_known_names_are_looked_for() -> None:
    redactor = Redactor(["Grace Hopper"])
    assert redactor.names_in(["You help people. Write to help@shop.example.org, password: hunter2-really."]) == set()
    assert redactor.names_in([{"role": "system", "content": "You help grace hopper."}]) == {"NAME"}
