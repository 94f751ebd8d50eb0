"""Tasks of own repositories by REST and on a page: who sees them, and who takes one out for all projects."""

from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from apps.accounts.models import Project, Role, User
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.audit.models import AuditEntry
from apps.console.selectors import environments
from tentalis.verification.loading import save_task
from tests.apps.console.builders import sign_in
from tests.edges.caller import Caller
from tests.verification.repos import FILES, make_task

pytestmark = pytest.mark.django_db

CALC, OTHER, BROKEN = "calc-1@0123456789ab", "calc-2@0123456789ab", "calc-3@0123456789ab"


@pytest.fixture
def added(tmp_path: Path, settings: Any) -> Path:
    """A store with a task to train on, one to measure on, and one that nobody can read."""
    settings.ARTIFACTS = tmp_path
    place = tmp_path / "repo_tasks"
    save_task(make_task(name="calc-1"), FILES, place / "train" / CALC)
    save_task(make_task(name="calc-2", issue="Adding <b>subtracts</b>.\nMend it."), FILES, place / "held_out" / OTHER)
    (place / "train" / BROKEN).mkdir(parents=True)
    return place


@pytest.fixture
def admin(alice: User) -> User:
    User.objects.filter(pk=alice.pk).update(is_superuser=True)
    alice.refresh_from_db()
    return alice


def call(user: User, project: Project | None = None) -> Caller:
    return Caller(create_token(user=user, name="t", scopes=Right.values, by=user, project=project)[1])


def test_all_are_listed_and_what_cannot_be_read_says_why(added: Path, project: Project, bob: User) -> None:
    rows = {row["name"]: row for row in call(bob).get("repo-tasks").body["results"]}
    assert list(rows) == [CALC, OTHER, BROKEN]
    assert (rows[OTHER]["split"], rows[OTHER]["issue"]) == ("held_out", "Adding <b>subtracts</b>.")
    assert rows[CALC]["tests"] == len(make_task(name="calc-1").tests)
    assert rows[BROKEN]["fault"].startswith("task.json: "), "nobody is told where it lies"


def test_only_an_admin_with_a_free_token_removes_one_and_it_is_on_record(
    added: Path, project: Project, admin: User, bob: User
) -> None:
    refused = [call(bob), call(admin, project)]
    assert [one.send("DELETE", f"repo-tasks/{CALC}").status for one in refused] == [403, 403]
    assert (added / "train" / CALC).is_dir()
    assert call(admin).send("DELETE", f"repo-tasks/{CALC}").status == 204
    assert not (added / "train" / CALC).exists()
    made = AuditEntry.objects.get(kind="world.task_removed")
    assert (made.actor, made.payload) == ("user:alice", {"world": "repos", "task": CALC})
    for missing in (CALC, "no-task", ".."):
        assert call(admin).send("DELETE", f"repo-tasks/{missing}").status == 404
    assert AuditEntry.objects.filter(kind="world.task_removed").count() == 1


def test_the_page_shows_them_in_parts_and_asks_an_admin_before_it_removes(
    added: Path, project: Project, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "REPO_TASKS", 2)
    page, pages = reverse("console:repo-task-list", args=("shop",)), sign_in(admin)
    first = pages.get(page).content.decode()
    assert (CALC in first, OTHER in first, BROKEN in first, "?start=2" in first) == (True, True, False, True)
    assert "Adding &lt;b&gt;subtracts&lt;/b&gt;." in first
    assert BROKEN in pages.get(f"{page}?start=2").content.decode()
    asked = pages.get(f"{page}?remove={CALC}").content.decode()
    assert "No task of any project can be done or judged with it again" in asked
    assert (added / "train" / CALC).is_dir()
    assert CALC not in pages.post(f"{page}?remove={CALC}", follow=True).content.decode().split("<table", 1)[1]
    assert not (added / "train" / CALC).exists()
    assert "wanted a task that was added" in pages.get(f"{page}?remove={CALC}").content.decode()


def test_who_is_no_admin_is_offered_no_removal_and_told_why(added: Path, project: Project, alice: User) -> None:
    project.members.filter(user=alice).update(role=Role.OWNER)
    page, pages = reverse("console:repo-task-list", args=("shop",)), sign_in(alice)
    assert "?remove=" not in pages.get(page).content.decode()
    assert "this takes an admin of the installation" in pages.get(f"{page}?remove={CALC}").content.decode()
    assert "this takes an admin" in pages.post(f"{page}?remove={CALC}", follow=True).content.decode()
    assert (added / "train" / CALC).is_dir()
