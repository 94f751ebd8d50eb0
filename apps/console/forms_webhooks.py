"""Addresses that are told what happens: made, changed."""

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.webhooks.models import Webhook
from apps.webhooks.services import MAX_ENDPOINT_NAME_CHARS, TELLABLE
from tentalis.outbound.addresses import MAX_URL_CHARS


class WebhookForm(forms.Form):
    """`said` is what the services are told."""

    url = forms.CharField(
        label=_("Address"),
        max_length=MAX_URL_CHARS,
        widget=forms.URLInput(attrs={"placeholder": "https://"}),
        help_text=_("Every message is sent there by POST, signed as Standard Webhooks say."),
    )
    name = forms.CharField(label=_("Name"), max_length=MAX_ENDPOINT_NAME_CHARS, required=False)
    kinds = forms.MultipleChoiceField(
        label=_("Events"),
        choices=[(kind, kind) for kind in TELLABLE],
        required=False,
        help_text=_("None chosen: all events."),
    )
    include_details = forms.BooleanField(
        label=_("With details"),
        required=False,
        help_text=_("Messages include the audit entry's details, which may quote people."),
    )
    allow_private = forms.BooleanField(
        label=_("Allow private addresses"),
        required=False,
        help_text=_("For loopback and private networks. Only an admin of the installation can tick it."),
    )

    def __init__(
        self, data: Mapping[str, Any] | None = None, *, webhook: Webhook | None = None, is_admin: bool = False
    ) -> None:
        initial = {name: getattr(webhook, name) for name in self.base_fields} if webhook else {}
        super().__init__(data, initial=initial)
        if not is_admin:
            del self.fields["allow_private"]

    @property
    def said(self) -> dict[str, Any]:
        return dict(self.cleaned_data)

    @property
    def chosen(self) -> list[str]:
        return list(self["kinds"].value() or [])

    @property
    def groups(self) -> list[tuple[str, list[str]]]:
        """(what it is about, its kinds)."""
        return [(about, list(kinds)) for about, kinds in groupby(sorted(TELLABLE), key=lambda kind: kind.split(".")[0])]
