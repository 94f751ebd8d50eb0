"""A run's metrics as the page draws them."""

import math
import re
from pathlib import Path

import pytest

from apps.console.selectors.metrics import MOST_POINTS, WORDS, group_charts, say_metric, thin
from apps.console.views.training import MOST_COMPARED


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


def test_points_stand_at_the_updates_they_were_made_in() -> None:
    (group,) = group_charts([[{"update": 3, "reward": 0.1}, {"update": 52.0, "reward": 0.2}], [{"reward": 0.5}]])
    assert group.charts[0].rows == [(1, (None, 0.5)), (3, (0.1, None)), (52, (0.2, None))]


def test_as_many_runs_as_can_be_compared_have_a_colour() -> None:
    static = Path(__file__).parents[3] / "static"
    series = 1 + MOST_COMPARED
    inks = re.findall(r"^\.ink-(\d) \{ --ink-line: var\(--(\w+)\)", (static / "css/operations.css").read_text(), re.M)
    assert [int(number) for number, _name in inks] == list(range(series))
    drawn = re.search(r"const inks = \[(.*?)\]", (static / "js/charts.js").read_text())
    assert drawn is not None
    assert re.findall(r'"(\w+)"', drawn[1]) == [name for _number, name in inks]
    tokens = (static / "css/tokens.css").read_text()
    assert {tokens.count(f" --{name}:") for _number, name in inks} == {3}, "light, dark, and dark by choice"


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
