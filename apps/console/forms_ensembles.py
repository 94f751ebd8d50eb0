"""Who is asked together, and how long is waited for them."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Project
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
    members = forms.CharField(
        label=_("Members"),
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "class": "mono"}),
    )
    wait_s = forms.IntegerField(
        label=_("Seconds to wait for the others"),
        min_value=1,
        max_value=MAX_ENSEMBLE_WAIT_S,
        initial=ENSEMBLE_WAIT_S,
        help_text=_("Once one of them has answered. Who is later is left."),
    )

    def __init__(self, *args: Any, project: Project, ensemble: Ensemble | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = ", ".join(project.workers.filter(is_active=True).values_list("name", flat=True))
        self.fields["members"].help_text = _(
            "Names of %(least)s to %(most)s workers, one a line. Where their answers leave it open, a lot decides for "
            "each conversation. There are: %(names)s."
        ) % {"least": MIN_ENSEMBLE_MEMBERS, "most": MAX_ENSEMBLE_MEMBERS, "names": names or "–"}
        if ensemble is not None:
            del self.fields["name"]

    def clean_members(self) -> list[str]:
        return str(self.cleaned_data["members"]).replace(",", " ").split()


def read_ensemble(ensemble: Ensemble) -> dict[str, Any]:
    """The form's initial values."""
    return {"members": "\n".join(ensemble.members), "wait_s": ensemble.wait_s}
