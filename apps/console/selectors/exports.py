"""Exports that were made, as the audit knows them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.accounts.models import Project, User
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.console.exports.sources import SOURCES

RECENT = 20


@dataclass(frozen=True)
class PastExport:
    """One export. `row_count` and `digest` are None while it is sent, and stay so when it broke off."""

    title: Any
    format: str
    filters: dict[str, str]
    by: str
    at: datetime
    row_count: int | None
    digest: str | None


def find_exports(project: Project, *, only_by: User | None) -> list[PastExport]:
    """Newest first; everybody's, or one user's."""
    entries = AuditEntry.objects.filter(subject_type="project", subject_id=project.pk).order_by("-id")
    if only_by is not None:
        entries = entries.filter(actor=only_by.handle)
    made = list(entries.filter(kind=Kind.EXPORT_MADE)[:RECENT])
    ends = entries.filter(kind=Kind.EXPORT_SENT, pk__gt=made[-1].pk)[: 4 * RECENT] if made else []
    sent = {end.payload["export"]: end.payload for end in ends}
    return [
        PastExport(
            title=SOURCES[entry.payload["source"]].title
            if entry.payload["source"] in SOURCES
            else entry.payload["source"],
            format=entry.payload["format"],
            filters=entry.payload["filters"],
            by=entry.actor,
            at=entry.at,
            row_count=sent.get(entry.pk, {}).get("rows"),
            digest=sent.get(entry.pk, {}).get("sha256"),
        )
        for entry in made
    ]
