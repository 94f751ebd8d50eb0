"""How the quality pages write rates and coefficients."""

from django import template
from django.utils.translation import gettext as _

from apps.console.templatetags.console import share
from tentalis.core.scoring.agreement import Agreement
from tentalis.core.scoring.calibration import Interval, approves

register = template.Library()
register.filter(approves)


@register.filter
def rate(interval: Interval) -> str:
    """A share with its interval, in a sentence."""
    if interval.value is None:
        return _("no items")
    return _("%(share)s (interval %(low)s to %(high)s)") % {
        "share": share(interval.value),
        "low": share(interval.low),
        "high": share(interval.high),
    }


@register.filter
def coefficient(agreement: Agreement) -> str:
    """A coefficient, or a dash where it is not defined."""
    return "–" if agreement.value is None else signed(agreement.value)


@register.filter
def signed(value: float) -> str:
    """A coefficient's number, with a real minus sign."""
    return f"{round(value, 2) + 0.0:.2f}".replace("-", "−")  # never minus zero
