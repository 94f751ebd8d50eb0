"""Starting segments, claiming their links, ending or failing those. Every time is the database's."""

import json
import logging
import random
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import DurationField, ExpressionWrapper, F
from django.db.models.functions import Coalesce, Now

from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import ConflictError
from apps.base.texts import make_storable
from apps.outbox.crash import CrashPoint, pass_crash_point
from apps.outbox.errors import LostClaimError
from apps.outbox.kinds import FATES, KINDS, NO_ROW_WAITS, OUTBOX, SLOW_QUEUES, queue_of
from apps.outbox.models import Segment
from tentalis.core.backoff import grow_wait

logger = logging.getLogger(__name__)

CHANNEL = "tentalis_outbox"
# both run at every link; the ORM takes several times as long to write them as Postgres to run them. Rows are locked in
# the order of their ids, as `lock_segments` does
_CLAIM = """
UPDATE outbox_segment AS segment
SET fence = %s, lease_until = statement_timestamp() + %s * interval '1 second', lease_owner = %s,
    attempts = segment.attempts + 1
FROM (
    SELECT id FROM outbox_segment
    WHERE id = ANY(%s) AND position = %s AND state = 'open' AND run_after <= statement_timestamp()
          AND (fence IS NULL OR lease_until < statement_timestamp())
    ORDER BY id FOR NO KEY UPDATE
) AS due
WHERE segment.id = due.id
RETURNING segment.id, kind, subject_id, project_id, links
"""
_END = """
UPDATE outbox_segment AS segment
SET position = position + 1, away_since = NULL, queue = coalesce(%(queue)s, queue), state = %(state)s,
    fence = %(next_fence)s,
    attempts = CASE WHEN %(next_fence)s::uuid IS NULL THEN 0 ELSE 1 END,
    lease_until = CASE WHEN %(next_fence)s::uuid IS NULL THEN NULL
                       ELSE statement_timestamp() + %(lease_s)s * interval '1 second' END,
    published_at = CASE WHEN %(is_last)s THEN published_at ELSE statement_timestamp() END,
    finished_at = CASE WHEN %(is_last)s THEN statement_timestamp() END
FROM (
    SELECT id FROM outbox_segment WHERE id = ANY(%(ids)s) AND fence = %(fence)s AND state = 'open'
    ORDER BY id FOR NO KEY UPDATE
) AS held
WHERE segment.id = held.id
RETURNING segment.id, subject_id
"""
_HELD = """
SELECT subject_id FROM outbox_segment WHERE id = ANY(%s) AND fence = %s AND state = 'open' ORDER BY id FOR SHARE
"""
_RENEW = """
UPDATE outbox_segment SET lease_until = statement_timestamp() + %s * interval '1 second'
WHERE id IN (
    SELECT id FROM outbox_segment WHERE id = ANY(%s) AND fence = ANY(%s) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
)
"""
_KEPT = "SELECT fence FROM outbox_segment WHERE id = ANY(%s) AND fence = ANY(%s)"
KEPT_ERRORS = 20
WAITED_FOR = timedelta(days=1)
"""From its start on, a segment waits for a server that is left alone; then each time counts as a try."""
MAX_BACKOFF_S = 300.0
AWAY_WAITS = 10
"""First waits until somebody who was away is asked again; later a tenth of the time it has been."""
LONGEST_AWAY_WAIT_S = 120.0


@dataclass(frozen=True)
class Claim:
    """A link this process holds, of a set of segments of one kind and project.

    Attributes:
        subjects: segment id -> subject id.
        next_fence: where this process goes on with the next link itself, the fence by which it will hold that.
    """

    subjects: Mapping[int, int]
    kind: str
    project_id: int | None
    links: Sequence[str]
    position: int
    fence: uuid.UUID
    next_fence: uuid.UUID | None = None

    @property
    def next_queue(self) -> str | None:
        return None if self.is_last else queue_of(self.links[self.position + 1])

    def going_on(self, served: Collection[str]) -> "Claim":
        """The claim of a process that serves these queues."""
        return replace(self, next_fence=uuid.uuid4() if self.next_queue in served else None)

    @property
    def link(self) -> str:
        return self.links[self.position]

    @property
    def is_last(self) -> bool:
        return self.position + 1 >= len(self.links)

    def __str__(self) -> str:
        return f"{self.link} of {self.kind} {', '.join(map(str, self.subjects.values()))}"


