"""Several calls as one sequence: exact, or not at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.conversations.joining import Call, follows, join_calls, split_chains

TOKENS = st.lists(st.integers(0, 50), max_size=6)


def call(prompt: list[int], tokens: list[int]) -> Call:
    return Call(prompt, tokens, [-0.5] * len(tokens), [True] * len(tokens))


def test_two_calls_joined_by_hand() -> None:
    first, second = call([1, 2], [3, 4]), call([1, 2, 3, 4, 9, 9], [5])
    joined = join_calls([first, second])
    assert joined.prompt == [1, 2]
    assert joined.tokens == [3, 4, 9, 9, 5]
    assert joined.logprobs == [-0.5, -0.5, 0.0, 0.0, -0.5]
    assert joined.sampled == [True, True, False, False, True]
    assert joined.spans == [(0, 2), (4, 5)]


def test_hidden_stretches_leave_the_loss() -> None:
    joined = join_calls([call([1], [2, 3, 4])], hidden=[[1, 2]])
    assert joined.tokens == [2, 3, 4]
    assert joined.sampled == [True, False, True]
    assert joined.logprobs == [-0.5, 0.0, -0.5]


def test_what_was_tokenised_anew_does_not_follow() -> None:
    first, anew = call([1, 2], [3, 4]), call([1, 2, 34, 9], [5])
    last = call([1, 2, 34, 9, 5, 7], [8])
    assert not follows(first, anew)
    assert split_chains([first, anew, last]) == [[first], [anew, last]]
    assert split_chains([]) == []
    with pytest.raises(ValueError, match="call 1 does not go on"):
        join_calls([first, anew])


@given(TOKENS, st.lists(st.tuples(TOKENS, TOKENS), min_size=1, max_size=5))
def test_any_chain_joins_to_what_the_last_call_saw_and_said(
    prompt: list[int], turns: list[tuple[list[int], list[int]]]
) -> None:
    calls: list[Call] = []
    seen = list(prompt)
    for told, answered in turns:
        seen = [*seen, *told]
        calls.append(call(list(seen), answered))
        seen = [*seen, *answered]
    assert split_chains(calls) == [calls]
    joined = join_calls(calls)
    assert [*joined.prompt, *joined.tokens] == seen
    assert [token for token, own in zip(joined.tokens, joined.sampled, strict=True) if own] == [
        token for _, answered in turns for token in answered
    ]
    for (start, end), (_, answered) in zip(joined.spans, turns, strict=True):
        assert joined.tokens[start:end] == answered
