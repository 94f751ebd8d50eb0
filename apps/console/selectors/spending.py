"""What calls to models cost, and who made them today."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal

from django.db.models import Count, QuerySet, Sum
from django.utils import timezone

from apps.accounts.models import Project
from apps.inference.costs import Bill, Cost, cost_of
from apps.inference.models import Exchange


def exchanges_since(project: Project, since: datetime) -> QuerySet[Exchange]:
    """A project's calls from a moment on. Ids rise with time, so that only these rows are read, however many came
    before."""
    earlier = Exchange.objects.filter(project=project, created_at__lt=since).order_by("-id")
    last = earlier.values_list("pk", flat=True).first()
    return Exchange.objects.filter(project=project, pk__gt=last or 0, created_at__gte=since)


def find_midnight() -> datetime:
    """When today began, as the limits of a day count: in UTC."""
    return timezone.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def spent_today(project: Project) -> Bill:
    return cost_of(exchanges_since(project, find_midnight()))


def usage_today(project: Project, tokens: Iterable[str]) -> Mapping[str, Cost]:
    """Key id -> what was asked with that token since midnight, as its limits count it."""
    rows = (
        exchanges_since(project, find_midnight())
        .filter(token__in=list(tokens))
        .order_by()
        .values("token")
        .annotate(
            usd=Sum("cost_usd"),
            count=Count("pk"),
            priced=Count("cost_usd"),
            prompt=Sum("prompt_tokens"),
            completion=Sum("completion_tokens"),
        )
    )
    return {
        row["token"]: Cost(
            usd=row["usd"] or Decimal(0),
            exchanges=row["count"],
            unpriced=row["count"] - row["priced"],
            prompt_tokens=row["prompt"],
            completion_tokens=row["completion"],
        )
        for row in rows
    }
