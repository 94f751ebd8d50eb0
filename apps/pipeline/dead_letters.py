"""Taking up work again that failed for good, one piece of it or all that a list shows."""

from collections.abc import Mapping
from typing import NamedTuple

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.base.errors import ConflictError, NotAllowedError
from apps.finding.failed import FailedFilters
from apps.outbox import services as outbox
from apps.outbox.models import Segment
from apps.outbox.selectors import find_dead

MOST_REPLAYED = 1_000


def replay(*, segment: Segment, by: User) -> Segment:
    """Take up a dead letter at the link it died at."""
    if segment.project_id is None:
        raise NotAllowedError("this failed work belongs to no project")
    require_right(by, Project.objects.get(pk=segment.project_id), Right.PIPELINE_WRITE)
    return outbox.replay(segment, by=by.handle)


class Replayed(NamedTuple):
    """What replaying many dead letters came to.

    Args:
        taken: at work again. refused: at work already, or no dead letter any more. left: not looked at this time.
    """

    taken: int
    refused: int
    left: int


def replay_all(*, project: Project, by: User, filters: Mapping[str, str] | None = None) -> Replayed:
    """Take up a project's dead letters, the oldest first, at most `MOST_REPLAYED` at once; each is taken or not.

    Args:
        filters: only those that the list of failed work shows with these.
    Raises:
        BadInputError: naming each filter that is unknown or cannot be.
    """
    require_right(by, project, Right.PIPELINE_WRITE)
    dead = FailedFilters.bind(filters or {}, find_dead(project.pk), by).qs.order_by("pk")
    taken = refused = 0
    for segment in dead[:MOST_REPLAYED]:
        try:
            outbox.replay(segment, by=by.handle)
        except ConflictError:
            refused += 1
        else:
            taken += 1
    return Replayed(taken, refused, max(0, dead.count() - refused))
