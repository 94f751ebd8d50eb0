"""Managers learn from audits: refitted, used or refused with words, trusted as they show, taken back when they fall."""

import random

import pytest
from pytest_django import Settings

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, ConflictError, NotAllowedError, NotFoundError
from apps.calibration.models import Comparison, Rater
from apps.calibration.selectors import weights_of
from apps.feedback.create_reviews import open_reviews
from apps.feedback.finalizing import settle_feedback
from apps.feedback.models import Feedback, StepFeedback
from apps.feedback.selectors import effective_judgement
from apps.outbox.models import Segment
from apps.pipeline import flow
from apps.scoring.services import score_tasks
from apps.tasks.models import Task
from apps.training import managers
from apps.training.models import ManagerRun
from tentalis.core.desk import HOUSE_RULES, OPTIONS, make_tickets, render_parts, solve
from tentalis.core.desk_rubric import write_rubric
from tests.apps.feedback.builders import make_desk_task
from tests.factories import make_project, make_worker

DESK = "agent:rubric:desk"
OUTDATED = {
    (family, context): next(option for option in OPTIONS[family] if option != right)
    for (family, context), right in HOUSE_RULES.items()
}


@pytest.fixture(autouse=True)
def switched_on(settings: Settings) -> None:
    settings.TENTALIS = settings.TENTALIS | {"META_RL_ENABLED": True}


@pytest.fixture
def project(db: None) -> Project:
    """Its rubric has every rule wrong; an AI manager that holds to it reviews everything."""
    return make_project(rubric=write_rubric(OUTDATED), review_policy={"who": "ai", "ai_manager": "rubric"})


def work_round(project: Project, seed: int, *, tickets: int = 6, verified: bool = True) -> list[Task]:
    """Tickets tried in each of their three options, reviewed by the rubric; the world verifies them, or does not."""
    tasks = []
    for ticket in make_tickets(random.Random(seed), tickets, held_out=False):
        texts = [render_parts(solve(ticket, option)) for option in ticket.options]
        task = make_desk_task(project, texts, prompt=ticket.text)
        score_tasks([task.pk])
        if not verified:
            task.attempts.update(outcome=None)
        open_reviews([task.pk])
        tasks.append(task)
    settle_feedback()
    return tasks


def learn(project: Project) -> ManagerRun:
    run = managers.train_manager(project=project, handle=DESK)
    assert run is not None
    return run


def rater_of(project: Project) -> Rater:
    return Rater.objects.get(project=project, handle=DESK)


def test_what_a_rubric_manager_finds_is_kept_with_its_score(project: Project) -> None:
    (task,) = work_round(project, 1, tickets=1)
    feedback = Feedback.objects.get(task=task)
    assert (feedback.author, feedback.source) == (DESK, "ai")
    assert "use " in feedback.text
    for word in StepFeedback.objects.filter(feedback=feedback):
        assert sum(name.count(": ") for name in word.items) == 1
        assert word.score in (pytest.approx(0.8176, abs=1e-3), pytest.approx(0.1824, abs=1e-3))
        assert word.comment.endswith(("+1.5", "-1.5"))


def test_before_it_learnt_anything_its_word_is_only_audited(project: Project) -> None:
    (task,) = work_round(project, 1, tickets=1, verified=False)
    assert Feedback.objects.get(task=task).trust == 0.0
    assert {one.reward_source for one in effective_judgement(task).values()} == {"scorers"}


def test_where_managers_do_not_learn_the_rubric_counts_at_once(project: Project, settings: Settings) -> None:
    settings.TENTALIS = settings.TENTALIS | {"META_RL_ENABLED": False}
    (task,) = work_round(project, 1, tickets=1, verified=False)
    assert {one.reward_source for one in effective_judgement(task).values()} == {"ai"}


def test_an_outdated_rubric_is_refitted_until_it_judges_as_the_world_does(project: Project) -> None:
    work_round(project, 1)
    first = learn(project)
    assert rater_of(project).gate == 0.0
    assert first.audits == 18
    work_round(project, 2)
    second = learn(project)
    first.refresh_from_db()
    assert (first.state, second.state, second.parent) == ("replaced", "applied", first)
    assert second.metrics["auc_after"] > second.metrics["control"]
    rater = rater_of(project)
    assert rater.rubric["weights"] == second.weights
    assert rater.gate == pytest.approx(second.metrics["gate"])
    (task,) = work_round(project, 3, tickets=1)
    for attempt in task.attempts.all():
        said = StepFeedback.objects.get(feedback__task=task, attempt=attempt, step=None).score or 0.0
        assert (said > 0.5) == (attempt.outcome == 1.0)
    assert f"use {solve_option(task)}" in Feedback.objects.get(task=task).text


def solve_option(task: Task) -> str:
    """The house's option: the one of the attempt the world found right."""
    right = task.attempts.get(outcome=1.0)
    step = right.steps.get(index=0 if right.steps.filter(index=0, kind="call").exists() else 1)
    return step.text.partition(" ")[0]


