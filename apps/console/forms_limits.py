"""How much may be asked of models, as fields; a field left empty is no limit."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from tentalis.core.limits import MAX_COUNT, MAX_USD


class LimitsForm(forms.Form):
    """The limits of a project or of one token."""

    requests_per_minute = forms.IntegerField(
        label=_("Requests a minute"), required=False, min_value=1, max_value=MAX_COUNT
    )
    tokens_per_minute = forms.IntegerField(label=_("Tokens a minute"), required=False, min_value=1, max_value=MAX_COUNT)
    tokens_per_day = forms.IntegerField(label=_("Tokens a day"), required=False, min_value=1, max_value=MAX_COUNT)
    usd_per_day = forms.FloatField(
        label=_("US dollars a day"),
        required=False,
        min_value=0.000001,
        max_value=MAX_USD,
        widget=forms.NumberInput(attrs={"step": "any"}),
    )
    usd_per_month = forms.FloatField(
        label=_("US dollars a month"),
        required=False,
        min_value=0.000001,
        max_value=MAX_USD,
        widget=forms.NumberInput(attrs={"step": "any"}),
    )

    def __init__(
        self, data: Mapping[str, Any] | None = None, *, limits: Mapping[str, Any] | None = None, prefix: str = ""
    ) -> None:
        super().__init__(data, initial=dict(limits or {}), prefix=prefix or None)

    @property
    def limits(self) -> dict[str, Any]:
        """As they are stored: only what is limited."""
        return {name: self.cleaned_data[name] for name in self.fields if self.cleaned_data.get(name) is not None}
