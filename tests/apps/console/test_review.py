"""The queue and the review page by plain forms: what is shown to whom, what is kept, what becomes of a judgement."""

import json
import math
import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.models import Member, Project, Role, User
from apps.calibration.models import Rater
from apps.console.review_forms import read_draft
from apps.console.selectors.review import name_place, shuffle_attempts
from apps.console.words_facts import name_fact
from apps.feedback.claims import claim
from apps.feedback.judgement import read_judgement
from apps.feedback.models import BulkJudgement, Feedback, Review, ReviewDraft, StepFeedback
from apps.feedback.queue import find_waiting
from apps.feedback.selectors import effective_judgement
from apps.inference.models import Exchange
from apps.rollouts.services import build_rollouts
from apps.scoring.models import StepScore
from apps.scoring.services import score_tasks
from apps.tasks.models import Attempt, Step, Task
from apps.workers.models import Worker
from apps.worlds.desk.world import DeskWorld
from tests.apps.console.builders import sign_in
from tests.apps.console.test_exports import read_stream
from tests.apps.feedback.builders import make_chat_task, make_open_review, save_scores
from tests.factories import make_judged_task, make_project, make_task, make_user, make_worker

pytestmark = pytest.mark.django_db

SECRETS = ("echo@v7-secret", "0.8765", "scorer-secret", "The other reviewer said this.", "verified-secret")


def path(name: str, *args: object) -> str:
    return reverse(f"console:{name}", args=("shop", *args))


@pytest.fixture
def bob(project: Project) -> User:
    return make_user("bob")


@pytest.fixture
def review(project: Project) -> Review:
    """Of two attempts of two steps each, with everything beside it that a blind reviewer must not see."""
    task = make_chat_task(
        project, answers=("first", "second"), state=Task.State.IN_REVIEW, score=0.8765, answer="first"
    )
    for attempt in task.attempts.all():
        Attempt.objects.filter(pk=attempt.pk).update(score=0.8765, outcome=0.8765)
        StepScore.objects.create(attempt=attempt, scorer="scorer-secret", score=0.8765, reason="verified-secret")
        StepScore.objects.create(
            attempt=attempt,
            step=attempt.steps.get(index=0),
            scorer="scorer-secret",
            score=0.8765,
            reason="verified-secret",
        )
    Feedback.objects.create(
        project=project,
        task=task,
        source="ai",
        author="agent:judge",
        score=0.8765,
        text="The other reviewer said this.",
    )
    return Review.objects.create(project=project, task=task, audience="human", reason="sampled for review (100 %)")


def test_before_the_judgement_neither_scores_nor_adapters_nor_others_words_are_in_the_page(
    review: Review, bob: User
) -> None:
    client = sign_in(bob)
    claim(review=review, by=bob)
    pages = [path("review", review.pk), path("task", review.task_id)]
    pages.append(path("task-compare", review.task_id) + f"?left=0&right=1&review={review.pk}")
    for page in pages:
        html = client.get(page).content.decode()
        for secret in SECRETS:
            assert secret not in html, (page, secret)
    assert "Answer A" in client.get(pages[0]).content.decode()
    assert "Attempt 1" not in client.get(pages[0]).content.decode()


def test_afterwards_the_page_tells_who_made_each_answer_and_what_others_said(review: Review, bob: User) -> None:
    client = sign_in(bob)
    claim(review=review, by=bob)
    client.post(path("review", review.pk), {"score": "0.5"})
    html = client.get(path("review", review.pk)).content.decode()
    assert "Authors and scores of" in html
    assert "attempt 1" in html
    assert "verified-secret" in html
    assert "base model" in html


def test_a_policy_may_let_reviewers_see(review: Review, bob: User) -> None:
    Project.objects.filter(pk=review.project_id).update(review_policy={"blind": False})
    StepScore.objects.filter(step__isnull=False).update(details={"spans": [[0, 5], [True, 3], "x"]})
    claim(review=review, by=bob)
    html = sign_in(bob).get(path("review", review.pk)).content.decode()
    assert "Attempt 1" in html
    assert "Answer A" not in html
    assert "verified-secret" in html
    assert '<mark>think<span class="mark-label"> [scorer-secret: not supported]</span></mark>' in html


