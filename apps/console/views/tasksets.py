"""What workers are measured on."""

import json
from collections.abc import Callable
from textwrap import shorten
from typing import Any

from django.contrib import messages
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_http_methods

from apps.accounts.models import User
from apps.accounts.rights import Right
from apps.console.forms_tasksets import ItemsForm, SplitForm, TaskItemForm, TasksetForm
from apps.console.selectors import tasksets
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
    read_number,
    show,
)
from apps.console.views.judging import find_task_or_404
from apps.evals.benchmarks import remove_item, say_items_stay
from apps.evals.models import Item, Taskset
from apps.evals.services import Added, freeze_taskset, make_taskset
from apps.feedback.models import Feedback
from apps.feedback.rights import may_read_reference
from apps.rollouts.items import add_to_taskset, divide, list_task_rows
from apps.tasks.models import Task

SHOWN_CHARS = 300


@require_GET
@project_view(Right.EVALS_READ)
def list_tasksets(request: HttpRequest, scene: Scene) -> HttpResponse:
    rows, older = tasksets.find_tasksets(scene.project, before=read_number(request, "before"))
    context = {"rows": rows, "older": older, "panels": tasksets.find_panels(scene.project)}
    return show(request, scene, "tasksets", context)


@require_GET
@project_view(Right.EVALS_READ)
def show_taskset(request: HttpRequest, scene: Scene, taskset_id: int) -> HttpResponse:
    taskset = _find(scene, taskset_id)
    counts = tasksets.count_items(taskset)
    split = request.GET.get("split", "")
    split = split if split in Item.Split.values else next((one for one in counts if counts[one]), Item.Split.HELD_OUT)
    items = taskset.items.filter(split=split).order_by("-id")
    context = {
        "taskset": taskset,
        "splits": [(value, label, counts[value]) for value, label in Item.Split.choices],
        "split": split,
        "items": [(item, tasksets.say_right(item)) for item in items[: tasksets.SHOWN_ITEMS]],
        "left": max(0, counts[split] - tasksets.SHOWN_ITEMS),
        "reach": tasksets.find_reach(counts[Item.Split.HELD_OUT]),
        "may_know": may_read_reference(scene.user, scene.project),
        "may_delete": scene.may(Right.EVALS_WRITE) and not say_items_stay(taskset),
    }
    return show(request, scene, "taskset", context)


@require_http_methods(["GET", "POST"])
@project_view(Right.EVALS_WRITE)
def add_taskset(request: HttpRequest, scene: Scene) -> HttpResponse:
    form = TasksetForm(posted(request))
    made, status = fill_in(
        request, form, lambda: make_taskset(project=scene.project, by=scene.user, **form.cleaned_data)
    )
    if made is not None:
        return leave(scene, "taskset", made.pk)
    return _show_form(request, scene, form, _("New taskset"), _("Make taskset"), status=status or 200)


@require_http_methods(["GET", "POST"])
@project_view(Right.EVALS_WRITE)
def add_items(request: HttpRequest, scene: Scene, taskset_id: int) -> HttpResponse:
    taskset = _find(scene, taskset_id)
    form = ItemsForm(posted(request), request.FILES or None, project=scene.project)

    def add() -> Added:
        rows = form.read_rows(taskset.environment)
        named = {"name": taskset.name, "environment": taskset.environment}
        return add_to_taskset(project=scene.project, rows=rows, by=scene.user, **named)

    return _fill(request, scene, form, add, _("Add items"), taskset)


@require_http_methods(["GET", "POST"])
@project_view(Right.EVALS_WRITE)
def keep_task(request: HttpRequest, scene: Scene, task_id: int) -> HttpResponse:
    """A task and its correction, as an item."""
    task = find_task_or_404(scene, task_id)
    form = TaskItemForm(posted(request), initial=_prefill(task, scene.user))

    def add() -> Added:
        said = form.cleaned_data
        [row] = list_task_rows(scene.project, [task.pk], split=said["split"])
        row = row._replace(line=0, reference=said["reference"])
        named = {"name": said["name"], "environment": task.environment}
        return add_to_taskset(project=scene.project, rows=[row], by=scene.user, **named)

    return _fill(request, scene, form, add, _("Add task %(id)s to a taskset") % {"id": task.pk})


