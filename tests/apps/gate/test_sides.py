"""A proof is confirmed on tasks that were drawn for its candidate alone, at the error that is left for its anchor."""

from collections.abc import Sequence
from dataclasses import asdict, replace

import pytest

from apps.accounts.models import Project
from apps.adapters.models import Adapter, Verdict
from apps.evals.models import Evaluation
from apps.evals.panels import choose_panel
from apps.gate.sides import CONFIRMATION, SideMeasurements
from apps.workers.models import Worker
from tentalis.core.learning.collapse import AnswerProfile
from tentalis.core.learning.gate import LEAST_CONFIRMED, Direction, GatePolicy, compare_paired
from tentalis.core.learning.sequential import Looks
from tests.apps.adapters.test_deployment import make_adapter
from tests.factories import make_measured, make_worker

pytestmark = pytest.mark.django_db
QUIET = AnswerProfile(
    answers=300, broken_tag_rate=0.0, missing_end_rate=0.0, entropy_nats=1.0, length_tokens=20.0, self_overlap=0.0
)
POLICY = GatePolicy(panel_size=60, fresh_size=20, confirm_size=50)


@pytest.fixture
def desk(project: Project) -> Worker:
    return make_worker(project, "desk", kind="desk")


def open_sides(adapter: Adapter, policy: GatePolicy = POLICY) -> SideMeasurements:
    panel = choose_panel(adapter.worker, version=adapter.line_version, policy=policy)
    assert panel is not None
    return SideMeasurements(adapter, panel, policy)


def keep(sides: SideMeasurements, model: Adapter | None, outcomes: Sequence[float]) -> None:
    """What a model answered on the tasks drawn for a candidate, as if it had been asked."""
    fresh = sides.fresh
    make_measured(
        sides.worker, model, outcomes, purpose="fresh", items=fresh.name, item_set_hash=fresh.hash, keys=fresh.keys
    )


def test_tasks_drawn_anew_are_none_of_the_panels(desk: Worker) -> None:
    sides = open_sides(make_adapter(desk, 1))
    known = {item.prompt for item in sides.panel.world.panel(60, sides.panel.seed)}
    assert len(sides.fresh.items) == 50
    assert not known & {item.prompt for item in sides.fresh.items}


def test_a_confirmation_stops_at_its_level_and_each_look_may_err_less(desk: Worker) -> None:
    anchor = make_adapter(desk, 1)
    for version, look, error in ((2, 1, 0.025), (3, 2, 0.05 / 6)):
        sides = open_sides(make_adapter(desk, version))
        keep(sides, sides.adapter, [1.0] * 50)
        keep(sides, anchor, [0.0, 1.0] * 25)
        found = sides.confirm(anchor, Direction.BETTER)
        assert found is not None
        assert (found.look, found.comparison.items) == (look, 30), "half of them were enough"
        level = Looks(50, confidence=1 - 2 * error).look(30)
        wanted = compare_paired([1.0] * 30, [0.0, 1.0] * 15, confidence=level)
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
        keep(sides, model, [1.0] * 50)
    found = sides.confirm(second, Direction.BETTER)
    assert found is not None
    assert found.look == 1


def test_a_small_panel_still_has_enough_to_confirm_with(desk: Worker) -> None:
    sides = open_sides(make_adapter(desk, 1), GatePolicy(panel_size=12, fresh_size=4))
    assert len(sides.fresh.items) == LEAST_CONFIRMED


@pytest.mark.parametrize(("unended", "raised"), [(0.0, []), (0.5, ["missing_end"])])
def test_alarms_are_asked_of_what_a_confirmation_tried_too(desk: Worker, unended: float, raised: Sequence[str]) -> None:
    sides = open_sides(make_adapter(desk, 1))
    panel, fresh = sides.panel.item_set, sides.fresh
    for model, rate in ((sides.adapter, unended), (None, 0.0)):
        for purpose, asked, is_missing in (("panel", panel, 0.0), ("fresh", fresh, rate)):
            outcomes = [1.0 if model else float(place % 2) for place in range(len(asked.keys))]
            kept = make_measured(
                desk, model, outcomes, purpose=purpose, items=asked.name, item_set_hash=asked.hash, keys=asked.keys
            )
            profile = replace(QUIET, answers=len(outcomes), missing_end_rate=is_missing)
            Evaluation.objects.filter(pk=kept.pk).update(profile=asdict(profile))
    sides.compare_kept(None, len(panel.keys))
    assert sides.confirm(None, Direction.BETTER) is not None
    found = sides.ask_alarms()
    assert [one.detector for one in found] == raised
    if found:
        assert "no end in 22.7% of answers, 0.0% in the base's" in found[0].words, "25 of 60 and 50"
