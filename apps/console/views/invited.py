"""Invitations to projects, as who is invited sees them."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from apps.accounts import invitations
from apps.base.errors import NotFoundError
from apps.console.views.frame import act


@require_GET
@never_cache
@login_required
def show_invitations(request: HttpRequest) -> HttpResponse:
    user: Any = request.user
    return render(request, "console/invitations.html", {"rows": invitations.list_invitations(user)})


@require_GET
@never_cache
@login_required
def show_invitation(request: HttpRequest, code: str) -> HttpResponse:
    """Where an invitation's link leads: for anybody but who is invited, nowhere."""
    user: Any = request.user
    try:
        found = invitations.find_by_code(code, user)
    except NotFoundError as error:
        raise Http404(str(error)) from None
    return render(request, "console/invitations.html", {"rows": [found]})


@require_POST
@login_required
def answer(request: HttpRequest, invitation_id: int) -> HttpResponse:
    user: Any = request.user
    found = invitations.list_invitations(user).filter(pk=invitation_id).first()
    if found is None:
        raise Http404(f"no invitation {invitation_id}")
    if request.POST.get("answer") != "accept":
        act(request, _("The invitation is declined."), lambda: invitations.decline(invitation=found, by=user))
        return redirect("console:invitations")
    done = _("You are a member of %(name)s now.") % {"name": found.project.name}
    if act(request, done, lambda: invitations.accept(invitation=found, by=user)):
        return redirect("console:project", found.project.slug)
    return redirect("console:invitations")
