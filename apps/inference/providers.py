"""Model servers as rows: added, changed, removed, and by whom."""

from ipaddress import ip_address
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError, Q

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_admin, require_right
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError, ConflictError, NotAllowedError
from apps.base.sealing import seal, unseal
from apps.inference.grants import is_granted
from apps.inference.models import Provider
from apps.inference.provider_kinds import KINDS
from tentalis.outbound.addresses import check_url, is_allowed

CHANGEABLE = frozenset(
    {"name", "kind", "base_url", "more_urls", "default_model", "allow_private", "timeout_s", "tells_processed"}
)
CHANGEABLE |= {"requests_per_minute", "tokens_per_minute", "is_active", "api_key", "granted_to"}
MAX_URLS = 32
MAX_TIMEOUT_S = 3600.0
MAX_PER_MINUTE = 2_147_483_647


def create_provider(
    *,
    project: Project | None,
    name: str,
    kind: str,
    by: User,
    base_url: str = "",
    api_key: str = "",
    **more: Any,
) -> Provider:
    """Add a model server; `project` None: a shared one, for projects it is granted to (see `grants`).

    Args:
        base_url: "": where the vendor of this kind serves it.
        more: further of `CHANGEABLE`.

    Raises:
        NotAllowedError, NotFoundError: `by` may not, or may not allow private addresses.
        BadInputError: naming the fields.
        ConflictError: the name is taken.
    """
    require_owner_of(project, by)
    _require_known(more)
    if not base_url and kind in KINDS:
        base_url = KINDS[kind].base_url
    provider = Provider(project=project, name=name, kind=kind, base_url=base_url, **more)
    if provider.allow_private:
        require_admin(by)
    _check(provider, api_key)
    with transaction.atomic():
        _save(provider)
        _give_key(provider, api_key)
        payload = {"name": name, "kind": kind, "base_url": base_url, "allow_private": provider.allow_private}
        record(Kind.PROVIDER_CREATED, subject=provider, by=by.handle, payload=payload)
    return provider


def change_provider(*, provider: Provider, by: User, **changes: Any) -> Provider:
    """Change some of `CHANGEABLE`; `api_key` "" takes the key away.

    An address at a new origin takes the key away too, unless one comes with it: a key is only ever sent where it was
    meant to go. Where private addresses are allowed only an admin changes the addresses.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: naming the fields.
        ConflictError: the name is taken, or a review policy names it by the one that it has.
    """
    require_owner_of(provider.project, by)
    _require_known(changes)
    with transaction.atomic():
        row = Provider.objects.select_for_update(of=("self",)).select_related("project").get(pk=provider.pk)
        fields = {name: value for name, value in changes.items() if name != "api_key" and getattr(row, name) != value}
        if "name" in fields:
            _require_unnamed(row)
        before = {name: getattr(row, name) for name in fields}
        old_origins, old_binding = _origins(row), row.sealed_for("api_key_sealed")
        may_reach_private = row.allow_private
        for name, value in fields.items():
            setattr(row, name, value)
        if row.allow_private and (not may_reach_private or {"base_url", "more_urls"} & set(fields)):
            require_admin(by)
        _check(row, changes.get("api_key", ""))
        api_key: str = changes.get("api_key", "")
        if "api_key" not in changes and _origins(row) < old_origins:
            api_key = unseal(row.api_key_sealed, bound_to=old_binding)
        if fields or "api_key" in changes:
            _save(row)
            if "api_key" in changes or _origins(row) != old_origins:
                _give_key(row, api_key)
            payload = {"before": before, "after": fields, "new_api_key": bool(changes.get("api_key"))}
            record(Kind.PROVIDER_CHANGED, subject=row, by=by.handle, payload=payload)
    return row


def delete_provider(*, provider: Provider, by: User) -> None:
    """Remove a model server that nobody uses, and that was never probed as a judge.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        ConflictError: a worker uses it, a review policy names it, or probes of it are kept.
    """
    require_owner_of(provider.project, by)
    with transaction.atomic():
        _require_unnamed(provider)
        record(Kind.PROVIDER_DELETED, subject=provider, by=by.handle, payload={"name": provider.name})
        try:
            provider.delete()
        except ProtectedError as error:
            names = ", ".join(sorted(str(one) for one in error.protected_objects))
            raise ConflictError(f"provider {provider.name} is used by {names:.300}") from error


