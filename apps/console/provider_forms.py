"""What managers fill in about model servers and prices. A key goes in and never comes out."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Project
from apps.console.durations import DurationField
from apps.console.forms_limits import AllowanceForm
from apps.inference.models import Provider
from apps.inference.provider_kinds import CHOICES, KINDS, ProviderKind
from apps.inference.providers import MAX_PER_MINUTE, MAX_TIMEOUT_S, MAX_URLS
from tentalis.core.field_limits import MAX_API_KEY_CHARS
from tentalis.outbound.addresses import MAX_URL_CHARS

GROUPED = [
    (_("Tells its tokens: can be trained"), [pair for pair in CHOICES if KINDS[pair[0]].tells_tokens]),
    (_("Tells no tokens: answers, cannot be trained"), [pair for pair in CHOICES if not KINDS[pair[0]].tells_tokens]),
]
"""The kinds, so that it is seen before anything is made whether what it says can be learned from."""


SELDOM = ("more_urls", "timeout_s", "requests_per_minute", "tokens_per_minute", "tells_processed")


class ProviderForm(forms.Form):
    """A model server; the same fields make it and change it."""

    name = forms.SlugField(label=_("Name"), max_length=64, help_text=_("Letters, digits, - and _."))
    kind = forms.ChoiceField(label=_("Kind"), choices=GROUPED, help_text=_("The protocol it is called with."))
    base_url = forms.CharField(
        label=_("Address"),
        max_length=MAX_URL_CHARS,
        required=False,
        widget=forms.TextInput(attrs={"inputmode": "url", "autocomplete": "off", "spellcheck": "false"}),
        help_text=_("Like https://host/v1. Empty: where the vendor of this kind serves it."),
    )
    api_key = forms.CharField(
        label=_("Key"),
        max_length=MAX_API_KEY_CHARS,
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    forget_key = forms.BooleanField(label=_("Delete the key"), required=False)
    default_model = forms.CharField(
        label=_("Default model"),
        max_length=200,
        required=False,
        help_text=_("Used where no other model is named."),
    )
    more_urls = forms.CharField(
        label=_("Further addresses"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
        help_text=_("One a line, of servers with the same models: sessions are spread over them."),
    )
    timeout_s = DurationField(
        label=_("Timeout"),
        required=False,
        min_s=0.001,
        max_s=MAX_TIMEOUT_S,
        help_text=_("Empty: the installation's."),
    )
    requests_per_minute = forms.IntegerField(
        label=_("Requests a minute, at most"), required=False, min_value=1, max_value=MAX_PER_MINUTE
    )
    tokens_per_minute = forms.IntegerField(
        label=_("Tokens a minute, at most"), required=False, min_value=1, max_value=MAX_PER_MINUTE
    )
    allow_private = forms.BooleanField(
        label=_("Allow private addresses"),
        required=False,
        help_text=_("For a server on this machine or in its network. Only an admin of the installation can tick it."),
    )
    tells_processed = forms.BooleanField(
        label=_("Tells log-probs at the temperature it samples at"),
        required=False,
        help_text=_("vLLM with --logprobs-mode processed_logprobs. Else only answers sampled at temperature 1 teach."),
    )
    granted_to = forms.ChoiceField(
        label=_("Who may ask it"), choices=Provider.GrantedTo.choices, help_text=_("An admin grants it on its page.")
    )
    is_active = forms.BooleanField(label=_("May be asked"), required=False, initial=True)

    def __init__(
        self, *args: Any, provider: Provider | None = None, is_admin: bool, kind: str = "", **kwargs: Any
    ) -> None:
        """Args: kind: of a new one, already chosen; what is of no use to it is not asked. "": to be chosen here."""
        super().__init__(*args, **kwargs)
        if kind in KINDS:
            self.fields["kind"].initial = kind
            self._leave_out(KINDS[kind])
        if not is_admin:
            self.fields.pop("allow_private", None)
        if provider is None or provider.project_id is not None or not is_admin:
            del self.fields["granted_to"]
        key = self.fields["api_key"]
        if provider is None:
            del self.fields["is_active"]
            key.help_text = _("Empty where it wants none. It is stored encrypted and never shown again.")
        else:
            self.fields["base_url"].required = True
            self.fields["base_url"].help_text = _("Like https://host/v1.")
            key.help_text = _(
                "Empty: as it is. At an address of another host the key is taken away, unless one is given."
            )
        if provider is None or not provider.api_key_sealed:
            del self.fields["forget_key"]

    def _leave_out(self, kind: ProviderKind) -> None:
        if not kind.tells_logprobs or kind.tells_processed:
            del self.fields["tells_processed"]
        if kind.base_url:  # a vendor's
            for name in ("more_urls", "allow_private"):
                self.fields.pop(name, None)
            return
        self.fields["base_url"].required = True
        self.fields["base_url"].help_text = _("Like http://host:8000 or https://host/v1.")

    @property
    def seldom(self) -> list[forms.BoundField]:
        """What few servers need; folded away where nothing of it was said."""
        return [self[name] for name in SELDOM if name in self.fields]

    @property
    def usual(self) -> list[forms.BoundField]:
        return [self[name] for name in self.fields if name not in SELDOM]

    @property
    def is_seldom_open(self) -> bool:
        return any(name in self.errors or self[name].value() for name in SELDOM if name in self.fields)

    def clean_more_urls(self) -> list[str]:
        urls = [line.strip() for line in self.cleaned_data["more_urls"].splitlines() if line.strip()]
        if len(urls) > MAX_URLS:
            raise forms.ValidationError(_("At most %(n)s addresses.") % {"n": MAX_URLS})
        return urls

    @property
    def values(self) -> dict[str, Any]:
        """What the services take; no key where none was typed."""
        data = dict(self.cleaned_data)
        if data.pop("forget_key", False):
            data["api_key"] = ""
        elif not data["api_key"]:
            del data["api_key"]
        return data


def read_provider(provider: Provider) -> dict[str, Any]:
    """The form's initial values; the key is not among them."""
    names = ("name", "kind", "base_url", "default_model", "timeout_s", "requests_per_minute", "tokens_per_minute")
    values = {
        name: getattr(provider, name)
        for name in (*names, "allow_private", "tells_processed", "granted_to", "is_active")
    }
    return {**values, "more_urls": "\n".join(provider.more_urls)}


class PriceForm(forms.Form):
    """What a model costs from now on, in US dollars a million tokens."""

    model = forms.CharField(label=_("Model"), max_length=200, help_text=_("A name, or the beginning of names and a *."))
    input = forms.DecimalField(label=_("Prompt"), min_value=0, max_digits=12, decimal_places=6)
    cached_input = forms.DecimalField(
        label=_("Prompt out of its cache"), min_value=0, max_digits=12, decimal_places=6, required=False
    )
    output = forms.DecimalField(label=_("Answer"), min_value=0, max_digits=12, decimal_places=6)


class GrantForm(AllowanceForm):
    """Which project may ask it, and how much."""

    project = forms.ModelChoiceField(Project.objects.none(), label=_("Project"), to_field_name="slug")
    field_order = ("project", "tokens_per_day", "usd_per_month")

    def __init__(self, *args: Any, provider: Provider, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        others = Project.objects.exclude(provider_grants__provider=provider).order_by("slug")
        self.fields["project"].queryset = others  # type: ignore[attr-defined]
