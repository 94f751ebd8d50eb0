"""Clients of model servers, and the record of what these answered."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import F

from apps.accounts.models import Project
from apps.base.errors import ConflictError
from apps.base.inserting import insert
from apps.inference.allowances import find_allowance
from apps.inference.client import ModelClient
from apps.inference.grants import require_granted, usable
from apps.inference.metering import CallUse, find_meter
from apps.inference.models import Exchange, Provider
from apps.inference.prices import Rates, find_price
from apps.inference.provider_kinds import find_kind
from apps.inference.providers import open_key
from tentalis.core.conversation_delta import SAME, TOKEN_BYTES, count_shared_tokens
from tentalis.core.packing import pack_bools, pack_float32, pack_int32, pack_top
from tentalis.core.sampling import describe_sampling
from tentalis.core.token_use import TokenUse
from tentalis.core.worlds import AttemptDraft


def client_for(provider: Provider | None, project_id: int) -> ModelClient:
    """The client by which a project asks a provider; of the installation's own model server where there is none.

    What a grant allows is held and counted with each call.

    Raises:
        NotGrantedError: it is shared, and the project has no grant.
        ConflictError: the provider is switched off.
        SealedKeyError: its API key cannot be opened.
    """
    require_granted(provider, project_id)
    is_elsewhere = provider is not None or bool(settings.TENTALIS["INFERENCE_BASE_URL"])
    allowance = find_allowance(provider, project_id)
    return replace(open_client(provider), allowance=allowance, keeps_answers=is_elsewhere)


def find_server(project_id: int, name: str) -> tuple[Provider | None, str]:
    """`SERVER/MODEL` asks one of the project's model servers, the project's own before a shared one; any other name is
    a model of the installation's own."""
    server, slash, model = name.partition("/")
    if slash and model:
        known = Provider.objects.filter(usable([project_id]), name=server).order_by(F("project").asc(nulls_last=True))
        if (provider := known.first()) is not None:
            return provider, model
    return None, name


def open_client(provider: Provider | None) -> ModelClient:
    """The client of a provider on nobody's behalf: to free the server of what nobody needs any more.

    Raises:
        ConflictError, SealedKeyError: as `client_for`.
    """
    timeout_s: float = settings.TENTALIS["TASK_TIMEOUT_SECONDS"]
    on_answer = _make_counter(provider)
    if provider is None:
        return ModelClient(
            settings.TENTALIS["INFERENCE_BASE_URL"] or settings.ENGINE_URL,
            own_server_key(),
            settings.TENTALIS["INFERENCE_BACKEND"],
            timeout_s,
            allow_private=True,  # who set the environment runs the machine
            on_answer=on_answer,
        )
    if not provider.is_active:
        raise ConflictError(f"provider {provider.name!r} is switched off")
    return ModelClient(
        provider.base_url,
        open_key(provider),
        provider.kind,
        provider.timeout_s or timeout_s,
        provider.allow_private,
        on_answer,
    )


def own_server_key() -> str:
    """The key of the installation's own model server: the engine's, unless the settings name another server."""
    known = settings.TENTALIS
    key = known["INFERENCE_API_KEY"] or ("" if known["INFERENCE_BASE_URL"] else known["ENGINE_KEY"])
    return key or ""


def clients_for(provider: Provider | None, project_id: int) -> list[ModelClient]:
    """A client for each address of a provider: sessions are spread over them, so an adapter is to be on all.

    Raises:
        NotGrantedError, ConflictError, SealedKeyError: as `client_for`.
    """
    return _spread(client_for(provider, project_id), provider)


def open_clients(provider: Provider | None) -> list[ModelClient]:
    """The same on nobody's behalf, see `open_client`."""
    return _spread(open_client(provider), provider)


def _spread(first: ModelClient, provider: Provider | None) -> list[ModelClient]:
    more = provider.more_urls if provider else ()
    return [first, *(replace(first, base_url=url) for url in more)]


def _make_counter(provider: Provider | None) -> Callable[[str, str, TokenUse, float], None] | None:
    """What tells the running meter of each answer; None where nothing is metered."""
    meter = find_meter()
    if meter is None:
        return None
    provider_id = provider.pk if provider else None
    kind = provider.kind if provider else settings.TENTALIS["INFERENCE_BACKEND"]
    return lambda model, served_by, use, elapsed_s: meter.add(
        CallUse(provider_id, kind, model, served_by, use, elapsed_s)
    )


