"""A project that is archived takes nothing new and keeps all it has: services, REST and console alike."""

import pytest
from django.urls import reverse

from apps.accounts.archiving import ProjectArchivedError, archive_project, unarchive_project
from apps.accounts.models import Member, Project, Role, User
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.audit.models import AuditEntry
from apps.base.errors import ConflictError, NotAllowedError
from apps.feedback.models import Review
from apps.pipeline import bridge, flow
from apps.rollouts.models import Batch
from apps.rollouts.selectors import why_nothing_trains
from apps.tasks.models import Task
from apps.training.models import TrainingRun
from apps.training.schedule import why_wait
from apps.workers.models import Worker
from tests.apps.console.builders import sign_in
from tests.edges.caller import Caller
from tests.factories import make_task, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def olga(project: Project) -> User:
    """Owns the project."""
    user = make_user("olga")
    Member.objects.create(project=project, user=user, role=Role.OWNER)
    return user


def test_an_archived_project_takes_no_task_by_any_way_and_all_again_when_it_is_taken_up(
    project: Project, worker: Worker, olga: User
) -> None:
    archived = archive_project(project=project, by=olga)
    with pytest.raises(ProjectArchivedError, match="project shop is archived and takes nothing new"):
        flow.submit(project=archived, prompt="hello", environment="chat", by=olga)
    with pytest.raises(ProjectArchivedError):
        flow.import_file(project=archived, text="hello", form="lines", environment="chat", by=olga)
    with pytest.raises(ProjectArchivedError):
        bridge.log_session(project=archived, key="k", worker_id="w", messages=[], model="m", by=olga)
    assert not Task.objects.exists()
    with pytest.raises(ConflictError, match="archived already"):
        archive_project(project=project, by=olga)
    active = unarchive_project(project=project, by=olga)
    assert flow.submit(project=active, prompt="hello", environment="chat", by=olga).pk
    kinds = AuditEntry.objects.filter(subject_type="project").values_list("kind", flat=True)
    assert list(kinds)[-2:] == ["project.archived", "project.unarchived"]


def test_only_an_owner_archives(project: Project, alice: User, olga: User) -> None:
    with pytest.raises(NotAllowedError):
        archive_project(project=project, by=alice)
    with pytest.raises(ConflictError, match="not archived"):
        unarchive_project(project=project, by=olga)


def test_no_training_of_it_starts_and_it_is_said_why(project: Project, worker: Worker, olga: User) -> None:
    batch = Batch.objects.create(project=project, worker=worker, number=1, target_tasks=1, state="closed")
    run = TrainingRun.objects.create(project=project, worker=worker, batch=batch, recipe={}, recipe_hash="0" * 64)
    assert why_wait(run) is None
    archive_project(project=project, by=olga)
    wait = why_wait(TrainingRun.objects.get())
    assert wait is not None
    assert wait.words == "its project is archived"
    project.refresh_from_db()
    assert why_nothing_trains(project)[0].words.startswith("The project is archived")


def test_by_rest_and_lists_hide_it_unless_asked(project: Project, worker: Worker, olga: User) -> None:
    caller = Caller(create_token(user=olga, name="t", scopes=Right.values, by=olga)[1])

    def slugs(query: str = "") -> list[str]:
        return [one["slug"] for one in caller.get(f"projects{query}").body["results"]]

    archived = caller.post("projects/shop/archive", {})
    assert (archived.status, archived.body["archived_at"] is None) == (200, False)
    assert (slugs(), slugs("?is_archived=false"), slugs("?is_archived=true")) == ([], [], ["shop"])
    assert caller.get("projects/shop").status == 200
    assert caller.get("whoami").body["memberships"] == [], "as in lists, where one's only project is looked for"
    refused = caller.post("tasks", {"project": "shop", "prompt": "hello", "environment": "chat"})
    assert (refused.status, refused.body["code"]) == (409, "project_archived")
    assert caller.post("projects/shop/archive", {}).status == 409
    assert caller.post("projects/shop/unarchive", {}).body["archived_at"] is None
    assert slugs() == ["shop"]


def test_in_the_console_it_is_said_before_and_shown_on_every_page(
    project: Project, worker: Worker, olga: User, alice: User
) -> None:
    make_task(project, state=Task.State.QUEUED)
    waits = make_task(project, state=Task.State.IN_REVIEW)
    Review.objects.create(project=project, task=waits, audience="human")
    client, path = sign_in(olga), reverse("console:project-archive", args=("shop",))
    assert path in client.get(reverse("console:settings", args=("shop",))).content.decode()
    said = client.get(path).content.decode()
    for words in ("What will happen", "One task is under way", "One review is open", "Nothing is deleted"):
        assert words in said
    client.post(path)
    project.refresh_from_db()
    assert project.archived_at is not None
    page = client.get(reverse("console:task-list", args=("shop",))).content.decode()
    unarchive = reverse("console:project-unarchive", args=("shop",))
    assert unarchive in page
    assert "takes no new task" in page
    assert unarchive not in sign_in(alice).get(reverse("console:task-list", args=("shop",))).content.decode()
    listed = reverse("console:projects")
    assert project.name not in client.get(listed).content.decode()
    assert project.name in client.get(f"{listed}?archived=1").content.decode()
    assert client.get(reverse("console:dashboard")).headers["Location"] == f"{listed}?archived=1"
    sent = client.post(
        reverse("console:task-new", args=("shop",)), {"prompt": "hello", "environment": "chat", "worker": worker.pk}
    )
    assert "is archived and takes nothing new" in sent.content.decode()
    client.post(unarchive)
    project.refresh_from_db()
    assert project.archived_at is None


def test_a_project_is_renamed_in_its_settings(project: Project, olga: User) -> None:
    client, path = sign_in(olga), reverse("console:settings", args=("shop",))
    said = {"name": "The corner shop", "group_size": 8, "batch_tasks": 24, "held_out_percent": 10}
    sent = client.post(path, {"section": "general"} | {f"general-{name}": value for name, value in said.items()})
    assert sent.status_code == 302
    project.refresh_from_db()
    assert (project.name, project.slug) == ("The corner shop", "shop")
