"""Environments, for their pages: which there are, whence they come, and what their examinations found."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Project, User
from apps.accounts.services import require_admin
from apps.base.errors import NotAllowedError
from apps.console.words_learning import ADMISSIONS, EXAMINED, STANDINGS, UNKNOWN, Pill, Remedy
from apps.evals.models import Taskset
from apps.workers.models import Worker
from apps.worlds.certificates import WorldStanding, find_standing, find_standings, is_own
from apps.worlds.elsewhere.mcp import McpWorld
from apps.worlds.elsewhere.openenv import OpenEnvWorld
from apps.worlds.identity import name_world
from apps.worlds.models import RepoTaskAdmission, WorldCertificate
from apps.worlds.registry import WORLDS, find_obstacles
from apps.worlds.repos.testing import open_store
from tentalis.core.swe.repo_tasks import RepoTaskError
from tentalis.core.worlds import World
from tentalis.verification.store import TaskSummary

SHOWN_CERTIFICATES = 10
SHOWN_USES = 10
REPO_TASKS = 16
SHOWN_ADMISSIONS = 20


@dataclass(frozen=True)
class EnvironmentRow:
    """One that tasks can be in.

    Args:
        origin: whence it comes, as people say it.
    """

    world: World
    origin: str | Promise
    standing: WorldStanding

    @property
    def pill(self) -> Pill:
        return STANDINGS[self.standing.state]

    @property
    def examined_at(self) -> datetime | None:
        return self.standing.newest.created_at if self.standing.newest else None


@dataclass(frozen=True)
class UnusedEnvironment:
    """One that no task can be in here, and why."""

    name: str
    origin: str | Promise
    why: str


@dataclass(frozen=True)
class CheckRow:
    """One thing that was looked at, what was wanted of it, and what to do where it was not found."""

    name: str
    passed: bool | None
    words: str
    asked: Remedy


@dataclass(frozen=True)
class EnvironmentView:
    """One environment, and a certificate of it.

    Args:
        row: None where it is here no more: its certificates stay.
        full_name: with its version and hash as it is now.
        certificate: None where it was never examined.
        is_current: it speaks of the environment as it is now.
        others: its other newest certificates.
        workers, tasksets: of the project, that are at home in it.
    """

    name: str
    row: EnvironmentRow | None
    full_name: str
    certificate: WorldCertificate | None
    is_current: bool
    checks: Sequence[CheckRow]
    others: Sequence[WorldCertificate]
    workers: Sequence[Worker]
    tasksets: Sequence[Taskset]


@dataclass(frozen=True)
class AdmissionRow:
    """A task that was handed in, and how its state is shown."""

    admission: RepoTaskAdmission

    @property
    def pill(self) -> Pill:
        return ADMISSIONS[self.admission.state]


def list_environments() -> list[EnvironmentRow]:
    """Those that tasks can be in, in the order in which forms offer them."""
    standings = find_standings(WORLDS.values())
    return [EnvironmentRow(one, _find_origin(one), standings[one.name]) for one in WORLDS.values()]


def list_unused() -> list[UnusedEnvironment]:
    """Those that come along and cannot be played on this machine, and what other packages add that cannot be used."""
    found = [UnusedEnvironment(name, _OWN, f"{name} {why}") for name, why in find_obstacles().items()]
    broken = [UnusedEnvironment(one.name, one.package, one.error) for one in WORLDS.plugins if one.error]
    return [*found, *broken]


def view_environment(project: Project, name: str, *, certificate_id: int | None = None) -> EnvironmentView | None:
    """None where there is neither such an environment nor a certificate of one.

    Args:
        certificate_id: which one to show; None: the newest.
    """
    world = WORLDS.get(name)
    kept = WorldCertificate.objects.filter(world=name).order_by("-pk")
    newest = list(kept[:SHOWN_CERTIFICATES])
    chosen = newest[0] if newest else None
    if certificate_id is not None:
        chosen = (
            next((one for one in newest if one.pk == certificate_id), None) or kept.filter(pk=certificate_id).first()
        )
        if chosen is None:
            return None
    if world is None and chosen is None:
        return None
    row = None if world is None else EnvironmentRow(world, _find_origin(world), find_standing(world))
    return EnvironmentView(
        name=name,
        row=row,
        full_name="" if world is None else name_world(world),
        certificate=chosen,
        is_current=row is not None and chosen is not None and row.standing.certificate == newest[0] == chosen,
        checks=[_read_check(one) for one in chosen.checks] if chosen else (),
        others=[one for one in newest if one != chosen],
        workers=[one for one in project.workers.filter(is_active=True) if one.home == name][:SHOWN_USES],
        tasksets=list(project.tasksets.filter(environment=name).order_by("-pk")[:SHOWN_USES]),
    )


_OWN = _("comes along")


def _find_origin(world: World) -> str | Promise:
    if is_own(world):
        return _OWN
    if isinstance(world, OpenEnvWorld):
        return _("an OpenEnv server")
    if isinstance(world, McpWorld):
        return _("a server of tools (MCP)")
    return next((one.package for one in WORLDS.plugins if one.name == world.name), "")


def _read_check(told: dict[str, object]) -> CheckRow:
    name, passed = str(told["name"]), told["passed"]
    return CheckRow(name, passed if isinstance(passed, bool) else None, str(told["words"]), EXAMINED.get(name, UNKNOWN))


def list_repo_tasks(*, start: int = 0) -> tuple[list[TaskSummary], int | None]:
    """A page of the tasks that were added, by name, and where the next page starts; None at the end."""
    stored = open_store().list_tasks()
    following = start + REPO_TASKS if len(stored) > start + REPO_TASKS else None
    return [one.summary for one in stored[start : start + REPO_TASKS]], following


def list_admissions() -> list[AdmissionRow]:
    """The newest tasks that were handed in."""
    return [AdmissionRow(one) for one in RepoTaskAdmission.objects.defer("task")[:SHOWN_ADMISSIONS]]


def say_why_not_added(*, by: User) -> str:
    """Why this person cannot hand tasks in; "" where they can."""
    try:
        require_admin(by)
    except NotAllowedError as error:
        return str(error)
    return ""


def say_why_not_removed(name: str, *, by: User) -> str:
    """Why this person cannot remove such a task; "" where they can."""
    try:
        require_admin(by)
        open_store().find(name)
    except (NotAllowedError, RepoTaskError) as error:
        return str(error)
    return ""
