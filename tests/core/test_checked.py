"""Fields that say their own limits."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.checked import Checked, Choice, FieldError, Text, choice, flag, number, rule_of, several, text


@dataclass(frozen=True, kw_only=True)
class Example(Checked):
    NOUN: ClassVar[str] = "example"
    PATH: ClassVar[str] = "example."

    count: int = number(3, 1, 10)
    share: float = number(0.5, 0, 1, above=True)
    limit: float | None = number(None, 0, 5, whole=False, below=True)
    mode: str = choice("a", ("a", "b"))
    name: str = text("x", 5, least=1)
    is_on: bool = flag(False)
    words: tuple[str, ...] = several((), Text(3, 1), most=2, distinct=True)
    kinds: tuple[str, ...] = several(("a",), Choice(("a", "b")), least=1, most=2)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"count": 0}, "example.count: wanted a whole number from 1 to 10, found 0"),
        ({"count": 2.0}, "found 2.0"),
        ({"count": True}, "found True"),
        ({"count": None}, "found None"),
        ({"share": 0}, "example.share: wanted a number above 0 and at most 1, found 0"),
        ({"share": float("nan")}, "found nan"),
        ({"share": "1"}, "found '1'"),
        ({"limit": 5}, "example.limit: wanted a number at least 0 and below 5, or null, found 5"),
        ({"mode": "c"}, "example.mode: wanted one of a, b, found 'c'"),
        ({"mode": ["a"]}, "one of a, b"),
        ({"name": "   "}, "example.name: wanted a text of 1 to 5 characters"),
        ({"name": "x" * 6}, "1 to 5"),
        ({"name": 3}, "found 3"),
        ({"is_on": 1}, "example.is_on: wanted true or false, found 1"),
        ({"words": "abc"}, "example.words: wanted a list of at most 2 different"),
        ({"words": ["a", "a"]}, "different"),
        ({"words": ["abcd"]}, "a text of 1 to 3 characters each"),
        ({"words": ["a", "b", "c"]}, "at most 2"),
        ({"kinds": []}, "example.kinds: wanted a list of 1 to 2"),
        ({"kinds": ["c"]}, "one of a, b each"),
        ({"colour": 1}, "example.example: wanted fields of count, share"),
        ([], "wanted an object, found []"),
    ],
)
def test_what_no_rule_accepts_is_refused_by_name_with_what_was_wanted_and_found(data: Any, words: str) -> None:
    with pytest.raises(FieldError) as caught:
        Example.from_json(data)
    assert words.removeprefix("example.example") in str(caught.value)
    assert caught.value.field in {*(data or ()), "example"}


def test_a_long_value_is_shown_by_its_beginning() -> None:
    with pytest.raises(FieldError) as caught:
        Example(name="x" * 10_000)
    assert len(str(caught.value)) < 200


@given(
    st.integers(1, 10), st.floats(0.01, 1), st.none() | st.floats(0, 4.9), st.lists(st.sampled_from("abc"), max_size=1)
)
def test_what_was_written_is_read_back(count: int, share: float, limit: float | None, words: list[str]) -> None:
    example = Example(count=count, share=share, limit=limit, words=tuple(words))
    assert Example.from_json(example.to_json()) == example


def test_the_rule_of_a_field_is_told() -> None:
    rule = rule_of(Example, "count")
    assert (rule.low, rule.high) == (1, 10)