@dataclass
class Hold:
    """A claim at work.

    Attributes:
        ended: segment id -> subject id of those whose link has ended; empty until the last write.
        noted: what floors above remember of it while it is at work, by their own names.
    """

    claim: Claim
    ended: Mapping[int, int] = field(default_factory=dict)
    noted: dict[str, Any] = field(default_factory=dict)


_held: ContextVar[Hold | None] = ContextVar("held_claim", default=None)


def start(kind: str, *, subject_id: int, project_id: int | None, run_after: datetime | None = None) -> None:
    """Write a segment to the outbox in the running transaction. Where one is open already, that one stays.

    Args:
        run_after: its first link is not taken up before; None: at once.
    """
    start_many(kind, [(subject_id, project_id)], run_after=run_after)


def start_many(kind: str, subjects: Iterable[tuple[int, int | None]], *, run_after: datetime | None = None) -> None:
    """As `start`, of many subjects: (subject id, project id)."""
    if not (subjects := list(subjects)):
        return
    links = KINDS[kind].names
    due: dict[str, Any] = {} if run_after is None else {"run_after": run_after}
    Segment.objects.bulk_create(
        [
            Segment(kind=kind, subject_id=subject, project_id=project, links=links, queue=queue_of(links[0]), **due)
            for subject, project in subjects
        ],
        ignore_conflicts=True,
    )
    nudge_relay()


def nudge_relay() -> None:
    """Wake the relay when the running transaction commits."""
    with connection.cursor() as cursor:
        cursor.execute(f"NOTIFY {CHANNEL}")


def claim_links(segment_ids: Sequence[int], position: int, *, owner: str, served: Collection[str] = ()) -> Claim | None:
    """Take a link of these segments for this process, in one statement, or learn that there is nothing to do.

    What is done, not due, or somebody else's is left out.

    Args:
        served: queues of which this process does the links: it keeps what goes on there.
    """
    fence = uuid.uuid4()
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, [fence, settings.TENTALIS["LEASE_SECONDS"], owner, list(segment_ids), position])
        rows = cursor.fetchall()
    if not rows:
        return None
    _, kind, _, project_id, links = rows[0]
    pass_crash_point(CrashPoint.AFTER_CLAIM)
    subjects = {pk: subject for pk, _, subject, *_ in sorted(rows)}
    return Claim(subjects, kind, project_id, json.loads(links), position, fence).going_on(served)


def find_next(held: Hold, *, served: Collection[str]) -> Claim | None:
    """The claim of the next link, of what ended, where this process holds that already."""
    claim = held.claim
    if claim.next_fence is None or not held.ended:
        return None
    following = replace(claim, subjects=held.ended, position=claim.position + 1, fence=claim.next_fence)
    return following.going_on(served)


def renew_leases(claims: Sequence[Claim]) -> None:
    """Say that the holders are alive. A row that is locked is passed over: whoever ends a link holds on to it anyway,
    and frees no lease that is not locked, however long that takes.
    """
    with connection.cursor() as cursor:
        cursor.execute(_RENEW, [settings.TENTALIS["LEASE_SECONDS"], *_ids_and_fences(claims)])


def find_lost(claims: Sequence[Claim]) -> list[Claim]:
    """Those of the claims of which nothing is theirs any more: cancelled, or taken over when their lease was over."""
    with connection.cursor() as cursor:
        cursor.execute(_KEPT, _ids_and_fences(claims))
        kept = {fence for (fence,) in cursor.fetchall()}
    return [claim for claim in claims if claim.fence not in kept]


def _ids_and_fences(claims: Sequence[Claim]) -> list[Any]:
    return [[pk for claim in claims for pk in claim.subjects], [claim.fence for claim in claims]]


def find_held() -> Hold | None:
    """The link that this thread is at; None outside any, and behind its last write."""
    return _held.get()


def find_held_project() -> int | None:
    """The project whose link this thread is at; None outside any."""
    held = _held.get()
    return None if held is None else held.claim.project_id


@contextmanager
def hold(held: Hold) -> Iterator[None]:
    """Make the claim the one that `final_write` ends."""
    token = _held.set(held)
    try:
        yield
    finally:
        _held.reset(token)


