"""Sessions that nobody named: each opening is one, and what goes on is found by the answer it repeats."""

from typing import Any

from apps.gateway.capture import capture
from apps.gateway.guessing import find_guessed
from apps.gateway.record import Record
from tests.apps.gateway.records import make_record

HI = {"role": "user", "content": "Hi"}


def send(*messages: dict[str, Any], reply: str, **header: Any) -> Record:
    return make_record(1, messages, "fp-0", reply=reply, is_guessed=True, **header)


def repeat(reply: str) -> dict[str, Any]:
    return {"role": "assistant", "content": f"{reply}\n"}  # clients write white space as they like


def keys_of(records: list[Record], stored: dict[str, str] | None = None) -> list[str]:
    captured = [one for record in records for one in capture(record)]
    found, _ = find_guessed(captured, lambda names: [(one, key) for one, key in (stored or {}).items() if one in names])
    return [one.header["session"] for one in found]


def test_equal_openings_are_sessions_of_their_own_and_each_goes_on_where_its_answer_is() -> None:
    alice, bob = send(HI, reply="Hello!"), send(HI, reply="Good day.")
    thanks = send(HI, repeat("Hello!"), {"role": "user", "content": "Thanks!"}, reply="Bye.")
    wrong = send(HI, repeat("Good day."), {"role": "user", "content": "No!"}, reply="Sorry.")
    first, second, third, fourth = keys_of([alice, bob, wrong, thanks])
    assert first != second
    assert (third, fourth) == (second, first)


def test_of_equal_answers_each_goes_on_once_and_a_fork_is_a_session_of_its_own() -> None:
    opened = [send(HI, reply="Hello!"), send(HI, reply="Hello!")]
    following = [send(HI, repeat("Hello!"), {"role": "user", "content": f"{k}"}, reply="Yes.") for k in range(3)]
    keys = keys_of([*opened, *following])
    assert sorted(keys[:2]) == sorted(keys[2:4])
    assert keys[4] not in keys[:4]


def test_a_session_is_found_again_in_what_is_stored_and_a_failure_leaves_it_where_it_was() -> None:
    opened = send(HI, reply="Hello!")
    _, ends = find_guessed(capture(opened), lambda names: [])
    ((_, key, _),) = ends
    stored = {name: key for (_, key, _), name in ends.items()}
    asked = [HI, repeat("Hello!"), {"role": "user", "content": "And?"}]
    failed, good = send(*asked, reply="", status=502), send(*asked, reply="Yes.")
    assert keys_of([failed, good], stored) == [key, key]


def test_choices_of_a_request_share_a_session_and_named_ones_stay_as_they_are() -> None:
    several = send(HI, reply="Hello!", body={"n": 3})
    keys = keys_of([several, make_record(1, [HI], "mine", reply="Hello!")])
    assert len(set(keys[:3])) == 1
    assert keys[3] == "mine"
