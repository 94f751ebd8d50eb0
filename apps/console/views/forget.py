"""Forgetting a person: looking first, then deleting."""

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from apps.accounts.rights import Right
from apps.base.errors import TentalisError
from apps.console.views.frame import Scene, leave, posted, project_view, require, show
from apps.conversations.forgetting import LONGEST_TEXT_CHARS, SHORTEST_TEXT_CHARS
from apps.conversations.models import Forgetting
from apps.conversations.services import find_person
from apps.pipeline.forgetting import forget_person

SHOWN = 20


class ForgetForm(forms.Form):
    """Who is to be forgotten; `is_sure` comes with the second step."""

    end_user = forms.CharField(
        label=gettext_lazy("End user"), required=False, max_length=200,
        help_text=gettext_lazy("As the agent names them, exactly."),
    )  # fmt: skip
    text = forms.CharField(
        label=gettext_lazy("Or a text"), required=False, min_length=SHORTEST_TEXT_CHARS, max_length=LONGEST_TEXT_CHARS,
        help_text=gettext_lazy("Looked for in everything that was said, in any case."),
    )  # fmt: skip
    is_sure = forms.BooleanField(required=False)


@require_http_methods(["GET", "POST"])
@project_view(Right.AUDIT_READ)
def show_forget(request: HttpRequest, scene: Scene) -> HttpResponse:
    """First what would be deleted; then, with a tick, it is. Who may not delete sees what was forgotten."""
    if request.method == "POST":
        require(scene, Right.PROJECTS_WRITE)
    form = ForgetForm(posted(request))
    found, status = None, 200
    if request.method == "POST":
        status = 400
        if form.is_valid():
            subject = {name: form.cleaned_data[name] for name in ("end_user", "text")}
            try:
                if form.cleaned_data["is_sure"]:
                    done = forget_person(project=scene.project, by=scene.user, **subject)
                    told = {"sessions": done.counts["sessions"], "tasks": done.counts["tasks"]}
                    messages.success(request, _("Deleted: %(sessions)s conversations and %(tasks)s tasks.") % told)
                    return leave(scene, "forget")
                found, status = find_person(project=scene.project, by=scene.user, **subject), 200
            except TentalisError as error:
                form.add_error(None, str(error))
                status = error.status
    context = {
        "form": form,
        "may_forget": scene.may(Right.PROJECTS_WRITE),
        "found": found,
        "rows": [(name, count) for name, count in found.counts.items() if count] if found else [],
        "done": Forgetting.objects.filter(project=scene.project)[:SHOWN],
    }
    return show(request, scene, "forget", context, status=status)
