"""Tasks that are measured on, found in what is learnt from."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.desk import FAMILIES, is_held_out, make_ticket, make_tickets
from tentalis.core.near_duplicates import KeptPrompts, list_texts, split_into_words

TICKET = "Order: 3 mug at 4 EUR, new client. Total?"
KEPT = KeptPrompts([TICKET, "Say hello.", "What is 2 + 3 in the ring of integers?", "请把这句话翻译成英文"])


@pytest.mark.parametrize(
    "text",
    [
        TICKET,
        "order 3 MUG at 4 eur new client total",
        "  Order:\n3\tmug at 4 EUR, new client.   Total?\n",
        f"My colleague asked this: “{TICKET}” What would you say?",
        "Ｏｒｄｅｒ: 3 mug at 4 EUR, new client. Total?",
        "say HELLO",
        "他说：请把这句话翻译成英文。",
    ],
)
def test_the_same_words_are_found_however_they_are_written_or_wrapped(text: str) -> None:
    assert KEPT.occurs_in(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Order: 4 mug at 4 EUR, new client. Total?",
        "Order: 3 mug at 4 EUR, new client.",
        "Order: 3 mug at 4 EUR, vip client. Total?",
        "First say hello, then go.",  # too short a prompt to be looked for inside of others
        "What is 2 * 3 in the ring of integers?",
        "What is 2 - 3 in the ring of integers?",
    ],
)
def test_other_words_are_not(text: str) -> None:
    assert not KEPT.occurs_in(text)


def test_numbers_keep_their_points() -> None:
    assert split_into_words("At 3.40, or 1,000!") == ["at", "3.40", "or", "1,000"]
    assert split_into_words("340") != split_into_words("3.40") != split_into_words("3, 40")


def test_without_a_prompt_nothing_is_found() -> None:
    assert not KeptPrompts([])
    assert not KeptPrompts(["", " ?!"]).occurs_in("")


def test_no_ticket_that_may_be_learnt_is_taken_for_one_that_is_measured_on() -> None:
    """Two tickets that differ differ in their words too."""
    kept = KeptPrompts(ticket.text for ticket in make_tickets(1, 3_000, held_out=True))
    assert not any(kept.occurs_in(ticket.text) for ticket in make_tickets(2, 3_000, held_out=False))
    rng = random.Random(3)
    tickets = {make_ticket(rng, family=family).text for family in FAMILIES for _ in range(400)}
    assert len({tuple(split_into_words(text)) for text in tickets}) == len(tickets)
    assert all(is_held_out(text) for text in tickets if kept.occurs_in(text))


@given(st.text(), st.text(alphabet="abc \n.,"), st.lists(st.sampled_from(["red", "Ox", "3.5", "+", "é"]), min_size=6))
def test_a_long_prompt_is_found_in_every_text_that_quotes_it(before: str, after: str, words: list[str]) -> None:
    prompt = " ".join(words)
    assert KeptPrompts([prompt]).occurs_in(f"{before}\n{prompt.upper()} {after}")


def test_every_text_of_a_conversation_is_read() -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "image", "n": 3}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"function": {"name": "f", "arguments": '{"a": "two"}'}}],
        },
    ]
    assert {"one", '{"a": "two"}'} <= set(list_texts(messages))
    assert "content" not in list(list_texts(messages))
