"""Filling tasksets: all of what is given, or none of it."""

from collections.abc import Iterable, Sequence

from django.db import transaction

from apps.accounts.models import Project
from apps.base.errors import BadInputError
from apps.evals.models import Item, Taskset


def keep_own_work(project: Project, environment: str, items: Sequence[Item]) -> None:
    """Put items of a project's own work aside, in the running transaction; words that are there already stay as they
    are."""
    taskset = _open(project, f"own-work-{environment}", environment, origin=Taskset.Origin.OWN_WORK)
    for item in items:
        item.split = Item.Split.HELD_OUT
    _save(taskset, items, is_repeated=True)


def read_split(name: object) -> Item.Split:
    """The split of that name. Raises BadInputError."""
    if name not in Item.Split.values:
        raise BadInputError.at("split", f"wanted one of {', '.join(Item.Split.values)}, found {name!r:.80}")
    return Item.Split(name)


def _open(project: Project, name: str, environment: str, *, origin: str, about: str = "") -> Taskset:
    """The version of a taskset that takes items: the next where the last is frozen, with all that is in that."""
    with transaction.atomic():
        last = Taskset.objects.filter(project=project, name=name).order_by("-version").first()
        if last is not None and last.frozen_at is None:
            return last
        made, is_new = Taskset.objects.get_or_create(
            project=project,
            name=name,
            version=last.version + 1 if last else 1,
            defaults={"environment": environment, "origin": origin, "about": last.about if last else about},
        )
        if is_new and last is not None:
            _copy(last.items.all(), made)
    return made


def _copy(items: Iterable[Item], taskset: Taskset) -> None:
    copies = []
    for item in items:
        item.pk, item._state.adding, item.taskset = None, True, taskset
        copies.append(item)
    Item.objects.bulk_create(copies)


def _save(taskset: Taskset, items: Sequence[Item], *, is_repeated: bool = False) -> None:
    """Write items, in the running transaction, and have the doors look from now on where some are held out."""
    for item in items:
        item.taskset = taskset
    Item.objects.bulk_create(items, ignore_conflicts=is_repeated)
    project = taskset.project
    if not project.has_held_out and any(item.split in Item.MEASURED for item in items):
        Project.objects.filter(pk=project.pk, has_held_out=False).update(has_held_out=True)
        project.has_held_out = True
