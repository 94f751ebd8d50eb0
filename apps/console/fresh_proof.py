"""What takes a fresh proof of who one is, however long one is signed in: the one table of it, and the page that asks.

The page carries what was sent, and the proof goes with it to where it was going: nothing is lost, and nothing is kept.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import add_never_cache_headers
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from apps.accounts.browser_sessions import find_confirmed_at, note_confirmed
from apps.accounts.confirmation import confirm_by_passkey, is_fresh, prove
from apps.accounts.second_factor import find_factors
from apps.base.errors import BadInputError, NotSignedInError, TentalisError
from apps.console.forms import find_address
from apps.console.passkeys import take_known

PREFIX: Final = "proof"
FIELDS = frozenset(f"{PREFIX}-{name}" for name in ("password", "code", "passkey"))


def _always(request: HttpRequest) -> bool:
    return True


def _is_sure(request: HttpRequest) -> bool:
    """Only looking what would go takes none."""
    return bool(request.POST.get("is_sure"))


TAKES_PROOF: Mapping[str, Callable[[HttpRequest], bool]] = {
    # what serves from now on; taking it back takes none
    "adapter-promote": _always,
    "adapter-canary": _always,
    "adapter-release": _always,
    # keys: made, shown, given
    "tokens": _always,
    "connect-token": _always,
    "provider-new": _always,
    "provider-change": _always,
    "provider-remove": _always,
    "grant": _always,
    "grant-change": _always,
    "webhooks": _always,
    "webhook-secret": _always,
    # who belongs to a project
    "members": _always,
    "people": _always,
    "person-reset": _always,
    "person-switch": _always,
    "member-role": _always,
    "member-remove": _always,
    "member-leave": _always,
    "invitation-withdraw": _always,
    # erasing
    "forget": _is_sure,
    # how one signs in oneself; another password takes the present one
    "app-begin": _always,
    "app-set-up": _always,
    "app-remove": _always,
    "passkey-add": _always,
    "passkey-remove": _always,
    "recovery-codes": _always,
}
"""Name of a page -> whether what was sent to it takes one."""


class ProofForm(forms.Form):
    """Password, or code where there is a second factor."""

    password = forms.CharField(
        label=_("Your password"), strip=False, required=False, max_length=1000,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password", "autofocus": True}),
    )  # fmt: skip
    code = forms.CharField(
        label=_("Code of your app, or a recovery code"), required=False, max_length=40,
        widget=forms.TextInput(
            attrs={"autocomplete": "one-time-code", "autocapitalize": "off", "spellcheck": "false", "autofocus": True}
        ),
    )  # fmt: skip


def ask_for_proof(request: HttpRequest) -> HttpResponse | None:
    """The page that asks, where what is sent takes a proof and none is fresh or comes with it; else None."""
    match = request.resolver_match
    user: Any = request.user
    if request.method != "POST" or match is None or match.app_name != "console" or not user.is_authenticated:
        return None
    takes = TAKES_PROOF.get(match.url_name or "")
    if takes is None or not takes(request) or is_fresh(find_confirmed_at(request)):
        return None
    is_given = not FIELDS.isdisjoint(request.POST)
    form, status = ProofForm(request.POST if is_given else None, prefix=PREFIX), 403
    if is_given and form.is_valid():
        try:
            _take(request, form.cleaned_data)
        except TentalisError as error:
            _show_at(form, error)
            status = 403 if isinstance(error, BadInputError | NotSignedInError) else error.status
        else:
            return None
    carried = [(name, value) for name, values in request.POST.lists() for value in values if _is_carried(name)]
    context = {"form": form, "carried": carried, "factors": find_factors(user)}
    answer = render(request, "console/confirm.html", context, status=status)
    add_never_cache_headers(answer)
    return answer


def _take(request: HttpRequest, given: Mapping[str, str]) -> None:
    user: Any = request.user
    if answer := request.POST.get(f"{PREFIX}-passkey"):
        confirm_by_passkey(user=take_known(request, user, answer))
    else:
        prove(user=user, password=given["password"], code=given["code"], address=find_address(request))
    note_confirmed(request)
    sent = request.POST.copy()
    for name in FIELDS:
        sent.pop(name, None)
    request.POST = sent  # type: ignore[assignment]


def _is_carried(name: str) -> bool:
    return name not in FIELDS and name != "csrfmiddlewaretoken"


def _show_at(form: forms.Form, error: TentalisError) -> None:
    for name, words in (error.errors or {"": [str(error)]}).items():
        form.add_error(name if name in form.fields else None, [capfirst(one) for one in words])
