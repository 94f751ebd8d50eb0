"""Bearer tokens: made, shown once, revoked."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from apps.accounts.models import ApiToken
from apps.accounts.rights import Right
from apps.accounts.services import change_project
from apps.accounts.tokens import change_token, create_token, revoke_token
from apps.base.errors import TentalisError
from apps.console.forms import show_error
from apps.console.forms_house import TokenForm
from apps.console.forms_limits import LimitsForm
from apps.console.selectors import house
from apps.console.selectors.spending import spent_today, usage_today
from apps.console.views.frame import (
    Confirmation,
    Scene,
    act,
    ask,
    fill_in,
    find_page,
    leave,
    posted,
    project_view,
    require,
    show,
)

SHOWN = 200


@require_http_methods(["GET", "POST"])
@project_view(Right.TOKENS_READ)
def show_tokens(request: HttpRequest, scene: Scene) -> HttpResponse:
    """The list, and a form for a new one. The new one's text is in this answer and nowhere else."""
    if request.method == "POST":
        require(scene, Right.TOKENS_WRITE)
    form = TokenForm(posted(request), holders=house.find_holders(scene.project, scene.user))
    new_limits = LimitsForm(posted(request), prefix="new")
    made, text, status = None, "", 200
    if request.method == "POST":
        status = 400
        if form.is_valid() and new_limits.is_valid():
            said = dict(form.cleaned_data)
            try:
                made, text = create_token(
                    user=said.pop("holder"), project=scene.project, limits=new_limits.limits, by=scene.user, **said
                )
            except TentalisError as error:
                show_error(form, error)
                status = error.status
            else:
                form = TokenForm(None, holders=house.find_holders(scene.project, scene.user))
                new_limits = LimitsForm(prefix="new")
                status = 201
    return _show(request, scene, form=form, new_limits=new_limits, made=made, text=text, status=status)


@require_http_methods(["GET", "POST"])
@project_view(Right.TOKENS_WRITE)
def revoke(request: HttpRequest, scene: Scene, token_id: int) -> HttpResponse:
    token = get_object_or_404(house.find_tokens(scene.project, scene.user), pk=token_id)
    if request.method == "GET":
        question = Confirmation(
            title=_("Revoke the token %(name)s?") % {"name": token.name},
            lines=(
                _("Every program and agent that uses it is refused from its next request on."),
                _("This cannot be taken back: make another token, and give that to them."),
                _("What was done with it stays, and the audit names you."),
            ),
            button=_("Revoke"),
            back=find_page(scene, "tokens"),
            back_words=_("Tokens"),
            why_not=_("It is revoked already.") if token.revoked_at else "",
        )
        return ask(request, scene, question)
    act(request, _("Token revoked."), lambda: revoke_token(token=token, by=scene.user))
    return leave(scene, "tokens")


@require_http_methods(["GET", "POST"])
@project_view(Right.TOKENS_WRITE)
def limit_token(request: HttpRequest, scene: Scene, token_id: int) -> HttpResponse:
    """How much may be asked of models with one token."""
    token = get_object_or_404(house.find_tokens(scene.project, scene.user), pk=token_id, revoked_at__isnull=True)
    form = LimitsForm(posted(request), limits=token.limits)
    _done, status = fill_in(
        request, form, lambda: change_token(token=token, by=scene.user, limits=form.limits, made_with=None)
    )
    if status is None:
        messages.success(request, _("The token's limits are set."))
        return leave(scene, "tokens")
    return show(request, scene, "token_limits", {"form": form, "token": token}, status=status)


@require_http_methods(["GET", "POST"])
@project_view(Right.PROJECTS_WRITE)
def limit_project(request: HttpRequest, scene: Scene) -> HttpResponse:
    """How much all tokens of the project may ask of models together."""
    form = LimitsForm(posted(request), limits=scene.project.limits)
    _done, status = fill_in(
        request, form, lambda: change_project(project=scene.project, by=scene.user, limits=form.limits)
    )
    if status is None:
        messages.success(request, _("The project's limits are set."))
        return leave(scene, "tokens")
    return show(request, scene, "token_limits", {"form": form, "token": None}, status=status)


def _show(
    request: HttpRequest,
    scene: Scene,
    *,
    form: TokenForm,
    new_limits: LimitsForm,
    made: ApiToken | None,
    text: str,
    status: int,
) -> HttpResponse:
    tokens = list(house.find_tokens(scene.project, scene.user)[:SHOWN])
    used = usage_today(scene.project, {token.key_id for token in tokens})
    context = {
        "rows": [(token, used.get(token.key_id)) for token in tokens],
        "form": form,
        "new_limits": new_limits,
        "scopes": house.group_scopes(),
        "made": made,
        "text": text,
        "bill": spent_today(scene.project),
    }
    return show(request, scene, "tokens", context, status=status)
