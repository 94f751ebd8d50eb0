"""Model servers and the record of what they answered."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from apps.accounts.models import Project, User
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError, ConflictError
from apps.inference.client import ModelClient
from apps.inference.models import Exchange, Provider, Session
from apps.inference.sealing import seal, unseal
from tentalis.core.packing import pack_bools, pack_float32, pack_int32
from tentalis.core.worlds import AttemptDraft

CHANGEABLE = frozenset({"name", "kind", "base_url", "default_model", "is_active", "api_key"})


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
        BadInputError: a field is not what is wanted, the name is taken in this project included.
    """
    provider = Provider(project=project, name=name, kind=kind, base_url=base_url, default_model=default_model)
    provider.api_key_sealed = seal(api_key)
    _save(provider, Kind.PROVIDER_CREATED, by, {"name": name, "kind": kind, "base_url": base_url})
    return provider


def change_provider(*, provider: Provider, by: User, **changes: Any) -> Provider:
    """Change fields of a model server; `api_key` "" takes its key away.

    Raises:
        BadInputError: a field is unknown or not what is wanted.
    """
    if unknown := sorted(set(changes) - CHANGEABLE):
        raise BadInputError(f"a provider has {', '.join(sorted(CHANGEABLE))}; found {unknown[0]!r}")
    for name, value in changes.items():
        if name == "api_key":
            provider.api_key_sealed = seal(value)
        else:
            setattr(provider, name, value)
    shown = {name: "changed" if name == "api_key" else value for name, value in changes.items()}
    _save(provider, Kind.PROVIDER_CHANGED, by, shown)
    return provider


def delete_provider(*, provider: Provider, by: User) -> None:
    """Remove a model server that no worker uses.

    Raises:
        ConflictError: a worker still uses it.
    """
    with transaction.atomic():
        record(Kind.PROVIDER_DELETED, subject=provider, by=by.handle, payload={"name": provider.name})
        try:
            provider.delete()
        except ProtectedError as error:
            names = ", ".join(sorted(str(worker) for worker in error.protected_objects))
            raise ConflictError(f"provider {provider.name!r} is used by {names}") from error


def _save(provider: Provider, kind: Kind, by: User, payload: dict[str, Any]) -> None:
    """Check every field, save and audit.

    Raises:
        BadInputError
    """
    errors = _find_errors(provider)
    if errors:
        raise BadInputError(
            "; ".join(f"{field}: {words[0]}" for field, words in errors.items()),
            errors=errors,
        )
    try:
        with transaction.atomic():
            provider.save()
            record(kind, subject=provider, by=by.handle, payload=payload)
    except IntegrityError as error:
        message = f"name must be new in this project, found {provider.name!r}, which is taken"
        raise BadInputError(message, errors={"name": [message]}) from error


def _find_errors(provider: Provider) -> dict[str, list[str]]:
    errors: dict[str, list[str]] = {}
    try:
        provider.clean_fields()
    except ValidationError as error:
        errors |= error.message_dict
    parts = urlsplit(str(provider.base_url))
    if parts.username or parts.password or parts.query or parts.fragment:
        errors["base_url"] = ["must be a plain URL: the key goes into api_key, found a user, query or fragment"]
    return errors
