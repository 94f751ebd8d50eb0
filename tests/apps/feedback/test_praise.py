"""A person's words are the hint where no model draws one, but for praise: it counts, and teaches nothing."""

from typing import Any

import pytest
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.audit.models import AuditEntry
from apps.feedback.hints import NOTHING, PRAISE, PRAISE_AT_FULL_MARKS, REVIEWER, draw_hint, extract_hints
from apps.feedback.judgement import JudgementInput, StepRating
from apps.feedback.models import Hint
from apps.feedback.selectors import effective_judgement
from apps.feedback.submit import give_feedback
from tests.apps.console.builders import sign_in
from tests.apps.feedback.builders import make_chat_task, make_open_review

pytestmark = pytest.mark.django_db

RULES = [
    "Ask the stock room, not the list.",
    "Die Einheit fehlt immer.",
    "Il faut toujours donner l'unité.",
    "Falta la unidad.",
    "单位总是缺失。",
]


@pytest.mark.parametrize("text", ["Good.", "Thanks", "perfect", "Sehr gut, danke!", "Merci beaucoup", "很好。", "👍"])
@pytest.mark.parametrize("score", [None, 0.8, 1.0])
def test_praise_is_no_hint_whatever_the_score(project: Project, text: str, score: float | None) -> None:
    drawn = draw_hint(make_chat_task(project), JudgementInput(text=text, score=score), by_person=True)
    assert (drawn.text, drawn.source) == ("", NOTHING)
    assert drawn.reason == (PRAISE_AT_FULL_MARKS if score == 1 else PRAISE)


@pytest.mark.parametrize("text", RULES)
@pytest.mark.parametrize(
    "said",
    [
        {},
        {"score": 0.0},
        {"score": 0.9},
        {"score": 1.0, "none_good": True},
        {"score": 1.0, "preferred_attempt": 1},
        {"score": 1.0, "ranking": [[1], [0]]},
        {"steps": [StepRating(attempt_index=0, score=1.0), StepRating(attempt_index=1, score=0.0)]},
    ],
)
def test_words_are_the_hint_where_something_could_be_better(project: Project, text: str, said: dict[str, Any]) -> None:
    drawn = draw_hint(make_chat_task(project), JudgementInput(text=text, **said), by_person=True)
    assert (drawn.text, drawn.source) == (text, REVIEWER)


@pytest.mark.parametrize("text", ["So hätte ich es auch gemacht.", "Exactly the tone our customers like."])
def test_full_marks_are_praise_in_any_words_and_in_any_language(project: Project, text: str) -> None:
    task = make_chat_task(project)
    words = JudgementInput(
        text=text, steps=[StepRating(attempt_index=0, score=1.0), StepRating(attempt_index=1, score=1.0)]
    )
    assert draw_hint(task, words, by_person=True).reason == PRAISE_AT_FULL_MARKS
    own = JudgementInput(score=1.0, text=text, hint_text="Keep this tone.")
    assert draw_hint(task, own, by_person=True).text == "Keep this tone.", "who writes a hint teaches it"
    edited = JudgementInput(score=1.0, text="Perfect.", edited_answer="22 EUR")
    assert draw_hint(task, edited, by_person=True).text == "A right answer is: 22 EUR"


def test_of_comments_those_on_what_is_right_are_left_out(project: Project) -> None:
    said = [
        StepRating(attempt_index=0, step_index=0, score=1.0, comment="So mache ich das auch."),
        StepRating(attempt_index=0, step_index=1, score=0.0, comment="The unit is missing."),
        StepRating(attempt_index=1, step_index=0, comment="Good."),
    ]
    assert draw_hint(make_chat_task(project), JudgementInput(steps=said), by_person=True).text == "The unit is missing."


def test_praise_counts_as_a_judgement_and_the_trace_says_why_it_taught_nothing(project: Project, bob: User) -> None:
    review = make_open_review(project)
    client = sign_in(bob)
    preview = reverse("console:feedback-preview", args=(project.slug, review.task_id))
    typed = {"text": "Kann so bleiben.", "score": "1"}
    assert PRAISE_AT_FULL_MARKS in client.post(preview, typed).content.decode()
    assert "Hint the worker will be trained on" in client.post(preview, typed | {"score": "0.5"}).content.decode()
    assert PRAISE_AT_FULL_MARKS not in client.post(preview, typed | {"score": "0.5"}).content.decode()
    feedback = give_feedback(review=review, by=bob, score=1.0, text="Kann so bleiben.")
    extract_hints([review.task_id])
    hint = Hint.objects.get()
    assert (hint.text, hint.source, hint.reason) == ("", NOTHING, PRAISE_AT_FULL_MARKS)
    assert AuditEntry.objects.get(kind="hint.extracted").payload["hints"][0]["reason"] == PRAISE_AT_FULL_MARKS
    assert {one.reward for one in effective_judgement(review.task).values()} == {1.0}
    page = client.get(reverse("console:feedback", args=(project.slug, feedback.pk))).content.decode()
    assert PRAISE_AT_FULL_MARKS in page
