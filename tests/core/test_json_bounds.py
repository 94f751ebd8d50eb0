"""What brackets tell of a text's depth is never less than its depth."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.json_bounds import has_more_values, is_deeper, is_surely_flat

VALUES = st.recursive(
    st.none() | st.integers() | st.text('ab[]{},"\\'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("a[]{}"), inner, max_size=3),
    max_leaves=20,
)


def measure_depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(measure_depth, inner), default=0)


@given(VALUES, st.integers(1, 8))
def test_depth_is_told_exactly_and_by_brackets_never_less(value: Any, most: int) -> None:
    assert is_deeper(value, most) == (measure_depth(value) > most)
    assert not (is_surely_flat(json.dumps(value).encode(), most) and is_deeper(value, most))


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
@pytest.mark.parametrize("beside", [0, 8, 30_000])
def test_lists_and_objects_count_alike(opening: str, closing: str, beside: int) -> None:
    levels = 4 if len(closing) == 1 else 2
    raw = ("[" + "[]," * beside + opening * levels + "1" + closing * levels + "]").encode()
    assert is_deeper(json.loads(raw), 4)
    assert not is_deeper(json.loads(raw), 5)
    assert is_surely_flat(raw, 5) == (beside == 0)


def test_brackets_in_texts_hide_no_level() -> None:
    raw = b'["]",' * 50 + b"1" + b',"["]' * 50
    assert not is_surely_flat(raw, 49)


@pytest.mark.parametrize("beside", ["", "x" * 100])
def test_many_values_are_told_by_what_stands_between_them(beside: str) -> None:
    raw = json.dumps([*range(12), beside]).encode()
    assert has_more_values(raw, 12)
    assert not has_more_values(raw, 20)
