"""Scoring a task: what is stored when every scorer can, when some cannot, and when none can."""

from typing import Any

import pytest

from apps.accounts.models import Member, Project
from apps.audit.models import AuditEntry
from apps.feedback.managers.manager import ManagerWord, NoWord
from apps.feedback.managers.rule_book import RuleBookManager
from apps.feedback.selectors import effective_judgement
from apps.feedback.submit import give_task_feedback
from apps.scoring.models import StepScore
from apps.scoring.services import find_profile, score_tasks
from apps.tasks.models import Attempt, Task
from apps.tasks.verifying import read_verification
from apps.worlds.desk.world import DeskWorld
from apps.worlds.identity import name_world
from apps.worlds.registry import get_world
from tentalis.core.scoring.protocol import ScoringError
from tentalis.core.worlds import AttemptDraft
from tests.apps.feedback.builders import make_chat_task, make_desk_task, write_answer
from tests.factories import make_user


def scores_of(attempt: Attempt) -> dict[tuple[str, int | None], float | None]:
    """(scorer, step index) -> score."""
    return {
        (scorer, step): score
        for scorer, step, score in attempt.step_scores.values_list("scorer", "step__index", "score")
    }


def test_a_desk_attempt_is_scored_as_worked_by_hand(project: Project) -> None:
    task = make_desk_task(project, [write_answer(), write_answer("gift"), write_answer(with_unit=False)])
    score_tasks([task.pk])
    right, wrong_rule, no_unit = task.attempts.all()
    assert scores_of(right) == {
        ("outcome", None): 1.0,
        ("step_verifier", None): 1.0,
        ("step_verifier", 0): 1.0,
        ("step_verifier", 1): 1.0,
        ("step_verifier", 2): 1.0,
    }
    assert scores_of(wrong_rule) == {
        ("outcome", None): 0.0,
        ("step_verifier", None): pytest.approx(1 / 3),
        ("step_verifier", 0): 1.0,
        ("step_verifier", 1): 0.0,
        ("step_verifier", 2): 0.0,
    }
    reason = wrong_rule.step_scores.get(step__index=1).reason
    assert reason == "the house rule is 'ship', found 'gift 12 - 3 = 9'"
    assert [attempt.outcome for attempt in (right, wrong_rule, no_unit)] == [1.0, 0.0, 0.0]
    assert [attempt.score for attempt in (right, wrong_rule, no_unit)] == [
        1.0,
        pytest.approx(1 / 6),
        pytest.approx(2.3 / 6),
    ]
    task.refresh_from_db()
    assert (task.state, task.answer) == (Task.State.SCORING, "17 EUR")
    assert task.score == pytest.approx((1 + 1 / 6 + 2.3 / 6) / 3)
    entry = AuditEntry.objects.get()
    assert (entry.kind, entry.payload["unscored"]) == ("task.scored", [])


def test_steps_that_are_missing_lower_the_verifiers_score_of_the_whole(project: Project) -> None:
    task = make_desk_task(project, ["<step> 3 * 4 = 12</step>"])
    score_tasks([task.pk])
    attempt = task.attempts.get()
    assert attempt.missing_steps == 2
    assert scores_of(attempt)["step_verifier", None] == pytest.approx(1 / 3)


def test_without_a_judge_a_chat_task_is_not_scored_by_effort_alone(project: Project) -> None:
    task = make_chat_task(project, ["first"])
    score_tasks([task.pk])
    attempt = task.attempts.get()
    assert scores_of(attempt) == {
        ("prm", None): None,
        ("hallucination", None): None,
        ("effort", None): pytest.approx(2 / 3),
    }
    assert attempt.score is None
    assert attempt.score_details["weights"] == {}
    assert attempt.score_details["redistributed"] == [
        {"scorer": "prm", "weight": 0.6, "reason": "no model is configured to judge it"},
        {
            "scorer": "hallucination",
            "weight": 0.3,
            "reason": "it claims nothing that rules can look up; no model is configured to judge it",
        },
        {"scorer": "effort", "weight": 0.1, "reason": "nothing said whether it is right"},
    ]
    assert "its 0.60 had nobody to go to" in attempt.score_details["words"]
    assert AuditEntry.objects.get().payload["unscored"] == ["effort", "hallucination", "prm"]