@contextmanager
def final_write(subject_ids: Collection[int] = ()) -> Iterator[Collection[int]]:
    """The transaction in which a link's effects commit together with its end.

    Outside a link (a test, a command) it is a plain transaction, of `subject_ids`.

    Yields:
        Ids of the subjects that are this process's still; of the others a link of a set writes nothing.
    Raises:
        LostClaimError: the fence is no longer this process's; nothing is written.
    """
    held = _held.get()
    if held is None:
        with transaction.atomic():
            yield subject_ids
            pass_crash_point(CrashPoint.IN_FINAL_WRITE)
        return
    with transaction.atomic():
        ended = end_links(held.claim)
        yield ended.values()
        pass_crash_point(CrashPoint.IN_FINAL_WRITE)
        if held.claim.is_last and (then := KINDS[held.claim.kind].then) is not None:
            then(list(ended.values()))
    held.ended = ended
    _held.set(None)
    pass_crash_point(CrashPoint.AFTER_FINAL_WRITE)


@contextmanager
def held_write(subject_ids: Collection[int] = ()) -> Iterator[Collection[int]]:
    """A transaction in which a part of a link's effects commits, while it goes on: until then nobody takes its claim.

    Outside a link it is a plain transaction, of `subject_ids`.

    Yields:
        As `final_write`.
    Raises:
        LostClaimError: as `final_write`.
    """
    held = _held.get()
    with transaction.atomic():
        if held is None:
            yield subject_ids
            return
        with connection.cursor() as cursor:
            cursor.execute(_HELD, [list(held.claim.subjects), held.claim.fence])
            kept = [subject for (subject,) in cursor.fetchall()]
        if not kept:
            raise LostClaimError(f"{held.claim}: the claim is another process's by now")
        yield kept


def execute_held(statement: str, values: Sequence[Any]) -> None:
    """As `held_write`, of one statement, which commits by itself: what it asks Postgres once, a transaction asks four
    times.

    Args:
        statement: common table expressions and what changes rows, each `WHERE … AND EXISTS (SELECT FROM held)`.
    Raises:
        LostClaimError: as `final_write`.
    """
    held = _held.get()
    fence: list[Any] = [] if held is None else [list(held.claim.subjects), held.claim.fence]
    with connection.cursor() as cursor:
        cursor.execute(f"WITH held AS ({'SELECT' if held is None else _HELD}), {statement}", [*fence, *values])
        if held is not None and not cursor.rowcount:
            raise LostClaimError(f"{held.claim}: the claim is another process's by now")


def put_off(until: datetime) -> None:
    """Give the link that this process is at back until then, in the running transaction: it waits, and failed nothing.
    `wake` ends the wait. Outside a link it is nothing.

    Raises:
        LostClaimError: as `final_write`.
    """
    if (held := _held.get()) is None:
        return
    rows = Segment.objects.filter(pk__in=list(held.claim.subjects), fence=held.claim.fence)
    released = {"fence": None, "lease_until": None, "published_at": None}
    if not rows.update(**released, run_after=until, attempts=F("attempts") - 1):
        raise LostClaimError(f"{held.claim}: the claim is another process's by now")
    _held.set(None)
    nudge_relay()


def wake(*, kind: str, subject_id: int) -> None:
    """Let a link that was put off go on now. Its segment is locked by the caller (`lock_segments`)."""
    waiting = Segment.objects.filter(kind=kind, subject_id=subject_id, state=Segment.State.OPEN, fence__isnull=True)
    waiting.update(run_after=Now(), published_at=None)
    nudge_relay()


def end_unwritten(held: Hold) -> None:
    """End a link that had nothing to write (its row was past it)."""
    if _held.get() is held:
        with final_write():
            pass


def end_links(claim: Claim) -> dict[int, int]:
    """Move the segments to their next link, or end them, in the running transaction.

    Returns:
        Segment id -> subject id of those whose fence is this process's still.
    """
    values = {
        "queue": claim.next_queue,
        "state": (Segment.State.DONE if claim.is_last else Segment.State.OPEN).value,
        "is_last": claim.is_last,
        "next_fence": claim.next_fence,
        "lease_s": settings.TENTALIS["LEASE_SECONDS"],
        "ids": list(claim.subjects),
        "fence": claim.fence,
    }
    with connection.cursor() as cursor:
        cursor.execute(_END, values)
        ended: dict[int, int] = dict(sorted(cursor.fetchall()))
    if not ended:
        raise LostClaimError(f"{claim}: the claim is another process's by now")
    if queue_of(claim.link) in SLOW_QUEUES and (claim.is_last or claim.next_queue not in SLOW_QUEUES):
        nudge_relay()  # a place is free
    return ended


