"""Which projects may ask a shared model server, and how much: an admin of the installation grants it.

The installation's own engine, which the settings name, has no row and is open to every project.
"""

from decimal import Decimal
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q

from apps.accounts.models import Project, User
from apps.accounts.services import require_admin
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError, ConflictError, NotAllowedError
from apps.inference.models import Provider, ProviderGrant
from tentalis.core.checked import FieldError
from tentalis.core.limits import Limits

ALLOWANCES = ("tokens_per_day", "usd_per_month")
WHO_GRANTS = "an admin of the installation grants it"


class NotGrantedError(NotAllowedError):
    """The model server is shared, and the project has no grant for it."""

    code = "provider_not_granted"


def usable(projects: Any) -> Q:
    """Of providers: those that at least one of these projects may ask: its own, open ones, and those granted to it.

    Args:
        projects: rows, ids or a query of them.
    """
    granted = ProviderGrant.objects.filter(project__in=projects).values("provider")
    shared = Q(project__isnull=True) & (Q(granted_to=Provider.GrantedTo.EVERYONE) | Q(pk__in=granted))
    return Q(project__in=projects) | shared


def is_granted(provider: Provider | None, project_id: int) -> bool:
    """Whether a project may ask a model server; None is the installation's own."""
    if provider is None or provider.project_id == project_id:
        return True
    if provider.project_id is not None:
        return False
    is_open = provider.granted_to == Provider.GrantedTo.EVERYONE
    return is_open or provider.grants.filter(project=project_id).exists()


def require_granted(provider: Provider | None, project_id: int) -> None:
    """Raises NotGrantedError, naming what is missing and who can give it."""
    if provider is not None and not is_granted(provider, project_id):
        raise NotGrantedError(say_not_granted(provider.name, Project.objects.get(pk=project_id).slug))


def say_not_granted(provider: str, project: str) -> str:
    return f"model server {provider} is not granted to project {project}: {WHO_GRANTS}"


def grant_provider(
    *,
    provider: Provider,
    project: Project,
    by: User,
    tokens_per_day: int | None = None,
    usd_per_month: float | None = None,
) -> ProviderGrant:
    """Let a project ask a shared model server.

    Args:
        tokens_per_day, usd_per_month: what its calls may use of it; None: no limit.
    Raises:
        NotAllowedError: `by` is no admin.
        BadInputError: the server is a project's own, or an allowance that cannot be.
        ConflictError: it is granted already.
    """
    require_admin(by)
    if provider.project_id is not None:
        raise BadInputError.at("provider", f"{provider.name} is a project's own: only shared ones are granted")
    allowed = _check({"tokens_per_day": tokens_per_day, "usd_per_month": usd_per_month})
    grant = ProviderGrant(provider=provider, project=project, granted_by=by.handle, **allowed)
    try:
        with transaction.atomic():
            grant.save()
            record(Kind.PROVIDER_GRANTED, subject=grant, by=by.handle, payload={"provider": provider.name, **allowed})
    except IntegrityError:
        message = f"{provider.name} is granted to {project.slug} already"
        raise ConflictError(message, errors={"project": [message]}) from None
    return grant


def change_grant(*, grant: ProviderGrant, by: User, **changes: Any) -> ProviderGrant:
    """Change what a project may use of a shared model server: `tokens_per_day`, `usd_per_month`; None: no limit.

    Raises:
        NotAllowedError: `by` is no admin.
        BadInputError: naming the fields.
    """
    require_admin(by)
    allowed = _check(changes)
    with transaction.atomic():
        row = (
            ProviderGrant.objects.select_for_update(of=("self",)).select_related("provider", "project").get(pk=grant.pk)
        )
        before = {name: getattr(row, name) for name, value in allowed.items() if getattr(row, name) != value}
        if before:
            after = {name: allowed[name] for name in before}
            for name, value in after.items():
                setattr(row, name, value)
            row.save(update_fields=sorted(after))
            payload = {"provider": row.provider.name, "before": before, "after": after}
            record(Kind.PROVIDER_GRANT_CHANGED, subject=row, by=by.handle, payload=payload)
    return row


def revoke_grant(*, grant: ProviderGrant, by: User) -> None:
    """Take a grant back: what the project's workers, judges and callers ask of the server is refused from now on.

    Raises:
        NotAllowedError: `by` is no admin.
    """
    require_admin(by)
    with transaction.atomic():
        record(Kind.PROVIDER_GRANT_REVOKED, subject=grant, by=by.handle, payload={"provider": grant.provider.name})
        grant.delete()


def _check(values: dict[str, Any]) -> dict[str, Any]:
    """Raises BadInputError naming the field at fault."""
    if unknown := sorted(set(values) - set(ALLOWANCES)):
        raise BadInputError(
            f"of a grant {', '.join(ALLOWANCES)} can change; found {', '.join(unknown)}",
            errors={name: ["cannot be changed"] for name in unknown},
        )
    values = {name: float(one) if isinstance(one, Decimal) else one for name, one in values.items()}
    for name, value in values.items():
        try:
            Limits(**{name: value})
        except FieldError as error:
            raise BadInputError.at(name, str(error).removeprefix(f"{name}: ")) from None
    return values
