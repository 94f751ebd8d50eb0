"""What people fill in about themselves and their project."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from apps.console.middleware import list_zones
from apps.console.models import Preference, Theme


class PreferenceForm(forms.Form):
    """How the console looks to one person, and how it answers them."""

    theme = forms.ChoiceField(label=_("Colours"), choices=Theme.choices)
    time_zone = forms.ChoiceField(
        label=_("Time zone"), required=False, help_text=_("Every time is shown in it; its exact form names it.")
    )
    language = forms.ChoiceField(label=_("Language"), required=False)
    keys_enabled = forms.BooleanField(
        label=_("Single keys"),
        required=False,
        help_text=_("Keys like 1 or j act at once where you review. Switch them off if you speak or type with aids."),
    )

    def __init__(self, data: Mapping[str, Any] | None = None, *, preference: Preference) -> None:
        super().__init__(data, initial={name: getattr(preference, name) for name in self.base_fields})
        zones = [("", _("As my browser says")), *((zone, zone.replace("_", " ")) for zone in sorted(list_zones()))]
        self.fields["time_zone"].choices = zones  # type: ignore[attr-defined]
        self.fields["language"].choices = [("", _("As my browser asks")), *settings.LANGUAGES]  # type: ignore[attr-defined]
