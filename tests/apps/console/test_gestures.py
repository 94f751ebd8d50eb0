"""Every control of the review's form, read off the page itself: each alone is a judgement, and says something else."""

from collections import Counter
from html.parser import HTMLParser

import pytest
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.feedback.claims import claim
from apps.feedback.judgement import read_judgement
from apps.feedback.models import Review
from apps.feedback.selectors import effective_judgement
from tests.apps.console.builders import sign_in
from tests.apps.feedback.builders import make_open_review
from tests.factories import make_user

pytestmark = pytest.mark.django_db

SILENT = ("csrfmiddlewaretoken", "review", "active_s", "draft_version", "teaches")
"""Fields that carry the form, and no word on the work."""


class Controls(HTMLParser):
    """(field, value) of everything that can be said by one control of the form `judgement`."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.gestures: list[tuple[str, str]] = []
        self.is_inside = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.is_inside = said.get("id") == "judgement"
        name = said.get("name", "")
        if not self.is_inside or not name or name in SILENT or tag not in ("input", "textarea", "select"):
            return
        kind = said.get("type", tag)
        if "data-spans" in said:
            values = ['[[0, 3, "wrong"]]']
        elif kind in ("radio", "checkbox"):
            values = [said.get("value", "on")]
        elif "data-rank" in said:
            values = ["1"]
        elif kind == "number":
            values = ["0", "1"]
        else:
            values = ["Charge the fee."]
        # an empty radio button takes back what its neighbours say
        self.gestures += [(name, value) for value in values if value]


@pytest.mark.parametrize("answers", [("one", "two"), ("one", "two", "three")])
def test_each_gesture_alone_is_taken_and_says_something_of_its_own(project: Project, answers: tuple[str, ...]) -> None:
    bob = make_user("bob")
    client = sign_in(bob)
    first = _claim_new(project, bob, answers)
    page = client.get(_address(first)).content.decode()
    gestures = Controls(page).gestures
    assert {"score", "text", "edited_answer", "a0-score", "a0-wrong", "a0-s0-score", "a0-s0-spans"} <= {
        name for name, _ in gestures
    }
    said: dict[str, set[str]] = {}
    for name, value in gestures:
        review = _claim_new(project, bob, answers)
        answer = client.post(_address(review), {name: value})
        assert answer.status_code == 302, (name, value, answer.content.decode()[:3000])
        words = read_judgement(review.given.get()).to_json()
        words.pop("shown_order")
        assert words, (name, value)
        said.setdefault(name, set()).add(str(words))
    assert {name: len(words) for name, words in said.items()} == Counter(name for name, _ in gestures)


@pytest.mark.parametrize("field", ["score", "a0-score", "a0-s0-score"])
def test_a_thumb_down_alone_lowers_what_it_is_put_on(project: Project, field: str) -> None:
    bob = make_user("bob")
    review = _claim_new(project, bob, ("one", "two"))
    assert sign_in(bob).post(_address(review), {field: "0"}).status_code == 302
    found = effective_judgement(review.task)[review.task.attempts.get(index=0).pk]
    if field == "a0-s0-score":
        assert [said.score for said in found.human_step_scores.values()] == [0.0]
    else:
        assert (found.reward, found.reward_source) == (0.0, "human")


def test_answers_without_a_rank_stand_together_behind_those_that_have_one(project: Project) -> None:
    bob = make_user("bob")
    review = _claim_new(project, bob, ("one", "two", "three"))
    assert sign_in(bob).post(_address(review), {"a2-rank": "1"}).status_code == 302
    feedback = review.given.get()
    assert feedback.ranking == [[2], [0, 1]]
    assert feedback.preferred_attempt == review.task.attempts.get(index=2)


def _claim_new(project: Project, by: User, answers: tuple[str, ...]) -> Review:
    return claim(review=make_open_review(project, answers=answers), by=by)


def _address(review: Review) -> str:
    return reverse("console:review", args=("shop", review.pk))
