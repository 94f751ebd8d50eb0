"""Announcements for open pages: audit entries as the live socket says them, for those who may see them."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

from django.db.models import Q, QuerySet
from django.utils import timezone

from apps.accounts.models import ApiToken, BrowserSession, Member, Project, Role, User
from apps.accounts.rights import ROLE_RIGHTS, Right
from apps.audit.models import AuditEntry

PAGE = 500
LATE_COMMIT = timedelta(seconds=10)
LOOK_BACK = 10 * PAGE


@dataclass(frozen=True)
class Announcement:
    """One audit entry as the socket sends it. `project` is the slug; None above projects."""

    id: int
    kind: str
    subject: str
    project: str | None
    project_id: int | None
    at: datetime

    @cached_property
    def text(self) -> str:
        """As JSON; written once, however many listen."""
        return json.dumps(
            {
                "id": self.id,
                "kind": self.kind,
                "subject": self.subject,
                "project": self.project,
                "at": self.at.isoformat().replace("+00:00", "Z"),
            }
        )


@dataclass(frozen=True)
class AnnouncementBatch:
    """What is told together to all who may see the same, oldest first."""

    announcements: Sequence[Announcement]

    @cached_property
    def text(self) -> str:
        """As a JSON list; written once, however many listen."""
        return f"[{','.join(item.text for item in self.announcements)}]"


HEARD_WITH: Mapping[str, Right] = {
    "adapter": Right.ADAPTERS_READ,
    "batch": Right.ROLLOUTS_READ,
    "benchmark": Right.EVALS_READ,
    "bulk": Right.REVIEWS_READ,
    "canary": Right.ADAPTERS_READ,
    "check": Right.EVALS_READ,
    "course": Right.RUNS_READ,
    "deployment": Right.ADAPTERS_READ,
    "ensemble": Right.WORKERS_READ,
    "eval": Right.EVALS_READ,
    "experiment": Right.EVALS_READ,
    "export": Right.TASKS_READ,
    "feedback": Right.FEEDBACK_READ,
    "gold": Right.REVIEWS_READ,
    "import": Right.REVIEWS_READ,
    "hint": Right.FEEDBACK_READ,
    "judge_probe": Right.EVALS_READ,
    "manager": Right.RUNS_READ,
    "member": Right.MEMBERS_READ,
    "price": Right.WORKERS_READ,
    "project": Right.PROJECTS_READ,
    "proposal": Right.TASKS_READ,
    "provider": Right.WORKERS_READ,
    "rater": Right.REVIEWS_READ,
    "regrading": Right.EVALS_READ,
    "regression": Right.EVALS_READ,
    "review": Right.REVIEWS_READ,
    "repo_task": Right.EVALS_READ,
    "reward_model": Right.RUNS_READ,
    "rollouts": Right.ROLLOUTS_READ,
    "run": Right.RUNS_READ,
    "segment": Right.TASKS_READ,
    "sessions": Right.SESSIONS_READ,
    "shadow": Right.ADAPTERS_READ,
    "skill": Right.SKILLS_READ,
    "steps": Right.REVIEWS_READ,
    "task": Right.TASKS_READ,
    "turn": Right.SESSIONS_READ,
    "verdict": Right.ADAPTERS_READ,
    "webhook": Right.WEBHOOKS_READ,
    "worker": Right.WORKERS_READ,
    "taskset": Right.EVALS_READ,
}
"""What comes before the dot of a kind -> the right to hear of it. All else, such as tokens, takes the audit's."""


KEPT_FROM_AGENTS = frozenset({"proposal", "sessions", "turn"})
"""Of these an agent reads its own alone, and an announcement does not say whose it is."""


def right_to_hear(kind: str) -> Right:
    return HEARD_WITH.get(kind.partition(".")[0], Right.AUDIT_READ)


@dataclass(frozen=True)
class Sight:
    """Who of some users may see what, as of one look at the database.

    Attributes:
        active: those who may still sign in; overseers: those of them who see everything.
        roles: (user, project) -> role.
        sessions: (hash of its cookie, user) of the browsers that are still signed in.
        tokens: those that still hold.
    """

    active: frozenset[int]
    overseers: frozenset[int]
    roles: Mapping[tuple[int, int], str]
    sessions: frozenset[tuple[str, int | None]] = frozenset()
    tokens: frozenset[int] = frozenset()

    def covers(self, user_id: int, announcement: Announcement, token: ApiToken | None = None) -> bool:
        """Args: token: what the user came with: its project and its scopes hold as everywhere."""
        if token is not None and not _lets_through(token, announcement):
            return False
        if user_id in self.overseers:
            return True
        role = self.roles.get((user_id, announcement.project_id or 0))
        if role is None or (role == Role.AGENT and announcement.kind.partition(".")[0] in KEPT_FROM_AGENTS):
            return False
        return right_to_hear(announcement.kind) in ROLE_RIGHTS[Role(role)]

    def list_projects(self, user_id: int) -> frozenset[int]:
        """Where the user is a member."""
        return frozenset(project for user, project in self.roles if user == user_id)


