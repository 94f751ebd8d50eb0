"""Adapters, the gate's verdicts, and what serves."""

from apps.adapters.models import Adapter, Deployment, Shadow, Verdict
from apps.base.admin import show

show(
    Adapter,
    "name project worker version state is_anchor created_at",
    filters="state is_anchor project",
    search="name =sha256",
)
show(Verdict, "adapter question outcome compared_with created_at", filters="question outcome", search="adapter__name")
show(Deployment, "worker adapter previous epoch moved_at")
show(Shadow, "id worker adapter percent state outcome created_at ended_at", filters="state outcome")