@require_http_methods(["GET", "POST"])
@project_view(Right.EVALS_WRITE)
def split_taskset(request: HttpRequest, scene: Scene, taskset_id: int) -> HttpResponse:
    taskset = _find(scene, taskset_id)
    form = SplitForm(posted(request))
    counts, status = fill_in(
        request,
        form,
        lambda: divide(taskset=taskset, shares=form.shares, seed=form.cleaned_data["seed"], by=scene.user),
    )
    if counts is not None:
        messages.success(
            request, _("%(held_out)s are held out, %(skills)s are skills, %(train)s may be learnt from.") % counts
        )
        return leave(scene, "taskset", taskset.pk)
    about = _(
        "Each item goes on a side by a hash of its words. What says nearly the same goes together; what a worker "
        "learnt from already may only be learnt from."
    )
    return _show_form(request, scene, form, _("Split"), _("Split"), taskset, about=about, status=status or 200)


@require_http_methods(["GET", "POST"])
@project_view(Right.EVALS_WRITE)
def freeze(request: HttpRequest, scene: Scene, taskset_id: int) -> HttpResponse:
    taskset = _find(scene, taskset_id)
    if request.method == "GET":
        return ask(request, scene, _ask_to_freeze(scene, taskset))
    act(request, _("%(name)s is frozen.") % {"name": taskset}, lambda: freeze_taskset(taskset=taskset, by=scene.user))
    return leave(scene, "taskset", taskset.pk)


def _ask_to_freeze(scene: Scene, taskset: Taskset) -> Confirmation:
    return Confirmation(
        title=_("Freeze %(name)s?") % {"name": taskset},
        lines=(
            _("This version never changes again, so that two measurements on it can be compared."),
            _("An item that is added later goes into the next version, with all that is in this one."),
        ),
        button=_("Freeze"),
        back=find_page(scene, "taskset", taskset.pk),
        back_words=str(taskset),
        why_not=_("It is frozen already.") if taskset.frozen_at else "",
    )


@require_http_methods(["GET", "POST"])
@project_view(Right.EVALS_WRITE)
def delete_item(request: HttpRequest, scene: Scene, taskset_id: int, item_id: int) -> HttpResponse:
    item = get_object_or_404(
        Item.objects.select_related("taskset__project"), taskset__project=scene.project, taskset=taskset_id, pk=item_id
    )
    back = f"{find_page(scene, 'taskset', taskset_id)}?split={item.split}"
    if request.method == "GET":
        return ask(request, scene, _ask_to_delete(item, back))
    act(request, _("The item is deleted."), lambda: remove_item(item=item, by=scene.user))
    return redirect(back)


def _ask_to_delete(item: Item, back: str) -> Confirmation:
    return Confirmation(
        title=_("Delete this item of %(name)s?") % {"name": item.taskset},
        lines=(
            shorten(item.prompt, SHOWN_CHARS, placeholder="…"),
            _("Nothing was measured on it. It cannot be brought back; an item of the same words can be added."),
        ),
        button=_("Delete"),
        back=back,
        back_words=str(item.taskset),
        why_not=say_items_stay(item.taskset),
    )


def _find(scene: Scene, taskset_id: int) -> Taskset:
    return get_object_or_404(Taskset.objects.select_related("project"), project=scene.project, pk=taskset_id)


def _fill(
    request: HttpRequest, scene: Scene, form: Form, add: Callable[[], Added], title: str, taskset: Taskset | None = None
) -> HttpResponse:
    made, status = fill_in(request, form, add)
    if made is None:
        return _show_form(request, scene, form, title, _("Add"), taskset, status=status or 200)
    words = ngettext("%(n)s item was added.", "%(n)s items were added.", made.added) % {"n": made.added}
    if made.repeated:
        words += " " + _("%(n)s said what an item there says already.") % {"n": made.repeated}
    messages.success(request, words)
    return leave(scene, "taskset", made.taskset.pk)


def _show_form(
    request: HttpRequest,
    scene: Scene,
    form: Form,
    title: str | Promise,
    button: str,
    taskset: Taskset | None = None,
    *,
    about: str = "",
    status: int,
) -> HttpResponse:
    context = {"form": form, "title": title, "button": button, "taskset": taskset, "about": about}
    return show(request, scene, "taskset_form", context, status=status)


def _prefill(task: Task, user: User) -> dict[str, Any]:
    """The task's own reference, else what a person made of its answer."""
    if task.reference is not None:
        return {"reference": json.dumps(task.reference, ensure_ascii=False)}
    said = (
        Feedback.objects.counting()
        .readable_by(user)
        .filter(task=task)
        .exclude(edited_answer="")
        .order_by("-id")
        .first()
    )
    return {"reference": said.edited_answer if said else ""}
