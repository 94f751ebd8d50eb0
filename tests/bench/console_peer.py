"""The peer: what a stock list view does over the same rows (Paginator's COUNT and OFFSET, a query or two a row)."""

import time
from collections.abc import Callable, Mapping
from statistics import median

from django.core.paginator import Paginator
from django.db import transaction
from django.db.models import Avg, Count
from django.template import Context, Engine

from apps.accounts.models import Project
from apps.audit.models import AuditEntry
from apps.feedback.models import Review
from apps.rollouts.models import Rollout
from apps.tasks.models import Attempt, Task
from tests.bench.console_history import SLUG

ROWS, ROUNDS = 50, 5
ROW = "{% for row in page %}<tr><td>{{ row.pk }}</td><td>{{ row }}</td><td>{{ row.state }}</td></tr>{% endfor %}"


def list_reviews(project: Project) -> str:
    """The queue by priority, a page from its middle; each row asks for its task, worker and attempts."""
    found = Review.objects.filter(project=project, state="open").order_by("-priority", "created_at")
    page = Paginator(found, ROWS).get_page(found.count() // ROWS // 2)
    rows = [
        {"pk": row.pk, "words": row.task.prompt, "worker": row.task.worker.name, "tries": row.task.attempts.count()}
        for row in page
    ]
    return _render(rows)


def list_tasks(project: Project) -> str:
    """The newest tasks, a page from the middle; each row asks for its worker and attempts."""
    found = Task.objects.filter(project=project).order_by("-created_at")
    page = Paginator(found, ROWS).get_page(found.count() // ROWS // 2)
    rows = [
        {"pk": row.pk, "words": row.prompt, "worker": row.worker.name, "tries": row.attempts.count()} for row in page
    ]
    return _render(rows)


def show_task(project: Project) -> str:
    """A task; each attempt asks for its steps, each step for its scores."""
    task = Task.objects.filter(project=project, attempts__exchange__isnull=False).order_by("-id")[0]
    rows = [
        {"pk": step.pk, "words": step.text, "scores": [(score.scorer, score.score) for score in step.scores.all()]}
        for attempt in task.attempts.all()
        for step in attempt.steps.all()
    ]
    return _render(rows)


def show_dashboard(project: Project) -> str:
    """Counted afresh from every row."""
    tasks = Task.objects.filter(project=project)
    rows = [
        {"pk": state, "words": count} for state, count in tasks.order_by().values_list("state").annotate(Count("pk"))
    ]
    attempts = Attempt.objects.filter(task__project=project)
    rows.append({"pk": attempts.count(), "words": attempts.aggregate(mean=Avg("score"))["mean"]})
    rows.append({"pk": Review.objects.filter(project=project, state="open").count(), "words": "open"})
    by_run = Rollout.objects.filter(project=project).order_by().values_list("training_use__batch")
    rows += [{"pk": batch, "words": mean} for batch, mean in by_run.annotate(Avg("reward"))]
    return _render(rows)


def show_audit(project: Project) -> str:
    found = AuditEntry.objects.filter(project_id=project.pk).order_by("-at")
    page = Paginator(found, ROWS).get_page(found.count() // ROWS // 2)
    return _render([{"pk": row.pk, "words": row.kind} for row in page])


def take_next(project: Project) -> str:
    """Finds, then updates: two people get the same one. The page asks step by step."""
    found = Review.objects.filter(project=project, state="open", claimed_by=None).order_by("-priority", "created_at")
    with transaction.atomic():
        review = found[0]
        review.claimed_by = project.members.all()[0].user
        review.save()
        page = show_task(project)
        transaction.set_rollback(True)
    return page


PEERS: Mapping[str, Callable[[Project], str]] = {
    "review-list": list_reviews,
    "task-list": list_tasks,
    "task": show_task,
    "project": show_dashboard,
    "audit": show_audit,
    "next-review": take_next,
}


def count_peer(name: str) -> float:
    """Milliseconds of one such page in this process, median."""
    project = Project.objects.get(slug=SLUG)
    times_ms = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        PEERS[name](project)
        times_ms.append(1000 * (time.perf_counter() - began))
    return round(median(times_ms), 2)


def _render(rows: list[dict[str, object]]) -> str:
    return Engine().from_string(ROW).render(Context({"page": rows}))
