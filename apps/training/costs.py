"""What a training and its data cost to make."""

from typing import Any

from django.db.models import Count, QuerySet, Sum

from apps.feedback.models import Feedback
from apps.inference.costs import Bill, Cost, cost_of_tasks
from apps.rollouts.models import TrainingUse
from apps.training.models import TrainingRun

AGENTS_TURNS = ("main", "side")


def cost_of_run(run: TrainingRun) -> Bill:
    """Everything the tasks of the run's batch cost: tries, judges, managers, hints. Machines' time is not in it."""
    return cost_of_tasks(_find_tasks(run))


def sum_up_data(run: TrainingRun) -> dict[str, float]:
    """The same in a few numbers, and the minutes that people worked on its judgements where that was measured.

    Returns:
        judge_tokens; usd of the `calls` whose price was known (`unpriced` is how many had none); human_minutes of the
        `judgements` by people whose time was measured (`untimed` is how many had none).
    """
    bill, tasks = cost_of_run(run), _find_tasks(run)
    judged = sum((cost for turn, cost in bill.by_turn().items() if turn not in AGENTS_TURNS), Cost())
    said = Feedback.objects.filter(task__in=tasks, source=Feedback.Source.HUMAN)
    found = said.aggregate(worked_s=Sum("active_s"), count=Count("pk"), timed=Count("active_s"))
    return {
        "judge_tokens": float(judged.prompt_tokens + judged.completion_tokens),
        "usd": float(bill.total.usd),
        "calls": bill.total.exchanges,
        "unpriced": bill.total.unpriced,
        "human_minutes": round((found["worked_s"] or 0.0) / 60, 2),
        "judgements": found["count"],
        "untimed": found["count"] - found["timed"],
    }


def _find_tasks(run: TrainingRun) -> QuerySet[Any]:
    """Ids of the tasks it learns from, whatever of them its batch holds."""
    if run.batch is None:
        return TrainingUse.objects.none().values("rollout__task")
    return run.batch.task_ids()
