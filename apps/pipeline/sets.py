"""Which tasks the links of the way may do as one set: those where none waits for a model that another does not."""

from collections.abc import Callable, Sequence

from apps.accounts.models import Project
from apps.checks.graders import find_asked, takes_time
from apps.feedback import create_reviews, hints
from apps.scoring import services as scoring
from apps.tasks.models import Task
from apps.workers.agents import is_quick


def find_work_sets(task_ids: Sequence[int]) -> list[list[int]]:
    """Tasks of one worker and environment together, where none of them waits for a model that another does not."""
    return _find_sets(task_ids, lambda task: _is_quick(task) and not scoring.asks_models(*_place(task)))


def find_learn_sets(task_ids: Sequence[int]) -> list[list[int]]:
    return _find_sets(task_ids, lambda task: not hints.hints_ask_models(*_place(task)))


def _is_quick(task: Task) -> bool:
    """Whether it waits for nobody: what a server's minute has no room for is asked later, each task alone."""
    provider = task.worker.provider
    is_paced = provider is not None and bool(provider.requests_per_minute or provider.tokens_per_minute)
    return is_quick(task.worker) and not is_paced


def _find_sets(task_ids: Sequence[int], may_join: Callable[[Task], bool]) -> list[list[int]]:
    found: dict[tuple[int, str], list[int]] = {}
    joins: dict[tuple[int, str], bool] = {}
    for task in Task.objects.filter(pk__in=task_ids).select_related("project", "worker__provider").order_by("pk"):
        key = task.worker_id, task.environment
        if key not in joins:
            joins[key] = may_join(task) and not create_reviews.reviews_ask_models(*_place(task))
        is_alone = not joins[key] or any(map(takes_time, find_asked(task.checks)))
        found.setdefault(key if not is_alone else (0, str(task.pk)), []).append(task.pk)
    return list(found.values())


def _place(task: Task) -> tuple[Project, str]:
    return task.project, task.environment
