"""Agents."""

from apps.base.admin import show
from apps.workers.models import Ensemble, Worker

show(Worker, "name project kind base_model learns_with is_active", filters="kind is_active project", search="name")
show(Ensemble, "name project members wait_s", filters="project", search="name")
