"""Erase a person (GDPR) in the console: looking first, then deleting."""

from collections.abc import Mapping

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_http_methods

from apps.accounts.rights import Right
from apps.base.errors import TentalisError
from apps.console.views.frame import Scene, leave, posted, project_view, require, show
from apps.conversations.models import Forgetting
from apps.erasure.erase import find_person, forget_person
from apps.erasure.records import LONGEST_TEXT_CHARS, SHORTEST_TEXT_CHARS
from apps.erasure.unlearn_adapters import count_rebuilds
from apps.training.models import TrainingRun
from tentalis.core.field_limits import MAX_END_USER_CHARS

SHOWN = 20
State = TrainingRun.State


class ForgetForm(forms.Form):
    """Who is to be forgotten; `is_sure` comes with the second step."""

    end_user = forms.CharField(
        label=gettext_lazy("End user"), required=False, max_length=MAX_END_USER_CHARS,
        help_text=gettext_lazy("The exact name that the agent sends."),
    )  # fmt: skip
    text = forms.CharField(
        label=gettext_lazy("Or a text"), required=False, min_length=SHORTEST_TEXT_CHARS, max_length=LONGEST_TEXT_CHARS,
        help_text=gettext_lazy("Searched for in all messages; case is ignored."),
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
                    if words := say_rebuild(len(done.taught), len(done.judges), done.reruns):
                        messages.info(request, words)
                    return leave(scene, "forget")
                found, status = find_person(project=scene.project, by=scene.user, **subject), 200
            except TentalisError as error:
                form.add_error(None, str(error))
                status = error.status
    forgotten = list(Forgetting.objects.filter(project=scene.project)[:SHOWN])
    rebuilds = count_rebuilds(one.pk for one in forgotten)
    context = {
        "form": form,
        "found": found,
        "rows": [(name, count) for name, count in found.counts.items() if count] if found else [],
        "rebuild": say_rebuild(len(found.taught), len(found.judges), found.reruns) if found else "",
        "done": [(one, say_progress(rebuilds.get(one.pk, {}))) for one in forgotten],
    }
    return show(request, scene, "forget", context, status=status)


def say_rebuild(adapters: int, judges: int, reruns: int) -> str:
    """What becomes of the adapters and judges that were taught by somebody, in words; "" where none was."""
    if not adapters and not judges:
        return ""
    taught = ngettext(
        "%d adapter was trained on their data, itself or in an earlier version; it can no longer serve.",
        "%d adapters were trained on their data, themselves or in an earlier version; they can no longer serve.",
        adapters,
    )
    again = ngettext("%d training will be repeated without it.", "%d trainings will be repeated without it.", reruns)
    judging = ngettext(
        "%d step scorer or AI manager was trained on it; it returns to the version before.",
        "%d step scorers and AI managers were trained on it; they return to the version before.",
        judges,
    )
    said = [
        taught % adapters if adapters else "",
        judging % judges if judges else "",
        again % reruns if reruns else _("No training has to be repeated.") if adapters else "",
    ]
    return " ".join(filter(None, said))


def say_progress(states: Mapping[str, int]) -> str:
    """How far a rebuild is, in words; "" where nothing was to be made again."""
    total, made = sum(states.values()), states.get(State.SUCCEEDED, 0)
    left_out = sum(states.get(state, 0) for state in (State.FAILED, State.REFUSED, State.CANCELLED))
    said = _("%(made)d of %(total)d done") % {"made": made, "total": total} if total else ""
    return said + (", " + _("%d left out") % left_out if left_out else "")
