"""Agreement beyond chance against published and hand-worked figures."""

import importlib
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.scoring.agreement import (
    Agreement,
    Level,
    bootstrap_interval,
    cohen_kappa,
    krippendorff_alpha,
    raw_agreement,
    spearman,
    weighted_kappa,
)
from tentalis.core.scoring.protocol import ScoringError

# Krippendorff 2011, section C: four observers, twelve units, missing data.
OBSERVERS: list[list[float | None]] = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]
UNITS = [list(unit) for unit in zip(*OBSERVERS, strict=True)]


def expand(table: dict[tuple[str, str], int]) -> tuple[list[str], list[str]]:
    pairs = [pair for pair, count in table.items() for _ in range(count)]
    return [left for left, _ in pairs], [right for _, right in pairs]


def test_cohen_kappa_of_a_two_by_two_table() -> None:
    first, second = expand({("y", "y"): 20, ("y", "n"): 5, ("n", "y"): 10, ("n", "n"): 15})
    assert cohen_kappa(first, second).value == pytest.approx(0.4)  # (.7 - .5) / (1 - .5)
    assert raw_agreement(first, second) == Agreement(0.7, 50)


def test_weighted_kappa_weighs_a_miss_by_its_square() -> None:
    # off by 1, 0, 1, 0: mean .5; all sixteen pairs of {0, 1, 2, 2} and {1, 1, 1, 2}: mean 0.875
    assert weighted_kappa([0, 1, 2, 2], [1, 1, 1, 2]).value == pytest.approx(1 - 0.5 / 0.875)
    table = {("y", "y"): 20, ("y", "n"): 5, ("n", "y"): 10, ("n", "n"): 15}
    first, second = expand(table)
    numbers = [[float(word == "y") for word in side] for side in (first, second)]
    assert weighted_kappa(*numbers).value == pytest.approx(cohen_kappa(first, second).value)
    assert weighted_kappa([0, 0.5, None], [1, 0.5, 1]).items == 2


def test_weighted_kappa_of_raters_who_say_one_number_is_undefined() -> None:
    assert weighted_kappa([1, 1], [1, 1]) == Agreement(None, 2, "both raters used only 1")
    assert weighted_kappa([], []).value is None
    with pytest.raises(ScoringError, match="wanted finite numbers"):
        weighted_kappa([float("nan")], [1])


def test_items_one_rater_left_out_do_not_count() -> None:
    assert cohen_kappa(["a", None, "b", "a"], ["a", "b", "b", None]) == Agreement(1.0, 2)


