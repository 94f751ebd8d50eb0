"""Every page of a project, as every role, looked at and sent to: who may gets in, who may not changes nothing."""

import re
import tomllib
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, resolve, reverse
from django.utils import timezone

from apps.accounts.models import Member, Project, Role, User
from apps.accounts.rights import ROLE_RIGHTS, Right
from apps.calibration.models import FavourScreen, Rater
from apps.console.models import SavedView
from apps.evals.models import Evaluation, Taskset
from apps.feedback.models import BulkJudgement
from apps.inference.models import Exchange, Session
from apps.supervision.models import Proposal
from apps.tasks.models import Task
from apps.training.models import ManagerRun
from apps.webhooks.models import Delivery, Webhook
from tests.apps.console.builders import draw_screenshots
from tests.e2e.pages import find_manager_pages, find_own_pages
from tests.e2e.pages import find_pages as find_looked_at
from tests.e2e.scenery import build_scene
from tests.edges.lived_in import EVERY_ROLE, make_lived_in
from tests.edges.writes import noting_writes
from tests.factories import make_project, make_user

pytestmark = pytest.mark.django_db

TABLE: dict[str, str | list[str]] = tomllib.loads(
    (Path(__file__).parent / "permissions.toml").read_text(encoding="utf-8")
)["pages"]
# what has to be said for a page to know what is meant
BODIES = {"view-keep": {"page": "task-list", "name": "mine"}, "settings": {"section": "general"}}
# what one can open and is no page of its own: a number beside a link, where the form of another page is sent,
# a download
NO_PAGES = {"proposal-count", "proposal-decide", "exchange-json", "screenshot"}
# what differs from answer to answer
CHANGING = re.compile(
    r'nonce="[^"]+"|csrfmiddlewaretoken" value="[^"]+"|/p/[\w-]+/[^"<\s]*|data-live-after="\d+"|data-now="\d+"'
)


@cache
def find_pages() -> dict[str, URLPattern]:
    """Name -> pattern of everything below /p/<slug>/."""
    found: dict[str, URLPattern] = {}

    def walk(resolver: Any, prefix: str) -> None:
        for entry in resolver.url_patterns:
            if isinstance(entry, URLResolver):
                walk(entry, prefix + str(entry.pattern))
            elif entry.name and (prefix + str(entry.pattern)).startswith("p/<slug:slug>/"):
                found[entry.name] = entry  # an address of before has no name: it leads on, whoever asks

    walk(get_resolver(), "")
    return found


def takes(page: str, verb: str) -> str:
    wanted = TABLE[page]
    return wanted if isinstance(wanted, str) else wanted[verb == "post"]


@pytest.fixture
def ids(project: Project) -> dict[str, Any]:
    """What the placeholders of the paths stand for."""
    rows = make_lived_in(project)
    owner = User.objects.get(username=EVERY_ROLE["owner"])
    view = SavedView.objects.create(project=project, page="task-list", name="failed", query="state=failed")
    found = {f"{name}_id": pk for name, pk in rows.items() if name != "slug"}
    return found | {"name": "echo", "view_id": view.pk, **make_more(project, owner, rows)}


def make_more(project: Project, owner: User, rows: dict[str, Any]) -> dict[str, Any]:
    """Rows that only the console has pages for."""
    task = Task.objects.get(pk=rows["task"])
    proposal = Proposal.objects.create(
        project=project,
        task=task,
        proposed_by=owner,
        kind="tool",
        tool="refund",
        action={"kind": "tool", "tool": "refund", "arguments": {}},
        deadline_at=timezone.now() + timedelta(hours=1),
    )
    Evaluation.objects.filter(pk__in=(rows["evaluation"], rows["other"])).update(item_set_hash="5f1d")
    bulk = BulkJudgement.objects.create(project=project, by=owner, total=1)
    attempt = task.attempts.earliest("index")
    taskset = Taskset.objects.create(project=project, name="held-out", environment="chat")
    item = taskset.items.create(split="train", prompt="Name a sea.", content_hash="1" * 64, bands=[1])
    return {
        "index": attempt.index,
        "sha256": draw_screenshots(attempt, [1, 2]),
        "proposal_id": proposal.pk,
        "bulk_id": bulk.pk,
        "beside_id": rows["other"],
        "environment": "desk",
        "place": 0,
        "number": 0,
        "session_id": Session.objects.create(project=project, key="s1").pk,
        "exchange_id": Exchange.objects.create(project=project, model="desk", text="hello").pk,
        **make_webhook(project),
        "taskset_id": taskset.pk,
        "item_id": item.pk,
        "rater_id": Rater.objects.create(project=project, handle="user:bob", kind="person").pk,
        "key": keep_favour(project),
        "fit_id": ManagerRun.objects.create(project=project, manager="agent:rubric:desk").pk,
    }