def test_which_answer_stands_left_is_a_fair_draw_and_stays_as_it_was() -> None:
    pairs = 10_000
    left = sum(shuffle_attempts([0, 1], review_id=number, user_id=7)[0] == 0 for number in range(pairs))
    assert abs(left - pairs / 2) < 2.576 * math.sqrt(pairs / 4)  # binomial, 99 %
    assert shuffle_attempts([0, 1, 2], review_id=5, user_id=7) == shuffle_attempts([0, 1, 2], review_id=5, user_id=7)
    assert {tuple(shuffle_attempts([0, 1, 2], review_id=5, user_id=user)) for user in range(100)} > {(0, 1, 2)}
    assert [name_place(place) for place in (0, 25, 26, 63)] == ["A", "Z", "AA", "BL"]


@pytest.mark.parametrize(
    ("chosen", "preferred", "groups", "none_good"),
    [
        ("0", 0, [[0], [1]], False),
        ("1", 1, [[1], [0]], False),
        ("tie", None, [[0, 1]], False),
        ("none", None, [], True),
    ],
)
def test_of_two_answers_one_is_better_or_both_are_alike(
    review: Review, bob: User, chosen: str, preferred: int | None, groups: list[list[int]], none_good: bool
) -> None:
    claim(review=review, by=bob)
    assert sign_in(bob).post(path("review", review.pk), {"preferred_attempt": chosen}).status_code == 302
    feedback = review.given.get()
    assert (feedback.preferred_attempt.index if feedback.preferred_attempt else None) == preferred
    assert [sorted(group) for group in feedback.ranking] == groups
    assert feedback.none_good is none_good
    assert sorted(feedback.shown_order) == [0, 1]


def test_equal_ranks_stand_together(project: Project, bob: User) -> None:
    task = make_chat_task(project, answers=("a", "b", "c"), state=Task.State.IN_REVIEW)
    review = Review.objects.create(project=project, task=task, audience="human")
    claim(review=review, by=bob)
    client = sign_in(bob)
    client.post(path("review", review.pk), {"a0-rank": "2", "a1-rank": "1", "a2-rank": "2"})
    feedback = review.given.get()
    assert feedback.ranking == [[1], [0, 2]]
    assert feedback.preferred_attempt == task.attempts.get(index=1)


def test_a_first_wrong_step_says_something_of_every_step_up_to_it_and_numbers_stand(
    project: Project, bob: User
) -> None:
    review = make_open_review(project)
    claim(review=review, by=bob)
    said = {"a0-wrong": "1", "a1-wrong": "1", "a1-s0-score": "0.5"}
    assert sign_in(bob).post(path("review", review.pk), said).status_code == 302
    words = StepFeedback.objects.order_by("attempt__index", "step__index")
    found = [(word.attempt.index, word.step.index if word.step else None, word.score) for word in words]
    assert found == [(0, 0, 1.0), (0, 1, 0.0), (1, 0, 0.5), (1, 1, 0.0)]


def test_marked_words_are_kept_by_place_and_impossible_ones_are_refused(project: Project, bob: User) -> None:
    review = make_open_review(project)
    claim(review=review, by=bob)
    client = sign_in(bob)
    for spans in (
        '[[0, 99, "wrong"]]',
        "[[3, 1, 2]]",
        "{",
        '[[0, 1, "' + "x" * 61 + '"]]',
        '"text"',
        '[[0, true, "x"]]',
    ):
        assert client.post(path("review", review.pk), {"a0-s0-spans": spans}).status_code == 400, spans
    client.post(path("review", review.pk), {"a0-s0-spans": json.dumps([[1, 3, "made up"]])})
    assert StepFeedback.objects.get().spans == [[1, 3, "made up"]]


