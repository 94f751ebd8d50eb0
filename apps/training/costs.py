"""What a training and its data cost to make."""

from django.db.models import Sum

from apps.feedback.models import Feedback
from apps.inference.costs import Bill, Cost, cost_of_tasks
from apps.rollouts.models import TrainingUse
from apps.training.models import TrainingRun

AGENTS_TURNS = ("main", "side")


def cost_of_run(run: TrainingRun) -> Bill:
    """Everything the tasks of the run's batch cost: tries, judges, managers, hints. Machines' time is not in it."""
    uses = TrainingUse.objects.filter(batch=run.batch_id)
    return cost_of_tasks(uses.values("rollout__task_id"))


def sum_up_data(run: TrainingRun) -> dict[str, float]:
    """The same in a few numbers, and the minutes that people worked on its judgements where that was measured."""
    bill = cost_of_run(run)
    judged = sum((cost for turn, cost in bill.by_turn().items() if turn not in AGENTS_TURNS), Cost())
    tasks = TrainingUse.objects.filter(batch=run.batch_id).values("rollout__task_id")
    said = Feedback.objects.filter(task__in=tasks, source=Feedback.Source.HUMAN)
    worked_s = said.aggregate(total=Sum("active_s"))["total"] or 0.0
    return {
        "judge_tokens": float(judged.prompt_tokens + judged.completion_tokens),
        "usd": float(bill.total.usd),
        "human_minutes": round(worked_s / 60, 2),
    }
