"""Which actions wait for a person."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.checked import FieldError
from tentalis.core.supervision import SupervisionPolicy, read_supervision


def test_an_empty_policy_is_no_supervision() -> None:
    assert read_supervision({}) is None


def test_a_policy_that_names_nothing_lets_every_tool_wait_and_rejects_in_the_end() -> None:
    policy = read_supervision({"deadline_s": 60})
    assert policy is not None
    assert policy.find_reason("tool", "refund") == "tools named * wait for approval"
    assert policy.find_reason("message") == ""
    assert policy.find_reason("answer") == ""
    assert policy.on_timeout == "reject"


@pytest.mark.parametrize(
    ("tool", "waits"),
    [
        ("refund", True),
        ("REFUND", True),
        ("refund_all", False),
        ("mail.send", True),
        ("mail.read", False),
        ("mail.", True),
        ("shell", False),
        ("Mail.Read.Thread", False),
    ],
)
def test_patterns_choose_tools_exceptions_win_and_case_does_not_matter(tool: str, waits: bool) -> None:
    policy = SupervisionPolicy(tools=("Refund", "mail.*"), except_tools=("mail.read*",))
    assert bool(policy.find_reason("tool", tool)) is waits


def test_the_reason_names_the_pattern() -> None:
    policy = SupervisionPolicy(tools=("refund", "mail.*"), messages=True, answers=True)
    assert policy.find_reason("tool", "mail.send") == "tools named mail.* wait for approval"
    assert policy.find_reason("message") == "messages wait for approval"
    assert policy.find_reason("answer") == "answers wait for approval"


@pytest.mark.parametrize(
    ("data", "field", "words"),
    [
        ([], "supervision", "an object"),
        ({"tool": ["x"]}, "supervision", "tools, except_tools"),
        ({"tools": "refund"}, "tools", "a list"),
        ({"tools": [3]}, "tools", "printable"),
        ({"tools": [" "]}, "tools", "printable"),
        ({"tools": ["a\x00"]}, "tools", "printable"),
        ({"tools": ["x" * 101]}, "tools", "100"),
        ({"tools": ["x"] * 101}, "tools", "at most 100"),
        ({"tools": []}, "tools", "something that waits"),
        ({"except_tools": {}}, "except_tools", "a list"),
        ({"messages": "yes"}, "messages", "true or false"),
        ({"answers": 1}, "answers", "true or false"),
        ({"deadline_s": 4}, "deadline_s", "from 5 to"),
        ({"deadline_s": 3_000_000}, "deadline_s", "from 5 to"),
        ({"deadline_s": True}, "deadline_s", "a whole number"),
        ({"deadline_s": 1.5}, "deadline_s", "a whole number"),
        ({"on_timeout": "wait"}, "on_timeout", "approve, reject, fail"),
        ({"on_timeout": None}, "on_timeout", "approve, reject, fail"),
    ],
)
def test_a_policy_that_cannot_be_is_refused_by_the_name_of_the_fault(data: Any, field: str, words: str) -> None:
    with pytest.raises(FieldError, match=words) as raised:
        read_supervision(data)
    assert raised.value.field == field


PATTERNS = st.lists(st.text("abc*?.", min_size=1, max_size=8), min_size=1, max_size=5).map(tuple)


@given(PATTERNS, st.booleans(), st.booleans(), st.integers(5, 86_400), st.sampled_from(["approve", "reject", "fail"]))
def test_a_policy_is_read_back_as_it_was_written(
    tools: tuple[str, ...], messages: bool, answers: bool, deadline_s: int, on_timeout: Any
) -> None:
    policy = SupervisionPolicy(
        tools=tools, messages=messages, answers=answers, deadline_s=deadline_s, on_timeout=on_timeout
    )
    assert read_supervision(policy.to_json()) == policy
