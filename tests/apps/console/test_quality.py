"""The quality pages: who sees whom, what they say, what they cost, and the way back from quarantine."""

import re
from collections.abc import Iterator
from copy import deepcopy

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django import DjangoDbBlocker

from apps.accounts.models import Member, Project, Role, User
from apps.audit.models import AuditEntry
from apps.calibration.models import Comparison, FavourScreen, Rater
from apps.console.selectors.quality import _measure_agreement, show_quality
from tests.apps.console.builders import sign_in
from tests.apps.console.quality_scenery import build_raters
from tests.apps.feedback.reviewers import build_colluders
from tests.factories import make_project, make_user
from tests.support.standing import standing

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def standing_raters(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[tuple[Project, dict[str, Rater]]]:
    def build() -> tuple[Project, dict[str, Rater]]:
        project = make_project()
        return project, build_raters(project)

    with standing(build, django_db_blocker) as built:
        yield built


@pytest.fixture
def project(standing_raters: tuple[Project, dict[str, Rater]], db: None) -> Project:
    return deepcopy(standing_raters[0])


@pytest.fixture
def raters(standing_raters: tuple[Project, dict[str, Rater]], db: None) -> dict[str, Rater]:
    return deepcopy(standing_raters[1])


def look(user: User, name: str = "quality", *args: object, project: str = "shop") -> str:
    answer = sign_in(user).get(reverse(f"console:{name}", args=(project, *args)))
    assert answer.status_code == 200
    return answer.content.decode()


def count_queries(client: Client, path: str) -> int:
    with CaptureQueriesContext(connection) as queries:
        assert client.get(path).status_code == 200
    return len(queries)


def test_a_manager_sees_everybody_and_what_became_of_them(alice: User, raters: dict[str, Rater]) -> None:
    html = look(alice)
    assert raters["user:dora"].quarantined_at is not None
    assert raters["scorer:prm"].weight < 0.1
    assert raters["user:alice"].weight > 0.8
    for words in ("2 raters made too many errors", "dora", "Not used", "In use", "Krippendorff", "alice and bob"):
        assert words in html
    assert "items that people rejected" in " ".join(html.split())


def test_figures_are_drawn_once_for_the_same_words_and_again_for_others(
    project: Project, raters: dict[str, Rater]
) -> None:
    _measure_agreement.cache_clear()  # other tests look at the same words
    before = _measure_agreement.cache_info()
    first, again = show_quality(project).agreement, show_quality(project).agreement
    after = _measure_agreement.cache_info()
    assert first is not None
    assert first == again
    assert (after.hits - before.hits, after.misses - before.misses) == (1, 1)
    newest = Comparison.objects.filter(source=Comparison.Source.PEER).latest("pk")
    Comparison.objects.filter(pk=newest.pk).update(said=1 - newest.said)
    assert show_quality(project).agreement != first


def test_a_reviewer_sees_only_themselves(bob: User, raters: dict[str, Rater]) -> None:
    html = look(bob)
    assert "bob" in html
    for other in ("dora", "PRM", "Krippendorff", "alice"):
        assert other not in html
    client = sign_in(bob)
    assert client.get(reverse("console:rater", args=("shop", raters["user:bob"].pk))).status_code == 200
    assert client.get(reverse("console:rater", args=("shop", raters["user:dora"].pk))).status_code == 404


def test_a_reviewer_is_not_told_whose_word_theirs_was_unlike(bob: User, raters: dict[str, Rater]) -> None:
    html = look(bob, "rater", raters["user:bob"].pk)
    assert "Wrong judgements" in html
    assert "alice" not in html
    assert "Another&#x27;s word" not in html


def test_an_auditor_sees_all_and_may_change_nothing(project: Project, raters: dict[str, Rater]) -> None:
    auditor = make_user("ada")
    Member.objects.create(project=project, user=auditor, role=Role.AUDITOR)
    dora = raters["user:dora"].pk
    assert "dora" in look(auditor)
    assert 'name="reason"' not in look(auditor, "rater", dora)
    answer = sign_in(auditor).post(reverse("console:rater-reinstate", args=("shop", dora)), {"reason": "x"})
    assert answer.status_code == 403
    assert Rater.objects.get(pk=dora).quarantined_at is not None


def test_a_stranger_finds_nothing(charlie: User, raters: dict[str, Rater]) -> None:
    client = sign_in(charlie)
    for name, args in (("quality", ()), ("rater", (raters["user:bob"].pk,))):
        assert client.get(reverse(f"console:{name}", args=("shop", *args))).status_code == 404


def test_nothing_crosses_projects(alice: User, raters: dict[str, Rater]) -> None:
    make_project("other")
    client = sign_in(alice)
    assert client.get(reverse("console:rater", args=("other", raters["user:bob"].pk))).status_code == 404
    post = client.post(reverse("console:rater-reinstate", args=("other", raters["user:dora"].pk)), {"reason": "x"})
    assert post.status_code == 404
    assert "dora" not in look(alice, project="other")


def test_a_manager_reinstates_with_a_reason_and_not_without(alice: User, raters: dict[str, Rater]) -> None:
    dora = raters["user:dora"].pk
    assert 'name="reason"' in look(alice, "rater", dora)
    client = sign_in(alice)
    path = reverse("console:rater-reinstate", args=("shop", dora))
    answer = client.post(path, {"reason": ""}, follow=True)
    assert "wanted 1 to 300 characters" in answer.content.decode()
    assert Rater.objects.get(pk=dora).quarantined_at is not None
    answer = client.post(path, {"reason": "She had the old rubric."}, follow=True)
    html = answer.content.decode()
    assert "dora is reinstated" in html
    assert "She had the old rubric." in html
    assert Rater.objects.get(pk=dora).weight == 1.0
    assert AuditEntry.objects.filter(kind="rater.weighed").latest("id").actor == "user:alice"


def test_the_page_of_one_rater_says_what_happened(alice: User, raters: dict[str, Rater]) -> None:
    html = " ".join(look(alice, "rater", raters["user:dora"].pk).split())
    for words in (
        "No longer counted",
        "False approvals, last 50 bad items",
        "Verified by the world.",
        "seconds an item",
        "probably not read",
        "Two parcels",
        'data-table="history-table"',
    ):
        assert words in html
    assert 'href="/p/shop/tasks/' in html


def test_pages_cost_the_same_however_much_there_is(alice: User) -> None:
    client, project = sign_in(alice), make_project("fresh")
    raters = build_raters(project, sittings=3, attempts=2)
    paths = [reverse("console:quality", args=("fresh",))] + [
        reverse("console:rater", args=("fresh", raters[handle].pk)) for handle in ("user:dora", "scorer:prm")
    ]
    client.get(paths[0])
    before = [count_queries(client, path) for path in paths]
    build_raters(project, sittings=20, attempts=6)
    assert [count_queries(client, path) for path in paths] == before
    assert max(before) <= 20


def test_before_anybody_was_compared_the_page_says_what_to_do(alice: User, bob: User) -> None:
    make_project("fresh")
    html = look(alice, project="fresh")
    assert "No comparisons yet" in html
    assert "No item has been judged by two people yet" in html
    assert "No comparisons of yours yet" in look(bob, project="fresh")


def test_a_hostile_handle_is_shown_and_not_run(project: Project, alice: User) -> None:
    Rater.objects.create(project=project, handle="agent:llm:<script>alert(1)</script>\u202e", kind="ai")
    html = look(alice)
    assert "<script>alert(1)" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert "U+202E" in html


def test_who_favours_whom_is_shown_and_a_manager_decides(alice: User) -> None:
    project = Project.objects.get(slug="shop")
    build_colluders(project)
    client, quality = sign_in(alice), reverse("console:quality", args=("shop",))
    assert "not looked at yet" in look(alice)
    client.post(reverse("console:favours-look", args=("shop",)))
    html = " ".join(look(alice).split())
    assert "hugo, ines" in html
    assert re.search(r"Approve 100\.0\s% of the work of bad \(48 judgements\); others approve 12\.5\s% of it", html)
    assert "No known answer says whether they are right." in html
    words = {"handle": "user:hugo", "reason": "judges the work of bad apart from the rest"}
    client.post(reverse("console:rater-quarantine", args=("shop",)), words)
    hugo = Rater.objects.get(project=project, handle="user:hugo")
    assert "alice decided that: judges the work of bad apart from the rest" in " ".join(
        look(alice, "rater", hugo.pk).split()
    )
    key = FavourScreen.objects.get().groups[0]["key"]
    client.post(reverse("console:favour-dismiss", args=("shop", key)), {"reason": "the style guide is theirs"})
    html = look(alice)
    assert "the style guide is theirs" in html
    assert client.get(quality).status_code == 200


def test_who_favours_whom_is_not_shown_to_reviewers_nor_acted_on_by_auditors(project: Project, alice: User) -> None:
    build_colluders(project)
    sign_in(alice).post(reverse("console:favours-look", args=("shop",)))
    ines = User.objects.get(username="ines")
    assert "Who favours whom" not in look(ines)
    auditor = make_user("ada")
    Member.objects.create(project=project, user=auditor, role=Role.AUDITOR)
    html = look(auditor)
    assert "hugo" in html
    assert "Look now" not in html
    post = sign_in(auditor).post(reverse("console:rater-quarantine", args=("shop",)), {"handle": "user:hugo"})
    assert post.status_code == 403
