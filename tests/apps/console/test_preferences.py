"""The console as somebody set it: colours, time zone, keys, saved views, first steps."""

from datetime import UTC, datetime

import pytest
from django.http import QueryDict
from django.template import Context, Template
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import Member, Project, Role, User
from apps.base.errors import BadInputError, ConflictError, NotAllowedError, NotFoundError
from apps.console.models import TOUR_DISMISSED, Preference, SavedView
from apps.console.preferences import change_preference, delete_view, find_views, save_view
from apps.console.selectors.tour import find_tour
from apps.console.templatetags.console import clock, moment
from apps.feedback.models import Feedback, Review
from tests.factories import make_task, make_user, make_worker

pytestmark = pytest.mark.django_db

AT = datetime(2026, 7, 3, 22, 5, 9, tzinfo=UTC)


@pytest.fixture
def client(alice: User) -> Client:
    client = Client()
    client.force_login(alice)
    return client


def open_tasks(client: Client) -> str:
    return client.get(reverse("console:task-list", args=("shop",))).content.decode()


def test_the_switch_keeps_the_choice_and_comes_back_to_the_page(client: Client, alice: User) -> None:
    assert 'data-theme="system"' in open_tasks(client)
    answer = client.post(reverse("console:theme"), {"theme": "dark", "next": "/p/shop/tasks/?state=done"})
    assert answer.headers["Location"] == "/p/shop/tasks/?state=done"
    assert 'data-theme="dark"' in open_tasks(client)
    assert Preference.objects.get(user=alice).theme == "dark"
    del client.cookies["sessionid"]
    assert 'data-theme="dark"' in client.get("/sign-in/").content.decode()


@pytest.mark.parametrize("way", ["https://127.0.0.2/", "//127.0.0.2/", "javascript:alert(1)", ""])
def test_the_switch_leads_to_no_other_place(client: Client, way: str) -> None:
    answer = client.post(reverse("console:theme"), {"theme": "dark", "next": way})
    assert answer.headers["Location"] == reverse("console:dashboard")


def test_an_unknown_theme_is_refused(client: Client) -> None:
    assert client.post(reverse("console:theme"), {"theme": "neon"}).status_code == 404
    assert not Preference.objects.exists()


def test_times_are_shown_in_the_zone_one_set_else_the_browsers_else_utc(
    client: Client, project: Project, alice: User
) -> None:
    task = make_task(project)
    type(task).objects.filter(pk=task.pk).update(created_at=AT)
    assert "3 July 2026, 22:05:09 UTC" in open_tasks(client)
    client.cookies["tentalis_zone"] = "Asia%2FTokyo"
    assert "4 July 2026, 07:05:09 JST (Asia/Tokyo)" in open_tasks(client)
    change_preference(user=alice, time_zone="Europe/Zurich")
    assert "4 July 2026, 00:05:09 CEST (Europe/Zurich)" in open_tasks(client)
    client.cookies["tentalis_zone"] = "../../etc/passwd"
    change_preference(user=alice, time_zone="")
    assert "3 July 2026, 22:05:09 UTC" in open_tasks(client)


def test_a_clock_names_its_zone_and_a_zone_without_a_name_is_named_whole() -> None:
    with timezone.override("America/Sao_Paulo"):
        assert "22:05 UTC" not in clock(AT)
        assert ">19:05 " in clock(AT)
        assert "3 July 2026, 19:05:09 America/Sao_Paulo" in moment(AT)


def test_one_zone_does_not_leak_into_the_next_request(client: Client, alice: User) -> None:
    change_preference(user=alice, time_zone="Asia/Tokyo")
    open_tasks(client)
    assert timezone.get_current_timezone_name() == "UTC"


def test_the_page_saves_all_of_it_and_says_what_is_wrong(client: Client, alice: User) -> None:
    path = reverse("console:preferences")
    said = {"theme": "light", "time_zone": "Europe/Zurich"}
    assert client.post(path, said).status_code == 302
    kept = Preference.objects.get(user=alice)
    assert (kept.theme, kept.time_zone, kept.keys_enabled) == ("light", "Europe/Zurich", False)
    assert kept.tour_step == TOUR_DISMISSED
    assert 'data-keys="off"' in open_tasks(client)
    answer = client.post(path, said | {"time_zone": "Mars/Base"})
    assert answer.status_code == 400
    assert 'aria-invalid="true"' in answer.content.decode()
    with pytest.raises(BadInputError, match="found 'Mars/Base'"):
        change_preference(user=alice, time_zone="Mars/Base")


def test_the_exact_time_is_a_word_of_templates_too() -> None:
    rendered = Template("{% load console %}{{ at|say_exactly }}").render(Context({"at": AT}))
    assert rendered == "3 July 2026, 22:05:09 UTC"


