"""Tasks, attempts and steps."""

from apps.base.admin import show
from apps.tasks.models import Attempt, EpisodeTurn, FurtherExchange, ShadowAttempt, Step, Task

show(
    Task,
    "id project worker environment state score submitted_by created_at",
    filters="state environment project",
    search="=id",
)
show(Attempt, "id task index worker adapter state outcome score", filters="state", search="=task__id")
show(EpisodeTurn, "id attempt index exchange state_hash started_at ended_at", search="=attempt__id", hidden="snapshot")
show(Step, "id attempt index kind tool_name", search="=attempt__id")
show(FurtherExchange, "exchange attempt place", search="=exchange__id =attempt__id")
show(ShadowAttempt, "id shadow task outcome score created_at", search="=task__id")
