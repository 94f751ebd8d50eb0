"""The chain's places. The entries have a page that knows projects and rights: `apps.console.admin_audit`."""

from apps.audit.models import AuditEpoch, AuditSeal
from apps.base.admin import show

show(AuditEpoch, "number cluster began_at", ordering=["-number"])
show(AuditSeal, "seq entry_id hash previous_hash", search="=entry_id =hash", ordering=["-seq"])