@pytest.mark.parametrize(("level", "value"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_krippendorff_alpha_gives_the_published_figures(level: Level, value: float) -> None:
    alpha = krippendorff_alpha(UNITS, level=level)
    assert alpha.value == pytest.approx(value, abs=5e-4)
    assert alpha.items == 11


def test_krippendorff_alpha_of_two_observers_worked_by_hand() -> None:
    # values 0,0 | 0,1: D_o = 2 * 1/4 ordered pairs, D_e = 2*3*1/(4*3), so alpha = 1 - .5/.5
    assert krippendorff_alpha([[0, 0], [0, 1]], level="nominal").value == pytest.approx(0.0)


def test_spearman_shares_ranks_among_equal_values() -> None:
    assert spearman([1, 2, 3, 4], [10, 20, 30, 40]).value == pytest.approx(1.0)
    assert spearman([1, 2, 3, 4], [4, 3, 2, 1]).value == pytest.approx(-1.0)
    # ranks 1.5 1.5 3 against 1 2 3: 1.5 / sqrt(1.5 * 2)
    assert spearman([1, 1, 2], [1, 2, 3]).value == pytest.approx(1.5 / 3**0.5)
    assert spearman([1, None, 2, 3], [5, 6, 7, None]) == Agreement(1.0, 2)


@pytest.mark.parametrize(
    ("agreement", "reason"),
    [
        (cohen_kappa(["a", "a"], ["a", "a"]), "both raters used only 'a'"),
        (cohen_kappa([None], ["a"]), "no item was rated by both"),
        (raw_agreement([], []), "no item was rated by both"),
        (krippendorff_alpha([], level="nominal"), "no unit was rated twice"),
        (krippendorff_alpha([[1, None], [2]], level="ordinal"), "no unit was rated twice"),
        (krippendorff_alpha([[1, 1], [1, 1]], level="interval"), "every paired rating is 1"),
        (krippendorff_alpha([[0, 0]], level="ratio"), "every paired rating is 0"),
        (spearman([1], [1]), "fewer than two items were rated by both"),
        (spearman([1, 1], [1, 2]), "one side gives every item the same value"),
    ],
)
def test_what_is_not_defined_has_a_reason_and_no_value(agreement: Agreement, reason: str) -> None:
    assert agreement.value is None
    assert agreement.reason == reason


RATINGS = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=2, max_size=30)


@given(RATINGS)
def test_agreement_is_symmetric_and_at_most_one(pairs: list[tuple[int, int]]) -> None:
    first, second = [left for left, _ in pairs], [right for _, right in pairs]
    for measure in (cohen_kappa, spearman, raw_agreement):
        forward, backward = measure(first, second), measure(second, first)
        assert forward.value == pytest.approx(backward.value) if forward.value is not None else backward.value is None
        assert forward.value is None or forward.value <= 1.0
    levels: list[Level] = ["nominal", "ordinal", "interval"]
    for level in levels:
        alpha = krippendorff_alpha([list(pair) for pair in pairs], level=level)
        turned = krippendorff_alpha([list(pair[::-1]) for pair in pairs], level=level)
        assert alpha.value == pytest.approx(turned.value) if alpha.value is not None else turned.value is None
        assert alpha.value is None or alpha.value <= 1.0


def test_bad_input_is_refused_with_what_was_wanted_and_found() -> None:
    with pytest.raises(ScoringError, match="found 1 and 2"):
        cohen_kappa([1], [1, 2])
    with pytest.raises(ScoringError, match="found nan"):
        krippendorff_alpha([[float("nan"), 1]], level="interval")
    with pytest.raises(ScoringError, match="finite"):
        spearman([float("inf"), 1], [1, 2])
    with pytest.raises(ScoringError, match=r"ratio level, found -1\.0"):
        krippendorff_alpha([[-1, 1]], level="ratio")
    with pytest.raises(ScoringError, match="found 0 and"):
        bootstrap_interval([1], lambda units: Agreement(1.0, len(units)), rng=random.Random(1), draws=0)


MATRICES = 200


def draw_matrix(rng: random.Random, *, levels: int) -> list[list[int | None]]:
    """Two to five raters who often follow a hidden truth, 5 to 40 units, a share of them missing."""
    raters, units, missing = rng.randint(2, 5), rng.randint(5, 40), rng.choice([0.0, 0.1, 0.3])
    truth = [rng.randrange(1, levels + 1) for _ in range(units)]
    return [
        [
            None if rng.random() < missing else (value if rng.random() < 0.6 else rng.randrange(1, levels + 1))
            for value in truth
        ]
        for _ in range(raters)
    ]


def test_alpha_is_that_of_the_krippendorff_package_on_random_matrices_with_gaps() -> None:
    package: Any = importlib.import_module("krippendorff")
    rng, worst, compared = random.Random(11), 0.0, 0
    levels: list[Level] = ["nominal", "ordinal", "interval", "ratio"]
    for _ in range(MATRICES):
        matrix = draw_matrix(rng, levels=rng.randint(2, 6))
        units = [list(unit) for unit in zip(*matrix, strict=True)]
        data = [[float("nan") if value is None else float(value) for value in row] for row in matrix]
        for level in levels:
            ours = krippendorff_alpha(units, level=level).value
            if ours is not None:
                worst = max(worst, abs(ours - package.alpha(reliability_data=data, level_of_measurement=level)))
                compared += 1
    assert compared >= 4 * MATRICES - 40
    assert worst <= 1e-9


def test_kappa_is_that_of_scikit_learn_on_random_matrices_with_gaps() -> None:
    package: Any = importlib.import_module("sklearn.metrics")
    rng, worst, compared = random.Random(12), 0.0, 0
    for _ in range(MATRICES):
        levels = rng.randint(2, 6)
        categories = list(range(1, levels + 1))
        first, second = draw_matrix(rng, levels=levels)[:2]
        pairs = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
        found = cohen_kappa(first, second).value
        if found is not None:
            left, right = zip(*pairs, strict=True)
            worst = max(worst, abs(found - package.cohen_kappa_score(left, right, labels=categories)))
            compared += 1
    assert compared >= MATRICES - 10
    assert worst <= 1e-9


def kappa(drawn: Any) -> Agreement:
    return cohen_kappa([left for left, _ in drawn], [right for _, right in drawn])


def test_a_bootstrap_interval_is_repeated_by_its_seed_and_covers_the_coefficient() -> None:
    pairs = [(place % 2, place % 2 if place % 5 else 1 - place % 2) for place in range(60)]

    found = bootstrap_interval(pairs, kappa, rng=random.Random(3), draws=400)
    again = bootstrap_interval(pairs, kappa, rng=random.Random(3), draws=400)
    value = kappa(pairs).value
    assert found is not None
    assert value is not None
    assert found == again
    assert found[0] < value < found[1]
    assert bootstrap_interval([(1, 1)] * 9, kappa, rng=random.Random(3), draws=50) is None


def test_bootstrap_intervals_cover_the_true_kappa_about_as_often_as_they_say() -> None:
    """Both raters flip a fair coin's side with p = .1: agreement .82, kappa .64."""
    rng, covered, runs = random.Random(21), 0, 150

    for _ in range(runs):
        sides = [rng.random() < 0.5 for _ in range(60)]
        pairs = [(side ^ (rng.random() < 0.1), side ^ (rng.random() < 0.1)) for side in sides]
        found = bootstrap_interval(pairs, kappa, rng=rng, draws=120)
        covered += found is not None and found[0] <= 0.64 <= found[1]
    assert 0.87 <= covered / runs <= 0.99