def test_what_was_verified_comes_first_and_stands_where_nobody_scored(project: Project) -> None:
    task = make_chat_task(project, ["A long answer with many words", "7"], reference=7)
    score_tasks([task.pk])
    task.refresh_from_db()
    assert list(task.attempts.order_by("index").values_list("score", "outcome")) == [(None, 0.0), (None, 1.0)]
    assert (task.score, task.answer) == (0.5, "7")


def test_an_overall_score_orders_no_attempts_that_nothing_else_orders(project: Project) -> None:
    bob = make_user("bob")
    Member.objects.get_or_create(project=project, user=bob, defaults={"role": "reviewer"})
    task = make_chat_task(project, ["13", "The sum of six and seven, as everybody knows who can count, is 14"])
    score_tasks([task.pk])
    give_task_feedback(task=task, by=bob, score=0.8)
    assert [one.reward for one in effective_judgement(task).values()] == [0.8, 0.8]


@pytest.mark.parametrize("environment", ["moon", "mars", "chat"])
def test_what_an_environment_cannot_measure_is_unscored_and_never_a_number(project: Project, environment: str) -> None:
    task = make_chat_task(project, environment=environment)
    project.weight_profiles = {
        environment: {"tests": 0.25, "diff_size": 0.25, "action_validity": 0.25, "success": 0.25}
    }
    project.save()
    score_tasks([task.pk])
    task.refresh_from_db()
    assert task.score is None
    for attempt in task.attempts.all():
        assert attempt.score is None
        assert attempt.score_details["weights"] == {}
        assert "had nobody to go to" in attempt.score_details["words"]
        reasons = dict(attempt.step_scores.values_list("scorer", "reason"))
        if environment == "chat":
            assert reasons["tests"] == "the environment measured no tests_passed of tests_run"
            assert reasons["diff_size"] == "the environment measured no changed_lines and no expected_lines"
            assert "has nothing to verify this task by" in reasons["success"]
            assert attempt.verification is None
        else:
            assert all("wanted one of chat, bfcl" in reason for reason in reasons.values())
            assert "wanted one of chat, bfcl" in str(attempt.verification)


def test_an_attempt_that_failed_is_unscored_and_the_others_are_not(project: Project) -> None:
    task = make_desk_task(project, [write_answer(), ""])
    Attempt.objects.filter(index=1).update(state=Attempt.State.FAILED, error="the engine went away")
    score_tasks([task.pk])
    good, failed = task.attempts.all()
    assert (good.score, failed.score, failed.outcome) == (1.0, None, None)
    reasons = set(failed.step_scores.values_list("reason", flat=True))
    assert reasons == {"the attempt failed: the engine went away"}
    task.refresh_from_db()
    assert (task.score, task.answer) == (1.0, "17 EUR")


def test_a_second_run_finds_the_scores_and_writes_nothing(project: Project) -> None:
    task = make_desk_task(project, [write_answer(), write_answer("gift")])
    score_tasks([task.pk])
    before = list(StepScore.objects.order_by("id").values())
    score_tasks([task.pk])
    assert list(StepScore.objects.order_by("id").values()) == before
    assert AuditEntry.objects.count() == 1


def test_a_projects_own_weights_stand_in_for_the_built_in_ones(project: Project) -> None:
    project.weight_profiles = {"desk": {"step_verifier": 1.0}}
    project.save()
    task = make_desk_task(project, [write_answer("gift")])
    score_tasks([task.pk])
    attempt = task.attempts.get()
    assert attempt.score == pytest.approx(1 / 3)
    assert attempt.outcome == 0.0
    assert find_profile(project, "chat").weights["prm"] == 0.6