def test_a_filter_is_kept_found_and_dropped(client: Client, project: Project, alice: User, bob: User) -> None:
    keep = reverse("console:view-keep", args=("shop",))
    client.post(keep, {"page": "task-list", "name": " Broken  ones ", "query": "state=failed&before=7&fragment=x"})
    client.post(keep, {"page": "task-list", "name": "All done", "query": "state=done", "team": "on"})
    own = SavedView.objects.get(owner=alice)
    assert (own.name, own.query) == ("Broken ones", "state=failed")
    page = open_tasks(client)
    assert "Broken ones" in page
    assert '/p/shop/tasks/?state=failed"' in page
    others = find_views(project, bob, "task-list")
    assert [view.name for view in others] == ["All done"]
    client.post(reverse("console:view-drop", args=("shop", own.pk)))
    assert not SavedView.objects.filter(pk=own.pk).exists()


def test_the_same_name_again_takes_the_new_filter(project: Project, alice: User) -> None:
    for query in ("state=done", "state=failed"):
        save_view(project=project, by=alice, page="task-list", name="mine", query=query)
    assert [view.query for view in SavedView.objects.all()] == ["state=failed"]
    for query in ("state=done", "state=failed"):
        save_view(project=project, by=alice, page="task-list", name="mine", query=query, is_team=True)
    assert SavedView.objects.count() == 2


def test_views_are_refused_in_words(project: Project, alice: User, charlie: User) -> None:
    viewer = make_user("vera")
    Member.objects.create(project=project, user=viewer, role=Role.VIEWER)
    common = {"project": project, "page": "task-list", "query": "state=done"}
    with pytest.raises(NotFoundError):
        save_view(**common, by=charlie, name="x")  # type: ignore[arg-type]
    with pytest.raises(NotAllowedError):
        save_view(**common, by=viewer, name="x", is_team=True)  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match="wanted 1 to 60 characters, found 0"):
        save_view(**common, by=alice, name="  ")  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match="at most 500 characters"):
        query = QueryDict(mutable=True)
        query["actor"] = "x" * 600
        save_view(project=project, page="audit", query=query.urlencode(), by=alice, name="x")
    for number in range(50):
        save_view(**common, by=viewer, name=f"n{number}")  # type: ignore[arg-type]
    with pytest.raises(ConflictError, match="50 saved views"):
        save_view(**common, by=viewer, name="one too many")  # type: ignore[arg-type]
    theirs = SavedView.objects.filter(owner=viewer).first()
    assert theirs is not None
    with pytest.raises(NotFoundError):
        delete_view(view=theirs, by=alice)


def test_the_first_step_is_to_connect_and_a_task_page_says_that_somebody_is_missing(
    client: Client, project: Project, alice: User
) -> None:
    connect = reverse("console:connect", args=("shop",))
    assert find_tour(project, alice).now == find_tour(project, alice).steps[0]
    assert connect in client.get(reverse("console:project", args=("shop",))).content.decode()
    new = reverse("console:worker-new", args=("shop",))
    assert new in client.get(reverse("console:task-new", args=("shop",))).content.decode()


def test_the_first_steps_follow_what_was_done_and_go_when_dismissed(
    client: Client, project: Project, alice: User
) -> None:
    def done() -> list[bool]:
        project.refresh_from_db()
        return [step.is_done for step in find_tour(project, alice).steps]

    home = reverse("console:project", args=("shop",))
    make_worker(project)
    assert "First steps" in client.get(home).content.decode()
    assert done() == [True, False, False, False, False]
    task = make_task(project)
    assert done() == [True, True, False, False, False]
    assert find_tour(project, alice).steps[3].page == "task", "it is at work"
    project.review_policy = {"who": "ai"}
    project.save()
    assert done() == [True, True, True, False, False]
    type(task).objects.filter(pk=task.pk).update(state="in_review")
    step = find_tour(project, alice).steps[3]
    assert (step.page, step.args) == ("task-feedback", (task.pk,)), "nothing waits for a person, and the queue is empty"
    page = client.get(home).content.decode()
    assert reverse("console:task-feedback", args=("shop", task.pk)) in page
    Review.objects.create(project=project, task=task, audience="human")
    assert find_tour(project, alice).steps[3].page == "review-list"
    Feedback.objects.create(project=project, task=task, source="human", author="user:alice", score=1)
    assert done() == [True, True, True, True, False]
    assert 'aria-current="step"' in client.get(reverse("console:connect", args=("shop",))).content.decode()
    client.post(reverse("console:tour-dismiss", args=("shop",)))
    assert "First steps" not in client.get(home, follow=True).content.decode().replace("First steps are hidden", "")
    assert 'class="first-steps"' not in client.get(reverse("console:connect", args=("shop",))).content.decode()
    assert Preference.objects.get(user=alice).tour_step == TOUR_DISMISSED
