"""Model servers as pages show them: how they do, who uses them, what they cost."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.accounts.models import Project, User
from apps.inference.costs import Bill, ServerUse, cost_of, use_of_servers
from apps.inference.grants import usable
from apps.inference.models import Exchange, Price, Provider, ProviderGrant
from apps.inference.price_list import AS_OF, SHIPPED, ShippedPrice
from apps.inference.provider_kinds import ProviderKind, find_kind
from apps.workers.models import Worker

COST_DAYS = 30
MOST = 200


@dataclass(frozen=True)
class ProviderRow:
    """One line of the list."""

    provider: Provider
    workers: Sequence[Worker]
    may_ask: bool = True

    @property
    def health(self) -> tuple[str, str]:
        return read_health(self.provider)


@dataclass(frozen=True)
class GrantRow:
    """A project that may ask a shared server, and what it used."""

    grant: ProviderGrant
    use: ServerUse


@dataclass(frozen=True)
class ProviderView:
    """Everything a model server's page shows.

    Args:
        findings: what its last test saw: words, and yes, no or "".
        shipped: the product's own prices of its kind. bill: what this project paid it of late.
        grants: of a shared server, who may ask it: this project's own, and for an admin every project's.
    """

    provider: Provider
    kind: ProviderKind
    workers: Sequence[Worker]
    findings: Sequence[tuple[str, str]]
    prices: Sequence[Price]
    shipped: Sequence[ShippedPrice]
    bill: Bill
    grants: Sequence[GrantRow]
    shipped_as_of: str = AS_OF
    days: int = COST_DAYS

    @property
    def health(self) -> tuple[str, str]:
        return read_health(self.provider)


def seen_by(user: User, project: Project) -> QuerySet[Provider]:
    """A project's own model servers and those it may ask; an admin sees every shared one."""
    seen = usable([project]) | (Q(project__isnull=True) if user.is_superuser else Q(pk__in=()))
    return Provider.objects.select_related("project").filter(seen)


def find_providers(user: User, project: Project) -> list[ProviderRow]:
    """All of them, with the project's workers that use each, in three statements."""
    granted = set(ProviderGrant.objects.filter(project=project).values_list("provider", flat=True))
    users: dict[int | None, list[Worker]] = {}
    for worker in Worker.objects.filter(project=project, provider__isnull=False).order_by("name"):
        users.setdefault(worker.provider_id, []).append(worker)
    rows = seen_by(user, project).order_by("name", "pk")[:MOST]
    return [ProviderRow(one, users.get(one.pk, []), _may_ask(one, granted)) for one in rows]


def _may_ask(provider: Provider, granted: Container[int]) -> bool:
    is_open = provider.granted_to == Provider.GrantedTo.EVERYONE
    return provider.project_id is not None or is_open or provider.pk in granted


def show_provider(provider: Provider, user: User, project: Project) -> ProviderView:
    since = timezone.now() - timedelta(days=COST_DAYS)
    spent = Exchange.objects.filter(project=project, provider=provider, created_at__gte=since)
    return ProviderView(
        provider=provider,
        kind=find_kind(provider.kind),
        workers=list(Worker.objects.filter(project=project, provider=provider).order_by("name")),
        findings=_read_findings(provider.probe),
        prices=list(
            Price.objects.filter(Q(provider=provider) | Q(kind=provider.kind)).order_by("model", "-valid_from")[:MOST]
        ),
        shipped=[row for row in SHIPPED if row.kind == provider.kind],
        bill=cost_of(spent),
        grants=_find_grants(provider, user, project),
    )


def _find_grants(provider: Provider, user: User, project: Project) -> list[GrantRow]:
    if provider.project_id is not None:
        return []
    grants = provider.grants.select_related("project").order_by("project__slug")
    rows = list((grants if user.is_superuser else grants.filter(project=project))[:MOST])
    uses = use_of_servers([(row.project_id, row.provider_id) for row in rows], now=timezone.now())
    return [GrantRow(row, uses[row.project_id, row.provider_id]) for row in rows]


def read_health(provider: Provider) -> tuple[str, str]:
    """(state of a pill, its words) by the last test."""
    if not provider.is_active:
        return "cancelled", _("Switched off")
    if not provider.probe:
        return "queued", _("Never tested")
    if provider.probe.get("ok"):
        return "done", _("Answers")
    return "failed", str(_FAULTS.get(provider.probe.get("fault", ""), _("Does not answer")))


_FAULTS = {
    "address": gettext_lazy("Private address"),
    "dns": gettext_lazy("Unknown host"),
    "refused_connection": gettext_lazy("Not running"),
    "tls": gettext_lazy("No safe connection"),
    "timeout": gettext_lazy("Too slow"),
    "unreachable": gettext_lazy("Not reachable"),
    "key": gettext_lazy("Key not accepted"),
    "payment": gettext_lazy("No credit left"),
    "model": gettext_lazy("Model not known"),
    "no_model": gettext_lazy("No model named"),
    "limited": gettext_lazy("Too many requests"),
    "dialect": gettext_lazy("Another kind of server"),
    "redirect": gettext_lazy("Moved"),
    "broken": gettext_lazy("Not well"),
    "sealed_key": gettext_lazy("Key not readable"),
}


def _read_findings(probe: dict[str, Any]) -> list[tuple[str, str]]:
    if not probe:
        return []
    words = {True: _("yes"), False: _("no"), None: ""}
    rows = [
        (_("Reachable"), probe.get("is_reachable")),
        (_("Key accepted"), probe.get("accepts_key")),
        (_("Model known"), probe.get("knows_model")),
        (_("Tells exact tokens"), probe.get("tells_tokens")),
        (_("Tells log-probs"), probe.get("tells_logprobs")),
        (_("Loads adapters"), probe.get("loads_adapters")),
        (_("Streams"), probe.get("streams")),
        (_("Calls tools"), probe.get("calls_tools")),
        (_("Price known"), probe.get("is_priced")),
    ]
    return [(label, words[value]) for label, value in rows]
