"""A run's metrics as the page draws them."""

import math

import pytest

from apps.console.selectors.metrics import MOST_POINTS, WORDS, group_charts, say_metric, thin


def test_metrics_are_grouped_by_the_question_they_answer_and_named_in_words() -> None:
    groups = group_charts([[{"kl": 0.1, "reward": 0.2, "odd_thing": 3, "note": "x", "flag": True}]])
    assert [(group.name, [chart.name for chart in group.charts]) for group in groups] == [
        ("reward", ["reward"]),
        ("drift", ["kl"]),
        ("other", ["odd_thing"]),
    ]
    assert say_metric("odd_thing").label == "Odd thing"
    assert all(words.about for words in WORDS.values())


def test_runs_stand_side_by_side_with_gaps_where_one_said_nothing() -> None:
    (group,) = group_charts([[{"reward": 0.1}, {"reward": 0.2}], [{"reward": 0.5}, {}, {"reward": 0.7}]])
    (chart,) = group.charts
    assert chart.rows == [(1, (0.1, 0.5)), (2, (0.2, None)), (3, (None, 0.7))]
    assert chart.columns == "1 2"


def test_a_long_run_is_thinned_and_keeps_its_spike_and_its_ends() -> None:
    values = [math.sin(place / 700) for place in range(15_000)]
    values[7_777] = 40.0
    places = thin(values, MOST_POINTS)
    assert len(places) == MOST_POINTS
    assert (places[0], places[-1]) == (0, 14_999)
    assert 7_777 in places
    assert places == sorted(set(places))


def test_thinning_four_points_to_three_keeps_the_larger_triangle() -> None:
    assert thin([0.0, 5.0, 1.0, 0.0], 3) == [0, 1, 3]
    assert thin([0.0, 1.0, 5.0, 0.0], 3) == [0, 2, 3]
    assert thin([0.0, None, 5.0], 3) == [0, 2]


@pytest.mark.parametrize("runs", [1, 3, 5])
def test_a_chart_never_draws_more_than_two_thousand_points(runs: int) -> None:
    metrics = [[{"kl": (place * (run + 3)) % 17} for place in range(9_000)] for run in range(runs)]
    (group,) = group_charts(metrics)
    assert len(group.charts[0].updates) <= MOST_POINTS
    assert group.charts[0].is_thinned
