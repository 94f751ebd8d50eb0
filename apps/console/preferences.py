"""What people set for themselves, changed; and the filters they keep."""

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.http import QueryDict

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import find_rights, require_right
from apps.base.errors import BadInputError, ConflictError, NotFoundError
from apps.console.keys import check_keys
from apps.console.middleware import list_zones
from apps.console.models import MAX_QUERY_CHARS, MAX_VIEW_NAME_CHARS, Preference, SavedView, Theme

MAX_KEPT = 50
MOST_ON_DASHBOARD = 12
NOT_KEPT = ("before", "after", "fragment", "page", "cursor")


def change_preference(*, user: User, **changes: Any) -> Preference:
    """Set some of a person's preferences.

    Raises:
        BadInputError: naming the field, what was wanted and what was found.
    """
    checks = {
        "theme": (Theme.values, "one of " + ", ".join(Theme.values)),
        "time_zone": ({"", *list_zones()}, "the IANA name of a time zone, such as Europe/Zurich"),
    }
    for name, value in changes.items():
        known, wanted = checks.get(name, ((value,), ""))
        if value not in known:
            message = f"wanted {wanted}, found {value!r}"
            raise BadInputError.at(name, message)
    preference, _ = Preference.objects.update_or_create(pk=user.pk, defaults=changes)
    return preference


def change_keys(*, user: User, keys: Mapping[str, str]) -> Preference:
    """Give actions other keys; what is not named has its built-in one again.

    Args:
        keys: action -> key.
    Raises:
        BadInputError: an unknown action or key, or one key for two actions of a page.
    """
    return change_preference(user=user, keys=check_keys(keys))


def save_view(*, project: Project, by: User, page: str, name: str, query: str, is_team: bool = False) -> SavedView:
    """Keep a list's filter under a name; a name of one's own used again takes the new filter.

    Args:
        query: the list's query string; cursors and fragments in it are left out.
        is_team: everybody in the project sees it.
    Raises:
        NotFoundError: no member of the project. NotAllowedError: a team's view takes the right to submit or review.
        BadInputError: no name, or a filter longer than can be kept.
        ConflictError: too many are kept already.
    """
    if is_team:
        require_right(by, project, Right.TASKS_WRITE)
    elif not find_rights(by, project):
        raise NotFoundError(f"no project {project.slug}")
    name = " ".join(name.split())
    if not 1 <= len(name) <= MAX_VIEW_NAME_CHARS:
        raise BadInputError.at("name", f"wanted 1 to {MAX_VIEW_NAME_CHARS} characters, found {len(name)}")
    kept = QueryDict(query, mutable=True)
    for word in NOT_KEPT:
        kept.pop(word, None)
    query = kept.urlencode()
    if len(query) > MAX_QUERY_CHARS:
        raise BadInputError(f"query: wanted a filter of at most {MAX_QUERY_CHARS} characters, found {len(query)}")
    owner = None if is_team else by
    own = SavedView.objects.filter(project=project, owner=owner, page=page)
    if own.count() >= MAX_KEPT:
        raise ConflictError(f"this list has {MAX_KEPT} saved views already; delete one first")
    try:
        with transaction.atomic():
            return SavedView.objects.update_or_create(
                project=project, owner=owner, page=page, name=name, defaults={"query": query}
            )[0]
    except IntegrityError:  # somebody saved the same name in this moment
        raise ConflictError(f"a view named {name} was saved just now; load the page to see it") from None


def delete_view(*, view: SavedView, by: User) -> None:
    """Raises NotFoundError for somebody else's, NotAllowedError where the role may not change the team's."""
    if view.owner_id is None:
        require_right(by, view.project, Right.TASKS_WRITE)
    elif view.owner_id != by.pk:
        raise NotFoundError(f"no saved view {view.pk}")
    view.delete()


def find_views(project: Project, user: User, page: str) -> list[SavedView]:
    """The team's and one's own of a list, the team's first."""
    shared = SavedView.objects.filter(project=project, page=page, owner=None)
    own = SavedView.objects.filter(project=project, page=page, owner=user)
    return [*shared[:MAX_KEPT], *own[:MAX_KEPT]]


def find_dashboard_views(project: Project, user: User) -> list[SavedView]:
    """The team's and one's own of every list, the team's first."""
    views = SavedView.objects.filter(Q(owner=None) | Q(owner=user), project=project)
    return list(views.order_by(F("owner").asc(nulls_first=True), "page", "name")[:MOST_ON_DASHBOARD])
