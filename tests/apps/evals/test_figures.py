"""What tries say beside their mean."""

import pytest

from apps.accounts.models import User
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.evals.figures import find_figures
from apps.evals.models import Evaluation, ItemTry
from apps.workers.models import Worker
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
    squares = sum((w * (m - mean)) ** 2 for w, m in zip(weights, means, strict=True))
    assert (found.items, found.tries) == (3, 10)
    assert found.mean == pytest.approx(mean)
    assert found.std_error == pytest.approx((squares / 6) ** 0.5)


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
