"""Model servers and the record of what they answered."""

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError, ConflictError, NotAllowedError
from apps.inference.client import ModelClient
from apps.inference.models import Exchange, Provider, Session
from apps.inference.sealing import seal, unseal
from tentalis.core.packing import pack_bools, pack_float32, pack_int32
from tentalis.core.worlds import AttemptDraft

CHANGEABLE = frozenset({"name", "kind", "base_url", "default_model", "is_active", "api_key"})
_MAX_URL_CHARS = 500


def client_for(provider: Provider | None) -> ModelClient:
    """The client of a provider; of the installation's own model server where there is none.

    Raises:
        ConflictError: the provider is switched off.
        SealedKeyError: its API key cannot be opened.
    """
    timeout_s: float = settings.TENTALIS["TASK_TIMEOUT_SECONDS"]
    if provider is None:
        return ModelClient(
            settings.TENTALIS["INFERENCE_BASE_URL"] or settings.ENGINE_URL,
            settings.TENTALIS["INFERENCE_API_KEY"] or "",
            settings.TENTALIS["INFERENCE_BACKEND"],
            timeout_s,
        )
    if not provider.is_active:
        raise ConflictError(f"provider {provider.name!r} is switched off")
    return ModelClient(provider.base_url, unseal(provider.api_key_sealed), provider.kind, timeout_s)


def record_exchanges(
    *,
    project: Project,
    drafts: Sequence[AttemptDraft],
    worker_name: str,
    model: str,
    adapter_name: str = "",
    policy_version: int = 0,
    provider: Provider | None = None,
    session: Session | None = None,
) -> list[Exchange]:
    """Store what came of each try, in one statement.

    Args:
        model: name the server was asked for.
        adapter_name, policy_version: of the adapter behind that name; "" and 0 for the base model.
    Returns:
        One stored exchange a draft, in order.
    """
    return Exchange.objects.bulk_create(
        Exchange(
            project=project,
            session=session,
            provider=provider,
            worker_name=worker_name,
            model=model,
            adapter_name=adapter_name,
            policy_version=policy_version,
            messages=list(draft.messages),
            text=draft.text,
            tool_calls=list(draft.tool_calls),
            finish_reason=draft.finish_reason,
            prompt_token_ids=pack_int32(draft.prompt_token_ids),
            token_ids=pack_int32(draft.token_ids),
            logprobs=pack_float32(draft.logprobs),
            sampled=pack_bools(draft.sampled),
            prompt_tokens=len(draft.prompt_token_ids),
            completion_tokens=len(draft.token_ids),
            latency_ms=None if draft.elapsed_s is None else draft.elapsed_s * 1000,
            error=draft.error,
        )
        for draft in drafts
    )


def create_provider(
    *,
    project: Project | None,
    name: str,
    kind: str,
    base_url: str,
    by: User,
    api_key: str = "",
    default_model: str = "",
) -> Provider:
    """Add a model server; `project` None offers it to every project.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: naming the fields.
        ConflictError: the name is taken.
    """
    _require_owner_of(project, by)
    provider = Provider(project=project, name=name, kind=kind, base_url=base_url, default_model=default_model)
    _check(provider)
    provider.api_key_sealed = seal(api_key)
    with transaction.atomic():
        _save(provider)
        payload = {"name": name, "kind": kind, "base_url": base_url}
        record(Kind.PROVIDER_CREATED, subject=provider, by=by.handle, payload=payload)
    return provider


def change_provider(*, provider: Provider, by: User, **changes: Any) -> Provider:
    """Change some of `CHANGEABLE`; `api_key` "" takes the key away.

    A new address takes the key away too, unless one comes with it: a key is only ever sent where it was meant to go.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: naming the fields.
        ConflictError: the name is taken.
    """
    _require_owner_of(provider.project, by)
    if unknown := sorted(set(changes) - CHANGEABLE):
        raise BadInputError(
            f"of a provider {', '.join(sorted(CHANGEABLE))} can change; found {', '.join(unknown)}",
            errors={name: ["cannot be changed"] for name in unknown},
        )
    with transaction.atomic():
        row = Provider.objects.select_for_update(of=("self",)).select_related("project").get(pk=provider.pk)
        fields = {name: value for name, value in changes.items() if name != "api_key" and getattr(row, name) != value}
        before = {name: getattr(row, name) for name in fields}
        for name, value in fields.items():
            setattr(row, name, value)
        _check(row)
        if "api_key" in changes or "base_url" in fields:
            row.api_key_sealed = seal(changes.get("api_key", ""))
        if fields or "api_key" in changes:
            _save(row)
            payload = {"before": before, "after": fields, "new_api_key": bool(changes.get("api_key"))}
            record(Kind.PROVIDER_CHANGED, subject=row, by=by.handle, payload=payload)
    return row


def delete_provider(*, provider: Provider, by: User) -> None:
    """Remove a model server that no worker uses.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        ConflictError: a worker uses it.
    """
    _require_owner_of(provider.project, by)
    with transaction.atomic():
        record(Kind.PROVIDER_DELETED, subject=provider, by=by.handle, payload={"name": provider.name})
        try:
            provider.delete()
        except ProtectedError as error:
            names = ", ".join(sorted(str(worker) for worker in error.protected_objects))
            raise ConflictError(f"provider {provider.name} is used by {names}") from error


def _require_owner_of(project: Project | None, by: User) -> None:
    """A project's model servers belong to who runs its workers; those of all projects to the installation's admins."""
    if project is not None:
        require_right(by, project, Right.WORKERS_WRITE)
    elif not (by.is_superuser and by.is_active):
        raise NotAllowedError("only an admin may manage the model servers of all projects")


def _check(provider: Provider) -> None:
    """Raises BadInputError naming every field at fault."""
    errors: dict[str, list[str]] = {}
    try:
        provider.clean_fields(
            exclude={"base_url"}
        )  # Django's URL check refuses names without a dot, such as a container's
    except ValidationError as error:
        errors |= {
            name: [f"{words} (found {getattr(provider, name)!r})" for words in messages]
            for name, messages in error.message_dict.items()
        }
    if complaint := _check_url(provider.base_url):
        errors["base_url"] = [complaint]
    if errors:
        raise BadInputError("; ".join(f"{name}: {words[0]}" for name, words in errors.items()), errors=errors)


def _check_url(url: Any) -> str:
    """What is wrong with the address of a model server; "" where nothing is."""
    if not isinstance(url, str) or len(url) > _MAX_URL_CHARS:
        return f"must be a text of at most {_MAX_URL_CHARS} characters, found {str(url)[:80]!r}"
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return "must be like http://host:port, found an unreadable host or port"
    if parts.username or parts.password or parts.query or parts.fragment:
        return "must be a plain address, with the key in api_key; found a user, query or fragment in it"
    if parts.scheme not in {"http", "https"} or not parts.hostname or not has_port or re.search(r"\s", url):
        return f"must be like http://host:port, found {url[:80]!r}"
    return ""


def _save(provider: Provider) -> None:
    """Raises ConflictError where the name is taken."""
    try:
        with transaction.atomic():
            provider.save()
    except IntegrityError:
        message = f"the name {provider.name} is taken"
        raise ConflictError(message, errors={"name": [message]}) from None
