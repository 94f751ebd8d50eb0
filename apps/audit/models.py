"""The audit: entries nobody can change, chained by hash in commit order."""

import pgtrigger
from django.db import models
from django.db.models.functions import Now


class CurrentTransaction(models.Func):
    """Number of the running transaction (never wraps: xid8)."""

    template = "(pg_current_xact_id()::text::bigint)"
    output_field = models.BigIntegerField()


def refuse_changes(name: str) -> list[pgtrigger.Trigger]:
    """Triggers by which Postgres itself refuses UPDATE, DELETE and TRUNCATE."""
    return [
        pgtrigger.Protect(name=f"{name}_rows", operation=pgtrigger.Update | pgtrigger.Delete),
        pgtrigger.Trigger(
            name=f"{name}_table",
            operation=pgtrigger.Truncate,
            level=pgtrigger.Statement,
            when=pgtrigger.Before,
            func="RAISE EXCEPTION 'the audit cannot be truncated';",
        ),
    ]


class AuditEntry(models.Model):
    """One thing that happened, written in the transaction that made it happen.

    Holds no foreign key, so that nothing it names can take it along when deleted. `xid` is the writing transaction:
    ordering by (xid, id) among transactions older than every running one is commit-safe, ids alone are not.
    """

    kind = models.CharField(max_length=40, help_text="One of `apps.audit.kinds.Kind`; `record()` sees to it.")
    subject_type = models.CharField(max_length=40)
    subject_id = models.BigIntegerField(null=True)
    project_id = models.BigIntegerField(null=True, db_index=False)
    actor = models.CharField(max_length=120)
    payload = models.JSONField(default=dict)
    at = models.DateTimeField(db_default=Now())
    xid = models.BigIntegerField(db_default=CurrentTransaction())

    class Meta:
        indexes = [
            models.Index(fields=["project_id", "id"], name="audit_by_project"),
            models.Index(fields=["project_id", "kind", "id"], name="audit_by_kind"),
            models.Index(fields=["project_id", "actor", "id"], name="audit_by_actor"),
            models.Index(fields=["subject_type", "subject_id", "id"], name="audit_by_subject"),
            models.Index(fields=["xid", "id"], name="audit_by_transaction"),
        ]
        triggers = [
            *refuse_changes("audit_entry"),
            pgtrigger.Trigger(
                name="audit_entry_announced",
                operation=pgtrigger.Insert,
                when=pgtrigger.After,
                func="PERFORM pg_notify('tentalis_live', NEW.id::text); RETURN NULL;",
            ),
        ]
        verbose_name_plural = "audit entries"

    def __str__(self) -> str:
        return f"#{self.pk} {self.kind} {self.subject_type} {self.subject_id}"


class AuditSeal(models.Model):
    """An entry's place in the chain: hash = SHA-256 over the previous hash and the entry's canonical JSON."""

    seq = models.BigIntegerField(primary_key=True)
    entry_id = models.BigIntegerField(unique=True)
    xid = models.BigIntegerField()
    previous_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    class Meta:
        triggers = refuse_changes("audit_seal")

    def __str__(self) -> str:
        return f"{self.seq}: {self.hash[:12]}"