def test_what_was_typed_at_a_step_comes_back_beside_what_is_wrong_with_it(project: Project, bob: User) -> None:
    review = make_open_review(project)
    claim(review=review, by=bob)
    typed = {
        "a0-s0-score": "7",
        "a0-s0-comment": "<b>too much</b>",
        "a0-wrong": "1",
        "a1-s0-score": "0.25",
        "a1-s1-comment": '</textarea>"%(label)s',
        "a1-s1-spans": '[[0, 2, "wrong"]]',
    }
    answer = sign_in(bob).post(path("review", review.pk), typed)
    page = answer.content.decode()
    assert answer.status_code == 400
    assert page.count("Ensure this value is less than or equal to 1.") == 1
    assert re.search(r'name="a0-s0-score" value="7"[^>]* aria-invalid="true"', page)
    assert ">\n&lt;b&gt;too much&lt;/b&gt;</textarea>" in page
    assert '<input type="radio" name="a0-wrong" value="1" id="id_a0-wrong_2" checked>' in page
    assert 'name="a0-wrong" value="" id="id_a0-wrong_0" >' in page
    assert 'name="a1-wrong" value="" id="id_a1-wrong_0" checked>' in page
    assert 'name="a1-s0-score" value="0.25"' in page
    assert ">\n&lt;/textarea&gt;&quot;%(label)s</textarea>" in page
    assert 'name="a1-s1-spans" value="[[0, 2, &quot;wrong&quot;]]"' in page
    assert 'name="a1-s0-comment"' in page
    assert 'name="a1-s0-spans" data-spans' in page


def test_a_page_of_many_steps_takes_no_more_templates_than_one_of_few(project: Project, bob: User) -> None:
    Project.objects.filter(pk=project.pk).update(review_policy={"blind": False})
    client = sign_in(bob)
    rendered = []
    for more in (0, 30):
        review = make_open_review(project)
        for attempt in review.task.attempts.all():
            Step.objects.bulk_create(
                Step(
                    attempt=attempt,
                    index=2 + place,
                    kind="call",
                    text=f"call {place}",
                    tool_name="shell",
                    tool_result="ok",
                )
                for place in range(more)
            )
        save_scores(review.task, "judge", (0.25, 0.75))
        claim(review=review, by=bob)
        found = []
        for page in (path("review", review.pk), path("task", review.task_id)):
            client.get(page)  # which leaves what pages share
            answer = client.get(page)
            assert answer.content.decode().count("Calls shell") == 2 * more
            assert answer.content.decode().count("<meter") == 2 * (1 + 2 + more)
            found.append(len(answer.templates))
        rendered.append(found)
    assert rendered[0] == rendered[1]


def test_the_preview_says_what_would_be_taught_and_how_the_answer_changes(project: Project, bob: User) -> None:
    task = make_chat_task(project, answers=("It costs 4 EUR",))
    client = sign_in(bob)
    data = {"edited_answer": "It costs 5 EUR", "score": "not a number"}
    page = client.post(path("feedback-preview", task.pk), data).content.decode()
    assert "<html" not in page
    assert "A right answer is: It costs 5 EUR" in page
    assert "<del>4</del><ins>5</ins>" in page
    own = client.post(path("feedback-preview", task.pk), data | {"text": "Prices rose by one."}).content.decode()
    assert "Prices rose by one." in own
    assert not Feedback.objects.exists()


def test_words_beside_full_marks_teach_where_their_writer_says_so(project: Project, bob: User) -> None:
    client = sign_in(bob)
    said = {"score": "1", "text": "Always answer in cents."}
    for ticked, taught in (({}, ""), ({"teaches": "on"}, "Always answer in cents.")):
        review = make_open_review(project)
        claim(review=review, by=bob)
        preview = client.post(path("feedback-preview", review.task_id), said | ticked).content.decode()
        assert ("taken for praise" in preview) is not bool(taught)
        refused = client.post(path("review", review.pk), {"score": "1", "teaches": "on"})
        assert "Write what should be learned" in refused.content.decode()
        assert client.post(path("review", review.pk), said | ticked).status_code == 302
        given = review.given.get()
        assert (given.text, given.hint_text) == ("Always answer in cents.", taught)
        again = read_draft({"words": read_judgement(given).to_json()})
        assert (again["text"], again.get("teaches", False)) == ("Always answer in cents.", bool(taught))