class CallBefore(NamedTuple):
    """The call that another goes on from: of that one only what is new is stored.

    Args:
        messages: of its prompt, and its answer as the next call repeats it.
        tokens: packed int32, of its prompt and its answer.
        request: what it was asked with beside its messages.
    """

    exchange_id: int
    messages: Sequence[Any]
    tokens: bytes
    request: Mapping[str, Any]


class KnownPrice(NamedTuple):
    """What a model costs, as was asked before; None: nobody knows."""

    rates: Rates | None


def record_exchanges(
    *,
    project: Project,
    drafts: Sequence[AttemptDraft],
    worker_name: str,
    model: str,
    adapter_name: str = "",
    policy_version: int = 0,
    provider: Provider | None = None,
    task_ids: Sequence[int] = (),
    turn: str = "main",
    before: Sequence[CallBefore | None] = (),
    price: KnownPrice | None = None,
) -> list[Exchange]:
    """Store what came of each try, in one statement.

    Args:
        model: name the server was asked for.
        adapter_name, policy_version: of the adapter behind that name; "" and 0 for the base model.
        task_ids: (len(drafts),) of the tasks they are tries at; empty where they are at none.
        turn: as an exchange's.
        before: (len(drafts),) the call that each goes on from; empty where none does.
        price: None: it is looked up.
    Returns:
        One stored exchange a draft, in order.
    """
    kind = provider.kind if provider else settings.TENTALIS["INFERENCE_BACKEND"]
    if price is None:
        price = find_known_price(provider, model)
    tells = find_kind(kind).name_told(is_declared=provider is not None and provider.tells_processed)
    of_tasks: Sequence[int | None] = task_ids or [None] * len(drafts)
    return insert(
        Exchange(
            project=project,
            provider=provider,
            worker_name=worker_name,
            model=model,
            adapter_name=adapter_name,
            policy_version=policy_version,
            **_place(draft, earlier),
            sampling=describe_sampling(draft.sampling, tells=tells) if draft.sampling else {},
            text=draft.text,
            tool_calls=list(draft.tool_calls),
            finish_reason=draft.finish_reason,
            token_ids=pack_int32(draft.token_ids),
            logprobs=pack_float32(draft.logprobs),
            sampled=pack_bools(draft.sampled),
            **_pack_top(draft),
            prompt_tokens=len(draft.prompt_token_ids) or draft.use.prompt,
            completion_tokens=len(draft.token_ids) or draft.use.completion,
            cached_tokens=draft.use.cached,
            cost_usd=price.rates and price.rates.cost(**_count_tokens(draft)._asdict()),
            task_id=task_id,
            turn=turn,
            latency_ms=None if draft.elapsed_s is None else draft.elapsed_s * 1000,
            error=draft.error,
        )
        for draft, task_id, earlier in zip(drafts, of_tasks, before or [None] * len(drafts), strict=True)
    )


def find_known_price(provider: Provider | None, model: str) -> KnownPrice:
    """The price of a model, for all that it is asked in a while."""
    kind = provider.kind if provider else settings.TENTALIS["INFERENCE_BACKEND"]
    return KnownPrice(find_price(provider=provider, kind=kind, model=model))


def _place(draft: AttemptDraft, before: CallBefore | None) -> dict[str, Any]:
    """What of a call is stored of its conversation."""
    messages, prompt = list(draft.messages), pack_int32(draft.prompt_token_ids)
    if before is None:
        return {"messages": messages, "prompt_token_ids": prompt, "request": dict(draft.request)}
    shared = 0
    while shared < min(len(messages), len(before.messages)) and messages[shared] == before.messages[shared]:
        shared += 1
    tokens = count_shared_tokens(prompt, before.tokens)
    return {
        "parent_id": before.exchange_id,
        "shared_messages": shared,
        "shared_tokens": tokens,
        "messages": messages[shared:],
        "prompt_token_ids": prompt[tokens * TOKEN_BYTES :],
        "request": {SAME: True} if draft.request and draft.request == before.request else dict(draft.request),
    }


def _pack_top(draft: AttemptDraft) -> dict[str, bytes]:
    token_ids, logprobs = pack_top(draft.top)
    return {"top_token_ids": token_ids, "top_logprobs": logprobs}


def _count_tokens(draft: AttemptDraft) -> TokenUse:
    """What is paid for: as the server counted, else as many as it told."""
    return draft.use if any(draft.use) else TokenUse(len(draft.prompt_token_ids), len(draft.token_ids))
