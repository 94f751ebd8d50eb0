"""Signs of haste, of one answer for everything, and of tiring, by hand."""

import random

from tentalis.core.scoring.pace import Item, Streak, find_decline, find_streak, measure_pace, split_sessions


def test_pace_by_hand() -> None:
    times = [40.0, 60.0, 2.0, None, 50.0, 4.0]
    pace = measure_pace([Item(index * 60.0, time, 0.8) for index, time in enumerate(times)])
    assert (pace.items, pace.timed, pace.median_s, pace.sessions) == (6, 5, 40.0, 1)
    assert pace.hasty == 2  # under 5 s, and under a quarter of 40 s
    assert pace.streak == Streak(6, 0.8)


def test_who_is_always_quick_is_not_hasty() -> None:
    assert measure_pace([Item(index, 3.0, None) for index in range(9)]).hasty == 0


def test_without_times_there_is_no_median() -> None:
    pace = measure_pace([Item(0.0, None, None)])
    assert (pace.median_s, pace.hasty, pace.streak) == (None, 0, Streak(0, None))
    assert measure_pace([]).sessions == 0


def test_a_streak_ends_at_another_score_and_at_none() -> None:
    assert find_streak([0.5, 0.5, None, 0.5, 1.0, 1.0, 1.0]) == Streak(3, 1.0)


def test_a_longer_pause_ends_a_session() -> None:
    assert split_sessions([0, 10, 1_811, 1_820]) == [range(2), range(2, 4)]
    assert split_sessions([]) == []


def test_tiring_shows_in_the_second_halves_and_chance_does_not() -> None:
    rng = random.Random(3)

    def sit(place: int, late_errors: float) -> tuple[float, list[tuple[float, float]]]:
        session, index = divmod(place, 20)
        is_wrong = rng.random() < (late_errors if index >= 10 else 0.05)
        return session * 10_000.0 + index * 60, [(0.0 if is_wrong else 1.0, 1.0)]

    tired = find_decline([sit(place, 0.4) for place in range(200)])
    assert tired.is_clear
    assert (tired.early.items, tired.late.items) == (100, 100)
    assert sum(find_decline([sit(place, 0.05) for place in range(200)]).is_clear for _ in range(100)) <= 3
    assert not find_decline([sit(place, 0.4) for place in range(5)]).is_clear
