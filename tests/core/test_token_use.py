"""Tokens as servers count them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.token_use import TokenUse, read_token_use, share_token_use


@pytest.mark.parametrize(
    ("usage", "use"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 4}, TokenUse(9, 4, 0)),
        (
            {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 3}},
            TokenUse(9, 4, 3),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 4, "prompt_cache_hit_tokens": 3}, TokenUse(9, 4, 3)),
        ({"prompt_tokens": 9, "prompt_tokens_details": None}, TokenUse(9, 0, 0)),
        (
            {"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 1},
            TokenUse(9, 2, 3),
        ),
        (None, TokenUse()),
        ("many", TokenUse()),
        ({"prompt_tokens": -1, "completion_tokens": "4"}, TokenUse()),
        ({"prompt_tokens": True}, TokenUse()),
    ],
)
def test_a_servers_count_is_read_in_every_form(usage: Any, use: TokenUse) -> None:
    assert read_token_use(usage) == use


@given(st.builds(TokenUse, *[st.integers(0, 10**6)] * 3), st.integers(1, 64))
def test_the_shares_of_a_call_are_the_whole_call(use: TokenUse, parts: int) -> None:
    shares = share_token_use(use, parts)
    assert len(shares) == parts
    assert sum(shares, TokenUse()) == use
    assert max(share.completion for share in shares) - min(share.completion for share in shares) <= 1
