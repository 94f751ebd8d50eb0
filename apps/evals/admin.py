"""Tasksets and their items."""

from apps.base.admin import show
from apps.evals.models import Item, Taskset

show(Taskset, "name version project environment origin frozen_at", filters="project environment", search="name")
show(Item, "id taskset split weight source created_at", filters="split", search="=taskset__name source")
