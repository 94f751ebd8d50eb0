"""The checks of a project: their text never changes, another text is the next version; and who uses which."""

from functools import cache
from typing import Any

from django.conf import settings
from django.db import transaction

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError
from apps.checks.facts import Facts, find_open
from apps.checks.graders import find_asked
from apps.checks.language import Check, Find, read_check, read_checks
from apps.checks.models import NamedCheck
from apps.checks.results import CheckError
from apps.inference.services import find_server
from tentalis.core.field_limits import MAX_ABOUT_CHARS, NAME_OF_VERSIONS

MAX_ENVIRONMENT_CHARS = 64


def write_check(*, project: Project, name: str, spec: Any, by: User, about: str = "") -> NamedCheck:
    """Add a check, or the next version of the one of this name. Where its last version is a default, this one is now.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: naming the field.
    """
    require_right(by, project, Right.EVALS_WRITE)
    if not NAME_OF_VERSIONS.fullmatch(name):
        raise BadInputError.at("name", f"wanted lower-case letters, digits and inner hyphens, found {name[:80]!r}")
    if len(about) > MAX_ABOUT_CHARS:
        raise BadInputError.at("about", f"wanted at most {MAX_ABOUT_CHARS} characters, found {len(about):,}")
    stored = read_written(project, spec).spec
    with transaction.atomic():
        Project.objects.select_for_update(no_key=True).get(pk=project.pk)
        versions = NamedCheck.objects.filter(project=project, name=name)
        last = versions.order_by("-version").first()
        default_for = versions.exclude(default_for="").values_list("default_for", flat=True).first() or ""
        versions.update(default_for="")
        check = NamedCheck.objects.create(
            project=project,
            name=name,
            version=last.version + 1 if last else 1,
            about=about,
            spec=stored,
            default_for=default_for,
        )
        record(Kind.CHECK_WRITTEN, subject=check, by=by.handle, payload={"check": str(check)})
    return check


def set_default(*, check: NamedCheck, environment: str, by: User) -> NamedCheck:
    """Have tasks of an environment that bring no checks of their own be checked by this version; "": by none of it.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
    """
    require_right(by, check.project, Right.EVALS_WRITE)
    if len(environment) > MAX_ENVIRONMENT_CHARS:
        raise BadInputError.at("default_for", f"wanted an environment, found {environment[:80]!r}")
    with transaction.atomic():
        Project.objects.select_for_update(no_key=True).get(pk=check.project_id)
        NamedCheck.objects.filter(project=check.project_id, name=check.name).exclude(pk=check.pk).update(default_for="")
        check.default_for = environment
        check.save(update_fields=["default_for"])
        payload = {"check": str(check), "default_for": environment}
        record(Kind.CHECK_CHANGED, subject=check, by=by.handle, payload=payload)
    return check


def find_named(project: Project) -> Find:
    """What finds the project's checks by `name@version`, or by a name alone, which is its newest version now."""

    @cache
    def find(name: str) -> tuple[str, Any] | None:
        slug, _, version = name.partition("@")
        rows = NamedCheck.objects.filter(project=project, name=slug).order_by("-version")
        if version:
            rows = rows.filter(version=int(version) if version.isdecimal() and len(version) <= 9 else 0)
        row = rows.first()
        return None if row is None else (str(row), row.spec)

    return find


def read_written(project: Project, spec: Any) -> Check:
    """A check that somebody writes in a project, for many tasks: the facts it wants are not known yet.

    Raises:
        BadInputError: at `spec`.
    """
    try:
        check = read_check(spec, where="spec", find=find_named(project), facts=None)
        _refuse_judges_of_others(project, check.spec)
    except CheckError as error:
        raise BadInputError.at("spec", str(error)) from None
    return check


def require_readable(project: Project, specs: Any) -> None:
    """Raises BadInputError at `checks`, where these cannot check many tasks whose facts are not known yet."""
    try:
        read_checks(specs, find=find_named(project), facts=None)
    except CheckError as error:
        raise BadInputError.at("checks", str(error)) from None


def settle_checks(
    project: Project, specs: Any, *, find: Find | None = None, facts: Facts | None = None
) -> list[Any] | None:
    """The checks of a task or an item as they are stored, with the facts they want; None for none.

    Args:
        specs: a check, or a list of them.
        facts: what is known of the task or item, by name.
        find: `find_named` of the project, where many are settled.
    Raises:
        CheckError: saying what was wanted and what was found.
    """
    stored = [check.spec for check in read_checks(specs, find=find or find_named(project), facts=facts or {})]
    _refuse_judges_of_others(project, stored)
    return stored or None


def _refuse_judges_of_others(project: Project, specs: Any) -> None:
    for model in {asked.model for asked in find_asked(specs)} - {"", settings.TENTALIS["LLM_MODEL"]}:
        if "/" in model and find_server(project.pk, model)[0] is None:
            raise CheckError(f"judge.model: wanted one of a model server of this project, found {model!r:.200}")


def find_default_checks(project: Project, environment: str) -> list[Any] | None:
    """Those of tasks that bring none, as `settle_defaults` takes them; None for none."""
    rows = NamedCheck.objects.filter(project=project, default_for=environment).order_by("name")
    return [{"use": str(row), "is": row.spec} for row in rows] or None


def settle_defaults(defaults: list[Any] | None, facts: Facts | None) -> list[Any] | None:
    """A project's default checks as a task stores them, with the facts they want.

    Raises:
        CheckError: naming a fact that the task lacks.
    """
    if defaults is None or not find_open(defaults):
        return defaults
    return [check.spec for check in read_checks(defaults, facts=facts or {})]