def test_its_gate_is_the_weight_of_what_only_it_judged(project: Project) -> None:
    for seed in (1, 2):
        work_round(project, seed)
        learn(project)
    Rater.objects.filter(handle=DESK).update(gate=0.25)
    (task,) = work_round(project, 3, tickets=1, verified=False)
    judgements = effective_judgement(task).values()
    assert {one.reward_source for one in judgements} == {"ai"}
    assert {one.weight for one in judgements} == {0.25}
    assert weights_of(project.pk, [DESK]) == {DESK: 0.25}


def test_a_refitted_manager_starts_as_an_unknown_one(project: Project) -> None:
    for seed in (1, 2):
        work_round(project, seed)
    before = rater_of(project)
    assert before.weight < 0.5
    learn(project)
    after = rater_of(project)
    assert (after.weight, after.audited, after.quarantined_at) == (1.0, 0, None)
    assert after.counted_from is not None


def test_nothing_new_audited_is_nothing_to_learn(project: Project) -> None:
    work_round(project, 1)
    learn(project)
    assert managers.train_manager(project=project, handle=DESK) is None
    assert ManagerRun.objects.count() == 1


def test_too_few_audits_are_refused_in_words_and_audited(project: Project) -> None:
    work_round(project, 1, tickets=1)
    run = learn(project)
    assert (run.state, rater_of(project).gate) == ("refused", 0.0)
    assert run.words.startswith("wanted 4 good and as many bad audits, found 1 and 2")
    kinds = list(AuditEntry.objects.filter(subject_type="managerrun").order_by("id").values_list("kind", flat=True))
    assert kinds == ["manager.fitted", "manager.refused"]


def test_a_fit_that_falls_goes_back_to_the_weights_before(project: Project) -> None:
    """The rules change back to what the rubric says: the fit judges all of it wrong, the written weights right."""
    work_round(project, 1)
    fit = learn(project)
    assert fit.state == "applied"
    work_round(project, 2)
    last = Comparison.objects.filter(pk__gt=fit.metrics["until"], step=None)
    for one in last:
        Comparison.objects.filter(pk=one.pk).update(truth=float(one.said < 0.5))
    run = learn(project)
    assert (run.pk, run.state) == (fit.pk, "rolled_back")
    assert run.words.startswith("fell: AUC 0.00")
    rater = rater_of(project)
    assert rater.rubric["weights"] == fit.before
    assert managers.train_manager(project=project, handle=DESK) is None
    assert AuditEntry.objects.filter(kind="manager.rolled_back", subject_id=fit.pk).exists()


def test_a_person_rolls_a_fit_back_with_a_reason(project: Project, alice: User, charlie: User) -> None:
    for seed in (1, 2):
        work_round(project, seed)
        learn(project)
    first, second = ManagerRun.objects.order_by("id")
    assert (first.state, second.state) == ("replaced", "applied")
    with pytest.raises(BadInputError, match="wanted 1 to 300 characters"):
        managers.roll_back_manager(run=second, by=alice, reason=" ")
    with pytest.raises((NotAllowedError, NotFoundError)):
        managers.roll_back_manager(run=second, by=charlie, reason="no")
    with pytest.raises(ConflictError, match="is not in use: it is replaced"):
        managers.roll_back_manager(run=first, by=alice, reason="no")
    managers.roll_back_manager(run=second, by=alice, reason="it forgot the returns")
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.state, second.state) == ("applied", "rolled_back")
    assert second.words == "by alice: it forgot the returns"
    assert rater_of(project).rubric["weights"] == first.weights


def test_a_rubric_written_anew_outdates_its_refit(project: Project) -> None:
    work_round(project, 1)
    learn(project)
    Project.objects.filter(pk=project.pk).update(rubric=write_rubric(HOUSE_RULES))
    project.refresh_from_db()
    (task,) = work_round(project, 2, tickets=1)
    scores = StepFeedback.objects.filter(feedback__task=task).values_list("score", flat=True)
    assert {round(score or 0.0, 2) for score in scores} == {0.82, 0.18}


def test_a_rubric_that_cannot_be_read_is_no_word(project: Project) -> None:
    Project.objects.filter(pk=project.pk).update(rubric="order, new: room")
    project.refresh_from_db()
    (task,) = work_round(project, 1, tickets=1)
    assert not Feedback.objects.filter(task=task).exists()
    assert "wanted one of ship, gift, plain" in task.reviews.get().reason


def test_a_judged_adapter_starts_the_managers_learning_where_it_is_on(project: Project, settings: Settings) -> None:
    worker = make_worker(project)
    adapter = Adapter.objects.create(
        project=project,
        worker=worker,
        version=1,
        line_version=1,
        name="echo@v1-00",
        run_id=7,
        uri="file:///x",
        sha256="0" * 64,
        manifest={},
    )
    flow.train_after_adoption([adapter.pk])
    assert list(Segment.objects.values_list("kind", "subject_id", "links")) == [("meta", 7, ["training.meta_train"])]
    settings.TENTALIS = settings.TENTALIS | {"META_RL_ENABLED": False}
    Segment.objects.all().delete()
    flow.train_after_adoption([adapter.pk])
    assert not Segment.objects.exists()
