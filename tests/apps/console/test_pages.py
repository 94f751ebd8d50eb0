"""Every page, as everybody: what they see, what they must not, and what it costs."""

import gzip
import re
from html import unescape
from pathlib import Path
from urllib.parse import quote, unquote, urljoin, urlsplit

import pytest
from django.conf import settings
from django.contrib.staticfiles import finders
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import resolve, reverse

from apps.accounts.models import Member, Project, Role, User
from tests.apps.console.builders import sign_in
from tests.e2e.pages import find_pages
from tests.e2e.scenery import Scene, add_task
from tests.factories import make_user

pytestmark = pytest.mark.django_db

# what everybody may do: change their own console, take home what they see
OWN_FORMS = re.compile(r"^/(sign-out|preferences/theme|p/desk/(views|tour|exports))/")
OWNERS = {"repo_task_add"}
"""Pages that a manager may not open."""
ROW_ACTIONS = (
    "task-cancel",
    "review-claim",
    "review-release",
    "review-skip",
    "run-cancel",
    "run-pause",
    "run-resume",
    "adapter-promote",
    "replay",
)


def count_queries(client: Client, path: str) -> int:
    with CaptureQueriesContext(connection) as queries:
        answer = client.get(path)
    assert answer.status_code == 200, path
    return len(queries)


def test_pages_cost_the_same_however_much_there_is_to_show(scene: Scene) -> None:
    client = sign_in(scene.alice)
    pages = find_pages(scene)
    changing = [pages[name] for name in ("dashboard", "tasks", "runs", "adapters", "reviews", "audit")]
    client.get(changing[0])
    before = [count_queries(client, path) for path in changing]
    short = count_queries(client, reverse("console:task", args=("desk", add_task(scene, attempts=2).pk)))
    for _ in range(4):
        long_task = add_task(scene, attempts=12)
    assert [count_queries(client, path) for path in changing] == before
    assert count_queries(client, reverse("console:task", args=("desk", long_task.pk))) == short


def test_a_reviewer_sees_every_page_but_the_audit_and_the_webhooks(scene: Scene) -> None:
    client, refused = sign_in(make_user("bob")), {"audit", "webhooks", "webhook", *OWNERS}
    for name, path in find_pages(scene).items():
        assert client.get(path).status_code == (403 if name in refused else 200), name


def test_a_viewer_may_look_and_is_offered_nothing_to_change(scene: Scene) -> None:
    viewer = make_user("vera")
    Member.objects.create(project=scene.project, user=viewer, role=Role.VIEWER)
    client = sign_in(viewer)
    pages = find_pages(scene)
    for name in ("dashboard", "tasks", "task", "reviews", "runs", "run", "adapters", "adapter", "dead_letters"):
        page = client.get(pages[name]).content.decode()
        sent_to = re.findall(r'method="post"(?: action="([^"]*)")?', page)
        assert [path for path in sent_to if not OWN_FORMS.search(path)] == [], name
    assert client.get(pages["task_new"]).status_code == 403
    assert client.post(pages["task_new"], {}).status_code == 403


def test_an_outsider_finds_nothing_anywhere(scene: Scene, charlie: User) -> None:
    client = sign_in(charlie)
    for name, path in find_pages(scene).items():
        assert client.get(path).status_code == 404, name
        assert client.get(f"{path}?fragment={name}").status_code == 404, name
    for name in ROW_ACTIONS:
        assert client.post(reverse(f"console:{name}", args=("desk", 1))).status_code == 404, name


def test_nobody_is_sent_to_sign_in_and_back(scene: Scene) -> None:
    for name, path in find_pages(scene).items():
        answer = Client().get(path)
        assert answer.status_code == 302, name
        assert answer.headers["Location"] == f"{reverse('console:sign-in')}?next={quote(path)}"


def test_rows_of_another_project_are_not_found_under_ones_own(scene: Scene) -> None:
    own = Project.objects.create(slug="own", name="Own")
    Member.objects.create(project=own, user=scene.alice, role=Role.OWNER)
    client = sign_in(scene.alice)
    rows = {"task": scene.reviewed, "review": scene.review, "run": scene.run, "adapter": scene.adapter}
    for name, row in rows.items():
        assert client.get(reverse(f"console:{name}", args=("own", row.pk))).status_code == 404, name
        for action in (action for action in ROW_ACTIONS if action.startswith(name)):
            assert client.post(reverse(f"console:{action}", args=("own", row.pk))).status_code == 404, action
    assert client.post(reverse("console:replay", args=("own", scene.dead.pk))).status_code == 404


def test_a_superuser_sees_projects_without_being_a_member(scene: Scene) -> None:
    client = sign_in(make_user("root", is_superuser=True))
    assert client.get(find_pages(scene)["audit"]).status_code == 200


def test_the_first_page_is_where_work_is_and_then_where_one_was_last(scene: Scene) -> None:
    other = Project.objects.create(slug="apes", name="Apes")
    Member.objects.create(project=other, user=scene.alice, role=Role.OWNER)
    client = sign_in(scene.alice)
    first = reverse("console:dashboard")
    assert client.get(first).headers["Location"] == reverse("console:project", args=("desk",))
    page = client.get(reverse("console:project", args=("apes",))).content.decode()
    assert reverse("console:project", args=("desk",)) in page
    assert client.get(first).headers["Location"] == reverse("console:project", args=("apes",))


def test_who_is_in_no_project_is_told_so(charlie: User) -> None:
    page = sign_in(charlie).get(reverse("console:dashboard"))
    assert page.status_code == 200
    assert "no project yet" in page.content.decode()