def open_key(provider: Provider) -> str:
    """The API key of a model server, "" where it has none. Raises SealedKeyError where it does not open."""
    return unseal(provider.api_key_sealed, bound_to=provider.sealed_for("api_key_sealed"))


def require_owner_of(project: Project | None, by: User) -> None:
    """A project's model servers belong to who runs its workers; those of all projects to the installation's admins."""
    if project is not None:
        require_right(by, project, Right.WORKERS_WRITE)
    elif not (by.is_superuser and by.is_active):
        raise NotAllowedError("only an admin may manage the model servers of all projects")


def _require_unnamed(provider: Provider) -> None:
    """Raises ConflictError where a project's judging goes to it by its name, and would go elsewhere without a word."""
    called = f"{provider.name}/"
    named = Project.objects.filter(
        Q(review_policy__model__startswith=called) | Q(review_policy__hint_model__startswith=called)
    )
    if provider.project_id is not None:
        named = named.filter(pk=provider.project_id)
    else:
        named = named.exclude(providers__name=provider.name)  # which comes first
    if slugs := [project.slug for project in named.order_by("slug") if is_granted(provider, project.pk)]:
        raise ConflictError(f"provider {provider.name} is named by the review policy of {', '.join(slugs)}")


def _give_key(provider: Provider, api_key: str) -> None:
    provider.api_key_sealed = seal(api_key, bound_to=provider.sealed_for("api_key_sealed"))
    provider.save(update_fields=["api_key_sealed"])


def _origins(provider: Provider) -> set[str]:
    return {str(check_url(url)) for url in (provider.base_url, *provider.more_urls)}


def _require_known(fields: dict[str, Any]) -> None:
    if unknown := sorted(set(fields) - CHANGEABLE):
        raise BadInputError(
            f"of a provider {', '.join(sorted(CHANGEABLE))} can change; found {', '.join(unknown)}",
            errors={name: ["cannot be changed"] for name in unknown},
        )


def _check(provider: Provider, api_key: str) -> None:
    """Raises BadInputError naming every field at fault."""
    errors: dict[str, list[str]] = {}
    try:
        provider.clean_fields(exclude={"base_url"})  # Django's URL check refuses names without a dot
    except ValidationError as error:
        errors |= {
            name: [f"{words} (found {getattr(provider, name)!r})" for words in messages]
            for name, messages in error.message_dict.items()
        }
    if provider.project_id is not None and provider.granted_to != Provider.GrantedTo.LISTED:
        errors["granted_to"] = ["must stay listed: the server is a project's own, and nobody else's"]
    if complaint := _complain_about(provider.base_url, provider):
        errors["base_url"] = [complaint]
    more = provider.more_urls
    if not isinstance(more, list) or len(more) > MAX_URLS:
        errors["more_urls"] = [f"must be a list of at most {MAX_URLS} addresses, found {str(more)[:80]}"]
    elif complaints := [f"{str(url)[:80]}: {words}" for url in more if (words := _complain_about(url, provider))]:
        errors["more_urls"] = complaints
    if provider.timeout_s is not None and not 0 < provider.timeout_s <= MAX_TIMEOUT_S:
        errors["timeout_s"] = [f"must be above 0 and at most {MAX_TIMEOUT_S:g}, found {provider.timeout_s:g}"]
    if not (api_key.isascii() and api_key.isprintable() and " " not in api_key):
        errors["api_key"] = ["must be printable ASCII without blanks (was something pasted along?)"]
    if errors:
        raise BadInputError.at_each(errors)


def _complain_about(url: object, provider: Provider) -> str:
    """What is wrong with an address of a model server; "" where nothing is. Names are resolved when they are used."""
    try:
        origin = check_url(url)
    except ValueError as error:
        return str(error)
    try:
        address = ip_address(origin.host)
    except ValueError:
        is_here = origin.host == "localhost" or origin.host.endswith(".localhost")
        return _PRIVATE if is_here and not provider.allow_private else ""
    if is_allowed(address, allow_private=provider.allow_private):
        return ""
    return _NOBODYS if provider.allow_private or not is_allowed(address, allow_private=True) else _PRIVATE


_PRIVATE = "is a private address: an admin allows it with “Allow private addresses” (allow_private)"
_NOBODYS = "is an address that nobody may use here"


def _save(provider: Provider) -> None:
    """Raises ConflictError where the name is taken."""
    try:
        with transaction.atomic():
            provider.save()
    except IntegrityError:
        message = f"the name {provider.name} is taken"
        raise ConflictError(message, errors={"name": [message]}) from None