def _lets_through(token: ApiToken, announcement: Announcement) -> bool:
    is_of_project = token.project_id in {None, announcement.project_id}
    return is_of_project and right_to_hear(announcement.kind).value in token.scopes


def find_latest_entry_id() -> int:
    """Where a page rendered now starts listening; 0 while nothing has happened yet."""
    return AuditEntry.objects.order_by("-id").values_list("id", flat=True).first() or 0


def find_last_announcements() -> tuple[list[Announcement], datetime]:
    """The last `LOOK_BACK` entries by id, and the time after which nothing committed is missing among them."""
    found = _announce(AuditEntry.objects.order_by("-id")[:LOOK_BACK])
    is_all = len(found) < LOOK_BACK
    return found[::-1], datetime.min.replace(tzinfo=UTC) if is_all else max(item.at for item in found[-PAGE:])


def find_announcements(entry_ids: Collection[int]) -> list[Announcement]:
    """The entries with these ids, oldest first."""
    return _announce(AuditEntry.objects.filter(pk__in=entry_ids).order_by("id"))


def find_announcements_since(after: int) -> Iterator[list[Announcement]]:
    """Every entry a listener who last heard of `after` may have missed, in pages, oldest first."""
    yield from _page(_entries_since(after))


def replay_announcements(user: User, after: int, token: ApiToken | None = None) -> Iterator[list[Announcement]]:
    """The same for one user, who gets only what they may see. Nothing is read before the first page is asked for."""
    entries = _entries_since(after)
    sight = find_sight({user.pk})
    if user.pk not in sight.overseers:
        entries = entries.filter(project_id__in=sight.list_projects(user.pk))
    for page in _page(entries):
        if seen := [item for item in page if sight.covers(user.pk, item, token)]:
            yield seen


def find_sight(
    user_ids: Collection[int],
    announcements: Iterable[Announcement] | None = None,
    sessions: Collection[str] = (),
    tokens: Collection[int] = (),
) -> Sight:
    """Rights as they are now, in two or three queries however many listen.

    Args:
        announcements: what is to be seen; None: anything.
        sessions, tokens: hashes of cookies, and tokens by id, of which is asked whether they still hold.
    """
    now = timezone.now()
    live = BrowserSession.objects.filter(pk__in=sessions, expire_date__gt=now)
    held = ApiToken.objects.filter(pk__in=tokens, revoked_at=None, expires_at__gt=now)
    active = dict(User.objects.filter(pk__in=user_ids, is_active=True).values_list("pk", "is_superuser"))
    members = Member.objects.filter(user__in=active)
    if announcements is not None:
        members = members.filter(project__in={item.project_id for item in announcements if item.project_id})
    return Sight(
        active=frozenset(active),
        overseers=frozenset(pk for pk, is_superuser in active.items() if is_superuser),
        roles={(user, project): role for user, project, role in members.values_list("user_id", "project_id", "role")},
        sessions=frozenset(live.values_list("pk", "user_id")) if sessions else frozenset(),
        tokens=frozenset(held.values_list("pk", flat=True)) if tokens else frozenset(),
    )


def _entries_since(after: int) -> QuerySet[AuditEntry]:
    """Ids are given before transactions commit: a smaller id may become visible later, so look back a little."""
    heard = AuditEntry.objects.filter(pk=after).values_list("at", flat=True).first()
    if heard is None:
        return AuditEntry.objects.filter(pk__gt=after)
    # the bound stands alone as well: inside an OR it would not keep the primary key from being read from its start
    near = AuditEntry.objects.filter(pk__gt=after - LOOK_BACK)
    return near.filter(Q(pk__gt=after) | Q(at__gt=heard - LATE_COMMIT))


def _page(entries: QuerySet[AuditEntry]) -> Iterator[list[Announcement]]:
    rest = entries
    while page := _announce(rest.order_by("id")[:PAGE]):
        yield page
        rest = entries.filter(pk__gt=page[-1].id)


def _announce(entries: QuerySet[AuditEntry]) -> list[Announcement]:
    rows = list(entries.values_list("id", "kind", "subject_type", "subject_id", "project_id", "at"))
    slugs = dict(Project.objects.filter(pk__in={row[4] for row in rows if row[4]}).values_list("pk", "slug"))
    return [
        Announcement(
            id=pk,
            kind=kind,
            subject=f"{subject_type}:{subject_id}" if subject_id is not None else subject_type,
            project=slugs.get(project_id or 0),
            project_id=project_id,
            at=at,
        )
        for pk, kind, subject_type, subject_id, project_id, at in rows
    ]
