"""Where turns begin: exact on what agents send, and on any history."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.conversations.turns import (
    Began,
    Change,
    find_change,
    find_last_said,
    find_words,
    goes_on,
    read_words,
    write_behind,
)

INTERNAL = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nThe time is noon.\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"
RUNTIME = "Runtime: agent=main | session=agent:main:p-1 | host=vm | model=tentalis/base | capabilities=none"
OPEN_WEBUI = (
    "### Task:\nRespond to the user query using the provided context, incorporating inline citations.\n\n"
    '### Guidelines:\n- Say if unsure.\n\n<context>\n<source id="1">A lamp costs 30 EUR.</source>\n</context>\n'
)
DISTINCT = st.lists(st.text(min_size=1, max_size=4), unique=True, max_size=8)


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (user("Hello"), "Hello"),
        (user([{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": "x"}}]), "Look"),
        (user([{"type": "input_text", "text": "Hi"}]), "Hi"),
        (user(INTERNAL), ""),
        (user(f"{INTERNAL}\nWhat is it?"), "What is it?"),
        (user("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>> cut off"), ""),
        (user([{"type": "tool_result", "tool_use_id": "a", "content": "42"}]), ""),
        (user([{"type": "text", "text": "<system-reminder>mind the gap</system-reminder>"}]), ""),
        (user(f"[Sat 2026-11-21 12:18 UTC] No, that's wrong: 4 EUR.\n\n{RUNTIME}"), "No, that's wrong: 4 EUR."),
        (user("[WhatsApp Alice +30s Sun 2026-01-18 00:20:12 PST] Alice: follow: up"), "follow: up"),
        (user(f"{OPEN_WEBUI}\nWhat does a lamp cost?"), "What does a lamp cost?"),
        (user(f"{OPEN_WEBUI}\n<user_query>\nWhat does a lamp cost?\n</user_query>\n"), "What does a lamp cost?"),
        (user(OPEN_WEBUI), ""),
        (
            user("### Task:\nWrite a poem.\n\n<context>spring</context>"),
            "### Task:\nWrite a poem.\n\n<context>spring</context>",
        ),
        (user("[Slack (self) 2026-01-18 00:20 PST] (self): hi"), "hi"),
        (user("[Telegram shop Sun 2026-01-18 00:20:12 PST] Bob: hi"), "Bob: hi"),
        (user("[1] is the Runtime: of it"), "[1] is the Runtime: of it"),
        (user("Look:\nRuntime: 4 | 5"), "Look:\nRuntime: 4 | 5"),
        (user(RUNTIME), ""),
        ({"role": "system", "content": "You are"}, ""),
        ({"role": "tool", "content": "42"}, ""),
        (user(None), ""),
        ({}, ""),
    ],
)
def test_only_what_a_person_said_counts_as_words(message: dict[str, object], words: str) -> None:
    assert read_words(message) == words


def test_openclaws_last_user_message_is_not_the_persons() -> None:
    messages = [{"role": "system", "content": "x" * 40_000}, user("Sum these."), user(INTERNAL)]
    assert find_words(messages) == ["Sum these."]


def test_what_is_written_behind_the_words_stands_before_what_an_agent_put_there() -> None:
    said = user(f"[Sat 2026-11-21 12:18 UTC] Sum these.\n\n{RUNTIME}")
    messages = [user("Hello"), said, user(INTERNAL)]
    assert find_last_said(messages) == 1
    assert write_behind(said, " Mind the tax.") == (f"[Sat 2026-11-21 12:18 UTC] Sum these. Mind the tax.\n\n{RUNTIME}")
    assert find_last_said([user(INTERNAL)]) is None
    assert write_behind(user(INTERNAL), "x") is None
    assert write_behind(user([{"type": "text", "text": "Hi"}]), "x") is None


def test_a_request_with_tool_results_goes_on_with_its_turn() -> None:
    asked = [user("Sum these.")]
    assert not goes_on([*asked, user(INTERNAL)])
    assert goes_on([*asked, {"role": "assistant", "content": ""}, {"role": "tool", "content": "3"}])
    assert goes_on([*asked, user([{"type": "tool_result", "content": "3"}])])
    assert not goes_on([])


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        ("", "a", Change(Began.NEXT, 0)),
        ("a", "ab", Change(Began.NEXT, 1)),
        ("a", "abc", Change(Began.NEXT, 1)),
        ("ab", "ab", Change(None, 2)),
        ("abc", "bcd", Change(Began.NEXT, 2)),
        ("abc", "bc", Change(None, 2)),
        ("ab", "ac", Change(Began.REWRITTEN, 1)),
        ("ab", "a", Change(Began.REWRITTEN, 0)),
        ("ab", "xyz", Change(Began.REWRITTEN, 0)),
        ("ab", "", Change(None, 0)),
    ],
)
def test_what_a_request_adds(before: str, now: str, change: Change) -> None:
    assert find_change(list(before), list(now)) == change


@given(DISTINCT, DISTINCT)
def test_words_added_to_any_history_are_found_exactly(history: list[str], added: list[str]) -> None:
    fresh = [f"+{words}" for words in added]
    found = find_change(history, [*history, *fresh])
    assert found == Change(Began.NEXT if fresh else None, len(history))


@given(DISTINCT, st.integers(0, 8), st.text(max_size=4))
def test_a_history_that_lost_its_beginning_goes_on(history: list[str], lost: int, words: str) -> None:
    kept = history[lost:]
    if kept:
        assert find_change(history, [*kept, f"+{words}"]) == Change(Began.NEXT, len(kept))
        assert find_change(history, kept) == Change(None, len(kept))
