"""When a batch is full: by its tasks, or by those among them that say something."""

import math

from django.db.models import Count, F, Max, Min

from apps.rollouts.models import Batch, Rollout
from tentalis.core.learning.recipes import Recipe


def is_full(batch: Batch, recipe: Recipe) -> bool:
    """Whether a batch holds enough to be trained.

    `dapo` learns only from groups whose rewards differ (`core.learning.advantages.is_informative`): its batch fills on
    until it holds as many of those as it was to hold tasks, or `recipe.refill` times as many tasks.
    """
    if batch.task_count < batch.target_tasks:
        return False
    if recipe.algorithm != "dapo" or batch.task_count >= math.ceil(recipe.refill * batch.target_tasks):
        return True
    return count_informative(batch) >= batch.target_tasks


def count_informative(batch: Batch) -> int:
    """Tasks of the batch that can be compared: attempts whose rewards differ, or one alone, compared over the batch."""
    groups = Rollout.objects.filter(training_use__batch=batch, reward__isnull=False).order_by().values("task")
    spread = groups.annotate(lowest=Min("reward"), highest=Max("reward"), size=Count("pk"))
    return spread.filter(highest__gt=F("lowest")).count() + spread.filter(size=1).count()
