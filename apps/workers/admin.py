"""Agents."""

from apps.base.admin import show
from apps.workers.models import Worker

show(Worker, "name project kind base_model learns_with is_active", filters="kind is_active project", search="name")
