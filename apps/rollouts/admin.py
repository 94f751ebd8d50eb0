"""The ledger."""

from apps.base.admin import show
from apps.rollouts.models import Batch, Demonstration, PreferencePair, Rollout, TrainingUse

show(
    Rollout,
    "id project task attempt is_usable unusable_reason reward reward_source",
    filters="is_usable reward_source project",
    search="=task__id =attempt__id",
)
show(Batch, "id worker number kind state task_count target_tasks rollout_count closed_at", filters="state project")
show(TrainingUse, "rollout_id batch", search="=rollout__id", select="batch__worker")
show(
    PreferencePair,
    "id project task source chosen rejected feedback weight batch",
    filters="source project",
    search="=task__id =feedback__id =batch__id",
    select="batch__worker",
)
show(
    Demonstration,
    "id project task source attempt feedback weight batch",
    filters="source project",
    search="=task__id =feedback__id =batch__id",
    select="batch__worker",
)
