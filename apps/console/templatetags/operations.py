"""How the operations pages say differences, durations and counts."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from django import template
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.adapters.models import Adapter, Deployment
from apps.adapters.selectors import find_returning
from apps.console.durations import say_about
from apps.console.words_facts import Words
from apps.evals.panels import has_panel, say_missing
from apps.training.cost_benefit import Gain, Outcome, Rate, Return
from apps.webhooks.services import find_origin
from apps.workers.models import Worker

register = template.Library()
register.filter("duration", say_about)

OUTCOMES = {
    Outcome.GAINED: (gettext_lazy("Improved"), "yes"),
    Outcome.LOST: (gettext_lazy("Worse"), "no"),
    Outcome.INCONCLUSIVE: (gettext_lazy("Not significant"), "inconclusive"),
    Outcome.UNMEASURED: (gettext_lazy("Not measured"), "skipped"),
}


@register.simple_tag(takes_context=True)
def querystring_live(context: Mapping[str, Any], fragment: str) -> str:
    """The page's own query string, asking for one fragment of it."""
    query = context["request"].GET.copy()
    query["fragment"] = fragment
    return str(query.urlencode())


@register.filter
def is_measured(worker: Worker) -> bool:
    """Whether a worker's adapters can be measured on held-out tasks."""
    return has_panel(worker)


@register.filter
def why_unmeasured(worker: Worker) -> str:
    """Why a worker's adapters cannot be, in the gate's words."""
    return say_missing(worker)


@register.filter
def returning(deployment: Deployment) -> Adapter | None:
    """What a roll back puts into service; None: the base model, or what serves everybody."""
    return find_returning(deployment)


@register.filter
def signed(value: float | None) -> str:
    """A difference of scores, with its sign."""
    if value is None:
        return "–"
    return "±0.00" if abs(value) < 0.005 else f"{value:+.2f}".replace("-", "−")


@register.filter
def origin(url: str) -> str:
    """The part of an address that is no secret."""
    return find_origin(url)


@register.filter
def capped(count: int, most: int) -> str:
    """A count that was stopped at `most`."""
    return f"{most:,}+" if count >= most else f"{count:,}"


@register.filter
def amount(value: float | None) -> str:
    """A large number in few digits: 1,234,567 as 1.23 million."""
    if value is None:
        return "–"
    if value >= 1e9:
        return _("%.3g billion") % (value / 1e9)
    if value >= 1e6:
        return _("%.3g million") % (value / 1e6)
    return f"{round(value):,}"


@register.inclusion_tag("console/_pill.html")
def outcome(gain: Gain) -> Mapping[str, Any]:
    """What a training brought, as a pill."""
    label, state = OUTCOMES[gain.outcome]
    return {"label": label, "state": state}


@register.filter
def few(value: float) -> str:
    """A signed number in about three digits: +0.27, +13.3, +1,240."""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:+,.{digits}f}".replace("-", "−")


@register.filter
def in_points(share: float) -> str:
    """A difference of shares as percentage points."""
    return f"{100 * share:+.1f}".replace("-", "−")


@register.filter
def p_value(value: float) -> str:
    """A chance in [0, 1]."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


class BoxUnit(NamedTuple):
    """What training time is counted in: its seconds, and its name in a sentence and above a column."""

    seconds: float
    brought: Words
    column: Words


BOX_UNITS = (
    (90.0, BoxUnit(1, gettext_lazy("Gain per second of training"), gettext_lazy("Gain/s"))),
    (5400.0, BoxUnit(60, gettext_lazy("Gain per minute of training"), gettext_lazy("Gain/min"))),
    (math.inf, BoxUnit(3600, gettext_lazy("Gain per hour of training"), gettext_lazy("Gain/h"))),
)


@register.filter
def box_unit(spent_s: float | None) -> BoxUnit:
    """The unit that says a gain without making more of it than was trained: of 15 s a second, of a day an hour."""
    return next(unit for below, unit in BOX_UNITS if (spent_s or 0.0) < below)


@register.filter
def per_unit(gain: Return, unit: BoxUnit) -> Rate | None:
    """The gain per unit of training time."""
    return gain.gain.per(gain.spent.gpu_s / unit.seconds if gain.spent.gpu_s else None)


@register.filter
def version_of(name: str) -> str:
    """`desk@v7-1a2b3c4d` as v7; "" for the base model."""
    return name.partition("@")[2].partition("-")[0] or name
