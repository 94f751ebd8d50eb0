"""The audit: entries nobody can change, chained by hash in commit order."""

from typing import NamedTuple

import pgtrigger
from django.db import connection, models
from django.db.models.expressions import RawSQL
from django.db.models.functions import Now


class CurrentTransaction(models.Func):
    """Number of the running transaction (never wraps: xid8)."""

    template = "(pg_current_xact_id()::text::bigint)"
    output_field = models.BigIntegerField()


class CurrentEpoch(models.Func):
    """Number of the cluster's epoch, begun by the first entry that is written there (see `AuditEpoch`)."""

    template = "(audit_begin_epoch())"
    output_field = models.IntegerField()


class ChainPlace(NamedTuple):
    """Where an entry stands in the order of transactions; compared from left to right."""

    epoch: int
    xid: int
    id: int = 0


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


class AuditEpoch(models.Model):
    """The time in which one Postgres cluster wrote the audit: its transaction numbers mean nothing in another one.

    The first entry written after a move (a dump restored elsewhere, an upgrade) begins the next. Every transaction of
    an epoch that is over has ended, whatever its number.

    Attributes:
        cluster: Postgres' system identifier; 0 where it is not known any more.
    """

    number = models.IntegerField(primary_key=True)
    cluster = models.BigIntegerField()
    began_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"epoch {self.number}"


HORIZON = "audit_current_epoch(), pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
"""The first transaction that may still be running."""
TRANSACTION = "audit_auditentry.epoch, audit_auditentry.xid"


class AuditEntryQuerySet(models.QuerySet["AuditEntry"]):
    def in_commit_order(self) -> "AuditEntryQuerySet":
        return self.order_by("epoch", "xid", "pk")

    def behind(self, place: ChainPlace) -> "AuditEntryQuerySet":
        return self.filter(_is_true(f"({TRANSACTION}, audit_auditentry.id) > (%s, %s, %s)", *place))

    def before(self, horizon: ChainPlace) -> "AuditEntryQuerySet":
        """What transactions wrote that stand before `horizon`'s."""
        return self.filter(_is_true(f"({TRANSACTION}) < (%s, %s)", horizon.epoch, horizon.xid))

    def settled(self) -> "AuditEntryQuerySet":
        """What nothing that is still running can come before."""
        return self.filter(_is_true(f"({TRANSACTION}) < ({HORIZON})"))


def _is_true(condition: str, *values: int) -> RawSQL:
    return RawSQL(condition, values, output_field=models.BooleanField())  # noqa: S611


def find_horizon() -> ChainPlace:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {HORIZON}")
        return ChainPlace(*cursor.fetchone())


class AuditEntry(models.Model):
    """One thing that happened, written in the transaction that made it happen.

    Holds no foreign key, so that nothing it names can take it along when deleted. `xid` is the writing transaction, of
    the cluster of `epoch`: ordering by (epoch, xid, id) among transactions older than every running one is commit-safe,
    ids alone are not.
    """

    kind = models.CharField(max_length=40, help_text="One of `apps.audit.kinds.Kind`; `record()` sees to it.")
    subject_type = models.CharField(max_length=40)
    subject_id = models.BigIntegerField(null=True)
    project_id = models.BigIntegerField(null=True, db_index=False)
    actor = models.CharField(max_length=120)
    payload = models.JSONField(default=dict)
    at = models.DateTimeField(db_default=Now())
    xid = models.BigIntegerField(db_default=CurrentTransaction())
    epoch = models.IntegerField(db_default=CurrentEpoch())

    objects = AuditEntryQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["project_id", "id"], name="audit_by_project"),
            models.Index(fields=["project_id", "kind", "id"], name="audit_by_kind"),
            models.Index(fields=["project_id", "actor", "id"], name="audit_by_actor"),
            models.Index(fields=["subject_type", "subject_id", "id"], name="audit_by_subject"),
            models.Index(fields=["epoch", "xid", "id"], name="audit_by_place"),
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
    epoch = models.IntegerField()
    previous_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    class Meta:
        triggers = refuse_changes("audit_seal")

    def __str__(self) -> str:
        return f"{self.seq}: {self.hash[:12]}"
