"""What was paid, of the exchanges that were kept: one statement a question, however many exchanges there are.

An exchange's cost was counted when it was made, by the price known then. Those whose price was not known are counted as
such and stand for no amount; an installation that pays for its own machines sets prices for its own engine.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.db.models import Count, F, Q, QuerySet, Sum

from apps.accounts.models import Project
from apps.inference.models import Exchange

NOTHING = Decimal(0)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What some exchanges cost.

    Args:
        usd: US dollars, of those whose price was known.
        exchanges: all; unpriced: those whose price was not known.
        prompt_tokens, completion_tokens: of all.
    """

    usd: Decimal = NOTHING
    exchanges: int = 0
    unpriced: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            usd=self.usd + other.usd,
            exchanges=self.exchanges + other.exchanges,
            unpriced=self.unpriced + other.unpriced,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
        )


@dataclass(frozen=True, kw_only=True)
class CostLine:
    """What one model cost for one purpose.

    Args:
        turn: main and side are the agent's work; judge, manager and hint are ours.
        provider_id: None: the installation's own model server, or one that is no more.
    """

    turn: str
    provider_id: int | None
    model: str
    cost: Cost


@dataclass(frozen=True)
class Bill:
    """What something cost, line by line, the dearest first."""

    lines: list[CostLine] = field(default_factory=list)

    @property
    def total(self) -> Cost:
        return sum((line.cost for line in self.lines), Cost())

    def by_turn(self) -> Mapping[str, Cost]:
        """What the agent's work cost, and what judging it."""
        found: dict[str, Cost] = {}
        for line in self.lines:
            found[line.turn] = found.get(line.turn, Cost()) + line.cost
        return found


def cost_of_task(task_id: int) -> Bill:
    """Its tries, their judges, its AI manager and its hints; what was done beside it in the shadow is not its."""
    return cost_of_tasks([task_id])


def cost_of_tasks(task_ids: Iterable[Any]) -> Bill:
    """The same of many tasks: ids, or a query of ids, which the database then joins itself."""
    return cost_of(Exchange.objects.filter(task_id__in=task_ids).exclude(turn="shadow"))


def cost_of_project(project: Project, *, since: datetime, until: datetime | None = None) -> Bill:
    """Everything a project's agents, judges and managers cost from a moment on, up to another."""
    rows = Exchange.objects.filter(project=project, created_at__gte=since)
    return cost_of(rows.filter(created_at__lt=until) if until else rows)


@dataclass(frozen=True, kw_only=True)
class ServerUse:
    """What a project used of one model server, days and months in UTC.

    Args:
        tokens_today, tokens_this_month: prompts and answers. usd_this_month: of calls whose price was known.
        unpriced: calls of this month whose price was not known.
    """

    tokens_today: int = 0
    tokens_this_month: int = 0
    usd_this_month: Decimal = NOTHING
    calls_this_month: int = 0
    unpriced: int = 0


def use_of_servers(pairs: Iterable[tuple[int, int]], *, now: datetime) -> dict[tuple[int, int], ServerUse]:
    """What projects used of servers, for (project, server) ids in one statement; who used nothing is there with 0."""
    wanted = set(pairs)
    month = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    today = Q(created_at__gte=now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0))
    tokens = F("prompt_tokens") + F("completion_tokens")
    rows = (
        Exchange.objects.filter(
            project__in={project for project, _ in wanted},
            provider__in={server for _, server in wanted},
            created_at__gte=month,
        )
        .order_by()
        .values("project_id", "provider_id")
        .annotate(
            today=Sum(tokens, filter=today),
            month=Sum(tokens),
            usd=Sum("cost_usd"),
            n=Count("*"),
            priced=Count("cost_usd"),
        )
    )
    found = {
        (row["project_id"], row["provider_id"]): ServerUse(
            tokens_today=row["today"] or 0,
            tokens_this_month=row["month"] or 0,
            usd_this_month=row["usd"] or NOTHING,
            calls_this_month=row["n"],
            unpriced=row["n"] - row["priced"],
        )
        for row in (rows if wanted else ())
    }
    return {pair: found.get(pair, ServerUse()) for pair in wanted}


def cost_of(exchanges: QuerySet[Exchange]) -> Bill:
    """What any selection of exchanges cost."""
    groups = (
        exchanges.order_by()
        .values("turn", "provider_id", "model")
        .annotate(
            usd=Sum("cost_usd"),
            count=Count("*"),
            priced=Count("cost_usd"),
            prompt=Sum("prompt_tokens"),
            completion=Sum("completion_tokens"),
        )
    )
    lines = [
        CostLine(
            turn=group["turn"],
            provider_id=group["provider_id"],
            model=group["model"],
            cost=Cost(
                usd=group["usd"] or NOTHING,
                exchanges=group["count"],
                unpriced=group["count"] - group["priced"],
                prompt_tokens=group["prompt"] or 0,
                completion_tokens=group["completion"] or 0,
            ),
        )
        for group in groups
    ]
    return Bill(sorted(lines, key=lambda line: (-line.cost.usd, line.turn, line.model)))
