"""How much may be asked of models, as fields; a field left empty is no limit."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from tentalis.core.checked import Number, rule_of
from tentalis.core.limits import Limits


def make_number(rule: Number, *, step: str = "any", **texts: Any) -> forms.Field:
    """A field for a checked number, which may be left empty."""
    kind: Any = forms.IntegerField if rule.is_whole else forms.FloatField
    widget = forms.NumberInput() if rule.is_whole else forms.NumberInput(attrs={"step": step})
    made: forms.Field = kind(required=False, min_value=rule.low, max_value=rule.high, widget=widget, **texts)
    return made


class AllowanceForm(forms.Form):
    """What a project may use of a shared model server."""

    tokens_per_day = make_number(rule_of(Limits, "tokens_per_day"), label=_("Tokens a day"))
    usd_per_month = make_number(rule_of(Limits, "usd_per_month"), label=_("US dollars a month"))


class LimitsForm(AllowanceForm):
    """The limits of a project or of one token."""

    requests_per_minute = make_number(rule_of(Limits, "requests_per_minute"), label=_("Requests a minute"))
    tokens_per_minute = make_number(rule_of(Limits, "tokens_per_minute"), label=_("Tokens a minute"))
    usd_per_day = make_number(rule_of(Limits, "usd_per_day"), label=_("US dollars a day"))
    field_order = tuple(Limits.__dataclass_fields__)

    def __init__(
        self, data: Mapping[str, Any] | None = None, *, limits: Mapping[str, Any] | None = None, prefix: str = ""
    ) -> None:
        super().__init__(data, initial=dict(limits or {}), prefix=prefix or None)

    @property
    def limits(self) -> dict[str, Any]:
        """As they are stored: only what is limited."""
        return {name: self.cleaned_data[name] for name in self.fields if self.cleaned_data.get(name) is not None}
