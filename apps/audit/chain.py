"""The hash chain over the audit: sealing entries in commit order, and checking that nothing was changed."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection, transaction

from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry, AuditSeal, ChainPlace
from apps.audit.services import record
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
            place = {"epoch": entry.epoch, "xid": entry.xid, "entry_id": entry.pk}
            seals.append(AuditSeal(seq=seq, **place, previous_hash=previous, hash=digest))
            previous = digest
        AuditSeal.objects.bulk_create(seals, batch_size=1000)
    return len(seals)


def _find_unsealed(last: AuditSeal | None, limit: int) -> list[AuditEntry]:
    entries = AuditEntry.objects.settled().in_commit_order()
    return list((entries.behind(_place_of(last)) if last else entries)[:limit])


def _place_of(seal: AuditSeal) -> ChainPlace:
    return ChainPlace(seal.epoch, seal.xid, seal.entry_id)


def hash_entry(previous: str, entry: AuditEntry) -> str:
    """SHA-256 in hex over the previous hash and the entry's canonical JSON."""
    return hashlib.sha256(previous.encode() + canonical_json(entry_content(entry))).hexdigest()


def entry_content(entry: AuditEntry) -> dict[str, Any]:
    """Everything an entry says, in JSON's terms: what is hashed, so that it never changes."""
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


def verify_chain(*, first: int = 1, last: int | None = None) -> ChainReport:
    """Recompute every hash in order, and see that every entry has a place; or of the places `first` to `last` alone.

    Finds edited, deleted, inserted and swapped entries. A cut tail or a chain rewritten whole shows only against a head
    kept elsewhere: compare `head` with an exported one. A part says nothing of entries without a place.
    """
    before = AuditSeal.objects.filter(seq=first - 1).values_list("hash", flat=True).first()
    report, end = _recompute(_pairs(first - 1, last), first, before or GENESIS)
    if (first, last) != (1, None):
        return report
    hidden = _count_hidden(end) if end is not None else 0
    if hidden:
        report.faults.append(f"{hidden} entries stand before the chain's end and have no place in it")
    return replace(report, unsealed=max(AuditEntry.objects.count() - report.sealed, 0))


def _recompute(
    places: Iterable[tuple[AuditSeal, AuditEntry | None]], first: int, previous: str
) -> tuple[ChainReport, AuditSeal | None]:
    """What of the places from `first` on does not hold, and the last of them; `previous` is the hash before them."""
    faults: list[str] = []
    expected_seq, sealed, end = first, 0, None
    for seal, entry in places:
        if seal.seq != expected_seq:
            faults.append(f"place {expected_seq} is missing: the next one is {seal.seq}")
        if entry is None:
            faults.append(f"entry {seal.entry_id} at place {seal.seq} was deleted")
        elif seal.previous_hash != previous or seal.hash != hash_entry(seal.previous_hash, entry):
            faults.append(f"entry {seal.entry_id} at place {seal.seq} was changed")
        previous, expected_seq, sealed, end = seal.hash, seal.seq + 1, sealed + 1, seal
    return ChainReport(sealed=sealed, unsealed=0, faults=faults[:100], head=previous), end


NEWEST = 200


class NewestPlaces(NamedTuple):
    """The last sealed entry, how many newer ones wait for a place, and what a look at the newest places found."""

    entry_id: int
    at: datetime | None
    waiting: int
    report: ChainReport


def check_newest() -> NewestPlaces | None:
    """Recompute the newest places, in four queries; None while nothing is sealed."""
    seals = list(AuditSeal.objects.order_by("-seq")[:NEWEST])
    if not seals:
        return None
    entries = AuditEntry.objects.in_bulk([seal.entry_id for seal in seals])
    oldest, newest = seals[-1], seals[0]
    pairs = [(seal, entries.get(seal.entry_id)) for seal in reversed(seals)]
    report, _ = _recompute(pairs, oldest.seq, oldest.previous_hash)
    last = entries.get(newest.entry_id)
    waiting = AuditEntry.objects.filter(pk__gt=newest.entry_id)[:NEWEST].count()
    return NewestPlaces(newest.entry_id, last.at if last else None, waiting, report)


def verify_next(*, by: str, limit: int | None = None) -> ChainReport | None:
    """Verify on from where the last verification ended clean, at most `limit` places, and put the result on record.

    None where nothing new has a place in the chain.
    """
    status = find_chain_status()
    first = status.verified_to + 1
    end = AuditSeal.objects.filter(seq__gte=first)
    if limit is not None:
        end = end.filter(seq__lt=first + limit)
    seal = end.order_by("-seq").first()
    if seal is None:
        return None
    report = verify_chain(first=first, last=seal.seq)
    payload = {"first": first, "last": seal.seq, "faults": report.faults[:10], "head": report.head}
    record(Kind.CHAIN_VERIFIED, subject=seal, by=by, payload=payload)
    return report


@dataclass(frozen=True)
class ChainStatus:
    """How far the chain reaches and how far it was verified.

    Attributes:
        sealed_to: the last place; verified_to: up to which every place was found as it was made, from the first on.
        faults: what the last verification found; [] when it was clean or there was none.
        verified_at, verified_by: of the last one.
        head: hash at `sealed_to`; "" for an empty chain.
    """

    sealed_to: int
    verified_to: int
    faults: list[str]
    verified_at: datetime | None
    verified_by: str
    head: str


def find_chain_status() -> ChainStatus:
    """Three short reads, however long the chain."""
    end = AuditSeal.objects.order_by("-seq").first()
    done = AuditEntry.objects.filter(subject_type="auditseal", kind=Kind.CHAIN_VERIFIED)
    last = done.order_by("-subject_id", "-id").first()
    clean = last if last is None or not last.payload["faults"] else None
    return ChainStatus(
        sealed_to=end.seq if end else 0,
        verified_to=clean.payload["last"] if clean else last.payload["first"] - 1 if last else 0,
        faults=list(last.payload["faults"]) if last else [],
        verified_at=last.at if last else None,
        verified_by=last.actor if last else "",
        head=end.hash if end else "",
    )


def _pairs(after: int, last: int | None, size: int = 2000) -> Iterator[tuple[AuditSeal, AuditEntry | None]]:
    places = AuditSeal.objects.all() if last is None else AuditSeal.objects.filter(seq__lte=last)
    while seals := list(places.filter(seq__gt=after).order_by("seq")[:size]):
        entries = AuditEntry.objects.in_bulk([seal.entry_id for seal in seals])
        for seal in seals:
            yield seal, entries.get(seal.entry_id)
        after = seals[-1].seq


def _count_hidden(last: AuditSeal) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM audit_auditentry e WHERE (e.epoch, e.xid, e.id) <= (%s, %s, %s) "
            "AND NOT EXISTS (SELECT FROM audit_auditseal s WHERE s.entry_id = e.id)",
            _place_of(last),
        )
        return int(cursor.fetchone()[0])
