"""Rows for tests, and the people in them: alice manages, bob reviews, charlie must see nothing."""

from typing import Any

from apps.accounts.models import Member, Project, Role, User
from apps.tasks.models import Task
from apps.workers.models import Worker


def make_user(name: str, **values: Any) -> User:
    user = User.objects.filter(username=name).first()
    if user is None:
        user = User.objects.create_user(username=name, password=f"{name}-has-a-password", **values)
    return user


def make_project(slug: str = "shop", **values: Any) -> Project:
    """A project with alice as its manager and bob as its reviewer."""
    project = Project.objects.create(slug=slug, name=slug.title(), **values)
    for name, role in (("alice", Role.MANAGER), ("bob", Role.REVIEWER)):
        Member.objects.create(project=project, user=make_user(name), role=role)
    return project


def make_worker(project: Project, name: str = "echo", kind: str = Worker.Kind.ECHO, **values: Any) -> Worker:
    return Worker.objects.create(project=project, name=name, kind=kind, **values)


def make_task(project: Project, worker: Worker | None = None, **values: Any) -> Task:
    """A task row as it stands after submission, without anything started."""
    worker = worker or Worker.objects.filter(project=project).first() or make_worker(project)
    defaults = {"environment": "chat", "prompt": "Say hello.", "group_size": 2, "submitted_by": make_user("alice")}
    return Task.objects.create(project=project, worker=worker, **defaults | values)
