"""One's second factor: the app set up and removed, passkeys, recovery codes made again."""

from typing import Any

import segno
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts import passkeys, second_factor
from apps.accounts.browser_sessions import hash_cookie
from apps.accounts.models import AuthenticatorApp, Passkey, User
from apps.accounts.second_factor import find_factors, lacks_required_factor
from apps.base.errors import TentalisError
from apps.console.forms_house import CodeForm
from apps.console.passkeys import ask_for_new, find_site, read_answer, take_state
from apps.console.views.frame import act, fill_in, posted

QR_SCALE = 5


def find_own_factors(user: User) -> dict[str, Any]:
    """What the page of signing in shows of them."""
    return {
        "factors": find_factors(user),
        "must_have_factor": lacks_required_factor(user),
        "passkeys": Passkey.objects.filter(user=user),
    }


@require_POST
@login_required
def begin_app(request: HttpRequest) -> HttpResponse:
    """Draw the secret that the next page shows."""
    user: Any = request.user
    try:
        second_factor.begin_app(user=user)
    except TentalisError as error:
        messages.error(request, str(error))
        return redirect("console:signing-in")
    return redirect("console:app-set-up")


@require_http_methods(["GET", "POST"])
@never_cache
@login_required
def set_up_app(request: HttpRequest) -> HttpResponse:
    """The secret, as a QR code and as text, until a first code of the app is right."""
    user: Any = request.user
    if not AuthenticatorApp.objects.filter(user=user, confirmed_at=None).exists():
        return redirect("console:signing-in")
    form, keep = CodeForm(posted(request)), hash_cookie(request.session.session_key or "")
    codes, status = fill_in(request, form, lambda: second_factor.confirm_app(user=user, keep=keep, **form.cleaned_data))
    if status is None:
        return show_new_factor(request, codes, _("The app is set up: its code is asked for after your password."))
    secret = second_factor.begin_app(user=user)
    image = segno.make(second_factor.write_app_address(user, secret), error="m")
    context = {
        "form": form,
        "secret": " ".join(secret[start : start + 4] for start in range(0, len(secret), 4)),
        "image": image.svg_data_uri(scale=QR_SCALE, dark="#000", light="#fff"),
        "side": image.symbol_size(scale=QR_SCALE)[0],
    }
    return render(request, "console/app_set_up.html", context, status=status)


@require_POST
@login_required
def remove_app(request: HttpRequest) -> HttpResponse:
    user: Any = request.user
    act(request, _("The app is removed."), lambda: second_factor.remove_app(user=user))
    return redirect("console:signing-in")


@require_POST
@never_cache
@login_required
def make_recovery_codes(request: HttpRequest) -> HttpResponse:
    """New ones in place of the old; this answer is where they are shown."""
    user: Any = request.user
    try:
        codes = second_factor.make_recovery_codes(user=user)
    except TentalisError as error:
        messages.error(request, str(error))
        return redirect("console:signing-in")
    return show_recovery_codes(request, codes)


@require_POST
@never_cache
@login_required
def offer_passkey(request: HttpRequest) -> HttpResponse:
    """What the browser is asked for a new one."""
    user: Any = request.user
    try:
        return JsonResponse(ask_for_new(request, user))
    except TentalisError as error:
        return JsonResponse({"detail": str(error)}, status=error.status)


@require_POST
@never_cache
@login_required
def add_passkey(request: HttpRequest) -> HttpResponse:
    """Keep what the browser made."""
    user: Any = request.user
    try:
        answer = read_answer(request.POST.get("answer", ""))
        codes = passkeys.finish_registration(
            user=user,
            site=find_site(request),
            state=take_state(request, "create"),
            answer=answer,
            name=request.POST.get("name", ""),
            keep=hash_cookie(request.session.session_key or ""),
        )
    except TentalisError as error:
        messages.error(request, str(error))
        return redirect("console:signing-in")
    return show_new_factor(request, codes, _("The passkey is added."))


@require_POST
@login_required
def remove_passkey(request: HttpRequest, passkey_id: int) -> HttpResponse:
    user: Any = request.user
    act(request, _("The passkey is removed."), lambda: passkeys.remove_passkey(user=user, passkey_id=passkey_id))
    return redirect("console:signing-in")


def show_new_factor(request: HttpRequest, codes: list[str], done: str) -> HttpResponse:
    """After a factor was added: the recovery codes that came with the first, or the list again."""
    messages.success(request, done)
    return show_recovery_codes(request, codes) if codes else redirect("console:signing-in")


def show_recovery_codes(request: HttpRequest, codes: list[str]) -> HttpResponse:
    return render(request, "console/recovery_codes.html", {"codes": codes}, status=201)
