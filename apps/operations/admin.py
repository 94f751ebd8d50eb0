"""What is and was wrong with the installation."""

from apps.base.admin import show
from apps.operations.models import Alarm, ServerLook, SpanCursor

show(ServerLook, "name away_since words latency_ms looked_at")
show(SpanCursor, "endpoint entry_id exchange_id")
show(Alarm, "rule words state created_at closed_at mail_fault", filters="state rule", ordering=["-state", "-id"])
