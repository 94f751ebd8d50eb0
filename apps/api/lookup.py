"""Finding what a request names, among what the caller may know of. Foreign and missing give the same answer."""

from collections.abc import Mapping
from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from rest_framework.request import Request

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.adapters.models import Adapter
from apps.api.idempotency import note_concerned_project
from apps.api.permissions import current_user, visible_projects
from apps.base.errors import NotFoundError
from apps.workers.models import Worker

Row = TypeVar("Row", bound=Model)
NAMED_BY: Mapping[Any, str] = {Project: "slug", Worker: "name", Adapter: "name", User: "username"}
"""Model -> the field by which REST names its rows; those of others it calls by number."""


def refuse(field: str, thing: str, name: object) -> NotFoundError:
    message = f"no {thing} {str(name)[:80]!r} here, or none that you may see"
    return NotFoundError.at(field, message)


def find_project(request: Request | Any, slug: str) -> Project:
    """Raises NotFoundError where the caller sees no such project."""
    project: Project | None = visible_projects(request).filter(slug=slug).first()
    if project is None:
        raise refuse("project", "project", slug)
    note_concerned_project(request, project)
    return project


def find_project_for(request: Request, slug: str, right: Right) -> Project:
    """As `find_project`; raises NotAllowedError where the role lacks the right."""
    project = find_project(request, slug)
    require_right(current_user(request), project, right)
    return project


def find_worker(project: Project, name: str, *, field: str = "worker") -> Worker:
    worker = Worker.objects.select_related("project").filter(project=project, name=name).first()
    if worker is None:
        raise refuse(field, "worker", name)
    return worker


def find_row(request: Request, rows: QuerySet[Row], pk: int, *, field: str, right: Right) -> Row:
    """A row of a visible project by id, where the caller's role holds the right.

    Raises:
        NotFoundError: missing or foreign.
        NotAllowedError: the role lacks the right.
    """
    row = rows.filter(project__in=visible_projects(request), pk=pk).first()
    if row is None:
        raise refuse(field, field, pk)
    project: Project = row.project  # type: ignore[attr-defined]
    note_concerned_project(request, project)
    require_right(current_user(request), project, right)
    return row