def test_a_draft_is_kept_by_version_and_comes_back_into_the_form(project: Project, bob: User) -> None:
    review = make_open_review(project)
    claim(review=review, by=bob)
    client = sign_in(bob)
    first = client.post(path("review-draft", review.pk), {"text": "So far.", "a0-s1-score": "0.25"})
    assert (first.status_code, first.json()) == (200, {"version": 1})
    page = client.get(path("review", review.pk)).content.decode()
    assert "So far." in page
    assert 'name="a0-s1-score" value="0.25"' in page
    assert 'name="draft_version" value="1"' in page
    stale = client.post(path("review-draft", review.pk), {"text": "Another tab.", "draft_version": "0"})
    assert (stale.status_code, stale.json()["code"], stale.json()["version"]) == (409, "stale_draft", 1)
    assert client.post(path("review-draft", review.pk), {"draft_version": "x"}).status_code == 400
    assert ReviewDraft.objects.get().data["text"] == "So far."


def test_undo_brings_the_judgement_back_as_it_was_written(project: Project, bob: User) -> None:
    review = make_open_review(project)
    claim(review=review, by=bob)
    client = sign_in(bob)
    client.post(path("review", review.pk), {"text": "Too hasty.", "a0-s1-comment": "Here.", "preferred_attempt": "1"})
    feedback = review.given.get()
    listed = client.get(path("review-list")).content.decode()
    assert path("feedback-undo", feedback.pk) in listed
    answer = client.post(path("feedback-undo", feedback.pk))
    assert answer.headers["Location"] == path("review", review.pk)
    page = client.get(path("review", review.pk)).content.decode()
    for words in ("Too hasty.", "Here.", 'value="1" id="id_preferred_attempt_'):
        assert words in page
    assert path("feedback-undo", feedback.pk) not in page
    assert client.post(path("feedback-undo", feedback.pk)).status_code == 404  # once


def test_nobody_undoes_anothers_judgement(project: Project, bob: User) -> None:
    review = make_open_review(project)
    claim(review=review, by=bob)
    sign_in(bob).post(path("review", review.pk), {"score": "1"})
    feedback = review.given.get()
    sign_in(make_user("alice")).post(path("feedback-undo", feedback.pk))
    feedback.refresh_from_db()
    assert feedback.retracted_at is None


def test_a_lost_lease_is_told_to_the_page_that_holds_it(project: Project, bob: User) -> None:
    review = make_open_review(project)
    claim(review=review, by=bob)
    client = sign_in(bob)
    assert client.post(path("review-hold", review.pk)).status_code == 200
    Review.objects.filter(pk=review.pk).update(claimed_by=make_user("alice"))
    lost = client.post(path("review-hold", review.pk))
    assert (lost.status_code, lost.json()["code"]) == (409, "review_taken")
    assert client.post(path("review-draft", review.pk), {"text": "Mine."}).status_code == 200  # nothing typed is lost


def test_the_next_one_comes_out_of_the_same_filter(project: Project, bob: User) -> None:
    chat, desk = make_open_review(project), make_open_review(project, environment="desk")
    other = make_open_review(project, environment="desk")
    client = sign_in(bob)
    taken = client.post(path("review-next") + "?environment=desk")
    assert taken.headers["Location"] == path("review", desk.pk) + "?environment=desk"
    following = client.post(taken.headers["Location"], {"score": "1"})
    assert following.headers["Location"] == path("review", other.pk) + "?environment=desk"
    done = client.post(following.headers["Location"], {"score": "1"})
    assert done.headers["Location"] == path("review-list") + "?environment=desk"
    wrong = client.post(path("review-next") + "?environment=moon", follow=True)
    assert (wrong.status_code, wrong.redirect_chain[0][0]) == (400, path("review-list") + "?environment=moon")
    assert "moon is not one of" in wrong.content.decode()
    chat.refresh_from_db()
    assert chat.claimed_by is None


def test_the_queue_is_narrowed_by_its_address_and_goes_on_page_by_page(project: Project, bob: User) -> None:
    reviews = [make_open_review(project, environment="desk" if number % 3 else "chat") for number in range(40)]
    client = sign_in(bob)
    seen: list[int] = []
    after = ""
    while True:
        query = {"environment": "desk"} | ({"after": after} if after else {})
        context = client.get(path("review-list"), query).context
        seen += [review.pk for review, _, _ in context["rows"]]
        assert context["count"] == 26
        after = context["listing"].next_place
        if not after:
            break
    assert seen == [review.pk for number, review in enumerate(reviews) if number % 3]
    empty = client.get(path("review-list"), {"held": "snoozed"}).content.decode()
    assert "No open review matches" in empty


