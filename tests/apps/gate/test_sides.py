"""A proof is confirmed on tasks that were drawn for its candidate alone, at the error that is left for its anchor."""

from collections.abc import Sequence

import pytest

from apps.accounts.models import Project
from apps.adapters.models import Adapter, Verdict
from apps.evals.panels import choose_panel, draw_fresh
from apps.gate.sides import CONFIRMATION, SideMeasurements
from apps.workers.models import Worker
from tentalis.core.learning.gate import LEAST_CONFIRMED, GatePolicy, compare_paired
from tests.apps.adapters.test_deployment import make_adapter
from tests.factories import make_measured, make_worker

pytestmark = pytest.mark.django_db
POLICY = GatePolicy(panel_size=60, fresh_size=20, confirm_size=50)


@pytest.fixture
def desk(project: Project) -> Worker:
    return make_worker(project, "desk", kind=Worker.Kind.DESK)


def open_sides(adapter: Adapter, policy: GatePolicy = POLICY) -> SideMeasurements:
    panel = choose_panel(adapter.worker, version=adapter.line_version, policy=policy)
    assert panel is not None
    return SideMeasurements(adapter, panel, policy)


def keep(sides: SideMeasurements, model: Adapter | None, first: Sequence[float], further: Sequence[float]) -> None:
    """What a model answered on the tasks drawn for a candidate, as if it had been asked."""
    fresh = sides.fresh
    for purpose, items, outcomes in (("fresh", fresh.first, first), ("more", fresh.further, further)):
        make_measured(
            sides.worker,
            model,
            outcomes,
            purpose=purpose,
            items=items.name,
            item_set_hash=items.hash,
            keys=items.keys,
        )


def test_first_tasks_are_the_same_whatever_a_confirmation_wants(desk: Worker) -> None:
    sides = open_sides(make_adapter(desk, 1))
    drawn = draw_fresh(sides.panel, key=sides.adapter.sha256, policy=GatePolicy(panel_size=60, fresh_size=20))
    known = {item.prompt for item in sides.panel.world.panel(60, sides.panel.seed)}
    assert (len(sides.fresh.first.items), len(sides.fresh.further.items)) == (20, 30)
    assert [item.prompt for item in drawn.first.items] == [item.prompt for item in sides.fresh.first.items]
    assert not known & {item.prompt for item in (*sides.fresh.first.items, *sides.fresh.further.items)}


def test_a_confirmation_is_measured_on_all_of_them_and_each_look_may_err_less(desk: Worker) -> None:
    anchor = make_adapter(desk, 1)
    for version, look, error in ((2, 1, 0.025), (3, 2, 0.05 / 6)):
        sides = open_sides(make_adapter(desk, version))
        keep(sides, sides.adapter, [1.0] * 20, [1.0] * 25 + [0.0] * 5)
        keep(sides, anchor, [0.0] * 10 + [1.0] * 10, [1.0] * 15 + [0.0] * 15)
        found = sides.confirm(anchor)
        assert found is not None
        mine, theirs = [1.0] * 45 + [0.0] * 5, [0.0] * 10 + [1.0] * 25 + [0.0] * 15
        assert (found.look, found.comparison.items) == (look, 50)
        wanted = compare_paired(mine, theirs, confidence=1 - 2 * error)
        assert (found.comparison.low, found.comparison.high) == pytest.approx((wanted.low, wanted.high))
        Verdict.objects.create(
            adapter=sides.adapter, question="proved", outcome="inconclusive", compared_with=anchor.name,
            details={CONFIRMATION: {}},
        )  # fmt: skip


def test_looks_at_one_anchor_are_none_at_another(desk: Worker) -> None:
    first, second = make_adapter(desk, 1), make_adapter(desk, 2)
    Verdict.objects.create(
        adapter=second, question="proved", outcome="yes", compared_with=first.name, details={CONFIRMATION: {}}
    )
    sides = open_sides(make_adapter(desk, 3))
    for model in (sides.adapter, second):
        keep(sides, model, [1.0] * 20, [1.0] * 30)
    found = sides.confirm(second)
    assert found is not None
    assert found.look == 1


def test_a_small_panel_still_has_enough_to_confirm_with(desk: Worker) -> None:
    sides = open_sides(make_adapter(desk, 1), GatePolicy(panel_size=12, fresh_size=4))
    assert (len(sides.fresh.first.items), len(sides.fresh.further.items)) == (4, LEAST_CONFIRMED - 4)


def test_a_gain_on_the_panel_alone_is_asked_of_more_tasks_before_it_is_a_suspicion(desk: Worker) -> None:
    kept = compare_paired([1.0] * 60, [0.0] * 20 + [1.0] * 40)
    by_chance, leaked = open_sides(make_adapter(desk, 1)), open_sides(make_adapter(desk, 2))
    for sides, further in ((by_chance, [1.0] * 30), (leaked, [0.0] * 30)):
        keep(sides, sides.adapter, [0.0] * 20, further)
        keep(sides, None, [0.0] * 20, [0.0] * 30)
    assert list(by_chance.suspect_leak(kept, None)) == []
    [found] = leaked.suspect_leak(kept, None)
    assert found.check == "leak"
