"""Which role may call which route, read from the code that decides it: the views' rights and the roles' rights."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from django.urls import URLPattern, URLResolver, get_resolver
from django.utils.regex_helper import normalize

from apps.accounts.models import Role
from apps.accounts.rights import ROLE_RIGHTS, Right
from apps.api.permissions import PUBLIC, SIGNED_IN
from apps.api.views.docs import UnknownPathView

PREFIXES = ("api/v1/", "bridge/")
VERBS = ("get", "post", "put", "patch", "delete")
BEGIN, END = "<!-- matrix: written by `manage.py rest_matrix` -->", "<!-- end of the matrix -->"


YES, OWN = "✓", "own"
PEOPLE = frozenset(Role) - {Role.AGENT}
LEADERS = frozenset({Role.OWNER, Role.MANAGER})


class Access(NamedTuple):
    """What else is asked than a right.

    Args:
        words: as tests/edges/permissions.toml says it.
        anybodys: roles that may whosever the row is. own: roles that may where it is theirs.
    """

    words: str
    anybodys: frozenset[Role] = frozenset()
    own: frozenset[Role] = frozenset()


def _find_roles(*wanted: Right) -> frozenset[Role]:
    return frozenset(role for role, rights in ROLE_RIGHTS.items() if rights.issuperset(wanted))


RULES: Mapping[str, Access] = {
    "POST /api/v1/projects": Access("admin"),
    "GET /api/v1/users": Access("admin"),
    "POST /api/v1/users": Access("admin"),
    "GET /api/v1/users/{pk}": Access("admin"),
    "PATCH /api/v1/users/{pk}": Access("admin"),
    "POST /api/v1/users/{pk}/reset-password": Access("admin"),
    "GET /api/v1/invitations": Access("a person", own=PEOPLE),
    "GET /api/v1/invitations/{pk}": Access("own", own=PEOPLE),
    "POST /api/v1/invitations/{pk}/accept": Access("own", own=PEOPLE),
    "POST /api/v1/invitations/{pk}/decline": Access("own", own=PEOPLE),
    "GET /api/v1/tokens": Access("a person", own=PEOPLE),
    "POST /api/v1/tokens": Access("a person", own=PEOPLE),
    "GET /api/v1/tokens/{pk}": Access("own", own=PEOPLE),
    "PATCH /api/v1/tokens/{pk}": Access("own", own=PEOPLE),
    "DELETE /api/v1/tokens/{pk}": Access("own", own=PEOPLE),
    "POST /api/v1/tasks/from-sessions": Access(
        "tasks:write and sessions:read",
        _find_roles(Right.TASKS_WRITE, Right.SESSIONS_READ),
    ),
    "POST /api/v1/proposals/{pk}/decide": Access(  # and an agent, where a worker's rules say so
        "feedback:write and reviews:write",
        _find_roles(Right.FEEDBACK_WRITE, Right.REVIEWS_WRITE),
    ),
    "POST /api/v1/feedback/{pk}/retract": Access("author or manager", LEADERS, frozenset({Role.REVIEWER, Role.AGENT})),
    "POST /api/v1/providers/rotate-keys": Access("admin"),
    "POST /api/v1/provider-grants": Access("admin"),
    "PATCH /api/v1/provider-grants/{pk}": Access("admin"),
    "DELETE /api/v1/provider-grants/{pk}": Access("admin"),
    "POST /api/v1/repo-tasks": Access("admin"),
    "DELETE /api/v1/repo-tasks/{name}": Access("admin"),
    "GET /api/v1/repo-task-admissions/{pk}": Access("admin"),
    "GET /api/v1/uploads/{sha256}": Access("admin"),
    "POST /api/v1/uploads/{sha256}": Access("admin"),
}
"""Routes whose services ask more than the right, or that one needs no project for."""


class RestRoute(NamedTuple):
    """One verb of one path.

    Args:
        right: what it takes: a right, PUBLIC or SIGNED_IN; "" where nobody said, which is refused to everybody.
        takes_proof: a person's proof must be fresh.
    """

    verb: str
    path: str
    right: str
    takes_proof: bool = False

    @property
    def name(self) -> str:
        return f"{self.verb} {self.path}"

    @property
    def takes(self) -> str:
        """In the words of the hand-written table; "" where nobody said."""
        return RULES[self.name].words if self.name in RULES else self.right

    def mark(self, role: Role) -> str:
        """What a role may: "✓", "own" or ""."""
        if (rule := RULES.get(self.name)) is not None:
            return YES if role in rule.anybodys else OWN if role in rule.own else ""
        may = self.right in (PUBLIC, SIGNED_IN) or self.right in ROLE_RIGHTS[role]
        return YES if may else ""


def list_routes() -> list[RestRoute]:
    """Every REST route, by path."""
    found = []
    for path, entry in _walk(get_resolver()):
        view: Any = getattr(entry.callback, "cls", None)
        if path.startswith(PREFIXES) and view is not None and view is not UnknownPathView:
            for verb, action in _list_actions(entry, view):
                right = view.rights.get(action, "")
                said = str(getattr(right, "value", right))
                found.append(RestRoute(verb.upper(), _show_path(path), said, action in view.takes_proof))
    return sorted(found, key=lambda route: (route.path, VERBS.index(route.verb.lower())))


def write_matrix() -> str:
    """The matrix as a Markdown table."""
    roles = list(Role)
    head = ["route", "takes", *(role.value for role in roles), "no token"]
    lines = [_row(head), _row(["---", "---", *[":-:"] * (len(roles) + 1)])]
    for route in list_routes():
        marks = [route.mark(role) for role in roles]
        nobody = YES if route.right == PUBLIC else ""
        proof = ", fresh proof" if route.takes_proof else ""
        lines.append(_row([f"`{route.name}`", (route.takes or "nothing: closed") + proof, *marks, nobody]))
    return "\n".join(lines) + "\n"


def put_into(text: str) -> str:
    """A document with the matrix as it is now between its two marks. Raises ValueError where it lacks them."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"wanted the marks {BEGIN} and {END}, found {'one' if begin or end else 'none'} of them")
    return f"{before}{BEGIN}\n\n{write_matrix()}\n{END}{after}"


def find_unsaid() -> list[RestRoute]:
    """Routes whose view names no right, or one that does not exist."""
    known = {PUBLIC, SIGNED_IN, *Right.values}
    return [route for route in list_routes() if route.right not in known]


def _walk(resolver: Any, prefix: str = "") -> Iterator[tuple[str, URLPattern]]:
    for entry in resolver.url_patterns:
        path = prefix + str(entry.pattern).removeprefix("^")
        if isinstance(entry, URLResolver):
            yield from _walk(entry, path)
        else:
            yield path, entry


def _list_actions(entry: URLPattern, view: Any) -> list[tuple[str, str]]:
    """(verb, name of it in the view's rights)."""
    actions: dict[str, str] | None = getattr(entry.callback, "actions", None)
    if actions is not None:
        return [(verb, action) for verb, action in actions.items() if verb != "head"]
    return [(verb, verb) for verb in VERBS if hasattr(view, verb)]


def _show_path(path: str) -> str:
    """`/api/v1/tasks/{pk}` of a pattern."""
    if "(?P" not in path and "<" not in path:
        return "/" + path.removesuffix("$").removesuffix("\\Z")
    form, parameters = normalize(path)[0]
    return "/" + form % {name: f"{{{name}}}" for name in parameters}


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
