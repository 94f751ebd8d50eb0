"""Agreement beyond chance against published and hand-worked figures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.scoring.agreement import (
    Agreement,
    Level,
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


def test_weighted_kappa_counts_a_near_miss_less() -> None:
    first, second = [1, 2, 3], [1, 3, 3]
    # observed cost 1/3; expected (linear) (0+2+2 + 1+1+1 + 2+0+0)/9 = 1, (quadratic) (0+4+4 + 1+1+1 + 4+0+0)/9 = 15/9
    linear = weighted_kappa(first, second, categories=[1, 2, 3], weights="linear")
    assert linear.value == pytest.approx(2 / 3)
    quadratic = weighted_kappa(first, second, categories=[1, 2, 3])
    assert quadratic.value == pytest.approx(0.8)


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
        (weighted_kappa([1], [1], categories=[1, 2]), "both raters used only 1"),
        (krippendorff_alpha([], level="nominal"), "no unit was rated twice"),
        (krippendorff_alpha([[1, None], [2]], level="ordinal"), "no unit was rated twice"),
        (krippendorff_alpha([[1, 1], [1, 1]], level="interval"), "every paired rating is 1"),
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


@given(RATINGS)
def test_with_two_categories_every_weighting_is_cohen_kappa(pairs: list[tuple[int, int]]) -> None:
    first, second = [left % 2 for left, _ in pairs], [right % 2 for _, right in pairs]
    plain = cohen_kappa(first, second)
    assert weighted_kappa(first, second, categories=[0, 1]) == plain
    assert weighted_kappa(first, second, categories=[0, 1], weights="linear") == plain


def test_bad_input_is_refused_with_what_was_wanted_and_found() -> None:
    with pytest.raises(ScoringError, match="found 1 and 2"):
        cohen_kappa([1], [1, 2])
    with pytest.raises(ScoringError, match=r"wanted one of \[1, 2\], found 3"):
        weighted_kappa([1, 3], [1, 2], categories=[1, 2])
    with pytest.raises(ScoringError, match="wanted each once"):
        weighted_kappa([1], [1], categories=[1, 1])
    with pytest.raises(ScoringError, match="found nan"):
        krippendorff_alpha([[float("nan"), 1]], level="interval")
    with pytest.raises(ScoringError, match="finite"):
        spearman([float("inf"), 1], [1, 2])
