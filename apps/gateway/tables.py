"""What the edge knows about the platform: plain values, made off the hot path and replaced whole."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.inference.prices import PriceTable
from apps.inference.provider_kinds import ProviderKind
from tentalis.core.limits import Limits
from tentalis.core.sampling import SamplingPolicy

BASE_VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks, in one project.

    Args:
        token: key id of the token. agent: handle of its user. is_agent: a program, not a person.
        may_ask: has the right and the scope to use the gateway. may_read: those to read sessions.
        sampling: keep, enforce or refuse, see `SessionPolicy`.
        is_archived: the project takes nothing new.
        expires_at: seconds since the epoch.
    """

    token: str
    project: int
    project_slug: str
    agent: str
    is_agent: bool
    may_ask: bool
    may_read: bool
    token_limits: Limits
    project_limits: Limits
    expires_at: float
    sampling: SamplingPolicy = "keep"
    is_archived: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A provider, as it is asked.

    Args:
        key: primary key; None for the installation's own model server.
        urls: what its addresses begin with; sessions are spread over them.
        headers: of every request; they hold its API key.
        trusts_private: loopback and private addresses are allowed.
        timeout_s: longest silence.
        context_tokens: that its default model takes, prompt and answer together; None: unknown.
        tells_processed: its log-probs are those at the temperature it samples at.
        limits: what all callers together may ask of it.
        is_listed: it is shared, and only for projects with a grant.
    """

    key: int | None
    name: str
    kind: ProviderKind
    urls: tuple[str, ...]
    headers: Mapping[str, str] = field(repr=False)
    default_model: str
    trusts_private: bool
    timeout_s: float
    limits: Limits
    tells_processed: bool = False
    context_tokens: int | None = None
    is_listed: bool = False


@dataclass(frozen=True, slots=True)
class Served:
    """A model under the name its server knows it by.

    Args:
        adapter: "" for a base model. version: of the adapter; 0 for a base model.
    """

    name: str
    adapter: str = ""
    version: int = BASE_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRoute:
    """Where a worker's requests go: what is deployed or, for its share of them, the canary.

    Args:
        canary_key: names the canary's trial; "" without one. canary_after_task: see `Deployment`.
        people: what serves those who have an adapter of their own, by end user.
        fallbacks: names of models that are asked where its own cannot be had, in order.
        context_tokens: that its model takes, prompt and answer together; None: unknown.
    """

    project: int
    name: str
    backend: Backend
    base: Served
    deployed: Served
    canary: Served | None = None
    canary_percent: int = 0
    canary_key: str = ""
    canary_after_task: int = 0
    people: Mapping[str, Served] = field(default_factory=dict)
    fallbacks: tuple[str, ...] = ()
    context_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class EnsembleRoute:
    """Workers that are asked together.

    Args:
        members: names, in order, of those that have a model and are switched on.
        wait_s: for the others, once one of them has answered.
    """

    members: tuple[str, ...]
    wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Everything a request is routed by.

    Args:
        workers: by project and name. Those without a model are absent.
        ensembles: by project and what callers name them by, `ensemble/<name>`.
        adapters: by project and name, in full and as `worker@vN-digest`: (worker, how it is served).
        prices: of models, for budgets in dollars.
        owners: project of every adapter there is, by its full name: servers are shared, and know no projects.
        private: end user of every adapter that is one person's own, by its full name: it serves nobody else.
        backends: by project and name; project None for those that are shared.
        grants: by project and backend's key: what the project may use of a shared one, where it was granted.
        routes: what `find_route` found for everybody, by project and model.
    """

    workers: Mapping[tuple[int, str], WorkerRoute] = field(default_factory=dict)
    ensembles: Mapping[tuple[int, str], EnsembleRoute] = field(default_factory=dict)
    adapters: Mapping[tuple[int, str], tuple[WorkerRoute, Served]] = field(default_factory=dict)
    owners: Mapping[str, int] = field(default_factory=dict)
    private: Mapping[str, str] = field(default_factory=dict)
    prices: PriceTable = field(default_factory=lambda: PriceTable({}, {}))
    backends: Mapping[tuple[int | None, str], Backend] = field(default_factory=dict)
    grants: Mapping[tuple[int, int | None], Limits] = field(default_factory=dict)
    routes: dict[tuple[int, str], Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def find_backend(self, project: int, name: str) -> Backend | None:
        return self.backends.get((project, name)) or self.backends.get((None, name))

    def is_granted(self, project: int, backend: Backend) -> bool:
        return not backend.is_listed or (project, backend.key) in self.grants

    def list_models(self, project: int) -> dict[str, int | None]:
        """What a project's callers may ask for (its workers, what serves them, its ensembles, its providers' default
        models) by name, and how many tokens each takes, None where that is not known."""
        found: dict[str, int | None] = {}
        for (owner, name), route in self.workers.items():
            if owner == project and self.is_granted(project, route.backend):
                serving = [served.adapter for served in (route.deployed, route.canary) if served and served.adapter]
                found |= dict.fromkeys((name, *serving), route.context_tokens)
        for (owner, name), ensemble in self.ensembles.items():
            members = [self.workers[owner, one] for one in ensemble.members]
            if owner == project and members and all(self.is_granted(project, one.backend) for one in members):
                known = [one.context_tokens for one in members if one.context_tokens is not None]
                found[name] = min(known) if len(known) == len(members) else None
        for (offered_to, name), backend in self.backends.items():
            if offered_to in {None, project} and backend.default_model and self.is_granted(project, backend):
                found[f"{name}/{backend.default_model}"] = backend.context_tokens
        return dict(sorted(found.items()))
