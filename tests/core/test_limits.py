"""Limits: what they may be, and that they come back as they were stored."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.checked import FieldError
from tentalis.core.limits import Limits

COUNTS = st.none() | st.integers(1, 10**12)


@given(COUNTS, COUNTS, COUNTS, st.none() | st.floats(0.01, 1e9))
def test_what_is_stored_comes_back(
    requests: int | None, minute: int | None, day: int | None, usd: float | None
) -> None:
    limits = Limits(requests_per_minute=requests, tokens_per_minute=minute, tokens_per_day=day, usd_per_day=usd)
    assert Limits.from_json(limits.to_json()) == limits


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"requests_per_minute": 0}, "requests_per_minute"),
        ({"requests_per_minute": True}, "found True"),
        ({"tokens_per_day": 1.0}, "found 1.0"),
        ({"tokens_per_minute": 10**13}, "tokens_per_minute"),
        ({"usd_per_day": math.inf}, "usd_per_day"),
        ({"usd_per_day": "1"}, "usd_per_day"),
        ({"usd_per_day": 0}, "usd_per_day"),
        ({"tokens_per_second": 1}, "tokens_per_second"),
    ],
)
def test_what_cannot_be_is_refused_by_name(value: dict[str, Any], words: str) -> None:
    with pytest.raises(FieldError, match=words):
        Limits.from_json(value)
