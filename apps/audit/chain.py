"""The hash chain over the audit: sealing entries in commit order, and checking that nothing was changed."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

from apps.audit.models import AuditEntry, AuditSeal
from tentalis.core.canon import canonical_json

GENESIS = "0" * 64
LOCK = 7_466_853_002
SEAL_LIMIT = 5_000


@dataclass(frozen=True)
class ChainReport:
    """What a check found.

    Args:
        sealed: entries in the chain; unsealed: newer entries that wait for their place.
        faults: one sentence each; [] for an untouched chain.
        head: the last hash.
    """

    sealed: int
    unsealed: int
    faults: list[str]
    head: str

    @property
    def is_clean(self) -> bool:
        return not self.faults


def seal_entries(limit: int = SEAL_LIMIT) -> int:
    """Give committed entries their place in the chain, oldest transaction first. Returns how many.

    Only entries of transactions older than every running one are taken: none can commit before them any more, so the
    order is the order of commit and has no gaps. One process at a time does it.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [LOCK])
            if not cursor.fetchone()[0]:
                return 0
        last = AuditSeal.objects.order_by("-seq").first()
        seq, previous = (last.seq, last.hash) if last else (0, GENESIS)
        seals = []
        for entry in _find_unsealed(last, limit):
            seq += 1
            digest = hash_entry(previous, entry)
            seals.append(AuditSeal(seq=seq, entry_id=entry.pk, xid=entry.xid, previous_hash=previous, hash=digest))
            previous = digest
        AuditSeal.objects.bulk_create(seals, batch_size=1000)
    return len(seals)


def _find_unsealed(last: AuditSeal | None, limit: int) -> list[AuditEntry]:
    after_xid, after_id = (last.xid, last.entry_id) if last else (0, 0)
    return list(
        AuditEntry.objects.raw(
            "SELECT * FROM audit_auditentry WHERE (xid, id) > (%s, %s) "
            "AND xid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint ORDER BY xid, id LIMIT %s",
            [after_xid, after_id, limit],
        )
    )


def hash_entry(previous: str, entry: AuditEntry) -> str:
    """SHA-256 in hex over the previous hash and the entry's canonical JSON."""
    return hashlib.sha256(previous.encode() + canonical_json(entry_content(entry))).hexdigest()


def entry_content(entry: AuditEntry) -> dict[str, Any]:
    """Everything an entry says, in JSON's terms."""
    return {
        "id": entry.pk,
        "kind": entry.kind,
        "subject_type": entry.subject_type,
        "subject_id": entry.subject_id,
        "project_id": entry.project_id,
        "actor": entry.actor,
        "payload": entry.payload,
        "at": entry.at.isoformat(),
        "xid": entry.xid,
    }


def verify_chain() -> ChainReport:
    """Recompute every hash in order, and see that every entry has a place.

    Finds edited, deleted, inserted and swapped entries. A cut tail or a chain rewritten whole shows only against a head
    kept elsewhere: compare `head` with an exported one.
    """
    faults: list[str] = []
    previous, expected_seq, sealed, last = GENESIS, 1, 0, None
    for seal, entry in _pairs():
        if seal.seq != expected_seq:
            faults.append(f"place {expected_seq} is missing: the next one is {seal.seq}")
        if entry is None:
            faults.append(f"entry {seal.entry_id} at place {seal.seq} was deleted")
        elif seal.previous_hash != previous or seal.hash != hash_entry(seal.previous_hash, entry):
            faults.append(f"entry {seal.entry_id} at place {seal.seq} was changed")
        previous, expected_seq, sealed, last = seal.hash, seal.seq + 1, sealed + 1, seal
    unsealed = AuditEntry.objects.count() - sealed
    if last is not None:
        hidden = _count_hidden(last)
        if hidden:
            faults.append(f"{hidden} entries stand before the chain's end and have no place in it")
    return ChainReport(sealed=sealed, unsealed=max(unsealed, 0), faults=faults[:100], head=previous)


def _pairs(size: int = 2000) -> Iterator[tuple[AuditSeal, AuditEntry | None]]:
    after = 0
    while seals := list(AuditSeal.objects.filter(seq__gt=after).order_by("seq")[:size]):
        entries = AuditEntry.objects.in_bulk([seal.entry_id for seal in seals])
        for seal in seals:
            yield seal, entries.get(seal.entry_id)
        after = seals[-1].seq


def _count_hidden(last: AuditSeal) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM audit_auditentry e WHERE (e.xid, e.id) <= (%s, %s) "
            "AND NOT EXISTS (SELECT FROM audit_auditseal s WHERE s.entry_id = e.id)",
            [last.xid, last.entry_id],
        )
        return int(cursor.fetchone()[0])
