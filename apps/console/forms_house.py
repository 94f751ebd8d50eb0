"""What people fill in about themselves and their project."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Role, User
from apps.accounts.rights import Right
from apps.accounts.tokens import MAX_TOKEN_DAYS
from apps.console.keys import KEYS, PAGES, Key
from apps.console.middleware import list_zones
from apps.console.models import TOUR_DISMISSED, Preference, Theme


class PreferenceForm(forms.Form):
    """How the console looks to one person, and how it answers them."""

    theme = forms.ChoiceField(label=_("Colours"), choices=Theme.choices)
    time_zone = forms.ChoiceField(
        label=_("Time zone"), required=False, help_text=_("Every time is shown in it; its exact form names it.")
    )
    keys_enabled = forms.BooleanField(
        label=_("Single keys"),
        required=False,
        help_text=_("Keys like 1 or j act at once where you review. Switch them off if you speak or type with aids."),
    )

    shows_tour = forms.BooleanField(
        label=_("First steps"), required=False, help_text=_("On the dashboard, until they are done.")
    )

    def __init__(self, data: Mapping[str, Any] | None = None, *, preference: Preference) -> None:
        initial = {name: getattr(preference, name) for name in self.base_fields if name != "shows_tour"}
        super().__init__(data, initial=initial | {"shows_tour": preference.tour_step != TOUR_DISMISSED})
        zones = [("", _("As my browser says")), *((zone, zone.replace("_", " ")) for zone in sorted(list_zones()))]
        self.fields["time_zone"].choices = zones  # type: ignore[attr-defined]

    @property
    def changes(self) -> dict[str, Any]:
        """What `change_preference` is told."""
        said = dict(self.cleaned_data)
        tour_step = 0 if said.pop("shows_tour") else TOUR_DISMISSED
        return said | {"tour_step": tour_step}


class NewPasswordForm(forms.Form):
    """The password of a new account."""

    new = forms.CharField(
        label=_("New password"), strip=False, max_length=1000,
        help_text=_("At least ten characters, and no common one."),
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )  # fmt: skip
    again = forms.CharField(
        label=_("New password, again"), strip=False, max_length=1000,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )  # fmt: skip

    def clean_again(self) -> str:
        again: str = self.cleaned_data["again"]
        if again != self.cleaned_data.get("new"):
            raise forms.ValidationError(_("The two are not the same."))
        return again


class PasswordForm(NewPasswordForm):
    """Another password for oneself."""

    current = forms.CharField(
        label=_("Current password"), strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )  # fmt: skip
    field_order = ("current", "new", "again")


class CodeForm(forms.Form):
    """A code of six digits, or a recovery code."""

    code = forms.CharField(
        label=_("Code"), max_length=40,
        widget=forms.TextInput(
            attrs={"autocomplete": "one-time-code", "autocapitalize": "off", "spellcheck": "false", "autofocus": True}
        ),
    )  # fmt: skip


class KeysForm(forms.Form):
    """One field for each key that can be another one."""

    def __init__(self, data: Mapping[str, Any] | None = None, *, chosen: Mapping[str, str]) -> None:
        super().__init__(data)
        for one in KEYS:
            if not one.is_fixed:
                self.fields[one.action] = forms.CharField(
                    label=str(one.label),
                    required=False,
                    max_length=2,
                    strip=False,
                    initial=chosen.get(one.action, one.key),
                    widget=forms.TextInput(attrs={"class": "key", "size": 2, "autocapitalize": "off"}),
                )

    @property
    def chosen(self) -> dict[str, str]:
        """What `change_keys` is told; a field left empty takes the built-in key."""
        return {name: key for name, key in self.cleaned_data.items() if key}

    @property
    def pages(self) -> list[tuple[str | Promise, list[tuple[Key, forms.BoundField | None]]]]:
        """(name of a page, its keys, each with its field; None: it is fixed)."""
        return [
            (title, [(one, None if one.is_fixed else self[one.action]) for one in KEYS if one.page == page])
            for page, title in PAGES.items()
        ]


class MemberForm(forms.Form):
    """One more member."""

    username = forms.CharField(
        label=_("User name"), max_length=150, help_text=_("With the role agent, a new name makes that agent.")
    )
    role = forms.ChoiceField(label=_("Role"), choices=Role.choices, initial=Role.REVIEWER)


class PersonForm(forms.Form):
    """One more account."""

    username = forms.CharField(label=_("User name"), max_length=150, help_text=_("Letters, digits and @ . + - _"))
    email = forms.EmailField(
        label=_("E-mail"), required=False, help_text=_("For people to read; nothing is sent there.")
    )


class ProjectForm(forms.Form):
    """One more project."""

    name = forms.CharField(label=_("Name"), max_length=200)
    slug = forms.SlugField(
        label=_("Short name"),
        max_length=64,
        help_text=_("Lower-case letters, digits and hyphens. It stands in addresses and names, and stays."),
    )


class TokenForm(forms.Form):
    """A new token."""

    name = forms.CharField(label=_("Name"), max_length=100, help_text=_("What it is for; you will read it here."))
    holder = forms.ModelChoiceField(label=_("For"), queryset=User.objects.none(), empty_label=None)
    expires_in_days = forms.IntegerField(
        label=_("Valid for, in days"), min_value=1, max_value=MAX_TOKEN_DAYS, initial=90, help_text=_("At most a year.")
    )
    scopes = forms.MultipleChoiceField(
        label=_("Scopes"),
        choices=Right.choices,
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": _("Choose at least one: a token does only what its scopes name.")},
    )

    def __init__(self, data: Mapping[str, Any] | None, *, holders: Sequence[User]) -> None:
        super().__init__(data, initial={"holder": holders[0].pk})
        known = User.objects.filter(pk__in=[holder.pk for holder in holders])
        self.fields["holder"].queryset = known  # type: ignore[attr-defined]

    @property
    def chosen(self) -> list[str]:
        return list(self["scopes"].value() or [])