def test_the_queue_costs_the_same_however_long_it_is(project: Project) -> None:
    client = sign_in(make_user("alice"))
    make_open_review(project)
    client.get(path("review-list"))

    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            client.get(path("review-list"))
        return len(queries)

    before = count()
    for _ in range(30):
        make_open_review(project)
    assert count() == before <= 24


def test_a_gold_item_looks_like_any_other(project: Project, bob: User) -> None:
    plain, gold = make_open_review(project), make_open_review(project)
    Review.objects.filter(pk=gold.pk).update(purpose=Review.Purpose.GOLD)
    client = sign_in(bob)
    for review in (plain, gold):
        claim(review=review, by=bob)
    pages = [client.get(path("review", review.pk)).content.decode().lower() for review in (plain, gold)]
    listed = client.get(path("review-list")).content.decode().lower()
    for page in (*pages, listed):
        assert "gold" not in page
        assert "known answer" not in page


def test_only_a_manager_gives_reviews_to_others(project: Project, bob: User) -> None:
    review = make_open_review(project)
    sign_in(bob).post(path("review-assign", review.pk), {"to": "alice"})
    review.refresh_from_db()
    assert review.assigned_to is None
    alice = sign_in(make_user("alice"))
    assert alice.post(path("review-assign", review.pk), {"to": "charlie"}).status_code == 404
    alice.post(path("review-assign", review.pk), {"to": "bob"})
    review.refresh_from_db()
    assert review.assigned_to == bob
    alice.post(path("review-assign", review.pk), {"to": ""})
    review.refresh_from_db()
    assert review.assigned_to is None


def test_a_snoozed_review_sleeps_and_is_woken(project: Project, bob: User) -> None:
    review = make_open_review(project)
    client = sign_in(bob)
    client.post(path("review-snooze", review.pk), {"hours": "4"})
    assert not find_waiting(project).exists()
    client.post(path("review-snooze", review.pk), {"hours": ""})
    assert list(find_waiting(project)) == [review]
    assert client.post(path("review-snooze", review.pk), {"hours": "9999"}).status_code == 404


@pytest.mark.parametrize(
    ("then", "state"), [("later", "open"), ("others", "open"), ("expert", "open"), ("nobody", "skipped")]
)
def test_a_skipped_review_goes_where_it_was_sent(project: Project, bob: User, then: str, state: str) -> None:
    review = make_open_review(project)
    claim(review=review, by=bob)
    sign_in(bob).post(path("review-skip", review.pk), {"reason": "not my field", "then": then})
    review.refresh_from_db()
    assert (review.state, review.needs_expert) == (state, then == "expert")


def test_a_judgement_is_appealed_from_its_task_and_judged_by_somebody_else(project: Project, bob: User) -> None:
    task = make_chat_task(project, state=Task.State.DONE)
    feedback = Feedback.objects.create(project=project, task=task, source="human", author="user:bob", score=0.0)
    client = sign_in(make_user("alice"))
    assert path("feedback-appeal", feedback.pk) in client.get(path("task", task.pk)).content.decode()
    assert client.post(path("feedback-appeal", feedback.pk), {"reason": ""}).status_code == 400
    answer = client.post(path("feedback-appeal", feedback.pk), {"reason": "The rule changed in May."})
    assert answer.headers["Location"] == path("task", task.pk)
    appeal = Review.objects.get(purpose="appeal")
    assert appeal.about == feedback
    page = client.get(path("task", task.pk)).content.decode()
    assert "No other member may review it yet" in page
    assert path("review-claim", appeal.pk) not in page
    client.post(path("feedback-retract", feedback.pk), {"reason": "Wrong task."})
    feedback.refresh_from_db()
    assert feedback.retracted_by == "user:alice"


