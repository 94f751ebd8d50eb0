"""Whose word counts: a person's, then the world's, an app's, an AI manager's, the scorers'."""

from typing import Any

import pytest

from apps.accounts.models import Member, Project, Role, User
from apps.calibration.selectors import weights_of
from apps.feedback.hints import extract_hints
from apps.feedback.judgement import StepRating
from apps.feedback.models import Feedback
from apps.feedback.selectors import effective_judgement, effective_judgements
from apps.feedback.submit import give_task_feedback
from apps.scoring.models import StepScore
from apps.tasks.models import Attempt, Step, Task
from tentalis.core.learning.rewards import EffectiveJudgement
from tests.apps.feedback.builders import make_chat_task, read_hint, save_scores
from tests.factories import make_user


def judge(task: Task) -> list[EffectiveJudgement]:
    """By attempt, in order."""
    found = effective_judgement(task)
    return [found[attempt.pk] for attempt in task.attempts.order_by("index")]


def rewards(task: Task) -> list[tuple[float | None, str]]:
    return [(one.reward, one.reward_source) for one in judge(task)]


def add_ai_word(task: Task, score: float, text: str = "") -> None:
    Feedback.objects.create(project=task.project, task=task, source="ai", author="agent:llm:x", score=score, text=text)


def test_each_rank_outranks_the_ones_below_it(project: Project, bob: User) -> None:
    claw = make_user("claw", is_agent=True)
    Member.objects.create(project=project, user=claw, role=Role.AGENT)
    task = make_chat_task(project, ["only"])
    assert rewards(task) == [(None, "")]
    save_scores(task, "prm", [0.1])
    assert rewards(task) == [(0.1, "scorers")]
    add_ai_word(task, 0.2)
    assert rewards(task) == [(0.2, "ai")]
    give_task_feedback(task=task, by=claw, score=0.3)
    assert rewards(task) == [(0.3, "outside")]
    assert judge(task)[0].weight == 0.5
    Attempt.objects.update(outcome=0.4)
    assert rewards(task) == [(0.4, "verified")]
    give_task_feedback(task=task, by=bob, score=0.5)
    assert rewards(task) == [(0.5, "human")]
    # his word contradicts what was verified, which costs it some of its weight at once
    assert judge(task)[0].weight == weights_of(project.pk, ["user:bob"])["user:bob"] < 1.0


def test_of_no_tasks_there_are_no_judgements() -> None:
    assert effective_judgements([]) == {}, "all tasks of a set may be another's by the time they are judged"


def test_a_persons_score_of_a_step_touches_exactly_that_step(project: Project, bob: User) -> None:
    task = make_chat_task(project)
    save_scores(task, "prm", [0.6, 0.7])
    give_task_feedback(task=task, by=bob, steps=[StepRating(attempt_index=1, step_index=0, score=0.0)])
    assert [list(one.step_scores.values()) for one in judge(task)] == [[0.6, 0.6], [0.7, 0.7]]
    assert rewards(task) == [(0.6, "scorers"), (0.7, "scorers")]
    spoken = task.attempts.get(index=1).steps.get(index=0)
    assert [one.human_step_scores for one in judge(task)] == [{}, {spoken.pk: (0.0, 1.0)}]


def test_a_word_on_an_attempt_beats_the_score_of_the_whole(project: Project, bob: User) -> None:
    task = make_chat_task(project)
    give_task_feedback(task=task, by=bob, score=0.9, steps=[StepRating(attempt_index=0, score=0.1)])
    assert rewards(task) == [(0.1, "human"), (0.9, "human")]


def test_a_score_of_the_whole_moves_the_level_and_keeps_what_is_known_of_the_differences(
    project: Project, bob: User
) -> None:
    task = make_chat_task(project, ["a", "b", "c"])
    save_scores(task, "prm", [0.2, 0.4, 0.9])
    give_task_feedback(task=task, by=bob, score=0.6)
    assert [one.reward for one in judge(task)] == pytest.approx([0.3, 0.5, 1.0])
    give_task_feedback(task=task, by=bob, score=0.6, steps=[StepRating(attempt_index=2, score=0.0)])
    assert [one.reward for one in judge(task)] == pytest.approx([0.5, 0.7, 0.0])


def test_a_preference_alone_is_a_win_and_losses(project: Project, bob: User) -> None:
    task = make_chat_task(project, ["a", "b", "c"])
    give_task_feedback(task=task, by=bob, preferred_attempt=1)
    assert rewards(task) == [(0.0, "human"), (1.0, "human"), (0.0, "human")]


def test_a_preference_raises_its_attempt_over_what_is_known_and_keeps_the_others_order(
    project: Project, bob: User
) -> None:
    task = make_chat_task(project, ["a", "b", "c"])
    save_scores(task, "prm", [0.2, 0.4, 0.8])
    give_task_feedback(task=task, by=bob, preferred_attempt=0)
    assert rewards(task) == [(0.9, "human"), (0.2, "human"), (0.4, "human")]


def test_two_people_are_averaged_and_only_the_last_word_of_each_counts(
    project: Project, alice: User, bob: User
) -> None:
    task = make_chat_task(project, ["only"])
    give_task_feedback(task=task, by=bob, score=0.0)
    give_task_feedback(task=task, by=bob, score=1.0)
    give_task_feedback(task=task, by=bob, text="words do not take a number back")
    give_task_feedback(task=task, by=alice, score=0.5)
    assert rewards(task) == [(0.75, "human")]


def test_an_attempt_that_failed_has_no_reward_whatever_is_said_of_the_task(project: Project, bob: User) -> None:
    task = make_chat_task(project)
    Attempt.objects.filter(index=0).update(state=Attempt.State.FAILED)
    give_task_feedback(task=task, by=bob, score=1.0)
    assert rewards(task) == [(None, ""), (1.0, "human")]


