"""May they: the token's scope first, then the role in the project. What a view does not classify is refused."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from apps.accounts.browser_sessions import find_confirmed_at
from apps.accounts.confirmation import require_fresh
from apps.accounts.models import ApiToken, Member, Project, User
from apps.accounts.rights import BEFORE_ANY_PROJECT, ROLE_RIGHTS, Right
from apps.accounts.second_factor import SecondFactorMissingError, lacks_required_factor
from apps.accounts.services import require_right
from apps.api.idempotency import note_concerned_project
from apps.base.errors import NotAllowedError, NotSignedInError

if TYPE_CHECKING:
    from rest_framework.views import APIView

PUBLIC = "public"
SIGNED_IN = "signed in"


def by_right(actions: Mapping[Right, str]) -> dict[str, Right]:
    """A view's `rights`, each with the actions that it opens: `{Right.RUNS_READ: "list retrieve"}`."""
    return {name: right for right, names in actions.items() for name in names.split()}


def right_of(view: "APIView", method: str) -> Right | str | None:
    """What this view asks for this method: a right, PUBLIC, SIGNED_IN, or None where nobody said."""
    rights: dict[str, Right | str] = getattr(view, "rights", {})
    action = getattr(view, "action", None)
    return rights.get(action or method.lower())


class HasScope(BasePermission):
    """Signed in, and holding the right that the view's `rights` table names for this action."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        right = right_of(view, request.method or "")
        if right == PUBLIC:
            return True
        user = request.user
        if not user.is_authenticated:
            raise NotSignedInError("this takes a token (Authorization: Bearer …) or a signed-in session")
        if right is None:
            return _is_unhandled(view, request)
        require_proof(request, view)
        if right == SIGNED_IN:
            return True
        require_scope(request, Right(right))
        if not projects_with(request, Right(right)).exists() and not _may_without_a_project(user, Right(right)):
            raise NotAllowedError(f"none of your roles holds the right {Right(right).value}")
        return True

    def has_object_permission(self, request: Request, view: "APIView", obj: Any) -> bool:
        right = right_of(view, request.method or "")
        project = obj if isinstance(obj, Project) else getattr(obj, "project", None)
        if isinstance(project, Project):
            note_concerned_project(request, project)
        if project is not None and right not in (None, PUBLIC, SIGNED_IN):
            require_right(current_user(request), project, Right(right))
        return True


def _is_unhandled(view: "APIView", request: Request) -> bool:
    """Whether no handler would run: the answer is 405 then, which tells nothing."""
    name = (request.method or "").lower()
    return name not in view.http_method_names or not hasattr(view, name)


def _may_without_a_project(user: Any, right: Right) -> bool:
    """Rights a person has before any project stands: looking, and making a first project or token of their own."""
    return not user.is_agent and (user.is_superuser or right in BEFORE_ANY_PROJECT)


def current_user(request: Request) -> User:
    """The signed-in user. Raises NotSignedInError for nobody."""
    if not isinstance(request.user, User):
        raise NotSignedInError("this takes a token or a signed-in session")
    return request.user


def current_token(request: Request) -> ApiToken | None:
    return request.auth if isinstance(request.auth, ApiToken) else None


def require_scope(request: Request, right: Right) -> None:
    """Raises NotAllowedError where the request came by a token without this scope. A session has every scope."""
    token = current_token(request)
    if token is not None and right.value not in token.scopes:
        raise NotAllowedError(f"the token lacks the scope {right.value}")


def require_proof(request: Request, view: "APIView") -> None:
    """What makes a person of who asks: a second factor where one is wanted, and a fresh proof where this takes one.

    A token made for a program has no person behind it to ask: its scopes hold.

    Raises:
        SecondFactorMissingError, ConfirmationRequiredError: by session, or by a token of signing in.
    """
    token = current_token(request)
    if token is not None and token.confirmed_at is None:
        return
    if token is None and lacks_required_factor(current_user(request)):
        raise SecondFactorMissingError("you must have a second factor here: set it up in the console first")
    name = getattr(view, "action", None) or (request.method or "").lower()
    if name in getattr(view, "takes_proof", ()):
        require_fresh(token.confirmed_at if token is not None else find_confirmed_at(request._request))


def visible_projects(request: Request) -> Any:
    """Projects the caller may know of; a token that is bound to one sees that one."""
    user = current_user(request)
    projects = Project.objects.visible_to(user)
    token = current_token(request)
    return projects.filter(pk=token.project_id) if token is not None and token.project_id else projects


def projects_with(request: Request, right: Right) -> Any:
    """Visible projects where the caller's role holds a right."""
    user = current_user(request)
    projects = visible_projects(request)
    if user.is_superuser:
        return projects
    roles = [role for role, rights in ROLE_RIGHTS.items() if right in rights]
    return projects.filter(pk__in=Member.objects.filter(user=user, role__in=roles).values("project"))