def test_many_reviews_are_judged_at_once_by_a_manager_who_saw_how_many(project: Project, bob: User) -> None:
    for _ in range(3):
        make_open_review(project)
    assert sign_in(bob).get(path("bulk-new")).status_code == 403
    client = sign_in(make_user("alice"))
    page = client.get(path("bulk-new")).content.decode()
    assert "Judge 3 reviews" in page
    changed = client.post(path("bulk-new"), {"score": "1", "expected": "2"})
    assert (changed.status_code, BulkJudgement.objects.count()) == (400, 0)
    assert "3 reviews match now, 2 did" in changed.content.decode()
    client.post(path("bulk-new"), {"score": "1", "expected": "3"})
    bulk = BulkJudgement.objects.get()
    assert (bulk.total, bulk.by.username) == (3, "alice")
    shown = client.get(path("bulk", bulk.pk)).content.decode()
    assert "0 of 3 judged" in shown
    client.post(path("bulk-cancel", bulk.pk))
    bulk.refresh_from_db()
    assert bulk.state == "cancelled"


def test_above_a_hundred_the_number_is_typed(project: Project) -> None:
    Review.objects.bulk_create(
        Review(project=project, task=make_task(project, state="in_review"), audience="human") for _ in range(101)
    )
    client = sign_in(make_user("alice"))
    assert "Type the number of reviews" in client.get(path("bulk-new")).content.decode()
    refused = client.post(path("bulk-new"), {"score": "1", "expected": "101", "typed": "100"})
    assert refused.status_code == 400
    assert "Type 101 to confirm" in refused.content.decode()
    assert client.post(path("bulk-new"), {"score": "1", "expected": "101", "typed": "101"}).status_code == 302


def test_an_outsider_finds_nothing_of_all_this(project: Project, charlie: User) -> None:
    review = make_open_review(project)
    feedback = Feedback.objects.create(project=project, task=review.task, source="human", author="user:bob", score=1)
    other = make_project("apes")
    Member.objects.filter(user=make_user("alice"), project=project).delete()
    Member.objects.create(project=other, user=charlie, role=Role.OWNER)
    names = {
        "review-hold": review.pk, "review-draft": review.pk, "review-assign": review.pk, "review-snooze": review.pk,
        "feedback-preview": review.task_id, "task-compare": review.task_id, "feedback-undo": feedback.pk,
        "feedback-retract": feedback.pk, "feedback-appeal": feedback.pk,
    }  # fmt: skip
    client = sign_in(charlie)
    for name, row in names.items():
        for slug in ("shop", "apes"):
            page = reverse(f"console:{name}", args=(slug, row))
            assert 404 in {client.get(page).status_code, client.post(page).status_code}, page
            assert client.post(page).status_code in {404, 405}, page


def test_a_task_says_only_what_is_so(project: Project, bob: User) -> None:
    task = make_chat_task(project, answers=("done",), state=Task.State.DONE, group_size=8)
    Worker.objects.filter(pk=task.worker_id).update(kind="outside")
    Feedback.objects.create(project=project, task=task, source="ai", author="agent:llm:x", score=0.5)
    page = " ".join(sign_in(bob).get(path("task", task.pk)).content.decode().split())
    assert "<dt>Attempts</dt><dd>1</dd>" in page
    assert "Served by" not in page
    assert '<li class="done">In review</li>' not in page  # nobody was asked
    assert "An AI manager" in page
    assert "not scored" in page
    assert str(name_fact("model").label) == "Model"


def test_what_nobody_could_score_has_no_number_anywhere_and_what_was_verified_comes_first(
    project: Project, bob: User
) -> None:
    said = ["13", "The sum of six and seven, as everybody knows who can count, is 14"]
    nobody, verified = make_chat_task(project, said), make_chat_task(project, said, reference=13)
    for task in (nobody, verified):
        score_tasks([task.pk])
        Task.objects.filter(pk=task.pk).update(state=Task.State.DONE)
    client = sign_in(bob)
    page = client.get(path("task", nobody.pk)).content.decode()
    assert page.count("not scored") == 3, "each attempt, and the task"
    page = client.get(path("task", verified.pk)).content.decode()
    assert page.index("Verified") < page.index("1.00")
    assert "not scored" not in page
    listed = {task.pk: task.score for task in client.get(path("task-list")).context["tasks"]}
    assert (listed[nobody.pk], listed[verified.pk]) == (None, 0.5)
    assert "0.50" in client.get(path("project")).content.decode()
    told = [client.get(f"/api/v1/tasks/{task.pk}").json()["score"] for task in (nobody, verified)]
    assert told == [None, 0.5]
    tried = client.get("/api/v1/attempts", {"task": verified.pk}).json()["results"]
    assert {(one["score"], one["outcome"]) for one in tried} == {(None, 1.0), (None, 0.0)}
    sent = client.post(path("export", "tasks"), {"format": "jsonl", "plain": "on"})
    rows = {row["id"]: row["score"] for row in map(json.loads, read_stream(sent).splitlines())}
    assert rows == {nobody.pk: None, verified.pk: 0.5}
    found = [
        (one.reward, one.reward_source) for task in (nobody, verified) for one in effective_judgement(task).values()
    ]
    assert found == [(None, ""), (None, ""), (1.0, "verified"), (0.0, "verified")]


