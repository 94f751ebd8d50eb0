"""Forgetting shows in plain text and in small reasoning, whatever a reward says."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.learning.capability import (
    Capability,
    compare_capability,
    compare_texts,
    make_pairs,
    measure_capability,
    share_of_right,
)
from tentalis.core.learning.capability_texts import TEXTS

MARGINS = {"text_margin_nats": 0.1, "reasoning_margin": 0.02}


def test_texts_are_some_kilobytes_of_plain_words_and_none_comes_twice() -> None:
    assert len(set(TEXTS)) == len(TEXTS) == 24
    assert 5_000 < sum(map(len, TEXTS)) < 9_000
    assert all(text.isascii() and len(text.split()) >= 40 for text in TEXTS)


def test_pairs_are_the_same_for_the_same_seed_and_each_is_told_apart() -> None:
    pairs = make_pairs(100)
    assert pairs == make_pairs(100) != make_pairs(100, seed=12)
    assert len({pair.right for pair in pairs}) > 80
    assert all(pair.right != pair.wrong for pair in pairs)
    for right, wrong in pairs:
        if " plus " in right:
            first, second, total = (int(word.strip(".")) for word in right.split() if word.strip(".").isdigit())
            assert first + second == total
            assert not wrong.endswith(f" {total}.")


def test_a_sure_model_knows_the_right_one_and_one_that_cannot_tell_halves_it() -> None:
    assert share_of_right(-3.0, -3.0) == 0.5
    assert share_of_right(-3.0, -3.0 - math.log(3)) == pytest.approx(0.75)
    assert share_of_right(-1.0, -2_000.0) == 1.0
    assert share_of_right(-2_000.0, -1.0) == 0.0


@given(st.lists(st.floats(0.5, 6), min_size=2, max_size=30), st.floats(-1, 1))
def test_what_all_texts_cost_more_is_what_is_found(nats: list[float], more: float) -> None:
    found = compare_texts([value + more for value in nats], nats, confidence=0.9)
    assert found.difference == pytest.approx(more, abs=1e-9)
    assert found.low == pytest.approx(found.high, abs=1e-6)


def test_the_interval_by_hand() -> None:
    """Differences .1 and .3: mean .2, standard error .1, 1.645 of them to each side."""
    found = compare_texts([2.1, 3.3], [2.0, 3.0], confidence=0.9)
    assert (found.difference, found.low, found.high) == pytest.approx((0.2, 0.2 - 0.16449, 0.2 + 0.16449), abs=1e-4)


def test_a_model_is_asked_for_texts_and_for_both_of_each_pair() -> None:
    asked: list[str] = []

    def score(texts: list[str]) -> list[list[float]]:
        asked.extend(texts)
        return [[-1.0] * len(text.split()) for text in texts]

    pairs = make_pairs(3)
    found = measure_capability(["one two", "three"], pairs, score)  # type: ignore[arg-type]
    assert asked == ["one two", "three", *(sentence for pair in pairs for sentence in pair)]
    assert list(found.text_nats) == [1.0, 1.0]
    assert all(share == 0.5 for share in found.shares)


def test_only_what_is_lost_for_sure_beyond_the_margin_is_an_alarm() -> None:
    base = Capability(text_nats=[3.0 + 0.01 * place for place in range(24)], shares=[0.8] * 100)
    same = compare_capability(base, base, confidence=0.9)
    assert same.find_alarms(**MARGINS) == []
    forgot = Capability(text_nats=[nats + 0.3 for nats in base.text_nats], shares=[0.7] * 100)
    found = compare_capability(forgot, base, confidence=0.9).find_alarms(**MARGINS)
    assert [alarm.detector for alarm in found] == ["forgotten_text", "forgotten_reasoning"]
    assert all(alarm.low is not None and alarm.low > alarm.allowed for alarm in found)
    assert "perplexity" in found[0].words
    unsure = Capability(text_nats=[nats + (1 if place == 0 else 0.07) for place, nats in enumerate(base.text_nats)],
                        shares=[0.78] * 100)  # fmt: skip
    told = compare_capability(unsure, base, confidence=0.9)
    assert told.texts.difference > MARGINS["text_margin_nats"]
    assert told.find_alarms(**MARGINS) == []
