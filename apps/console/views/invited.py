"""Invitations to projects, as who is invited sees them."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts import invitations
from apps.base.errors import NotFoundError
from apps.console.forms_house import NewPasswordForm
from apps.console.signing import complete_sign_in
from apps.console.views.frame import act, fill_in, posted


@require_GET
@never_cache
@login_required
def show_invitations(request: HttpRequest) -> HttpResponse:
    user: Any = request.user
    return render(request, "console/invitations.html", {"rows": invitations.list_invitations(user)})


@require_GET
@never_cache
def show_invitation(request: HttpRequest, code: str) -> HttpResponse:
    """Where an invitation's link leads: for anybody but who is invited, nowhere."""
    user: Any = request.user
    if not user.is_authenticated:
        is_new = invitations.find_for_newcomer(code) is not None
        return redirect("console:join", code) if is_new else redirect_to_login(request.get_full_path())
    try:
        found = invitations.find_by_code(code, user)
    except NotFoundError as error:
        raise Http404(str(error)) from None
    return render(request, "console/invitations.html", {"rows": [found]})


@require_http_methods(["GET", "POST"])
@never_cache
def join(request: HttpRequest, code: str) -> HttpResponse:
    """An account for who is invited and has none: a name that is given, a password of their own."""
    found = None if request.user.is_authenticated else invitations.find_for_newcomer(code)
    if found is None:
        back = reverse("console:invitation", args=(code,))
        return redirect(back) if request.user.is_authenticated else redirect_to_login(back)
    form = NewPasswordForm(posted(request))
    user, status = fill_in(request, form, lambda: invitations.join(code=code, password=form.cleaned_data["new"]))
    if status is None:
        complete_sign_in(request, user=user, by="password")
        messages.success(request, _("You are a member of %(name)s now.") % {"name": found.project.name})
        return redirect("console:project", found.project.slug)
    return render(request, "console/join.html", {"form": form, "invitation": found}, status=status)


@require_POST
@login_required
def answer(request: HttpRequest, invitation_id: int) -> HttpResponse:
    user: Any = request.user
    found = get_object_or_404(invitations.list_invitations(user), pk=invitation_id)
    if request.POST.get("answer") != "accept":
        act(request, _("The invitation is declined."), lambda: invitations.decline(invitation=found, by=user))
        return redirect("console:invitations")
    done = _("You are a member of %(name)s now.") % {"name": found.project.name}
    if act(request, done, lambda: invitations.accept(invitation=found, by=user)):
        return redirect("console:project", found.project.slug)
    return redirect("console:invitations")
