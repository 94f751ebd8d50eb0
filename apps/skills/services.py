"""The skill store: a skill's text never changes; another text is its next version."""

from typing import Any

from django.db import transaction

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError
from apps.skills.models import Skill
from tentalis.core.field_limits import NAME_OF_VERSIONS

MAX_DESCRIPTION_CHARS = 500
MAX_BODY_CHARS = 100_000


def write_skill(*, project: Project, name: str, description: str, body: str, by: User) -> Skill:
    """Add a skill, or the next version of the one of this name; the newest active version is the one in force.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: naming the field.
    """
    require_right(by, project, Right.SKILLS_WRITE)
    if not NAME_OF_VERSIONS.fullmatch(name):
        raise BadInputError.at("name", f"wanted lower-case letters, digits and inner hyphens, found {name[:80]!r}")
    for field, text, most in (
        ("description", description, MAX_DESCRIPTION_CHARS),
        ("body", body, MAX_BODY_CHARS),
    ):
        if not text.strip() or len(text) > most:
            raise BadInputError.at(field, f"wanted a text of 1 to {most} characters, found {len(text.strip())}")
    with transaction.atomic():
        Project.objects.select_for_update(no_key=True).get(pk=project.pk)
        last = Skill.objects.filter(project=project, name=name).order_by("-version").first()
        skill = Skill(project=project, name=name, description=description, body=body)
        skill.version = last.version + 1 if last else 1
        skill.save(force_insert=True)
        payload = {"name": name, "version": skill.version}
        record(Kind.SKILL_CREATED, subject=skill, by=by.handle, payload=payload)
    return skill


def switch_skill(*, skill: Skill, is_active: bool, by: User) -> Skill:
    """Put a version of a skill in or out of force.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
    """
    require_right(by, skill.project, Right.SKILLS_WRITE)
    with transaction.atomic():
        if Skill.objects.filter(pk=skill.pk).exclude(is_active=is_active).update(is_active=is_active):
            skill.is_active = is_active
            payload: dict[str, Any] = {"name": skill.name, "version": skill.version, "is_active": is_active}
            record(Kind.SKILL_CHANGED, subject=skill, by=by.handle, payload=payload)
    return skill
