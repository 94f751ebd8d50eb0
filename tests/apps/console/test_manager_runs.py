"""What managers learnt, on the quality page and on a page of its own; back to the weights before by a button."""

import pytest
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.training.models import ManagerRun, TrainingRun
from tests.apps.console.builders import sign_in
from tests.apps.console.test_quality import look
from tests.e2e.quality_scenery import let_a_manager_learn
from tests.factories import make_user, make_worker


@pytest.fixture
def fits(project: Project) -> list[ManagerRun]:
    let_a_manager_learn(project)
    return list(ManagerRun.objects.order_by("pk"))


def test_the_quality_page_lists_every_fit_with_why(alice: User, fits: list[ManagerRun]) -> None:
    html = look(alice, "quality")
    for words in ("Calibration of AI managers", "rubric:desk", "In use", "Refused", "Replaced", "found 3 and 13"):
        assert words in html


def test_a_reviewer_is_not_shown_what_managers_learnt(bob: User, fits: list[ManagerRun]) -> None:
    assert "Calibration of AI managers" not in look(bob, "quality")


def test_a_fit_shows_its_weights_before_and_after_and_its_curve(alice: User, fits: list[ManagerRun]) -> None:
    html = look(alice, "manager-run", fits[2].pk)
    for words in (
        "order, new: ship",
        "−1.50",
        "2.40",
        "3.90",
        "0.94",
        "0.77",
        "An observation, no experiment",
        "Roll back",
    ):
        assert words in html
    assert html.count('<th scope="row" class="right" data-value=') == 3
    assert "Roll back" not in look(alice, "manager-run", fits[1].pk)


def test_a_managers_adapter_shows_what_it_is_and_what_trained_it(alice: User, project: Project) -> None:
    worker = make_worker(project, "desk", "desk")
    run = TrainingRun.objects.create(project=project, worker=worker, purpose="manager", recipe={}, recipe_hash="0")
    fit = ManagerRun.objects.create(
        project=project,
        manager="agent:verdict:desk",
        kind="adapter",
        state="applied",
        run=run,
        adapter={"name": "shop.desk.verdict@v1-00000000", "uri": "file:///x", "sha256": "0" * 64},
        audits=81,
        metrics={
            "held_out": [7, 8, 9],
            "auc_before": 0.52,
            "auc_before_interval": [0.35, 0.69],
            "auc_after": 0.86,
            "auc_after_interval": [0.71, 1.0],
            "control": 0.5,
            "gate": 0.0,
        },
    )
    waiting = ManagerRun.objects.create(project=project, manager=fit.manager, kind="adapter", run=run)
    html = look(alice, "manager-run", fit.pk)
    for words in ("shop.desk.verdict@v1-00000000", "81 audits", "3 audits it had not seen", "AUC trained", "0.86"):
        assert words in html
    assert "Weights of the rubric" not in html
    assert f"/runs/{run.pk}" in html
    assert "not measured" in look(alice, "manager-run", waiting.pk)
    assert "Being trained" in look(alice, "quality")


def test_a_fit_of_another_project_is_not_found(alice: User, fits: list[ManagerRun]) -> None:
    assert sign_in(alice).get(reverse("console:manager-run", args=("shop", 99_999))).status_code == 404


def test_the_button_takes_a_reason_and_rolls_back(alice: User, fits: list[ManagerRun]) -> None:
    path = reverse("console:manager-roll-back", args=("shop", fits[2].pk))
    page = sign_in(alice).post(path, {"reason": ""}, follow=True)
    assert "wanted 1 to 300 characters" in page.content.decode()
    page = sign_in(alice).post(path, {"reason": "it forgot the returns"}, follow=True)
    assert "It judges by what was before again." in page.content.decode()
    fits[2].refresh_from_db()
    assert (fits[2].state, fits[2].words) == ("rolled_back", "by alice: it forgot the returns")


def test_a_viewer_reads_and_may_not_roll_back(project: Project, fits: list[ManagerRun]) -> None:
    viewer = make_user("vera")
    project.members.create(user=viewer, role="viewer")
    assert sign_in(viewer).post(reverse("console:manager-roll-back", args=("shop", fits[2].pk))).status_code == 403
    assert "Roll back" not in look(viewer, "manager-run", fits[2].pk)