def test_weights_that_cannot_be_used_stop_the_scoring_by_name(project: Project) -> None:
    project.weight_profiles = {"desk": {"outcome": 0.5}}
    project.save()
    task = make_desk_task(project, [write_answer()])
    with pytest.raises(ScoringError, match=r"found 0\.5"):
        score_tasks([task.pk])
    assert not StepScore.objects.exists()


@pytest.mark.parametrize(
    ("metadata", "effort", "efficiency"),
    [
        ({}, 2 / 3, 1.0),
        ({"expected_steps": 1}, 1.0, 0.5),
        ({"expected_steps": 2}, 1.0, 1.0),
        ({"expected_steps": -1}, 2 / 3, 1.0),
    ],
)
def test_how_many_steps_are_expected_is_the_tasks_to_say(
    project: Project, metadata: dict[str, Any], effort: float, efficiency: float
) -> None:
    project.weight_profiles = {"chat": {"effort": 0.5, "efficiency": 0.5}}
    project.save()
    task = make_chat_task(project, ["first"], metadata=metadata)
    score_tasks([task.pk])
    found = scores_of(task.attempts.get())
    assert found == {("effort", None): pytest.approx(effort), ("efficiency", None): pytest.approx(efficiency)}


def test_a_chat_answer_is_checked_against_its_reference(project: Project) -> None:
    project.weight_profiles = {"chat": {"outcome": 0.5, "step_verifier": 0.5}}
    project.save()
    task = make_chat_task(project, ["first", "second"], reference="second")
    score_tasks([task.pk])
    assert [(attempt.outcome, attempt.score) for attempt in task.attempts.all()] == [(0.0, 0.0), (1.0, 1.0)]
    step = StepScore.objects.filter(step__isnull=False).first()
    assert step is not None
    assert (step.score, step.reason) == (None, "only the answer has a reference")


def test_a_verification_is_stored_once_whole_and_read_by_everybody(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = make_desk_task(project, [write_answer(), write_answer("gift")])
    score_tasks([task.pk])
    monkeypatch.setattr(DeskWorld, "verify", lambda *told: pytest.fail("it was verified a second time"))
    good, bad = (read_verification(attempt) for attempt in task.attempts.all())
    assert good is not None
    assert bad is not None
    assert (good.outcome, bad.outcome, good.grader) == (1.0, 0.0, name_world(get_world("desk")))
    assert list(good.step_scores) == [1.0, 1.0, 1.0]
    assert "house rule is 'ship'" in bad.step_reasons[1]
    said = RuleBookManager().review(task, list(task.attempts.all()))
    assert isinstance(said, ManagerWord)
    assert said.score == 0.5
    Attempt.objects.update(verification=None)
    old = read_verification(task.attempts.get(index=0))
    assert old is not None
    assert (old.outcome, list(old.step_scores)) == (1.0, [])


def test_what_could_not_be_verified_is_unscored_with_its_cause_and_moves_no_mean(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify = DeskWorld.verify

    def fail_at_times(world: DeskWorld, prompt: str, reference: Any, draft: AttemptDraft) -> Any:
        if "gift" in draft.text:
            raise OSError("the sandbox went away")
        return verify(world, prompt, reference, draft)

    monkeypatch.setattr(DeskWorld, "verify", fail_at_times)
    task = make_desk_task(project, [write_answer(), write_answer("gift")])
    score_tasks([task.pk])
    task.refresh_from_db()
    good, lost = task.attempts.all()
    assert (task.score, good.score, lost.score, lost.outcome) == (1.0, 1.0, None, None)
    assert "it could not be verified: OSError: the sandbox went away" in str(lost.verification)
    assert {"the sandbox went away" in score.reason for score in lost.step_scores.all()} == {True}
    assert [one.reward for one in effective_judgement(task).values()] == [1.0, None]
    said = RuleBookManager().review(task, [good, lost])
    assert isinstance(said, ManagerWord)
    assert list(said.attempts) == [good.pk]
    assert isinstance(RuleBookManager().review(task, [lost]), NoWord)
