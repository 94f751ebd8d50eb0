"""Who is asked together, and how long is waited for them."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Project
from apps.workers.kinds import find_kind
from apps.workers.models import Ensemble
from tentalis.core.field_limits import (
    ENSEMBLE_WAIT_S,
    MAX_ENSEMBLE_MEMBERS,
    MAX_ENSEMBLE_WAIT_S,
    MIN_ENSEMBLE_MEMBERS,
)


class EnsembleForm(forms.Form):
    """An ensemble; the same fields make it and change it, but for its name."""

    name = forms.CharField(
        label=_("Name"),
        max_length=64,
        help_text=_("Lower-case letters, digits, - and _. Callers of the gateway ask for the model ensemble/name."),
    )
    members = forms.MultipleChoiceField(label=_("Members"), widget=forms.CheckboxSelectMultiple)
    wait_s = forms.IntegerField(
        label=_("Seconds to wait for the others"),
        min_value=1,
        max_value=MAX_ENSEMBLE_WAIT_S,
        initial=ENSEMBLE_WAIT_S,
        help_text=_("Once one of them has answered. Who is later is left."),
    )

    def __init__(self, *args: Any, project: Project, ensemble: Ensemble | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offered = [one.name for one in project.workers.filter(is_active=True) if find_kind(one.kind).asks_model]
        kept = [] if ensemble is None else ensemble.members
        field: Any = self.fields["members"]
        field.choices = [(name, name) for name in sorted({*offered, *kept})]
        field.help_text = _(
            "%(least)s to %(most)s. Where their answers leave it open, a lot decides for each conversation."
        ) % {"least": MIN_ENSEMBLE_MEMBERS, "most": MAX_ENSEMBLE_MEMBERS}
        if ensemble is not None:
            del self.fields["name"]


def read_ensemble(ensemble: Ensemble) -> dict[str, Any]:
    """The form's initial values."""
    return {"members": ensemble.members, "wait_s": ensemble.wait_s}