def give_back(claim: Claim) -> None:
    """Let each segment of a set be tried alone, at once: together they failed."""
    rows = Segment.objects.filter(pk__in=list(claim.subjects), fence=claim.fence)
    rows.update(fence=None, lease_until=None, published_at=None)
    nudge_relay()


def fail_link(
    claim: Claim,
    *,
    error_type: str,
    message: str,
    is_final: bool,
    is_away: bool = False,
    wait_s: float | None = None,
    has_a_turn: bool = False,
    retry_after_s: float | None = None,
) -> None:
    """Keep the error of one segment's link; try again after a wait, or bury the segment when trying again cannot help
    or was tried enough.

    Args:
        is_away: it did not fail, but whom it needs is away: that is waited for, as long as `SERVER_PATIENCE_SECONDS`
            says, and no such try counts.
        wait_s: nothing was tried, and nothing can be for so long: that is waited for, as long as `WAITED_FOR` says.
        has_a_turn: that is waited for however long it takes.
        retry_after_s: it is not tried before, whatever else says when.
    """
    message = make_storable(message)  # whoever raised it may have quoted anything
    with transaction.atomic():
        held = Segment.objects.filter(pk__in=list(claim.subjects), fence=claim.fence)
        held.update(away_since=Coalesce("away_since", Now()) if is_away else None)
        age, away = (ExpressionWrapper(Now() - F(since), DurationField()) for since in ("created_at", "away_since"))
        segment = held.annotate(age=age, away=away).first()
        if segment is None:
            return
        next_try_s, least_s = None, (retry_after_s or 0.0) * random.uniform(1.0, 1.5)
        if wait_s is not None and (has_a_turn or segment.age < WAITED_FOR):
            next_try_s = wait_s * random.uniform(1.0, 1.5)
        elif is_away:
            next_try_s = _wait_for_away(segment.away.total_seconds(), least_s=least_s)
        add_error(segment, error_type=error_type, message=message, is_wait=next_try_s is not None)
        if next_try_s is not None:
            Segment.objects.filter(pk=segment.pk).update(attempts=segment.attempts - 1)
            release(segment, wait_s=next_try_s)
        elif is_final or segment.attempts >= settings.TENTALIS["MAX_ATTEMPTS"]:
            bury(segment, reason=f"{error_type}: {message}")
        else:
            release(segment, wait_s=max(backoff_s(segment.attempts), least_s))


def _wait_for_away(away_s: float, *, least_s: float) -> float | None:
    """Seconds until whom the link needs is asked again; None where it was waited for as long as the settings say."""
    if away_s >= settings.TENTALIS["SERVER_PATIENCE_SECONDS"]:
        return None
    usual_s = min(away_s / 10, LONGEST_AWAY_WAIT_S) * random.uniform(0.5, 1.5)
    return float(max(AWAY_WAITS * backoff_s(1), usual_s, least_s))


def add_error(segment: Segment, *, error_type: str, message: str, is_wait: bool = False) -> None:
    """Keep a reason. A wait that begins again takes the place of the one before it."""
    entry = {"link": segment.link, "attempt": segment.attempts, "type": error_type, "message": message[:2000]}
    last = segment.errors[-1] if segment.errors else {}
    is_again = is_wait and all(last.get(name) == entry[name] for name in ("link", "type"))
    segment.errors = [*(segment.errors[:-1] if is_again else segment.errors), entry][-KEPT_ERRORS:]


def release(segment: Segment, *, wait_s: float) -> None:
    """Give the link back to the outbox, due after `wait_s` seconds."""
    Segment.objects.filter(pk=segment.pk).update(
        fence=None,
        lease_until=None,
        published_at=None,
        run_after=Now() + timedelta(seconds=wait_s),
        errors=segment.errors,
    )
    nudge_relay()


def bury(segment: Segment, *, reason: str) -> None:
    """Make the segment a dead letter and let its kind say what that means for the subject."""
    link = segment.link or ""
    Segment.objects.filter(pk=segment.pk).update(
        state=Segment.State.DEAD, fence=None, lease_until=None, finished_at=Now(), errors=segment.errors
    )
    record(
        Kind.SEGMENT_DIED,
        subject=segment,
        by=OUTBOX,
        payload={"kind": segment.kind, "subject": segment.subject_id, "link": link, "reason": reason[:500]},
    )
    logger.warning("%s of %s %s failed after its last try: %s", link, segment.kind, segment.subject_id, reason)
    if (on_dead := FATES.get(segment.kind, NO_ROW_WAITS).on_dead) is not None:
        on_dead(segment.subject_id, link=link, reason=reason, by=OUTBOX)


