"""What workers are measured on."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_GET

from apps.accounts.rights import Right
from apps.console.selectors import tasksets
from apps.console.views.frame import Scene, project_view, read_number, show
from apps.evals.models import Item, Taskset


@require_GET
@project_view(Right.EVALS_READ)
def list_tasksets(request: HttpRequest, scene: Scene) -> HttpResponse:
    rows, older = tasksets.find_tasksets(scene.project, before=read_number(request, "before"))
    context = {"rows": rows, "older": older, "panels": tasksets.find_panels(scene.project)}
    return show(request, scene, "tasksets", context)


@require_GET
@project_view(Right.EVALS_READ)
def show_taskset(request: HttpRequest, scene: Scene, taskset_id: int) -> HttpResponse:
    taskset = get_object_or_404(Taskset, project=scene.project, pk=taskset_id)
    counts = tasksets.count_items(taskset)
    split = request.GET.get("split", "")
    split = split if split in Item.Split.values else next((one for one in counts if counts[one]), Item.Split.HELD_OUT)
    items = taskset.items.filter(split=split).order_by("-id")
    context = {
        "taskset": taskset,
        "splits": [(value, label, counts[value]) for value, label in Item.Split.choices],
        "split": split,
        "items": items[: tasksets.SHOWN_ITEMS],
        "reach": tasksets.find_reach(counts[Item.Split.HELD_OUT]),
    }
    return show(request, scene, "taskset", context)
