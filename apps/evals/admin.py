"""Tasksets and their items."""

from apps.base.admin import show
from apps.evals.models import (
    Benchmark,
    ChosenPanel,
    Evaluation,
    Experiment,
    HumanGrade,
    Item,
    ItemTry,
    RegressionCase,
    Scenario,
    Taskset,
    TryRecord,
)

show(Taskset, "name version project environment origin frozen_at", filters="project environment", search="name")
show(Benchmark, "name version project entry grader created_at", filters="project", search="name")
show(ChosenPanel, "worker taskset created_at")
show(Item, "id taskset split weight source created_at", filters="split", search="=taskset__name source")
show(Evaluation, "id project worker adapter purpose item_set state mean_outcome", filters="purpose state project")
show(Experiment, "id project experiment asked_by created_at", filters="project", search="experiment")
show(Scenario, "id run scenario candidate reference", search="=run__id")
show(ItemTry, "id evaluation place number outcome cause", search="=evaluation__id", select="evaluation__adapter")
show(
    TryRecord,
    "item_try_id finish_reason prompt_hash",
    search="=item_try__evaluation__id",
)
show(HumanGrade, "id item_try author value created_at", search="=item_try__evaluation__id author")
show(RegressionCase, "id item worker adapter kept_by created_at", search="=item__id kept_by")
