"""Runs."""

from apps.base.admin import show
from apps.training.models import Course, CourseRound, GpuLease, ManagerRun, RewardAnswer, RewardEndpoint, TrainingRun

show(
    TrainingRun,
    "id project worker batch state attempt backend started_at finished_at",
    filters="state backend project",
    search="=id",
    select="batch__worker",
)
show(Course, "id project worker benchmark state reason", filters="state project", search="=id")
show(CourseRound, "id course number is_better words finished_at", search="=course__id", select="course__project")
show(ManagerRun, "id project manager kind state audits created_at", filters="state kind project")
show(GpuLease, "slot run expires_at")
show(RewardEndpoint, "run attempt expires_at", hidden="secret_hash")
show(RewardAnswer, "id run task created_at", search="=run__id =task__id")
