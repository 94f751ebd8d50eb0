"""How one signs in: one's password, and the browsers one is signed in with."""

from typing import Any

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth import views as auth_views
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from apps.accounts import services as accounts
from apps.accounts.browser_sessions import hash_cookie, list_sessions
from apps.base.errors import NotSignedInError, TentalisError
from apps.console import services
from apps.console.forms import find_address, show_error
from apps.console.forms_house import PasswordForm
from apps.console.views.frame import posted
from apps.console.views.second_factor import find_own_factors

SHOWN = 100


class SignOutView(auth_views.LogoutView):
    """The end of this browser's session."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.user.is_authenticated:
            services.record_sign_out(user=request.user)
        return super().post(request, *args, **kwargs)


@require_GET
@never_cache
@login_required
def show_signing_in(request: HttpRequest) -> HttpResponse:
    return _show(request)


@require_POST
@never_cache
@login_required
def change_password(request: HttpRequest) -> HttpResponse:
    """Takes the present one; every token and every other session ends with it."""
    user: Any = request.user
    form = PasswordForm(posted(request))
    if not form.is_valid():
        return _show(request, form=form, status=400)
    address = find_address(request)
    try:
        services.require_sign_in_allowed(username=user.username, address=address)
        accounts.change_password(user=user, current=form.cleaned_data["current"], new=form.cleaned_data["new"])
    except TentalisError as error:
        if isinstance(error, NotSignedInError):
            services.record_failed_sign_in(username=user.username, address=address)
        show_error(form, error)
        return _show(request, form=form, status=400 if isinstance(error, NotSignedInError) else error.status)
    update_session_auth_hash(request, user)
    messages.success(
        request, _("Your password is changed. Your tokens and your other sessions ended with the old one.")
    )
    return redirect("console:signing-in")


@require_POST
@login_required
def end_sessions(request: HttpRequest) -> HttpResponse:
    """One of one's own, or all but this."""
    user: Any = request.user
    here = hash_cookie(request.session.session_key or "")
    wanted = request.POST.get("session", "")
    if not wanted:
        ended = accounts.end_other_sessions(user=user, keep=here)
        messages.success(request, ngettext("%d session is ended.", "%d sessions are ended.", ended) % ended)
        return redirect("console:signing-in")
    session = list_sessions(user).filter(pk=wanted).first()
    if session is None:
        raise Http404("no such session")
    accounts.end_session(session=session, by=user)
    messages.success(request, _("The session is ended."))
    return redirect("console:signing-in")


def _show(request: HttpRequest, *, form: PasswordForm | None = None, status: int = 200) -> HttpResponse:
    user: Any = request.user
    here = hash_cookie(request.session.session_key or "")
    sessions = [(one, describe_device(one.device), one.pk == here) for one in list_sessions(user)[:SHOWN]]
    context = {"form": form or PasswordForm(), "sessions": sessions, **find_own_factors(user)}
    return render(request, "console/signing_in.html", context, status=status)


_BROWSERS = (
    ("Edg", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("FxiOS/", "Firefox"), ("CriOS/", "Chrome"),
    ("Chromium/", "Chromium"), ("Chrome/", "Chrome"), ("Safari/", "Safari"),
)  # fmt: skip
"""The first that is found counts: most call themselves by the names of those before them too."""
_SYSTEMS = (
    ("iPhone", "iPhone"), ("iPad", "iPad"), ("Android", "Android"), ("Windows", "Windows"), ("CrOS", "ChromeOS"),
    ("Mac OS X", "macOS"), ("Linux", "Linux"),
)  # fmt: skip


def describe_device(user_agent: str) -> str:
    """ "Firefox, Linux"; the first word of what a program calls itself; "" where it said nothing."""
    browser = next((name for mark, name in _BROWSERS if mark in user_agent), "")
    system = next((name for mark, name in _SYSTEMS if mark in user_agent), "")
    return ", ".join(filter(None, (browser, system))) or user_agent.split("/")[0][:40].strip()
