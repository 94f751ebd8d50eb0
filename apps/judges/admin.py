"""Probes of judges."""

from apps.base.admin import show
from apps.judges.models import JudgeProbe

show(JudgeProbe, "id project provider model state verdict words created_at", filters="state verdict project")
