"""What a training's data cost to make."""

from apps.inference.costs import Bill, cost_of_tasks
from apps.rollouts.models import TrainingUse
from apps.training.models import TrainingRun


def cost_of_run(run: TrainingRun) -> Bill:
    """Everything the tasks of the run's batch cost: tries, judges, managers, hints. Machines' time is not in it."""
    uses = TrainingUse.objects.filter(batch=run.batch_id)
    return cost_of_tasks(uses.values("rollout__task_id"))
