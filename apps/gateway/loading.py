"""Reads the platform's rows into tables, in threads of its own: the edge never waits for the database."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.db import connection
from django.utils import timezone

from apps.accounts.models import ApiToken, Member, Project, Role, User
from apps.accounts.rights import ROLE_RIGHTS, Right
from apps.accounts.tokens import find_token
from apps.adapters.models import Adapter, Deployment
from apps.base.sealing import SealedKeyError
from apps.gateway.tables import Backend, Caller, EnsembleRoute, Served, Tables, WorkerRoute
from apps.inference.models import Provider, ProviderGrant
from apps.inference.prices import load_prices
from apps.inference.provider_kinds import find_kind
from apps.inference.providers import open_key
from apps.inference.services import own_server_key
from apps.workers.models import Ensemble, Worker
from apps.workers.selectors import find_base_model
from tentalis.core.checked import FieldError
from tentalis.core.limits import Limits
from tentalis.core.sampling import SamplingPolicy
from tentalis.core.session_policy import SessionPolicy

logger = logging.getLogger(__name__)

_DIGEST = """
    SELECT md5(concat_ws('|',
        (SELECT string_agg(md5(row(t.*)::text), '' ORDER BY id) FROM inference_provider t),
        (SELECT string_agg(md5(row(t.*)::text), '' ORDER BY id) FROM inference_providergrant t),
        (SELECT string_agg(md5(row(t.*)::text), '' ORDER BY id) FROM workers_worker t),
        (SELECT string_agg(md5(row(t.*)::text), '' ORDER BY id) FROM workers_ensemble t),
        (SELECT string_agg(md5(concat_ws(',', id, adapter_id, canary_id, canary_percent, canary_after_task, epoch)), ''
            ORDER BY id) FROM adapters_deployment t),
        (SELECT string_agg(md5(row(t.*)::text), '' ORDER BY id) FROM inference_price t),
        (SELECT string_agg(concat_ws(',', id, state), ';' ORDER BY id) FROM adapters_adapter),
        (SELECT string_agg(concat_ws(',', id, slug, limits, archived_at, session_policy), ';' ORDER BY id)
            FROM accounts_project),
        (SELECT string_agg(concat_ws(',', user_id, project_id, role), ';' ORDER BY id) FROM accounts_member),
        (SELECT string_agg(concat_ws(',', t.id, scopes, limits, expires_at, revoked_at, t.project_id,
            u.is_active, u.is_superuser, u.is_agent, u.username), ';' ORDER BY t.id)
            FROM accounts_apitoken t JOIN accounts_user u ON u.id = t.user_id WHERE key_id = ANY(%s))
    ))
"""
"""One row for Postgres to make and for us to compare: most of the time nothing has changed."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What a token opens: its caller in each project, by slug."""

    key_id: str
    callers: Mapping[str, Caller]


def read_digest(key_ids: Iterable[str]) -> str:
    """Changes when anything does that the tables, or these tokens' credentials, are made of."""
    with connection.cursor() as cursor:
        cursor.execute(_DIGEST, [sorted(key_ids)])
        return str(cursor.fetchone()[0])


def verify_token(text: str) -> Credential:
    """The credential of a token's plain text.

    Raises:
        NotSignedInError: it is none, or does not hold any more.
    """
    return _make_credential(find_token(text))


def load_credentials(key_ids: Iterable[str]) -> dict[str, Credential]:
    """Those of these tokens that still hold, by key id."""
    now = timezone.now()
    tokens = ApiToken.objects.select_related("user").filter(
        key_id__in=list(key_ids), revoked_at__isnull=True, expires_at__gt=now, user__is_active=True
    )
    return {token.key_id: _make_credential(token) for token in tokens}


def _make_credential(token: ApiToken) -> Credential:
    projects = Project.objects.visible_to(token.user)
    if token.project_id is not None:
        projects = projects.filter(pk=token.project_id)
    roles = dict(Member.objects.filter(user=token.user).values_list("project_id", "role"))
    callers = {
        project.slug: _make_caller(token, token.user, project, roles.get(project.pk)) for project in projects[:1000]
    }
    return Credential(token.key_id, callers)


def _make_caller(token: ApiToken, user: User, project: Project, role: str | None) -> Caller:
    rights = ROLE_RIGHTS[Role.OWNER if user.is_superuser or role is None else Role(role)]
    allowed = rights & set(token.scopes)
    return Caller(
        token=token.key_id,
        project=project.pk,
        project_slug=project.slug,
        agent=user.handle,
        is_agent=user.is_agent,
        may_ask=Right.GATEWAY_USE in allowed,
        may_read=Right.SESSIONS_READ in allowed,
        token_limits=_read_limits(token.limits),
        project_limits=_read_limits(project.limits),
        expires_at=token.expires_at.timestamp(),
        sampling=_read_sampling(project.session_policy),
        is_archived=project.archived_at is not None,
    )


def _read_sampling(policy: Any) -> SamplingPolicy:
    """What a project wants of its callers' sampling; where its policy cannot be read, nothing is changed."""
    try:
        return SessionPolicy.from_json(policy or {}).sampling
    except FieldError as error:
        logger.warning("a session policy is not readable, callers' sampling is kept: %s", error)
        return "keep"


def _read_limits(value: Any) -> Limits:
    try:
        return Limits.from_json(value or {})
    except FieldError as error:
        logger.warning("limits are not readable and not kept: %s", error)
        return Limits()


