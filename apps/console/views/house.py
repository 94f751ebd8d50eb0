"""How a project is set up: its settings, its members and what each role may."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts import invitations, services
from apps.accounts.models import Invitation, Member, Role
from apps.accounts.rights import Right
from apps.base.errors import TentalisError
from apps.console.forms import show_error
from apps.console.forms_house import MemberForm
from apps.console.forms_settings import make_sections
from apps.console.selectors import house
from apps.console.selectors.timetable import read_timetable
from apps.console.views.frame import Scene, act, leave, posted, project_view, require, show


@require_http_methods(["GET", "POST"])
@project_view(Right.PROJECTS_READ)
def show_settings(request: HttpRequest, scene: Scene) -> HttpResponse:
    """One section at a time, each a form of its own; the first where none is asked for."""
    if request.method == "POST":
        require(scene, Right.PROJECTS_WRITE)
    sections = make_sections(scene.project, posted(request), request.FILES)
    asked = (request.POST if request.method == "POST" else request.GET).get("section", sections[0].section)
    sent = next((form for form in sections if form.section == asked), None)
    if sent is None:
        raise Http404("no such section")
    status = 200
    if request.method == "POST":
        status = 400
        if sent.is_valid():
            try:
                services.change_project(project=scene.project, by=scene.user, **sent.changes())
            except TentalisError as error:
                sent.place_error(error)
                status = error.status
            else:
                said = _("%(title)s: saved.") % {"title": sent.title}
                messages.success(request, said)
                return redirect(f"{reverse('console:settings', args=[scene.project.slug])}?section={sent.section}")
    context = {
        "sections": sections,
        "form": sent,
        "timetable": read_timetable(scene.project, now=timezone.now()),
    }
    return show(request, scene, "settings", context, status=status)


@require_http_methods(["GET", "POST"])
@project_view(Right.MEMBERS_READ)
def show_members(request: HttpRequest, scene: Scene) -> HttpResponse:
    """Who is in, and a form for one more."""
    if request.method == "POST":
        require(scene, Right.MEMBERS_WRITE)
    form = MemberForm(posted(request))
    made, link, status = None, "", 200
    if request.method == "POST":
        status = 400
        if form.is_valid():
            username, role = form.cleaned_data["username"], form.cleaned_data["role"]
            try:
                if role == Role.AGENT:
                    added = services.add_agent(project=scene.project, username=username, by=scene.user)
                    messages.success(request, _("%(name)s is in the project.") % {"name": added.user.username})
                    return leave(scene, "members")
                made, code = invitations.invite(project=scene.project, username=username, role=role, by=scene.user)
            except TentalisError as error:
                show_error(form, error)
                status = error.status
            else:
                link = request.build_absolute_uri(reverse("console:invitation", args=(code,)))
                form, status = MemberForm(None), 201
    members = list(house.find_members(scene.project))
    context = {
        "may_leave": any(member.user_id == scene.user.pk for member in members),
        "made": made,
        "link": link,
        "invited": house.find_open_invitations(scene.project) if scene.may(Right.MEMBERS_WRITE) else [],
        "members": members,
        "roles": Role.choices,
        "table": house.describe_roles(),
        "form": form,
    }
    return show(request, scene, "members", context, status=status)


@require_POST
@project_view(Right.MEMBERS_WRITE)
def withdraw_invitation(request: HttpRequest, scene: Scene, invitation_id: int) -> HttpResponse:
    invitation = get_object_or_404(Invitation, project=scene.project, pk=invitation_id)
    act(request, _("The invitation is withdrawn."), lambda: invitations.withdraw(invitation=invitation, by=scene.user))
    return leave(scene, "members")


@require_POST
@project_view(Right.ACCOUNT_WRITE)
def leave_project(request: HttpRequest, scene: Scene) -> HttpResponse:
    """Be a member no more."""
    done = _("You have left %(name)s.") % {"name": scene.project.name}
    if act(request, done, lambda: invitations.leave(project=scene.project, by=scene.user)):
        return redirect("console:dashboard")
    return leave(scene, "members")


@require_POST
@project_view(Right.MEMBERS_WRITE)
def change_member(request: HttpRequest, scene: Scene, member_id: int) -> HttpResponse:
    member, role = _member_or_404(scene, member_id), request.POST.get("role", "")
    done = _("%(name)s has a new role.") % {"name": member.user.username}
    act(request, done, lambda: services.change_member(member=member, role=role, by=scene.user))
    return leave(scene, "members")


@require_POST
@project_view(Right.MEMBERS_WRITE)
def remove_member(request: HttpRequest, scene: Scene, member_id: int) -> HttpResponse:
    member = _member_or_404(scene, member_id)
    done = _("%(name)s is out of the project.") % {"name": member.user.username}
    act(request, done, lambda: services.remove_member(member=member, by=scene.user))
    if member.user_id == scene.user.pk and not scene.user.is_superuser:
        return redirect("console:dashboard")
    return leave(scene, "members")


def _member_or_404(scene: Scene, member_id: int) -> Member:
    return get_object_or_404(Member.objects.select_related("user", "project"), project=scene.project, pk=member_id)
