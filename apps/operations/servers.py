"""Whether the model servers that workers use answer: looked at every so often, for pages and readiness to say."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from time import perf_counter

from django.contrib.postgres.expressions import ArraySubquery
from django.core.cache import cache
from django.db.models import Func, JSONField, OuterRef
from django.db.models.functions import Coalesce, JSONObject, Now

from apps.base.errors import TentalisError
from apps.inference.client import ModelClient
from apps.inference.models import Provider
from apps.inference.services import open_client
from apps.operations.models import ServerLook
from apps.workers.kinds import KINDS, OUTSIDE
from apps.workers.models import Worker
from tentalis.outbound.scopes import CancelScope, ScopedThreadPool

OWN = 0
OWN_NAME = "the installation's engine"
ASKED_S = 5.0
"""A server has so long to say what it serves."""
AT_ONCE = 8
KNOWN_S = 10
AWAY = "operations:servers_away"


@dataclass(frozen=True)
class InUse:
    """A server, and whose workers use it. `provider` None: the installation's own engine."""

    provider: Provider | None
    projects: Sequence[int]

    @property
    def name(self) -> str:
        return OWN_NAME if self.provider is None else self.provider.name


@dataclass(frozen=True)
class AwayServer:
    """A server in use that does not answer."""

    name: str
    since: datetime
    words: str
    projects: Sequence[int]


def find_in_use() -> list[InUse]:
    """The servers that active workers ask, but for the vendors' clouds: those are not asked for nothing."""
    users: dict[int, set[int]] = defaultdict(set)
    workers = Worker.objects.filter(
        is_active=True, kind__in=[kind.name for kind in KINDS.values() if kind.asks_model and kind.name != OUTSIDE]
    )
    for provider_id, project_id in workers.values_list("provider", "project").distinct():
        users[provider_id or OWN].add(project_id)
    rows = Provider.objects.filter(pk__in=users, is_active=True, allow_private=True).in_bulk()
    found = [InUse(rows[pk], sorted(users[pk])) for pk in sorted(users) if pk in rows]
    return [*([InUse(None, sorted(users[OWN]))] if OWN in users else ()), *found]


def look() -> int:
    """Ask every server in use what it serves, all at once, and keep what came. Returns how many are away."""
    servers = find_in_use()
    clients = [_find_client(server) for server in servers]
    with CancelScope(2 * ASKED_S), ScopedThreadPool(max_workers=AT_ONCE) as pool:
        answers = list(pool.map(_ask, clients))
    for server, (is_away, words, latency_ms) in zip(servers, answers, strict=True):
        told = {"name": server.name, "projects": list(server.projects), "looked_at": Now(), "words": words[:500]}
        if latency_ms is not None:
            told["latency_ms"] = latency_ms
        ServerLook.objects.update_or_create(
            provider_id=server.provider.pk if server.provider else OWN,
            defaults=told | {"away_since": Coalesce("away_since", Now()) if is_away else None},
            create_defaults=told | {"away_since": Now() if is_away else None},
        )
    ids = [server.provider.pk if server.provider else OWN for server in servers]
    ServerLook.objects.exclude(provider_id__in=ids).delete()
    cache.delete(AWAY)
    return sum(is_away for is_away, _words, _ms in answers)


def find_away() -> list[AwayServer]:
    """Servers in use that do not answer, as of at most some seconds ago: anybody may ask as often as they like."""
    known = cache.get_or_set(AWAY, _write_away, KNOWN_S) or []
    return [AwayServer(name, datetime.fromisoformat(since), words, projects) for name, since, words, projects in known]


def away_of(project: OuterRef) -> ArraySubquery:
    """Column of a query of projects: the servers that are away of those that a project's workers use."""
    uses = {"projects__contains": Func(project, function="to_jsonb", output_field=JSONField())}
    away = ServerLook.objects.filter(away_since__isnull=False, **uses).order_by("away_since")
    return ArraySubquery(away.values(told=JSONObject(name="name", since="away_since")))


def _write_away() -> list[tuple[str, str, str, Sequence[int]]]:
    return [(one.name, one.since.isoformat(), one.words, one.projects) for one in read_away()]


def read_away() -> list[AwayServer]:
    """As of the last look, from the database."""
    rows = ServerLook.objects.filter(away_since__isnull=False).order_by("away_since")
    return [AwayServer(row.name, row.away_since, row.words, row.projects) for row in rows if row.away_since]


def say_away(away: Sequence[AwayServer]) -> list[str]:
    """The same for programs that ask whether all is well: anybody may, so not where the server is."""
    return [f"model server: {one.name} is away since {one.since:%Y-%m-%d %H:%M:%S} UTC" for one in away]


def say_now_away() -> list[str]:
    return say_away(find_away())


def _find_client(server: InUse) -> ModelClient | TentalisError:
    try:
        return replace(open_client(server.provider), timeout_s=ASKED_S, on_answer=None)
    except TentalisError as error:
        return error


def _ask(client: ModelClient | TentalisError) -> tuple[bool, str, float | None]:
    """(whether it is away, what it said that is no answer, milliseconds to its answer)."""
    if isinstance(client, TentalisError):
        return False, str(client), None
    started = perf_counter()
    try:
        client.list_models()
    except TentalisError as error:
        return error.is_away, str(error), None
    return False, "", round(1000 * (perf_counter() - started), 1)