def keep_favour(project: Project) -> str:
    """A group that favours a line of work. Returns what it is asked for by."""
    figures = {"p": 0.001, "tasks": 40, "share": 0.9, "expected": 0.5, "known_right": None, "known_items": 0}
    said = {"cleared": False, "examples": [], "found_at": "2026-01-01T00:00:00+00:00"}
    key = "5f1d"
    group = {"key": key, "line": "desk", "raters": ["user:bob"], "dismissed_by": "", "dismiss_reason": ""}
    FavourScreen.objects.create(project=project, screened_at=timezone.now(), groups=[group | figures | said])
    return key


def make_webhook(project: Project) -> dict[str, int]:
    webhook = Webhook.objects.create(project=project, url="https://example.org/told", secret_sealed=b"")
    delivery = Delivery.objects.create(webhook=webhook, kind="task.done", body={}, state="dead")
    return {"webhook_id": webhook.pk, "delivery_id": delivery.pk}


def path_of(page: str, ids: dict[str, Any], slug: str = "shop") -> str:
    names = find_pages()[page].pattern.converters
    wanted = {name: ids[name] for name in names}
    if page == "export":
        wanted["name"] = "tasks"
    return reverse(f"console:{page}", kwargs={"slug": slug, **wanted})


class Visitor:
    """One person's browser; what it sends is taken back."""

    def __init__(self, user: User | None, ids: dict[str, Any]) -> None:
        self.client, self.ids = Client(), ids
        self.wrote: list[str] = []
        if user is not None:
            self.client.force_login(user)

    def send(self, verb: str, page: str, slug: str = "shop", query: str = "", **changed: Any) -> Any:
        with transaction.atomic(), noting_writes() as self.wrote:
            path = path_of(page, self.ids | changed, slug) + query
            answer: Any = self.client.get(path) if verb == "get" else self.client.post(path, BODIES.get(page, {}))
            if answer.streaming:
                b"".join(answer.streaming_content)
            transaction.set_rollback(True)
        return answer


def test_every_page_is_classified() -> None:
    assert sorted(set(find_pages()) ^ set(TABLE)) == []


def test_every_page_is_looked_at(ids: dict[str, Any]) -> None:
    """By axe, by the photographs, by the query counts: what one can open is in one of the lists they read."""
    nobody = Visitor(None, ids)  # who is sent to sign in just where there is something to open
    opened = {page for page in find_pages() if nobody.send("get", page).status_code != 405}
    scene = build_scene(updates=2)
    listed = find_looked_at(scene) | find_manager_pages(scene) | find_own_pages()
    looked_at = {resolve(path.partition("?")[0]).url_name for path in listed.values() if "no-such" not in path}
    assert sorted(opened - looked_at - NO_PAGES) == []
    assert opened >= NO_PAGES


def test_every_right_that_a_template_asks_for_exists() -> None:
    asked = {
        name
        for path in (Path(__file__).parents[3] / "templates").rglob("*.html")
        for name in re.findall(r"scene\.can\.(\w+)", path.read_text(encoding="utf-8"))
    }
    assert "TASKS_WRITE" in asked
    assert asked <= set(Right.__members__)


def test_every_right_of_the_table_exists() -> None:
    said = {word for name in TABLE for verb in ("get", "post") for word in takes(name, verb).split()}
    assert said <= {*Right.values, "member", "own"}