def replay(segment: Segment, *, by: str) -> Segment:
    """Take up a dead letter at the link it died at.

    Raises:
        ConflictError: it is not a dead letter, or its subject has an open segment of that kind.
    """
    with transaction.atomic():
        taken = Segment.objects.filter(kind=segment.kind, subject_id=segment.subject_id, state=Segment.State.OPEN)
        if taken.exists():
            raise ConflictError(f"{segment.kind} of {segment.subject_id} is at work already")
        changed = Segment.objects.filter(pk=segment.pk, state=Segment.State.DEAD).update(
            state=Segment.State.OPEN,
            attempts=0,
            away_since=None,
            published_at=None,
            run_after=Now(),
            finished_at=None,
        )
        if not changed:
            raise ConflictError(f"segment {segment.pk} is no failed work")
        segment.refresh_from_db()
        record(
            Kind.SEGMENT_REPLAYED,
            subject=segment,
            by=by,
            payload={"kind": segment.kind, "subject": segment.subject_id, "link": segment.link},
        )
        if (on_replay := FATES.get(segment.kind, NO_ROW_WAITS).on_replay) is not None:
            on_replay(segment.subject_id, link=segment.link or "", by=OUTBOX)
        nudge_relay()
    return segment


def put_away(segment: Segment, *, by: str) -> Segment:
    """Let a dead letter be one no longer, without another try; what it worked on stays failed.

    Raises:
        ConflictError: it is no dead letter.
    """
    with transaction.atomic():
        dead = Segment.objects.filter(pk=segment.pk, state=Segment.State.DEAD)
        if not dead.update(state=Segment.State.CANCELLED, finished_at=Now()):
            raise ConflictError(f"segment {segment.pk} did not fail for good")
        segment.refresh_from_db()
        payload = {"kind": segment.kind, "subject": segment.subject_id, "link": segment.link}
        record(Kind.SEGMENT_PUT_AWAY, subject=segment, by=by, payload=payload)
    return segment


def cancel_segments(*kinds: str, subject_ids: Iterable[int]) -> int:
    """Stop the open segments of subjects, of any of the kinds; a process at work on one loses its claim and hangs up on
    whom it asked. A last write that is under way is waited for, and stands. Returns how many were stopped.
    """
    subject_ids = list(subject_ids)
    lock_segments(*kinds, subject_ids=subject_ids)
    count = Segment.objects.filter(kind__in=kinds, subject_id__in=subject_ids, state=Segment.State.OPEN).update(
        state=Segment.State.CANCELLED, fence=None, lease_until=None, finished_at=Now()
    )
    if count:
        nudge_relay()
    return count


def cancel_unclaimed(*, kind: str, subject_ids: Iterable[int]) -> set[int]:
    """Stop open segments whose first link nobody has taken up, in the running transaction; the subjects of those."""
    unclaimed = Segment.objects.filter(
        kind=kind, subject_id__in=list(subject_ids), state=Segment.State.OPEN, position=0, fence__isnull=True
    )
    found = dict(unclaimed.order_by("pk").select_for_update().values_list("pk", "subject_id"))
    Segment.objects.filter(pk__in=list(found)).update(state=Segment.State.CANCELLED, finished_at=Now())
    return set(found.values())


def backoff_s(attempt: int) -> float:
    """Seconds before try `attempt + 1`: doubling, with jitter, capped."""
    wait_s = grow_wait(max(attempt - 1, 0), first_s=settings.TENTALIS["RETRY_BASE_SECONDS"], cap_s=MAX_BACKOFF_S)
    return wait_s * random.uniform(0.5, 1.5)


def lock_segments(*kinds: str, subject_ids: Iterable[int]) -> None:
    """Lock the open segments of subjects, in the running transaction: their links cannot end meanwhile.

    A link's last write has its segment's lock before that of any other row, so that who locks those too does the same.
    """
    open_ones = Segment.objects.filter(kind__in=kinds, subject_id__in=list(subject_ids), state=Segment.State.OPEN)
    list(open_ones.order_by("pk").select_for_update().values_list("pk"))
