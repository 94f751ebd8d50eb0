import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.backoff import grow_wait, read_retry_after

NOON = 1_445_428_800.0
"""Wed, 21 Oct 2015 12:00:00 GMT."""
DAY_S = 86_400.0


def test_waits_double_up_to_the_cap() -> None:
    assert [grow_wait(failures, first_s=0.5, cap_s=3.0) for failures in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert grow_wait(100_000, first_s=0.25, cap_s=30.0) == 30.0
    assert grow_wait(100_000, first_s=0.0, cap_s=30.0) == 0.0


@pytest.mark.parametrize(
    ("text", "wait_s"),
    [
        ("7", 7.0),
        ("7.5", 7.5),
        ("-1", 0.0),
        ("1e9", DAY_S),
        ("9" * 400, DAY_S),
        ("nan", None),
        ("soon", None),
        ("", None),
        (None, None),
        ("Wed, 21 Oct 2015 12:01:30 GMT", 90.0),
        ("Wed, 21 Oct 2015 14:01:30 +0200", 90.0),
        ("Wed, 21 Oct 2015 12:01:30 -0000", 90.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Wed, 01 Jan 3000 00:00:00 GMT", DAY_S),
        ("Fri, 31 Dec 9999 23:59:59 GMT", DAY_S),
        ("Fri, 31 Dec 9999 23:59:59 -0500", DAY_S),
    ],
)
def test_retry_after_is_read_in_both_its_forms(text: str | None, wait_s: float | None) -> None:
    assert read_retry_after(text, now=NOON, longest_s=DAY_S) == wait_s


@given(st.text() | st.floats().map(str))
def test_no_header_raises_or_leaves_the_range(text: str) -> None:
    wait_s = read_retry_after(text, now=NOON, longest_s=DAY_S)
    assert wait_s is None or (math.isfinite(wait_s) and 0 <= wait_s <= DAY_S)
