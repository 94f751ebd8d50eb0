"""What learning cost beside what it brought, drawn and said; gates and alarms in words."""

import re
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter
from apps.console.selectors.cost_benefit import HEIGHT, LEFT, RIGHT, WIDTH, draw_returns
from apps.console.words_learning import ALARMS, GATES, explain_alarms, explain_gates
from apps.training.cost_benefit import Gain, Outcome, Return, Returns, Spent
from apps.training.models import TrainingRun
from apps.workers.models import Worker
from tests.e2e.scenery import build_scene

CORE = Path(__file__).resolve().parent.parent.parent.parent / "tentalis" / "core" / "learning"
NOTHING = Gain(outcome=Outcome.UNMEASURED, words="nothing")


def make_returns(*rows: tuple[float | None, float | None, float | None, str]) -> Returns:
    """(seconds on the box until then, minutes of people until then, accuracy, the adapter's state) of each run."""
    made = [
        Return(
            run=TrainingRun(pk=number),
            adapter=Adapter(name=f"desk@v{number}", version=number, state=state),
            spent=Spent(),
            gain=NOTHING,
            accuracy=(accuracy, 100) if accuracy is not None else None,
            until=Spent(gpu_s=gpu_s, human_minutes=minutes),
        )
        for number, (gpu_s, minutes, accuracy, state) in enumerate(rows, start=1)
    ]
    total = Return(spent=Spent(), gain=NOTHING)
    return Returns(
        worker=Worker(name="desk"), base=(0.25, 100), rows=made, earlier=0, total=total, beside=Spent(), beside_count=0
    )


def test_the_base_model_stands_at_no_cost_and_each_model_at_all_that_was_spent_until_then() -> None:
    found = make_returns((300.0, None, 0.5, "retired"), (600.0, None, None, "retired"), (1200.0, None, 1.0, "deployed"))
    drawing, *others = draw_returns(found)
    assert others == []  # nobody's minutes were measured, so nothing is drawn over them
    assert drawing.axis == "minutes"
    assert [dot.x for dot in drawing.dots] == [LEFT, LEFT + (WIDTH - LEFT - RIGHT) / 4, WIDTH - RIGHT]
    assert [tick.label for tick in drawing.across] == ["0", "5", "10", "15", "20"]
    assert drawing.dots[0].y > drawing.dots[1].y > drawing.dots[2].y
    assert all(0 <= dot.high <= dot.y <= dot.low <= HEIGHT for dot in drawing.dots)


def test_what_may_not_serve_is_shown_and_is_not_on_the_way() -> None:
    found = make_returns((60.0, 2.0, 0.5, "refused"), (120.0, 4.0, 0.6, "quarantined"), (180.0, 6.0, 0.7, "deployed"))
    for drawing in draw_returns(found):
        assert [dot.is_refused for dot in drawing.dots] == [False, True, True, False]
        assert drawing.path.count("L") == 1


def test_nothing_is_drawn_where_no_cost_is_known() -> None:
    assert draw_returns(make_returns((None, None, 0.5, "deployed"))) == []


@pytest.mark.django_db
def test_a_page_of_a_worker_that_is_not_there_is_not_there(project: Project, alice: User, client: Client) -> None:
    client.force_login(alice)
    address = reverse("console:returns", args=[project.slug])
    assert client.get(address).status_code == 200
    assert client.get(address, {"worker": "nobody"}).status_code == 404


@pytest.mark.django_db
def test_the_run_page_divides_only_what_is_proved(client: Client) -> None:
    scene = build_scene(updates=4)
    client.force_login(scene.alice)
    runs = list(scene.worker.runs.filter(state="succeeded").order_by("pk"))
    pages = [client.get(reverse("console:run", args=[scene.project.slug, run.pk])).content.decode() for run in runs]
    assert "it gained" in pages[0]
    assert "no significant gain" not in pages[0]
    assert "no gain is proved, no loss either" in pages[-1]
    assert "no significant gain" in pages[-1]
    assert "too little time was measured" not in pages[0]
    runs[0].cost |= {"gpu_s": 0.01}
    runs[0].save()
    page = client.get(reverse("console:run", args=[scene.project.slug, runs[0].pk])).content.decode()
    assert "too little time was measured" in page


def test_each_gate_and_each_detector_says_what_to_do() -> None:
    assert set(GATES) == {f"G{number}" for number in range(1, 14)}
    text = (CORE / "monitors.py").read_text() + (CORE / "collapse.py").read_text()
    told = re.findall(r'_(?:above|below)\(\s*"(\w+)"|detector="(\w+)"|^ {8,12}\(?"(\w+)",$', text, re.M)
    detectors = {name for names in told for name in names if name}
    assert {"entropy_ratio", "proxy_gap", "self_overlap", "logprob_drift", "not_finite"} <= detectors
    assert detectors <= set(ALARMS)


def test_gates_stand_in_the_order_of_their_numbers_and_unknown_ones_are_shown_too() -> None:
    answers = [{"gate": gate, "passed": True, "words": "w"} for gate in ("G10", "G2", "G77")]
    assert [one.gate for one in explain_gates(answers)] == ["G2", "G10", "G77"]
    assert explain_alarms([{"detector": "new", "words": "odd"}])[0].words == "odd"
