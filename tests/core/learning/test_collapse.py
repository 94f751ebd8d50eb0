import dataclasses

import pytest

from tentalis.core.learning.collapse import (
    AnswerProfile,
    AnswerTraits,
    find_alarms,
    measure_self_overlap,
    profile_answers,
)

BASE = AnswerProfile(
    answers=300, broken_tag_rate=0.01, missing_end_rate=0.01, entropy_nats=0.4, length_tokens=20.0, self_overlap=0.02
)


def test_an_adapter_like_its_base_is_quiet() -> None:
    assert find_alarms(BASE, BASE) == ()


@pytest.mark.parametrize(
    ("detector", "fine", "bad", "words"),
    [
        ("broken_tags", {"broken_tag_rate": 0.03}, {"broken_tag_rate": 0.0301}, "broken tags in 3.0%"),
        ("missing_end", {"missing_end_rate": 0.03}, {"missing_end_rate": 0.05}, "no end in 5.0%"),
        ("entropy_jump", {"entropy_nats": 0.51}, {"entropy_nats": 0.53}, "+32% against the base"),
        ("length_drift", {"length_tokens": 25.0}, {"length_tokens": 13.0}, "-35% against the base"),
        ("self_overlap", {"self_overlap": 0.1}, {"self_overlap": 0.5}, "answers repeat 50.0%"),
    ],
)
def test_each_detector_fires_beyond_its_limit_and_only_then(
    detector: str, fine: dict[str, float], bad: dict[str, float], words: str
) -> None:
    assert find_alarms(dataclasses.replace(BASE, **fine), BASE) == ()  # type: ignore[arg-type]
    (alarm,) = find_alarms(dataclasses.replace(BASE, **bad), BASE)  # type: ignore[arg-type]
    assert alarm.detector == detector
    assert alarm.found > alarm.allowed
    assert words in alarm.words


def test_learning_to_be_sure_is_no_alarm() -> None:
    assert find_alarms(dataclasses.replace(BASE, entropy_nats=0.05), BASE) == ()


def test_self_overlap_counts_repeated_ngrams() -> None:
    assert measure_self_overlap("abcdefgh", size=2) == 0
    assert measure_self_overlap("aaaaa", size=2) == pytest.approx(3 / 4)
    assert measure_self_overlap("a", size=2) == 0


def test_a_profile_averages_traits() -> None:
    traits = [
        AnswerTraits(has_broken_tags=True, has_end=True, entropy_nats=1.0, length_tokens=10, self_overlap=0.0),
        AnswerTraits(has_broken_tags=False, has_end=False, entropy_nats=3.0, length_tokens=20, self_overlap=0.5),
    ]
    assert profile_answers(traits) == AnswerProfile(
        answers=2, broken_tag_rate=0.5, missing_end_rate=0.5, entropy_nats=2.0, length_tokens=15.0, self_overlap=0.25
    )


def test_nothing_has_no_profile() -> None:
    with pytest.raises(ValueError, match="at least one answer"):
        profile_answers([])
