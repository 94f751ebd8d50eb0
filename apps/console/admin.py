"""The admin's way in: the console's own sign-in, so that throttle and audit hold there too."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.models import Group
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from apps.base.admin import show
from apps.console.admin_audit import find_audited_projects
from apps.console.models import Preference, SavedView


def sign_in_to_admin(request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
    """Send who is nobody to sign in, and who may look on to where they were going."""
    if not request.user.is_authenticated:
        return redirect_to_login(request.GET.get("next", request.path))
    if not admin.site.has_permission(request):
        raise PermissionDenied("The admin is for auditors: an owner of a project can make you one.")
    return redirect("admin:index")


show(Preference, "user theme time_zone keys_enabled updated_at", search="user__username")
show(SavedView, "name project owner page query created_at", search="name owner__username")


def may_enter(request: HttpRequest) -> bool:
    """Superusers and staff, who see what their permissions say, and whoever may read the audit of a project."""
    user: Any = request.user
    return bool(user.is_active and (user.is_staff or user.is_superuser or find_audited_projects(user).exists()))


admin.site.has_permission = may_enter  # type: ignore[method-assign]
admin.site.unregister(Group)  # rights come from roles in projects
admin.site.login = sign_in_to_admin  # type: ignore[method-assign]
admin.site.site_header = "Tentalis, for auditors"
admin.site.site_title = "Tentalis"
admin.site.index_title = "Everything there is, read-only"
