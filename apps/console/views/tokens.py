"""Bearer tokens: made, shown once, revoked."""

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.rights import Right
from apps.accounts.services import create_token, revoke_token
from apps.base.errors import TentalisError
from apps.console.forms import show_error
from apps.console.forms_house import TokenForm
from apps.console.selectors import house
from apps.console.views.frame import Scene, act, leave, posted, project_view, require, show

SHOWN = 200


@require_http_methods(["GET", "POST"])
@project_view(Right.TOKENS_READ)
def show_tokens(request: HttpRequest, scene: Scene) -> HttpResponse:
    """The list, and a form for a new one. The new one's text is in this answer and nowhere else."""
    if request.method == "POST":
        require(scene, Right.TOKENS_WRITE)
    form = TokenForm(posted(request), holders=house.find_holders(scene.project, scene.user))
    made, text, status = None, "", 200
    if request.method == "POST":
        status = 400
        if form.is_valid():
            said = form.cleaned_data
            try:
                made, text = create_token(
                    user=said["holder"],
                    name=said["name"],
                    scopes=said["scopes"],
                    project=scene.project,
                    expires_in_days=said["expires_in_days"],
                    by=scene.user,
                )
            except TentalisError as error:
                show_error(form, error)
                status = error.status
            else:
                form = TokenForm(None, holders=house.find_holders(scene.project, scene.user))
                status = 201
    context = {
        "tokens": house.find_tokens(scene.project, scene.user)[:SHOWN],
        "form": form,
        "scopes": house.group_scopes(),
        "made": made,
        "text": text,
    }
    return show(request, scene, "tokens", context, status=status)


@require_POST
@project_view(Right.TOKENS_WRITE)
def revoke(request: HttpRequest, scene: Scene, token_id: int) -> HttpResponse:
    token = house.find_tokens(scene.project, scene.user).filter(pk=token_id).first()
    if token is None:
        raise Http404(f"no token {token_id}")
    act(request, _("The token is worthless from now on."), lambda: revoke_token(token=token, by=scene.user))
    return leave(scene, "tokens")