def load_tables() -> Tables:
    """Everything requests are routed by, in eight statements."""
    own = _own_server()
    backends: dict[tuple[int | None, str], Backend] = {(None, own.name): own}
    by_key: dict[int | None, Backend] = {None: own}
    for provider in Provider.objects.filter(is_active=True):
        if (backend := _make_backend(provider)) is not None:
            backends[provider.project_id, provider.name] = by_key[provider.pk] = backend
    grants: dict[tuple[int, int | None], Limits] = {
        (grant.project_id, grant.provider_id): Limits(
            tokens_per_day=grant.tokens_per_day, usd_per_month=grant.usd_per_month
        )
        for grant in ProviderGrant.objects.filter(provider__project__isnull=True)
    }
    deployments: dict[int, Deployment] = {}
    people: dict[int, dict[str, Served]] = defaultdict(dict)
    for row in Deployment.objects.select_related("adapter", "canary"):
        if not row.end_user:
            deployments[row.worker_id] = row
        elif (served := _serve(row.adapter)) is not None:
            people[row.worker_id][row.end_user] = served
    routes: list[WorkerRoute] = []
    holders: dict[int, WorkerRoute] = {}
    for worker in Worker.objects.filter(is_active=True).select_related("provider", "learns_with"):
        base, line = find_base_model(worker), worker.line
        if base and worker.provider_id in by_key:
            route = _make_route(worker, base, by_key[worker.provider_id], deployments.get(line.pk))
            if line.adapters_per == Worker.AdaptersPer.USER:
                route = replace(route, people=people[line.pk])
            routes.append(route)
            if line == worker or line.pk not in holders:
                holders[line.pk] = route  # by name its adapters are its own, or while it is off of who learns with it
    adapters: dict[tuple[int, str], tuple[WorkerRoute, Served]] = {}
    owners: dict[str, int] = {}
    private: dict[str, str] = {}
    rows = Adapter.objects.values_list("project_id", "worker_id", "name", "version", "state", "end_user")
    for project_key, worker_key, name, version, state, end_user in rows:
        owners[name] = project_key
        if end_user:
            private[name] = end_user
        if (known := holders.get(worker_key)) is not None and state != Adapter.State.REFUSED:
            pinned = known, Served(name, name, version)
            adapters[known.project, name] = adapters[known.project, name.partition(".")[2]] = pinned
    workers = {(route.project, route.name): route for route in routes}
    ensembles = {
        (one.project_id, one.model): EnsembleRoute(
            tuple(name for name in one.members if (one.project_id, name) in workers), one.wait_s
        )
        for one in Ensemble.objects.all()
    }
    return Tables(
        workers=workers,
        ensembles=ensembles,
        adapters=adapters,
        owners=owners,
        private=private,
        backends=backends,
        grants=grants,
        prices=load_prices(),
    )


def _own_server() -> Backend:
    """The installation's own model server, which the settings name."""
    kind = find_kind(settings.TENTALIS["INFERENCE_BACKEND"])
    return Backend(
        key=None,
        name=kind.kind,
        kind=kind,
        urls=(settings.TENTALIS["INFERENCE_BASE_URL"] or settings.ENGINE_URL,),
        headers=kind.headers(own_server_key()),
        default_model="",
        trusts_private=True,
        timeout_s=settings.TENTALIS["TASK_TIMEOUT_SECONDS"],
        limits=Limits(),
    )


def _make_backend(provider: Provider) -> Backend | None:
    kind = find_kind(provider.kind)
    try:
        headers = kind.headers(open_key(provider))
    except SealedKeyError as error:
        logger.warning("provider %s is not served: %s", provider.name, error)
        return None
    return Backend(
        key=provider.pk,
        name=provider.name,
        kind=kind,
        urls=(provider.base_url, *provider.more_urls),
        headers=headers,
        default_model=provider.default_model,
        trusts_private=provider.allow_private,
        timeout_s=provider.timeout_s or settings.TENTALIS["TASK_TIMEOUT_SECONDS"],
        limits=Limits(
            requests_per_minute=provider.requests_per_minute or None,
            tokens_per_minute=provider.tokens_per_minute or None,
        ),
        tells_processed=provider.tells_processed,
        context_tokens=_read_context(provider),
        is_listed=provider.project_id is None and provider.granted_to != Provider.GrantedTo.EVERYONE,
    )


def _read_context(provider: Provider) -> int | None:
    found = provider.probe.get("context_tokens")
    return found if isinstance(found, int) and provider.probe.get("model") == provider.default_model else None


def _make_route(worker: Worker, base: str, backend: Backend, deployment: Deployment | None) -> WorkerRoute:
    plain = Served(base)
    if deployment is None:
        return WorkerRoute(
            project=worker.project_id,
            name=worker.name,
            backend=backend,
            base=plain,
            deployed=plain,
            fallbacks=tuple(worker.fallbacks),
            context_tokens=worker.context_tokens,
        )
    return WorkerRoute(
        project=worker.project_id,
        name=worker.name,
        backend=backend,
        base=plain,
        deployed=_serve(deployment.adapter) or plain,
        canary=_serve(deployment.canary),
        canary_percent=deployment.canary_percent,
        canary_key=f"{deployment.epoch}:{deployment.canary_id}" if deployment.canary_id else "",
        canary_after_task=deployment.canary_after_task,
        fallbacks=tuple(worker.fallbacks),
        context_tokens=worker.context_tokens,
    )


def _serve(adapter: Adapter | None) -> Served | None:
    return Served(adapter.name, adapter.name, adapter.version) if adapter else None
