"""Places among several: what is not shown is not ranked."""

import random
from itertools import combinations, permutations

import pytest

from tentalis.core.learning.gate import GateError
from tentalis.core.learning.places import Place, find_places

CASES = [
    ("", [], []),
    ("a", [], [(1, 1)]),
    ("abc", ["ab", "ac", "bc"], [(1, 1), (2, 2), (3, 3)]),
    ("abc", [], [(1, 3), (1, 3), (1, 3)]),
    ("abc", ["ac"], [(1, 2), (1, 3), (2, 3)]),  # a is b, b is c, and yet a is better than c
    ("abc", ["ab", "ac"], [(1, 1), (2, 3), (2, 3)]),
    ("abc", ["ac", "bc"], [(1, 2), (1, 2), (3, 3)]),
    ("abcd", ["ac", "ad", "bd"], [(1, 2), (1, 3), (2, 4), (3, 4)]),
    ("abcd", ["da"], [(2, 4), (1, 4), (1, 4), (1, 3)]),
]


@pytest.mark.parametrize(("names", "better", "places"), CASES)
def test_places_are_those_that_what_was_shown_leaves(
    names: str, better: list[str], places: list[tuple[int, int]]
) -> None:
    found = find_places(list(names), [(one[0], one[1]) for one in better])
    assert list(found) == list(names)
    assert list(found.values()) == [Place(*place) for place in places]


def test_every_true_order_that_what_was_shown_allows_lies_within_the_places() -> None:
    lot = random.Random(7)
    for size in range(2, 6):
        names = list(range(size))
        for _ in range(30):
            true = lot.sample(names, size)
            pairs = list(combinations(true, 2))
            better = lot.sample(pairs, lot.randrange(len(pairs) + 1))
            found = find_places(names, better)
            for order in permutations(names):
                place = {name: at for at, name in enumerate(order, start=1)}
                if all(place[one] < place[other] for one, other in better):
                    assert all(found[name].best <= place[name] <= found[name].worst for name in names)


@pytest.mark.parametrize(
    ("names", "better"), [(["a", "a"], []), (["a"], [("a", "b")]), (["a", "b"], [("a", "b"), ("b", "a")])]
)
def test_what_contradicts_itself_is_no_ranking(names: list[str], better: list[tuple[str, str]]) -> None:
    with pytest.raises(GateError, match="wanted"):
        find_places(names, better)
