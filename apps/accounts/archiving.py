"""Projects that are over for now: they take nothing new, keep all they hold, and can be taken up again."""

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import ConflictError


class ProjectArchivedError(ConflictError):
    """The project takes nothing new."""

    code = "project_archived"


def say_archived(slug: str) -> str:
    return f"project {slug} is archived and takes nothing new: an owner can unarchive it"


def require_not_archived(project: Project) -> None:
    """Raises ProjectArchivedError."""
    if project.archived_at is not None:
        raise ProjectArchivedError(say_archived(project.slug))


def archive_project(*, project: Project, by: User) -> Project:
    """From now on it takes no new task and no gateway call, and starts no training. What it holds stays.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        ConflictError: it is archived.
    """
    return _set_archived(project, True, by)


def unarchive_project(*, project: Project, by: User) -> Project:
    """Take it up again, as it was.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        ConflictError: it is not archived.
    """
    return _set_archived(project, False, by)


def _set_archived(project: Project, is_archived: bool, by: User) -> Project:
    require_right(by, project, Right.PROJECTS_WRITE)
    with transaction.atomic():
        row = Project.objects.select_for_update().get(pk=project.pk)
        if (row.archived_at is not None) is is_archived:
            raise ConflictError(f"project {row.slug} is {'archived already' if is_archived else 'not archived'}")
        row.archived_at = timezone.now() if is_archived else None
        row.save(update_fields=["archived_at"])
        record(Kind.PROJECT_ARCHIVED if is_archived else Kind.PROJECT_UNARCHIVED, subject=row, by=by.handle)
    return row
