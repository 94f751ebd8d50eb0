import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.packing import pack_top, unpack_top

tops = st.lists(
    st.lists(st.tuples(st.integers(0, 2**31 - 1), st.floats(-50, 0, width=32)), max_size=5), min_size=1, max_size=20
)


@given(tops)
def test_the_likeliest_tokens_come_back_as_they_were(values: list[list[tuple[int, float]]]) -> None:
    token_ids, logprobs = pack_top(values)
    found = unpack_top(token_ids, logprobs, size=len(values))
    assert found == (values if any(values) else [])


def test_nothing_packs_to_nothing() -> None:
    assert pack_top([]) == (b"", b"")
    assert unpack_top(b"", b"", size=7) == []


def test_bytes_of_another_number_of_places_are_refused() -> None:
    token_ids, logprobs = pack_top([[(1, -0.5), (2, -1.0)]] * 3)
    with pytest.raises(ValueError, match="the same for each of 4 tokens, found 6 and 6"):
        unpack_top(token_ids, logprobs, size=4)
    with pytest.raises(ValueError, match="found 6 and 5"):
        unpack_top(token_ids, logprobs[:-4], size=3)
