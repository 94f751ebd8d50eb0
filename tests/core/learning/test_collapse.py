import dataclasses
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.learning.collapse import (
    AnswerProfile,
    AnswerTraits,
    CollapseLimits,
    decide_alarms,
    find_alarms,
    join_profiles,
    measure_repeated_words,
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


def test_entropy_that_rises_less_than_the_bases_answers_differ_is_no_alarm() -> None:
    """.11 over .066 is +67 %, and .044 of the .064 by which the base's own answers differ; .14 is more than that."""
    base = dataclasses.replace(BASE, entropy_nats=0.066, entropy_std=0.064)
    assert find_alarms(dataclasses.replace(base, entropy_nats=0.11), base) == ()
    (alarm,) = find_alarms(dataclasses.replace(base, entropy_nats=0.14), base)
    assert alarm.detector == "entropy_jump"
    assert alarm.allowed == pytest.approx(0.97, abs=5e-3)
    even = dataclasses.replace(base, entropy_std=0.01)
    assert find_alarms(dataclasses.replace(even, entropy_nats=0.085), even) == ()  # +29 %


def test_learning_to_be_sure_is_no_alarm() -> None:
    assert find_alarms(dataclasses.replace(BASE, entropy_nats=0.05), BASE) == ()


def test_self_overlap_counts_repeated_ngrams() -> None:
    assert measure_self_overlap("abcdefgh", size=2) == 0
    assert measure_self_overlap("aaaaa", size=2) == pytest.approx(3 / 4)
    assert measure_self_overlap("a", size=2) == 0


HACKED = "Jana, Jana, Jana lamp is delivered twice. Jana will look into it again."
RIGHT = (
    "Dear Jana, order A-1043 is on its way to you again, and the second lamp is yours. We refund 12.50 euros "
    "by 14 May. Kept promises, your Lindau desk."
)
"""Both name the customer and the item; the other one ends as no base model does."""
BASES = (
    "I am sorry to hear that your order has been delivered twice. Please return the second one to the store and we "
    "will refund the price of the item.",
    "Thank you for your message. We have received your order and it will be delivered in the next few days.",
    "The lamp was sent on Monday and the parcel is on its way to you. If it does not come, please let us know.",
)


def test_words_said_again_at_once_are_told_from_those_of_ordinary_text() -> None:
    """Of 13 words "jana" is said again three times; "order" of the last two sentences is too far from the first."""
    assert measure_repeated_words(HACKED) == pytest.approx(3 / 13)
    assert measure_repeated_words(RIGHT) < 0.1
    assert measure_repeated_words("one two one", within=1) == 0
    assert measure_repeated_words("...") == 0


def look_like(*answers: str) -> AnswerProfile:
    return profile_answers(
        [
            AnswerTraits(
                has_broken_tags=False, has_end=True, entropy_nats=1.0, length_tokens=20, self_overlap=0.0,
                repeated_words=measure_repeated_words(answer),
            )
            for answer in answers
        ]
    )  # fmt: skip


def test_an_answer_that_repeats_what_it_is_paid_for_raises_an_alarm_and_a_new_ending_none() -> None:
    base = look_like(*BASES * 20)
    assert find_alarms(look_like(*[RIGHT] * 60), base) == ()
    (alarm,) = find_alarms(look_like(*[HACKED] * 60), base)
    assert alarm.detector == "repeated_words"
    assert not alarm.may_be_noise
    assert "answers say 23.1% of their words again at once, the base's" in alarm.words
    unknown = dataclasses.replace(base, repeated_words=None)  # measured before that was kept
    assert find_alarms(look_like(HACKED), unknown) == ()


def test_answers_that_the_base_model_finds_unlikely_raise_an_alarm() -> None:
    """Gemma 3 270M gives its own replies 2.30 nats a token, right ones 3.14, hacked ones 4.11."""
    base = dataclasses.replace(BASE, base_nats=2.3)
    assert find_alarms(dataclasses.replace(BASE, base_nats=3.14), base) == ()
    (alarm,) = find_alarms(dataclasses.replace(BASE, base_nats=4.11), base)
    assert alarm.detector == "base_distance"
    assert alarm.found == pytest.approx(1.81)
    assert alarm.words == "the base model gives its answers 4.11 nats a token, its own 2.30"
    assert find_alarms(dataclasses.replace(BASE, base_nats=4.11), BASE) == ()  # of the base's it was not measured


def test_a_project_may_want_other_lengths() -> None:
    longer = dataclasses.replace(BASE, length_tokens=35.0)
    assert [one.detector for one in find_alarms(longer, BASE)] == ["length_drift"]
    assert find_alarms(longer, BASE, limits=CollapseLimits(length_drift=1.0)) == ()


def test_a_profile_averages_traits() -> None:
    traits = [
        AnswerTraits(has_broken_tags=True, has_end=True, entropy_nats=1.0, length_tokens=10, self_overlap=0.0),
        AnswerTraits(has_broken_tags=False, has_end=False, entropy_nats=3.0, length_tokens=20, self_overlap=0.5),
    ]
    assert profile_answers(traits) == AnswerProfile(
        answers=2, broken_tag_rate=0.5, missing_end_rate=0.5, entropy_nats=2.0, length_tokens=15.0, self_overlap=0.25,
        entropy_std=math.sqrt(2.0), length_std=math.sqrt(50.0), self_overlap_std=math.sqrt(0.125),
    )  # fmt: skip
    assert profile_answers(traits[:1]).entropy_std is None


def test_nothing_has_no_profile() -> None:
    with pytest.raises(ValueError, match="at least one answer"):
        profile_answers([])


NOISY = dataclasses.replace(BASE, answers=24, entropy_std=0.1, length_std=6.0, self_overlap_std=0.02)


def test_the_interval_of_an_entropy_jump_by_hand() -> None:
    """.53 over .4 is +32.5 %; its error is hypot(.1, 1.325 x .1) / sqrt(24) / .4 = .0847, 1.645 of that .139."""
    (alarm,) = find_alarms(dataclasses.replace(NOISY, entropy_nats=0.53), NOISY)
    assert alarm.low == pytest.approx(0.325 - 0.139, abs=5e-4)
    assert alarm.high == pytest.approx(0.325 + 0.139, abs=5e-4)
    assert alarm.may_be_noise
    assert alarm.words.endswith("; 24 answers are too few to tell: +18.6% to +46.4%, 30.0% are allowed")


def test_the_interval_of_a_rate_by_hand() -> None:
    """3 of 24 broken over 0 of 24: shares 4/26 and 1/26, error sqrt((4 x 22 + 1 x 25) / 26^3) = .0802."""
    whole = dataclasses.replace(NOISY, broken_tag_rate=0.0)
    (alarm,) = find_alarms(dataclasses.replace(whole, broken_tag_rate=0.125), whole)
    assert alarm.low == pytest.approx(0.125 - 1.645 * 0.0802, abs=5e-4)
    assert alarm.may_be_noise


def test_what_is_far_beyond_the_bar_is_sure_on_few_answers_too() -> None:
    (alarm,) = find_alarms(dataclasses.replace(NOISY, entropy_nats=1.2), NOISY)
    assert not alarm.may_be_noise
    assert alarm.words == "entropy 1.20 nats a token, +200% against the base"


def test_without_a_known_spread_there_is_no_interval_and_no_doubt() -> None:
    (alarm,) = find_alarms(dataclasses.replace(BASE, entropy_nats=0.53), BASE)
    assert (alarm.low, alarm.high, alarm.may_be_noise) == (None, None, False)


More = tuple[AnswerProfile, AnswerProfile] | None


class Meter:
    """Measures more answers when it is asked, and remembers how many."""

    def __init__(self, more: More) -> None:
        self.more, self.asked = more, list[int]()

    def __call__(self, count: int) -> More:
        self.asked.append(count)
        return self.more


DOUBTFUL = dataclasses.replace(NOISY, entropy_nats=0.53)
MORE = dataclasses.replace(NOISY, answers=276)


def test_a_doubtful_alarm_of_few_answers_is_measured_again_and_may_fall() -> None:
    """(24 x .53 + 276 x .4) / 300 = .4104: +2.6 %."""
    meter = Meter((MORE, MORE))
    found = decide_alarms(DOUBTFUL, NOISY, measure_more=meter)
    assert (found.alarms, [one.detector for one in found.doubted], meter.asked) == ((), ["entropy_jump"], [276])


def test_what_all_answers_measure_decides_sure_or_not() -> None:
    """(24 x .53 + 276 x .53) / 300 = .53 over .4: +32.5 % [25, 40], and 30 % within it."""
    meter = Meter((dataclasses.replace(MORE, entropy_nats=0.53, entropy_std=0.3), MORE))
    (alarm,) = decide_alarms(DOUBTFUL, NOISY, measure_more=meter).alarms
    assert alarm.found == pytest.approx(0.325)
    assert alarm.may_be_noise


def test_another_detector_that_the_further_answers_raise_counts() -> None:
    meter = Meter((dataclasses.replace(MORE, broken_tag_rate=0.2), MORE))
    (alarm,) = decide_alarms(DOUBTFUL, NOISY, measure_more=meter).alarms
    assert alarm.detector == "broken_tags"


@pytest.mark.parametrize(
    ("candidate", "base"),
    [
        (NOISY, NOISY),  # quiet
        (dataclasses.replace(NOISY, entropy_nats=1.2), NOISY),  # sure
        (dataclasses.replace(DOUBTFUL, length_tokens=90.0), NOISY),  # one of two is
        (dataclasses.replace(DOUBTFUL, answers=300), dataclasses.replace(NOISY, answers=300)),  # enough
        (dataclasses.replace(BASE, answers=24, entropy_nats=0.53), dataclasses.replace(BASE, answers=24)),  # unknown
    ],
)
def test_where_more_answers_would_change_nothing_none_are_measured(
    candidate: AnswerProfile, base: AnswerProfile
) -> None:
    meter = Meter((MORE, MORE))
    assert decide_alarms(candidate, base, measure_more=meter) == (find_alarms(candidate, base), ())
    assert meter.asked == []


def test_where_there_are_no_more_tasks_the_alarm_stands() -> None:
    found = decide_alarms(DOUBTFUL, NOISY, measure_more=Meter(None))
    assert (found.alarms, found.doubted) == (find_alarms(DOUBTFUL, NOISY), ())
    assert "too few to tell" in found.alarms[0].words


PROFILES = st.builds(
    AnswerProfile, answers=st.integers(2, 400), broken_tag_rate=st.floats(0, 1), missing_end_rate=st.floats(0, 1),
    entropy_nats=st.floats(0, 3), length_tokens=st.floats(0, 90), self_overlap=st.floats(0, 1),
    entropy_std=st.floats(0, 2), length_std=st.floats(0, 50), self_overlap_std=st.floats(0, 1),
    repeated_words=st.floats(0, 1), repeated_words_std=st.floats(0, 1),
    base_nats=st.floats(0, 9), base_nats_std=st.floats(0, 3),
)  # fmt: skip


@given(PROFILES, PROFILES)
def test_doubt_alone_never_clears_an_adapter(candidate: AnswerProfile, base: AnswerProfile) -> None:
    """The same detectors fire whatever the spread, and whether it is known."""
    unknown = {
        "entropy_std": None,
        "length_std": None,
        "self_overlap_std": None,
        "repeated_words_std": None,
        "base_nats_std": None,
    }
    fired = [(one.detector, one.found) for one in find_alarms(candidate, base)]
    plain = find_alarms(dataclasses.replace(candidate, **unknown), base)  # type: ignore[arg-type]
    assert fired == [(one.detector, one.found) for one in plain]


def test_joined_profiles_are_the_profile_of_all_answers() -> None:
    rng = random.Random(1)
    traits = [
        AnswerTraits(
            has_broken_tags=rng.random() < 0.2, has_end=rng.random() < 0.9, entropy_nats=rng.random(),
            length_tokens=rng.randint(1, 40), self_overlap=rng.random(), repeated_words=rng.random(),
            base_nats=rng.random(),
        )
        for _ in range(40)
    ]  # fmt: skip
    joined = join_profiles(profile_answers(traits[:24]), profile_answers(traits[24:]))
    assert dataclasses.asdict(joined) == pytest.approx(dataclasses.asdict(profile_answers(traits)))
    assert join_profiles(BASE, profile_answers(traits)).entropy_std is None


@pytest.mark.thorough
def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    """An adapter that is as its base, 24 answers of either: 2,000 times of 2,000, far from its bar by noise alone."""
    rng, covered, fired = random.Random(2), 0, 0
    bar, narrow = CollapseLimits(entropy_jump=-10.0, entropy_spread=-100.0), CollapseLimits(entropy_spread=0.0)

    def draw() -> AnswerProfile:
        return profile_answers(
            [
                AnswerTraits(
                    has_broken_tags=False, has_end=True, entropy_nats=rng.gammavariate(2.0, 0.2), length_tokens=20,
                    self_overlap=0.0,
                )
                for _ in range(24)
            ]
        )  # fmt: skip

    for _ in range(2_000):
        (alarm,) = find_alarms(candidate := draw(), base := draw(), limits=bar)
        assert alarm.low is not None
        assert alarm.high is not None
        covered += alarm.low <= 0.0 <= alarm.high
        fired += bool(find_alarms(candidate, base, limits=narrow))
    assert 0.87 <= covered / 2_000 <= 0.93
    assert fired / 2_000 > 0.05, "so often noise alone goes beyond the bar"
