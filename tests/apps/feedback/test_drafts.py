"""What is typed is kept, and a newer draft is never lost to an older one."""

import threading

import pytest
from django.db import connection

from apps.accounts.models import Project, User
from apps.base.errors import BadInputError, NotFoundError
from apps.feedback.claims import claim
from apps.feedback.drafts import find_draft, save_draft
from apps.feedback.errors import DraftClosedError, StaleDraftError
from apps.feedback.models import ReviewDraft
from apps.feedback.skip import skip_review
from apps.feedback.submit import give_feedback
from tests.apps.feedback.builders import make_open_review
from tests.factories import make_project, make_user


def test_a_draft_grows_version_by_version_and_each_person_has_their_own(
    project: Project, alice: User, bob: User
) -> None:
    review = make_open_review(project)
    assert find_draft(review, bob) is None
    first = save_draft(review=review, by=bob, data={"text": "a"}, version=0)
    second = save_draft(review=review, by=bob, data={"text": "ab"}, version=first.version)
    assert (first.version, second.version, second.data) == (1, 2, {"text": "ab"})
    save_draft(review=review, by=alice, data={"text": "other"}, version=0)
    found = find_draft(review, bob)
    assert found is not None
    assert found.data == {"text": "ab"}


def test_an_older_tab_does_not_overwrite_a_newer_one_and_is_shown_it(project: Project, bob: User) -> None:
    review = make_open_review(project)
    save_draft(review=review, by=bob, data={"text": "a"}, version=0)
    save_draft(review=review, by=bob, data={"text": "ab"}, version=1)
    for version in (0, 1, 7):
        with pytest.raises(StaleDraftError) as caught:
            save_draft(review=review, by=bob, data={"text": "x"}, version=version)
        assert caught.value.newer is not None
        assert (caught.value.newer.version, caught.value.newer.data) == (2, {"text": "ab"})
        assert caught.value.members == {"newer": {"version": 2, "data": {"text": "ab"}}}
    assert save_draft(review=review, by=bob, data={"text": "ab"}, version=1).version == 2  # the answer was lost


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"text": "x" * 262_144}, "at most 262,144 bytes"),
        ({"text": "a\x00b"}, "without NUL"),
        ({"text": "\ud800"}, "wanted JSON"),
        ({"score": float("nan")}, "wanted JSON"),
    ],
)
def test_what_cannot_be_kept_is_refused(project: Project, bob: User, data: dict[str, object], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        save_draft(review=make_open_review(project), by=bob, data=data, version=0)
    assert not ReviewDraft.objects.exists()


def test_a_backslash_is_no_nul(project: Project, bob: User) -> None:
    save_draft(review=make_open_review(project), by=bob, data={"text": "\\u0000"}, version=0)


def test_a_draft_goes_when_the_judgement_is_given_and_stays_when_the_review_is_passed_on(
    project: Project, bob: User
) -> None:
    review = claim(make_open_review(project), bob)
    save_draft(review=review, by=bob, data={"text": "a"}, version=0)
    skip_review(review=review, by=bob, reason="later", then="later")
    assert find_draft(review, bob) is not None
    give_feedback(review=claim(review, bob), by=bob, score=1)
    assert not ReviewDraft.objects.exists()
    with pytest.raises(DraftClosedError, match="nothing left to draft"):
        save_draft(review=review, by=bob, data={"text": "late"}, version=0)


def test_charlie_drafts_nothing(project: Project, charlie: User) -> None:
    with pytest.raises(NotFoundError):
        save_draft(review=make_open_review(project), by=charlie, data={}, version=0)


@pytest.mark.django_db(transaction=True)
def test_of_eight_tabs_that_save_over_one_version_one_wins() -> None:
    review, bob = make_open_review(make_project()), make_user("bob")
    save_draft(review=review, by=bob, data={"tab": -1}, version=0)
    start, outcomes = threading.Barrier(8), []

    def save(tab: int) -> None:
        try:
            connection.ensure_connection()
            start.wait(timeout=120)
            outcomes.append(save_draft(review=review, by=bob, data={"tab": tab}, version=1).data["tab"])
        except StaleDraftError:
            outcomes.append(None)
        finally:
            connection.close()

    threads = [threading.Thread(target=save, args=(tab,)) for tab in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    won = [tab for tab in outcomes if tab is not None]
    assert len(outcomes) == 8
    assert len(won) == 1
    draft = ReviewDraft.objects.get()
    assert (draft.version, draft.data) == (2, {"tab": won[0]})
