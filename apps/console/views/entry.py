"""Coming in: sign in, sign out, the first page, and the pages for what went wrong."""

from typing import Any

from django.contrib import messages
from django.contrib.auth import views as auth_views
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import AuthenticationForm
from django.db.models import OuterRef, Subquery
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.hashing import HashingBusyError
from apps.accounts.models import Project, User
from apps.accounts.second_factor import find_factors, has_second_factor, use_code
from apps.accounts.tries import TooManySignInsError, note_passkey_try
from apps.base.errors import NotSignedInError, TentalisError
from apps.console import services
from apps.console.forms import SignInForm, find_address, show_error
from apps.console.forms_house import CodeForm
from apps.console.passkeys import ask_for_known, take_known
from apps.console.signing import begin_second_step, complete_sign_in, find_between, note_wrong_code
from apps.console.views.frame import LAST_PROJECT, posted
from apps.tasks.models import Task


class SignInView(auth_views.LoginView):
    """The form, and where it leads."""

    template_name = "console/sign_in.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        user: Any = form.get_user()
        leads_to = self.get_success_url()
        if has_second_factor(user):
            begin_second_step(self.request, user=user, leads_to=leads_to)
            return redirect("console:second-step")
        complete_sign_in(self.request, user=user, by="password")
        return HttpResponseRedirect(leads_to)

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        answer = super().form_invalid(form)
        codes = {error.code for error in form.non_field_errors().as_data()}
        refusals = (TooManySignInsError, HashingBusyError)
        answer.status_code = next((one.status for one in refusals if one.code in codes), 400)
        return answer


@require_http_methods(["GET", "POST"])
@never_cache
def ask_second_factor(request: HttpRequest) -> HttpResponse:
    """After the password: a code of the app, a recovery code, or a passkey."""
    user = find_between(request)
    if user is None:
        messages.info(request, _("Begin again with your name and password."))
        return redirect("console:sign-in")
    form, status = CodeForm(posted(request)), 200
    if request.method == "POST":
        status = 400
        if form.is_valid():
            try:
                kind = use_code(user=user, code=form.cleaned_data["code"], address=find_address(request))
            except TentalisError as error:
                show_error(form, error)
                status = 400 if isinstance(error, NotSignedInError) else error.status
                note_wrong_code(request)
            else:
                return HttpResponseRedirect(complete_sign_in(request, user=user, by=kind))
    context = {"form": form, "factors": find_factors(user)}
    return render(request, "console/second_step.html", context, status=status)


@require_POST
@never_cache
def offer_passkey(request: HttpRequest) -> HttpResponse:
    """What the browser is asked for a passkey: of who is signed in or on their way, else of whoever is there."""
    try:
        note_passkey_try(address=find_address(request))
    except TentalisError as error:
        return JsonResponse({"detail": str(error)}, status=error.status)
    user = find_between(request) or (request.user if isinstance(request.user, User) else None)
    return JsonResponse(ask_for_known(request, user))


@require_POST
@never_cache
def take_passkey(request: HttpRequest) -> HttpResponse:
    """Sign in with a passkey: after the password, or without one."""
    between, address = find_between(request), find_address(request)
    try:
        note_passkey_try(address=address)
        user = take_known(request, between, request.POST.get("answer", ""))
    except TentalisError as error:
        if isinstance(error, NotSignedInError):
            services.record_failed_passkey(user=between, address=address)
        messages.error(request, str(error))
        return redirect("console:second-step" if between is not None else "console:sign-in")
    given = request.POST.get("next", "")
    leads_to = complete_sign_in(request, user=user, by="passkey") or given
    hosts = {request.get_host()}
    is_ours = url_has_allowed_host_and_scheme(leads_to, hosts, require_https=request.is_secure())
    return HttpResponseRedirect(leads_to if is_ours else reverse("console:dashboard"))


@require_GET
@never_cache
@login_required
def open_first_page(request: HttpRequest) -> HttpResponse:
    """The project somebody was in last, else the one with the newest task; else why there is none."""
    newest = Task.objects.filter(project=OuterRef("pk")).order_by("-id").values("pk")[:1]
    projects = (
        Project.objects.visible_to(request.user).active().order_by(Subquery(newest).desc(nulls_last=True), "name")
    )
    project = projects.filter(slug=request.session.get(LAST_PROJECT, "")).first() or projects.first()
    if project is None:
        if Project.objects.visible_to(request.user).exists():
            return redirect(reverse("console:projects") + "?archived=1")
        return render(request, "console/no_project.html")
    return redirect("console:project", project.slug)