def test_judging_scorers_of_a_step_are_averaged_by_their_weights_and_a_verifier_outranks_them(
    project: Project,
) -> None:
    task = make_chat_task(project, ["only"])
    attempt = task.attempts.get()
    Attempt.objects.update(score=0.5, score_details={"profile": {"prm": 0.6, "hallucination": 0.3, "effort": 0.1}})
    first, second = attempt.steps.all()
    for step, scorer, score in (
        (first, "prm", 1.0),
        (first, "hallucination", 0.4),
        (second, "prm", 0.0),
        (second, "step_verifier", 0.9),
    ):
        StepScore.objects.create(attempt=attempt, step=step, scorer=scorer, score=score)
    StepScore.objects.create(attempt=attempt, step=second, scorer="hallucination", score=None, reason="broken")
    scores = judge(task)[0].step_scores
    assert scores == {first.pk: pytest.approx((0.6 * 1.0 + 0.3 * 0.4) / 0.9), second.pk: 0.9}


def test_a_persons_hint_comes_before_an_ais_and_an_edited_answer_can_teach(project: Project, bob: User) -> None:
    task = make_chat_task(project, state=Task.State.LEARNING)
    give_task_feedback(task=task, by=bob, edited_answer="42, as the table says")
    add_ai_word(task, 0.2)
    extract_hints([task.pk])
    assert read_hint(task) == "A right answer is: 42, as the table says"
    reasons = dict(task.hints.values_list("feedback__source", "reason"))
    assert reasons == {"human": "", "ai": "the feedback has no words"}


def test_a_persons_own_words_are_the_hint_where_no_model_draws_one(project: Project, bob: User) -> None:
    task = make_chat_task(project, state=Task.State.LEARNING)
    given = give_task_feedback(
        task=task, by=bob, text="Be brief.", steps=[StepRating(attempt_index=0, comment="Long.")]
    )
    commented = give_task_feedback(
        task=task,
        by=bob,
        steps=[
            StepRating(attempt_index=1, step_index=1, comment="Add the fee."),
            StepRating(attempt_index=1, comment="Greet first."),
        ],
    )
    wordy = give_task_feedback(task=task, by=bob, text="x" * 700)
    add_ai_word(task, 0.2, text="Nice.")
    extract_hints([task.pk])
    hints = {one.feedback_id: one for one in task.hints.all()}
    assert (hints[given.pk].text, hints[given.pk].source) == ("Be brief.", "reviewer")
    assert hints[given.pk].reason == "no model is configured to draw hints from words"
    assert hints[commented.pk].text == "Greet first.\nAdd the fee."
    assert hints[wordy.pk].text == "x" * 599 + "…"
    assert task.hints.get(feedback__source="ai").text == ""  # a machine's words are no person's
    assert read_hint(task) == hints[wordy.pk].text


def test_a_judge_that_is_not_trusted_gives_no_step_scores(project: Project) -> None:
    task = make_chat_task(project, ["only"])
    details = {"profile": {"prm": 0.6, "hallucination": 0.4}, "trust": {"prm": 0.0}}
    Attempt.objects.update(score=0.5, score_details=details)
    attempt = task.attempts.get()
    step = attempt.steps.all()[0]
    for scorer, score in (("prm", 1.0), ("hallucination", 0.25)):
        StepScore.objects.create(attempt=attempt, step=step, scorer=scorer, score=score)
    assert judge(task)[0].step_scores == {step.pk: 0.25}


def add_copies(project: Project) -> Task:
    """Three attempts that read the same, and one that does not."""
    task = make_chat_task(project, ["22 lamp", "other", "22 lamp", "22 lamp"])
    save_scores(task, "prm", [0.2, 0.4, 0.3, 0.1])
    return task


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ({"preferred_attempt": 2}, [0.7, 0.2, 0.7, 0.7]),
        ({"preferred_attempt": 1}, [0.1, 0.7, 0.1, 0.1]),
        ({"ranking": [[2], [1], [0, 3]]}, [17 / 60, 0.4, 17 / 60, 17 / 60]),
        ({"steps": [StepRating(attempt_index=2, score=1.0)]}, [1.0, 0.4, 1.0, 1.0]),
        (
            {"steps": [StepRating(attempt_index=0, score=1.0), StepRating(attempt_index=2, score=0.0)]},
            [0.5, 0.4, 0.5, 0.5],
        ),
        ({"score": 0.5}, [0.45, 0.65, 0.45, 0.45]),
        ({"none_good": True}, [0.2, 0.4, 0.2, 0.2]),
    ],
)
def test_attempts_that_read_the_same_have_the_same_reward(
    project: Project, bob: User, said: dict[str, Any], wanted: list[float]
) -> None:
    task = add_copies(project)
    assert [value for value, _ in rewards(task)] == pytest.approx([0.2, 0.4, 0.2, 0.2])
    give_task_feedback(task=task, by=bob, **said)
    assert [value for value, _ in rewards(task)] == pytest.approx(wanted)


def test_a_word_on_a_step_reaches_the_same_step_of_each_copy_and_other_tool_results_are_no_copy(
    project: Project, bob: User
) -> None:
    task = add_copies(project)
    Step.objects.filter(attempt__task=task, attempt__index=3, index=0).update(tool_result="none")
    give_task_feedback(task=task, by=bob, steps=[StepRating(attempt_index=2, step_index=1, score=0.0)])
    said = [[word.score for word in one.human_step_scores.values()] for one in judge(task)]
    assert said == [[0.0], [], [0.0], []]
    assert len({value for value, _ in rewards(task)[::2]}) == 1
    assert rewards(task)[3] != rewards(task)[0]
