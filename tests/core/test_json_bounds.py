"""What brackets tell of a text's depth is never less than its depth."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.json_bounds import is_deeper, is_surely_flat, read_marks

VALUES = st.recursive(
    st.none() | st.integers() | st.text('ab[]{},"\\'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("a[]{}"), inner, max_size=3),
    max_leaves=20,
)


def measure_depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(measure_depth, inner), default=0)


@given(VALUES, st.integers(1, 8))
def test_depth_is_told_exactly_and_never_called_flat_where_it_is_not(value: Any, most: int) -> None:
    is_beyond = measure_depth(value) > most
    assert is_deeper(value, most) == is_beyond
    if is_beyond:
        assert not is_surely_flat(read_marks(json.dumps(value).encode()), most)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_lists_and_objects_count_alike(opening: str, closing: str) -> None:
    levels = 4 if len(closing) == 1 else 2
    raw = (opening * levels + "1" + closing * levels).encode()
    assert is_surely_flat(read_marks(raw), 4)
    assert not is_surely_flat(read_marks(raw), 3)
    assert is_deeper(json.loads(raw), 3)
    assert not is_deeper(json.loads(raw), 4)
