"""Accounts of people."""

from functools import wraps
from typing import Any, cast

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts import people
from apps.accounts.models import User
from apps.console.forms_house import PersonForm
from apps.console.views.frame import act, fill_in, posted

MOST = 500


def admin_view(view: Any) -> Any:
    """A page for admins of the installation; others are told so."""

    @wraps(view)
    def look(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not getattr(request.user, "is_superuser", False):
            raise PermissionDenied("This takes an admin of the installation.")
        answer: HttpResponse = view(request, *args, **kwargs)
        return answer

    return never_cache(login_required(look))


@require_http_methods(["GET", "POST"])
@admin_view
def show_people(request: HttpRequest) -> HttpResponse:
    """Everybody who has an account, and a form for one more."""
    form, by = PersonForm(posted(request)), cast("User", request.user)
    made, status = fill_in(request, form, lambda: people.create_person(by=by, **form.cleaned_data))
    if status is None:
        form, status = PersonForm(), 200
    return _show(request, form=form, made=made, status=status)


@require_POST
@admin_view
def reset_password(request: HttpRequest, user_id: int) -> HttpResponse:
    made = people.reset_password(user=_person_or_404(user_id), by=request.user)  # type: ignore[arg-type]
    return _show(request, form=PersonForm(), made=made, status=200)


@require_POST
@admin_view
def switch_person(request: HttpRequest, user_id: int) -> HttpResponse:
    person, is_on = _person_or_404(user_id), request.POST.get("active") == "on"
    done = _("%(name)s is switched on.") if is_on else _("%(name)s is switched off.")
    by: Any = request.user
    act(request, done % {"name": person.username}, lambda: people.set_active(user=person, is_active=is_on, by=by))
    return redirect("console:people")


def _person_or_404(user_id: int) -> User:
    return get_object_or_404(User, pk=user_id, is_agent=False)


def _show(request: HttpRequest, *, form: PersonForm, made: people.Made | None, status: int) -> HttpResponse:
    rows = User.objects.filter(is_agent=False).order_by("username")[:MOST]
    context = {"form": form, "made": made, "rows": rows}
    return render(request, "console/people.html", context, status=status)