@pytest.mark.parametrize("role", Role.values)
def test_each_role_gets_where_it_may_and_nowhere_else(ids: dict[str, Any], role: str) -> None:
    visitor = Visitor(User.objects.get(username=EVERY_ROLE[role]), ids)
    rights = {right.value for right in ROLE_RIGHTS[Role(role)]}
    wrong = []
    for page in find_pages():
        for verb in ("get", "post"):
            wanted = takes(page, verb)
            status = visitor.send(verb, page).status_code
            is_own = wanted.startswith("own ")
            right = wanted.removeprefix("own ")
            if status == 405:
                is_right = not visitor.wrote
            elif right == "member" or right in rights:
                is_right = status < 500 and status != 403 and (status != 404 or is_own)
            else:
                is_right = status == 403 and not visitor.wrote
            if not is_right:
                wrong.append((verb, page, wanted, status, visitor.wrote[:1]))
    assert not wrong, "\n".join(map(str, wrong))


def send_each_way(visitor: Visitor, page: str) -> Iterator[tuple[str, str, Any]]:
    """(verb, query, answer): read, read for one fragment, sent to."""
    for verb, query in (("get", ""), ("get", f"?fragment={page.replace('-', '_')}"), ("post", "")):
        yield verb, query, visitor.send(verb, page, query=query)


def test_who_is_not_signed_in_is_sent_to_sign_in_and_no_fragment_leaks(ids: dict[str, Any]) -> None:
    visitor = Visitor(None, ids)
    wrong = []
    for page in find_pages():
        for verb, query, answer in send_each_way(visitor, page):
            if answer.status_code not in (302, 405) or visitor.wrote:
                wrong.append((verb, page, query, answer.status_code, visitor.wrote[:1]))
            if answer.status_code == 302:
                assert answer.headers["Location"].startswith("/sign-in/"), page
    assert not wrong, "\n".join(map(str, wrong))


def test_an_outsider_gets_nowhere_and_cannot_tell_a_foreign_project_from_a_missing_one(ids: dict[str, Any]) -> None:
    outsider = make_user("charlie")
    Member.objects.create(project=make_project("elsewhere"), user=outsider, role=Role.OWNER)
    visitor = Visitor(outsider, ids)
    wrong = []
    for page in find_pages():
        hidden: dict[str, Any] = {verb: visitor.send(verb, page, slug="no-such-project") for verb in ("get", "post")}
        for verb, query, shown in send_each_way(visitor, page):
            seen, missing = (CHANGING.sub("", answer.content.decode()) for answer in (shown, hidden[verb]))
            is_alike = (shown.status_code, seen) == (hidden[verb].status_code, missing)
            if shown.status_code not in (404, 405) or visitor.wrote or not is_alike:
                wrong.append((verb, page, query, shown.status_code, visitor.wrote[:1], is_alike))
    assert not wrong, "\n".join(map(str, wrong))


def test_rows_of_another_project_answer_like_missing_ones(ids: dict[str, Any]) -> None:
    """Somebody who owns a project puts the other's ids into its paths."""
    owner = make_user("charlie")
    Member.objects.create(project=make_project("own"), user=owner, role=Role.OWNER)
    visitor = Visitor(owner, ids)
    missing: dict[str, Any] = {name: 999_999 for name in ids if name.endswith("_id")}
    wrong = []
    for page, entry in find_pages().items():
        if not any(name in missing for name in entry.pattern.converters):
            continue
        for verb in ("get", "post"):
            foreign = visitor.send(verb, page, slug="own")
            wrote = visitor.wrote
            absent = visitor.send(verb, page, slug="own", **missing)
            alike = CHANGING.sub("", foreign.content.decode()) == CHANGING.sub("", absent.content.decode())
            if foreign.status_code not in (404, 405) or foreign.status_code != absent.status_code or wrote or not alike:
                wrong.append((verb, page, foreign.status_code, absent.status_code, wrote[:1]))
    assert not wrong, "\n".join(map(str, wrong))


def test_a_page_without_a_right_would_be_found(ids: dict[str, Any]) -> None:
    """The matrix is not blind: a viewer's visit to a page that the table says takes more is a deviation."""
    visitor = Visitor(User.objects.get(username=EVERY_ROLE["viewer"]), ids)
    assert visitor.send("get", "task-list").status_code == 200
    assert visitor.send("get", "task-new").status_code == 403
    owner = Visitor(User.objects.get(username=EVERY_ROLE["owner"]), ids)
    owner.send("post", "task-cancel")
    assert owner.wrote != []
