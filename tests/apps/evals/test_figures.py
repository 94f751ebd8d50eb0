"""What tries say beside their mean."""

import pytest

from apps.accounts.models import User
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.evals.figures import find_figures
from apps.evals.models import Evaluation, ItemTry
from apps.workers.models import Worker
from tentalis.core.scoring.run_figures import ItemKind, find_accuracy, find_mean
from tests.edges.caller import Caller

pytestmark = pytest.mark.django_db

OUTCOMES: tuple[tuple[float, tuple[float | None, ...]], ...] = (
    (1.0, (1.0, 1.0, 0.0, 1.0)),
    (1.0, (0.0, 0.0, 0.0, 0.0)),
    (2.0, (1.0, None, 0.5, None)),
    (1.0, (None, None, None, None)),
)


@pytest.fixture
def evaluation(worker: Worker) -> Evaluation:
    made = Evaluation.objects.create(
        project=worker.project, worker=worker, purpose="report", item_set="numbers", tries=4, planned=16
    )
    ItemTry.objects.bulk_create(
        ItemTry(
            evaluation=made, place=place, key=place, number=number, weight=weight, outcome=outcome,
            cause="" if outcome is not None else "infrastructure", reason="",
        )
        for place, (weight, tries) in enumerate(OUTCOMES)
        for number, outcome in enumerate(tries)
    )  # fmt: skip
    return made


def test_tries_of_an_item_are_one_cluster_and_weigh_as_it_does(evaluation: Evaluation) -> None:
    found = find_figures(evaluation)
    means, weights = (0.75, 0.0, 0.75), (0.75, 0.75, 1.5)  # mean 1
    mean = sum(w * m for w, m in zip(weights, means, strict=True)) / 3
    shares = (0.25, 0.25, 0.5)  # Q = 3/8; the heavy item lies no further off than the others
    squares = [(m - mean) ** 2 for m in means]
    of_one = sum(a * square for a, square in zip(shares, squares, strict=True)) / (1 - 3 / 8)
    of_mean = sum(a**2 * square / (1 - 2 * a + 3 / 8) for a, square in zip(shares, squares, strict=True))
    assert (found.items, found.tries) == (3, 10)
    assert found.mean == pytest.approx(mean)
    assert found.std_error == pytest.approx(max(of_one * 3 / 8, of_mean) ** 0.5)


def test_one_item_of_nearly_all_weight_tells_next_to_nothing() -> None:
    """Linearised, twelve of twenty right were 98 %, from 81 to 100."""
    kinds = [ItemKind(1, 380.0, 1, 1, 1, 1.0), ItemKind(11, 1.0, 1, 1, 1, 1.0), ItemKind(8, 1.0, 1, 1, 0, 0.0)]
    accuracy, mean = find_accuracy(kinds), find_mean(kinds)
    assert accuracy is not None
    assert mean is not None
    assert (accuracy.low, accuracy.high) == (0.0, 1.0)
    assert (mean.low, mean.high) == (0.0, 1.0)


def test_what_is_unscored_bounds_what_is_known(evaluation: Evaluation) -> None:
    found = find_figures(evaluation)
    assert found.lowest == pytest.approx((0.75 + 0.0 + 2 * 0.375 + 0.0) / 5)
    assert found.highest == pytest.approx((0.75 + 0.0 + 2 * 0.875 + 1.0) / 5)
    assert found.lowest is not None
    assert found.mean is not None
    assert found.highest is not None
    assert found.lowest <= found.mean <= found.highest
    assert found.causes == {"infrastructure": 6}


def test_passes_count_items_with_as_many_outcomes(evaluation: Evaluation) -> None:
    passes = {one.k: one for one in find_figures(evaluation).passes}
    assert [one.items for one in passes.values()] == [3, 3, 2, 2]
    assert passes[1].any == passes[1].all == pytest.approx((3 / 4 + 0 + 1 / 2) / 3)
    assert passes[2].any == pytest.approx((1.0 + 0.0 + 1.0) / 3)
    assert passes[2].all == pytest.approx((1 / 2 + 0.0 + 0.0) / 3)
    assert (passes[4].any, passes[4].all) == (0.5, 0.0)


def test_nothing_tried_is_nothing_known(worker: Worker) -> None:
    fresh = Evaluation.objects.create(
        project=worker.project, worker=worker, purpose="report", item_set="none", planned=1
    )
    found = find_figures(fresh)
    assert (found.mean, found.std_error, found.lowest, found.highest, found.passes) == (None, None, None, None, [])


def test_they_are_told_over_rest(evaluation: Evaluation, alice: User) -> None:
    _, text = create_token(user=alice, name="test", scopes=Right.values, project=None, by=alice)
    told = Caller(text).send("GET", f"evaluations/{evaluation.pk}/figures")
    assert told.status == 200
    assert told.body["passes"][3] == {"k": 4, "items": 2, "any": 0.5, "all": 0.0}
    assert told.body["causes"] == {"infrastructure": 6}
