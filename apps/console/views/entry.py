"""Coming in: sign in, sign out, the first page, and the pages for what went wrong."""

from django.contrib.auth import views as auth_views
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import AuthenticationForm
from django.db.models import OuterRef, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from apps.accounts.browser_sessions import note_origin
from apps.accounts.hashing import HashingBusyError
from apps.accounts.models import Project
from apps.accounts.tries import TooManySignInsError
from apps.console import services
from apps.console.forms import SignInForm, find_address
from apps.console.views.frame import LAST_PROJECT
from apps.tasks.models import Task


class SignInView(auth_views.LoginView):
    """The form, and where it leads."""

    template_name = "console/sign_in.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        answer = super().form_valid(form)
        note_origin(self.request, address=find_address(self.request))
        services.record_sign_in(user=form.get_user(), address=find_address(self.request))
        return answer

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        answer = super().form_invalid(form)
        codes = {error.code for error in form.non_field_errors().as_data()}
        refusals = (TooManySignInsError, HashingBusyError)
        answer.status_code = next((one.status for one in refusals if one.code in codes), 400)
        return answer


@require_GET
@never_cache
@login_required
def open_first_page(request: HttpRequest) -> HttpResponse:
    """The project somebody was in last, else the one with the newest task; else why there is none."""
    newest = Task.objects.filter(project=OuterRef("pk")).order_by("-id").values("pk")[:1]
    projects = Project.objects.visible_to(request.user).order_by(Subquery(newest).desc(nulls_last=True), "name")
    project = projects.filter(slug=request.session.get(LAST_PROJECT, "")).first() or projects.first()
    if project is None:
        return render(request, "console/no_project.html")
    return redirect("console:project", project.slug)