def test_answers_that_read_the_same_are_one_card_with_one_judgement(project: Project, bob: User) -> None:
    task = make_chat_task(
        project, answers=("22 lamp", "22 lamp", "23 lamp", "22 lamp", "30 EUR"), state=Task.State.IN_REVIEW
    )
    review = Review.objects.create(project=project, task=task, audience="human")
    claim(review=review, by=bob)
    client = sign_in(bob)
    page = client.get(path("review", review.pk)).content.decode()
    assert page.count('<article class="answer"') == 3
    assert "×3" in page
    assert "3 identical attempts; your judgement applies to all of them." in page
    assert "a1-score" not in page
    compared = client.get(path("task-compare", task.pk) + f"?left=1&right=3&review={review.pk}").content.decode()
    assert "They are the same." in compared
    client.post(path("review", review.pk), {"a0-rank": "1", "a2-rank": "2", "a4-rank": "3", "a0-s1-score": "1"})
    feedback = review.given.get()
    assert feedback.ranking == [[0, 1, 3], [2], [4]]
    assert sorted(feedback.shown_order) == [0, 1, 2, 3, 4]
    rewards = [one.reward for one in effective_judgement(task).values()]
    assert rewards[0] == rewards[1] == rewards[3]
    assert "attempts 1, 2, 4" in client.get(path("review", review.pk)).content.decode()


def test_whether_a_review_can_be_learned_from_is_said_before_it_is_given(project: Project, bob: User) -> None:
    task = make_judged_task(project, state=Task.State.IN_REVIEW)
    review = Review.objects.create(project=project, task=task, audience="human")
    client = sign_in(bob)
    assert "This review can be used for training." in client.get(path("review", review.pk)).content.decode()
    claim(review=review, by=bob)
    page = client.get(path("review", review.pk)).content.decode()
    assert "This review can be used for training." in page
    assert "bob: your word counts fully" in page
    Exchange.objects.update(token_ids=b"")
    Rater.objects.create(
        project=project, handle=bob.handle, kind="person", weight=0.35, bad=4, false_approvals=3, good=2
    )
    page = " ".join(client.get(path("review", review.pk)).content.decode().split())
    assert "This review cannot be used for training." in page
    assert "The model server told no token ids or log-probs" in page
    assert "bob: your word counts 0.35 of 1" in page
    assert "for you approved 3 of 4 that were wrong and rejected 0 of 2 that were right" in page
    Project.objects.update(learning_enabled=False)
    assert "Learning is switched off for the project" in client.get(path("review", review.pk)).content.decode()


def test_a_held_out_task_is_told_at_submit_on_its_review_and_in_my_feedback(project: Project, bob: User) -> None:
    ticket = next(item for item in DeskWorld().panel(1, 0))
    worker = make_worker(project, name="desk", kind="desk")
    data = {"worker": str(worker.pk), "environment": "desk", "prompt": ticket.prompt, "group_size": "2"}
    page = sign_in(make_user("alice")).post(path("task-new"), data, follow=True).content.decode()
    assert "It is held out: workers are measured on it" in page
    task = make_judged_task(project, environment="desk", prompt=ticket.prompt, state=Task.State.LEARNING)
    client = sign_in(bob)
    sent = client.post(path("task-feedback", task.pk), {"score": "0"}, follow=True).content.decode()
    assert "It cannot be used for training: the task is held out" in sent
    build_rollouts([task.pk], by="test")
    page = " ".join(client.get(path("my-feedback")).content.decode().split())
    assert "Cannot be used for training: the task is held out: it is only ever measured on" in page
    assert "Waiting for" not in page
