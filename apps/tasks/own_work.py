"""Own work holds itself out: of what comes in a share is put aside, to be measured on and never learnt from.

Where a world has held-out tasks of its own, it says which; elsewhere this does. A task that is put aside is worked on,
scored and reviewed like any other. The same words, or nearly the same, are always on the same side; those that a
taskset holds to train on are on that one.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from apps.accounts.models import Project
from apps.evals.holding import AskedTask, NearTexts, find_held_out
from apps.evals.models import Item
from apps.evals.services import keep_own_work
from apps.tasks.models import Task
from apps.worlds.registry import get_world
from tentalis.core.near_duplicates import hash_words, list_bands
from tentalis.core.review_policy import ReviewPolicy

FIRST_TASKS = 20
"""A project's first tasks in an environment all teach: by a handful nothing can be measured."""
MOST_ALIKE = 200
"""Earlier tasks that are looked at for the same words."""


def choose_held_out(project: Project, tasks: Sequence[Task], *, conversation: str = "") -> list[Task]:
    """Which of a project's tasks, not saved yet, are put aside; each is given what finds its words again.

    What can be neither checked nor is judged by people is not: nothing could be measured on it. At most four queries.

    Args:
        conversation: that they are turns of: who talks judges, whatever the project reviews, and all its turns are put
            aside or none, for each is told with those before it.
    """
    tasks = note_words(tasks)
    able = [task for task in tasks if conversation or _can_be_measured(project, task)]
    if not project.held_out_percent or not able:
        return []
    kept = _find_kept(project, able)
    before, aside = _find_alike(project, able), NearTexts()
    counts = _count_first(project, {task.environment for task in able})
    chosen: list[Task] = []
    for place, task in enumerate(able):
        counts[task.environment] += 1
        told = (task.environment, task.prompt, task.bands or ())
        if place in kept or aside.find(*told) is not None:
            continue
        is_new = before.find(*told) is None and counts[task.environment] > FIRST_TASKS
        if is_new and is_drawn(project, conversation or task.prompt):
            chosen.append(task)
        (aside if chosen and chosen[-1] is task else before).add(*told)
    return chosen


def note_words(tasks: Sequence[Task]) -> list[Task]:
    """Give tasks, not saved yet, what finds their words again; those whose world holds none out."""
    found = [task for task in tasks if not get_world(task.environment).panel(1, 0)]
    for task in found:
        task.bands = list_bands(task.prompt)
    return found


def keep_held_out(project: Project, chosen: Sequence[Task], *, messages: Sequence[Mapping[str, Any]] = ()) -> None:
    """Make items of saved tasks that were put aside, in the running transaction.

    Args:
        messages: the conversation that each of them ends, where it is more than a prompt.
    """
    by_environment: dict[str, list[Item]] = {}
    for task in chosen:
        by_environment.setdefault(task.environment, []).append(
            Item(
                prompt=task.prompt,
                messages=list(messages),
                reference=task.reference,
                checks=task.checks,
                seed=task.seed,
                source=f"task {task.pk}",
                content_hash=hash_words(task.prompt),
                bands=task.bands or [],
            )
        )
    for environment, items in by_environment.items():
        keep_own_work(project, environment, items)


def is_drawn(project: Project, prompt: str) -> bool:
    """Whether words fall on the side that is put aside: by a hash of them that differs from project to project."""
    digest = hashlib.sha256(f"{project.pk}:{hash_words(prompt)}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % 10_000 < 100 * project.held_out_percent


def _can_be_measured(project: Project, task: Task) -> bool:
    if task.reference is not None or task.checks:
        return True
    policy = ReviewPolicy.from_json(project.review_policy)
    asks_people = policy.who == "human" or (policy.who == "both" and policy.human_rate > 0)
    return asks_people and policy.rate > 0 and policy.reviews(task.environment)


def _find_kept(project: Project, tasks: Sequence[Task]) -> set[int]:
    """Places of those whose words are held out already."""
    if not project.has_held_out:
        return set()
    return find_held_out(
        AskedTask(place, project.pk, task.environment, task.prompt, task.bands) for place, task in enumerate(tasks)
    )


def _find_alike(project: Project, tasks: Sequence[Task]) -> NearTexts:
    """Earlier tasks that may say the same, and taught or still may, and what tasksets hold to train on."""
    bands, most = sorted({band for task in tasks for band in task.bands or ()}), MOST_ALIKE * len(tasks)
    rows = Task.objects.filter(project=project, bands__overlap=bands).order_by("-id")
    items = Item.objects.filter(taskset__project=project, split=Item.Split.TRAIN, bands__overlap=bands).order_by("-id")
    found = NearTexts(items.values_list("taskset__environment", "prompt", "bands")[:most])
    for environment, prompt, of_task in rows.values_list("environment", "prompt", "bands")[:most]:
        found.add(environment, prompt, of_task or ())
    return found


def _count_first(project: Project, environments: set[str]) -> "Counter[str]":
    """How many tasks there were before, up to as many as matter."""
    counts: Counter[str] = Counter()
    for environment in environments:
        rows = Task.objects.filter(project=project, environment=environment, evaluation=None).order_by("-id")
        counts[environment] = len(rows.values_list("pk")[:FIRST_TASKS])
    return counts
