"""What one voice may weigh in a batch: one alone all of it, one among several no more than its share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.learning.voices import cap_voices, share_voices

NOBODY: frozenset[str] = frozenset()


def weigh(parts: list[dict[str, float]], most_share: float, fixed: frozenset[str] = NOBODY) -> dict[str, float]:
    factors = cap_voices(parts, most_share=most_share, fixed=fixed)
    return share_voices(
        [{one: value * by for one, value in part.items()} for part, by in zip(parts, factors, strict=True)]
    )


def test_by_hand() -> None:
    """6 of 8 are alice's, 1 each bob's and carol's; half of the batch may be hers: 2 of 4, each of hers a third."""
    parts = [{"alice": 1.0}] * 6 + [{"bob": 1.0}, {"carol": 1.0}]
    factors = cap_voices(parts, most_share=0.5, fixed=NOBODY)
    assert factors == pytest.approx([1 / 3] * 6 + [1.0, 1.0], abs=2e-3)


def test_who_judges_alone_is_not_held_down() -> None:
    assert cap_voices([{"alice": 1.0}] * 5, most_share=0.1, fixed=NOBODY) == [1.0] * 5


def test_of_two_none_is_held_under_a_half() -> None:
    assert weigh([{"alice": 1.0}] * 9 + [{"bob": 1.0}], 0.1)["alice"] == pytest.approx(0.5, abs=1e-3)


def test_what_was_verified_is_not_held_down_and_counts_among_the_others() -> None:
    parts = [{"verified": 1.0}] * 9 + [{"alice": 1.0}]
    assert cap_voices(parts, most_share=0.2, fixed=frozenset({"verified"})) == [1.0] * 10


def test_one_changes_nothing_and_nothing_is_nothing() -> None:
    assert cap_voices([{"alice": 1.0}, {"bob": 0.2}], most_share=1.0, fixed=NOBODY) == [1.0, 1.0]
    assert cap_voices([], most_share=0.5, fixed=NOBODY) == []
    assert share_voices([{"alice": 0.0}]) == {}


@given(
    st.lists(
        st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0.05, 1.0), min_size=1, max_size=3),
        min_size=1,
        max_size=40,
    ),
    st.floats(0.1, 1.0),
)
def test_no_voice_has_more_than_the_cap_or_an_equal_share_where_each_rollout_has_one(
    parts: list[dict[str, float]], most_share: float
) -> None:
    alone = [dict([min(part.items())]) for part in parts]
    voices = {voice for part in alone for voice in part}
    assert max(weigh(alone, most_share).values()) <= max(most_share, 1 / len(voices)) * 1.01
    assert all(0 < by <= 1 for by in cap_voices(parts, most_share=most_share, fixed=NOBODY))
