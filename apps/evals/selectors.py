"""What a worker is measured on of its project's own: the items of tasksets."""

from django.db.models import Max, QuerySet

from apps.accounts.models import Project
from apps.evals.models import Item, Taskset
from apps.evals.panels import ItemSet
from apps.workers.models import Worker
from apps.workers.rules import find_environment_error
from apps.worlds.registry import get_world
from tentalis.core.worlds import PanelItem


def find_items(worker: Worker, *, split: str = Item.Split.HELD_OUT) -> list[ItemSet]:
    """For each environment the worker works in, the split's items in the newest version of each taskset; [] without.

    The same words are asked once. Their order is that of their words' hashes, which has nothing to do with what they
    ask; the same items make the same hash. Two queries.
    """
    tasksets = [one for one in find_newest(worker.project_id) if not find_environment_error(worker, one.environment)]
    rows = Item.objects.filter(taskset__in=tasksets, split=split).order_by("pk")
    first: dict[str, dict[str, PanelItem]] = {}
    environments = {one.pk: one.environment for one in tasksets}
    for one in rows:
        asked = PanelItem(prompt=one.prompt, reference=one.reference, checks=one.checks, seed=one.seed or 0)
        first.setdefault(environments[one.taskset_id], {}).setdefault(one.content_hash, asked)
    return [
        ItemSet(f"{environment}/{split}", get_world(environment), [found[words] for words in sorted(found)])
        for environment, found in sorted(first.items())
    ]


def find_newest(project: Project | int) -> QuerySet[Taskset]:
    """The newest version of each of a project's tasksets."""
    last = Taskset.objects.filter(project=project).order_by().values("name").annotate(last=Max("pk")).values("last")
    return Taskset.objects.filter(pk__in=last)