def test_an_empty_project_says_on_every_list_what_it_is_for(alice: User, project: Project) -> None:
    client = sign_in(alice)
    said = {
        "project": "No worker yet",
        "task-list": "No task yet",
        "task-new": "no active worker",
        "review-list": "No open reviews",
        "run-list": "No run yet",
        "adapter-list": "No adapter yet",
        "blockers": "No task was ever submitted",
        "dead-letters": "Nothing has failed",
        "audit": "Nothing has happened yet",
    }
    for name, words in said.items():
        assert words in client.get(reverse(f"console:{name}", args=(project.slug,))).content.decode(), name


def test_a_live_update_gets_the_very_fragment_the_page_holds(scene: Scene) -> None:
    client = sign_in(scene.alice)
    path = find_pages(scene)["task"]
    fragment = client.get(path, {"fragment": "task"}).content.decode()
    assert fragment.lstrip().startswith('<div class="stack" id="task"')
    assert "<html" not in fragment
    assert "<html" in client.get(path, {"fragment": "../../base"}).content.decode()


@pytest.mark.parametrize(
    "query", ["state=gone", "before=x", "before=-1", "before=" + "9" * 20], ids=["state", "word", "negative", "huge"]
)
def test_an_unreadable_filter_is_refused_rather_than_broken(scene: Scene, query: str) -> None:
    assert sign_in(scene.alice).get(f"{find_pages(scene)['tasks']}?{query}").status_code == 400


def test_lists_go_on_where_the_last_page_ended(scene: Scene) -> None:
    client = sign_in(scene.alice)
    path = find_pages(scene)["audit"]
    for _ in range(10):
        add_task(scene, attempts=1)
    seen: list[int] = []
    older: int | None = None
    while True:
        context = client.get(path, {"before": older} if older else {}).context
        seen += [entry.pk for entry in context["entries"]]
        older = context["older"]
        if older is None:
            break
    assert seen == sorted(set(seen), reverse=True)
    assert len(seen) > 50


def test_pages_are_not_kept_by_the_browser_and_hold_no_inline_script_or_style(scene: Scene) -> None:
    client = sign_in(make_user("root", is_superuser=True))
    for name, path in find_pages(scene).items():
        answer = client.get(path)
        page = answer.content.decode()
        assert "no-store" in answer.headers["Cache-Control"], name
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"], name
        assert " style=" not in page, name
        assert "<style" not in page, name
        assert page.count("<script") == page.count("<script src=") + page.count('<script type="module" src='), name


LINK = re.compile(r'<a\b[^>]*?\shref="([^"#][^"]*)"')
LOADED = re.compile(r'<(?:script|link)\b[^>]*?\s(?:src|href)="([^"]+)"')
IMPORTED = re.compile(r"""^(?:import|export)\b[^;'"=]*["']([^"']+)["']""", re.MULTILINE)
MOST_SCRIPT_BYTES, MOST_STYLE_BYTES = 90_000, 40_000


def test_no_link_on_any_page_is_dead(scene: Scene) -> None:
    """One of each kind of link is followed: to that view, with those parameters."""
    client = sign_in(scene.alice)
    links: dict[tuple[str, tuple[str, ...]], str] = {}
    for path in find_pages(scene).values():
        for found in LINK.findall(client.get(path).content.decode()):
            target = urljoin(path, unescape(found))
            if not target.startswith("/"):
                continue  # what leads elsewhere says so by its address
            match = resolve(target.partition("?")[0].partition("#")[0])
            links.setdefault((match.view_name, tuple(sorted(QueryDict(urlsplit(target).query)))), target)
    dead = {target: status for target in links.values() if (status := client.get(target).status_code) not in {200, 302}}
    files = {target for target in dead if target.endswith("/download")}  # the scene's adapters have none
    assert dead.keys() == files
    assert len(links) > 60


def _load(path: str, loaded: dict[str, bytes]) -> None:
    """A static file with the modules that it imports."""
    name = unquote(path.removeprefix(settings.STATIC_URL))
    file = finders.find(name)
    assert isinstance(file, str), f"{path}: no file of ours"
    if name in loaded:
        return
    loaded[name] = Path(file).read_bytes()
    for imported in IMPORTED.findall(loaded[name].decode("utf-8", "replace")) if name.endswith(".js") else ():
        _load(urljoin(path, imported), loaded)


def test_a_first_load_is_light_and_asks_no_other_host(scene: Scene) -> None:
    client, pages = sign_in(scene.alice), find_pages(scene)
    for name in ("dashboard", "review", "run"):
        loaded: dict[str, bytes] = {}
        for path in LOADED.findall(client.get(pages[name]).content.decode()):
            assert path.startswith("/"), path
            if path.startswith(settings.STATIC_URL):
                _load(path, loaded)
        sizes = {
            kind: sum(len(gzip.compress(data)) for file, data in loaded.items() if file.endswith(kind))
            for kind in (".js", ".css")
        }
        assert 0 < sizes[".js"] <= MOST_SCRIPT_BYTES, (name, sizes)
        assert 0 < sizes[".css"] <= MOST_STYLE_BYTES, (name, sizes)


@pytest.mark.parametrize("path", ["/p/gone/", "/no-such-page/"])
def test_a_missing_page_is_one_of_ours(alice: User, path: str) -> None:
    answer = sign_in(alice).get(path)
    assert answer.status_code == 404
    assert "There is nothing here" in answer.content.decode()
