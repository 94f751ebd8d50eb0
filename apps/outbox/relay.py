"""Publishing what is due, and finding what was lost on the way."""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import islice
from typing import Any, NamedTuple

import redis
from celery import Celery
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from kombu.exceptions import OperationalError as BrokerError

from apps.outbox.crash import CrashPoint, pass_crash_point
from apps.outbox.errors import BrokerAwayError
from apps.outbox.kinds import KINDS, queue_of
from apps.outbox.models import Segment
from apps.outbox.places import Kept, Places, find_pools
from apps.outbox.services import add_error, bury, release
from tentalis.celery import app
from tentalis.platform.processes import is_same_process

logger = logging.getLogger(__name__)

PUBLISH_LIMIT = 256
_TURNS: dict[int | None, int] = {}
"""Of projects at places, of this process's life: who is forgotten comes first."""
MAX_SET = 64
# each runs at every look; the ORM takes several times as long to write them as Postgres to run them
_COUNT = """
SELECT kind, position, project_id, coalesce(nullif(count(DISTINCT published_at), 0), count(*)), published_at IS NULL
FROM outbox_segment
WHERE state = 'open' AND (published_at IS NOT NULL OR run_after <= statement_timestamp())
GROUP BY kind, position, project_id, published_at IS NULL
ORDER BY kind, position, project_id
"""
"""What was sent as one message has one `published_at`, and no other has it."""
_MARK_SENT = """
UPDATE outbox_segment SET published_at = statement_timestamp() + sent.place * interval '1 microsecond'
FROM unnest(%s::bigint[], %s::int[]) AS sent (id, place) WHERE outbox_segment.id = sent.id
"""


def publish_due(through: Celery = app) -> int:
    """Send the messages of due segments, as many as there is room for. Returns how many segments were sent.

    There is room for `IN_FLIGHT_CAP` messages of one kind, at whatever link they are: counted by queue, a fast first
    link would flood the queues of the later ones, and starve the other kinds that share those. Of what asks servers
    outside there is room as `apps.outbox.places` says. A set is one message, and holds one place.

    Raises:
        BrokerAwayError: the broker cannot be reached; the segments stay due.
    """
    with connection.cursor() as cursor:
        cursor.execute(_COUNT)
        counted = [(Kept(*row), is_due) for *row, is_due in cursor.fetchall()]
    waiting = [kept for kept, is_due in counted if is_due]
    if not waiting:
        return 0
    places = Places(find_pools(), turns=_TURNS)
    out: Counter[str] = Counter()
    for kept, is_due in counted:
        if not is_due:
            places.take(kept)
            out[kept.kind] += kept.count
    cap = settings.TENTALIS["IN_FLIGHT_CAP"]
    room = {kind: min(cap - out[kind], PUBLISH_LIMIT) for kind in {kept.kind for kept in waiting}}
    granted = places.share_out(waiting, room=room)
    return sum(_publish_some(kept, count, places, through) for kept, count in granted.items())


def _publish_some(kept: Kept, count: int, places: Places, through: Celery) -> int:
    """Send at most `count` messages."""
    with transaction.atomic():
        segments = list(
            Segment.objects.select_for_update(skip_locked=True)
            .filter(
                state=Segment.State.OPEN,
                published_at__isnull=True,
                run_after__lte=Now(),
                kind=kept.kind,
                position=kept.position,
                project_id=kept.project_id,
            )
            .only("subject_id", "links", "attempts", "away_since")
            .order_by("id")[: max(count, MAX_SET)]
        )
        if not segments or _is_to_grow(kept, segments, places):
            return 0
        messages = list(islice(bundle(kept, segments), count))
        sent = [(pk, place) for place, message in enumerate(messages) for pk in message.segment_ids]
        with connection.cursor() as cursor:
            cursor.execute(_MARK_SENT, [[pk for pk, _ in sent], [place for _, place in sent]])
        pass_crash_point(CrashPoint.BEFORE_PUBLISH)
        send(messages, through)
        pass_crash_point(CrashPoint.AFTER_PUBLISH)
    return len(sent)


def _is_to_grow(kept: Kept, segments: Sequence[Segment], places: Places) -> bool:
    """Whether these wait until they are as many as hold places now, where all of them could go as one set.

    So sets grow while there is much to do, half of the places work on while the others are filled, and what comes
    alone waits for nothing. Whoever frees a place nudges the relay.
    """
    together = KINDS[kept.kind].together if kept.kind in KINDS else None
    if together is None or any(segment.attempts or segment.away_since for segment in segments):
        return False
    sent = Segment.objects.filter(state=Segment.State.OPEN, published_at__isnull=False)
    of_project = sent.filter(kind=kept.kind, project_id=kept.project_id).values_list("subject_id", "position")
    held = [subject for subject, position in of_project if places.find_ahead(kept.kind, position)]
    if len(segments) >= len(held):
        return False
    return len(list(together([*held, *(segment.subject_id for segment in segments)]))) == 1


class Message(NamedTuple):
    """A nudge to do a link of some segments; ids only."""

    link: str
    segment_ids: Sequence[int]
    position: int


def bundle(kept: Kept, segments: Sequence[Segment]) -> Iterator[Message]:
    """What is sent of these: those whose kind says that they go together in sets; what failed before goes alone."""
    by_links: dict[tuple[str, ...], dict[int, int]] = {}
    for segment in segments:
        if segment.attempts or segment.away_since:
            yield Message(segment.links[kept.position], [segment.pk], kept.position)
        else:
            by_links.setdefault(tuple(segment.links), {})[segment.subject_id] = segment.pk
    together = KINDS[kept.kind].together if kept.kind in KINDS else None
    for links, pks in by_links.items():
        subjects = list(pks)
        sets = [[one] for one in subjects] if together is None or len(subjects) < 2 else together(subjects)
        for found in sets:
            for first in range(0, len(found), MAX_SET):
                some = [pks[subject] for subject in found[first : first + MAX_SET]]
                yield Message(links[kept.position], some, kept.position)


def send(messages: Iterable[Message], through: Celery = app) -> None:
    """Send messages to the queues of their links.

    Raises:
        BrokerAwayError: the broker cannot be reached.
    """
    try:
        with through.producer_or_acquire() as producer:
            for link, segment_ids, position in messages:
                job = through.signature(link, args=[list(segment_ids), position], immutable=True, queue=queue_of(link))
                job.apply_async(producer=producer, retry=False)
    except (BrokerError, redis.RedisError, OSError) as error:
        raise BrokerAwayError(f"the broker cannot be reached: {error}") from error


def free_expired_leases(limit: int = 500) -> int:
    """Give back links whose holder died, froze or hangs; bury those that took too many holders with them."""
    with transaction.atomic():
        expired = Segment.objects.filter(state=Segment.State.OPEN, lease_until__lt=Now()).order_by("id")[:limit]
        return _take_back(expired, error_type="LeaseExpired", why="died, froze or overran the time")


def free_leases_of_dead(host: str) -> int:
    """Give back what processes of this host held that run no longer, as `free_expired_leases`, before their leases are
    over. Whether another host's processes run, nobody here can tell.

    Args:
        host: before the colon of `lease_owner`, behind which the process's identity stands.
    """
    held = Segment.objects.filter(state=Segment.State.OPEN, fence__isnull=False, lease_owner__startswith=f"{host}:")
    owners = held.values_list("lease_owner", flat=True).distinct()
    dead = [owner for owner in owners if not is_same_process(owner.removeprefix(f"{host}:"))]
    with transaction.atomic():
        return _take_back(held.filter(lease_owner__in=dead).order_by("id"), error_type="ProcessDied", why="died")


def _take_back(held: QuerySet[Segment], *, error_type: str, why: str) -> int:
    """Give back these segments' links in the running transaction, less those that somebody is just writing. One that
    cannot be buried stays as it is, and keeps no other from its turn."""
    count = 0
    for segment in held.select_for_update(skip_locked=True):
        message = f"its process ({segment.holder}) {why}"
        add_error(segment, error_type=error_type, message=message)
        if segment.attempts < settings.TENTALIS["MAX_ATTEMPTS"]:
            release(segment, wait_s=0)
        elif not _is_buried(segment, reason=f"{error_type}: {message}, {segment.attempts} times"):
            continue
        count += 1
    return count


def _is_buried(segment: Segment, *, reason: str) -> bool:
    """Bury a segment, or nothing of it where what its kind does then cannot be done: whether it was."""
    try:
        with transaction.atomic():
            bury(segment, reason=reason)
    except Exception:
        logger.exception("%s of %s %s cannot be buried", segment.link, segment.kind, segment.subject_id)
        return False
    return True


def resend_lost(*, grace_s: float, limit: int = 500) -> int:
    """Put segments back into the outbox whose messages were sent but reached nobody.

    A message is taken for lost when it was sent `grace_s` ago and its queue is empty, or ten times that long ago
    whatever the queue holds: without looking at the queue a mere backlog would be sent again and again.
    """
    silent = silent_for(grace_s)
    queues = list(silent.values_list("queue", flat=True).distinct())
    if not queues:
        return 0
    waiting = count_waiting(queues)
    empty = [queue for queue in queues if waiting[queue] == 0]
    with transaction.atomic():
        lost = list(
            silent.select_for_update(skip_locked=True)
            .filter(Q(queue__in=empty) | Q(published_at__lt=Now() - timedelta(seconds=10 * grace_s)))
            .values_list("pk", flat=True)[:limit]
        )
        return Segment.objects.filter(pk__in=lost).update(published_at=None)


def silent_for(age_s: float) -> QuerySet[Segment]:
    """Open segments whose messages were sent that long ago and that nobody has claimed since."""
    sent_before = Now() - timedelta(seconds=age_s)
    return Segment.objects.filter(state=Segment.State.OPEN, fence__isnull=True, published_at__lt=sent_before)


def count_waiting(queues: Iterable[str]) -> dict[str, int]:
    """Messages waiting in the broker, by queue.

    Raises:
        BrokerAwayError: it cannot be asked.
    """
    prefix = settings.CELERY_BROKER_TRANSPORT_OPTIONS["global_keyprefix"]
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2) as client:
            return {queue: int(client.llen(f"{prefix}{queue}")) for queue in queues}
    except redis.RedisError as error:
        raise BrokerAwayError(f"the broker cannot be reached: {error}") from error


def purge_queue(queue: str) -> int:
    """Drop every message that waits on a queue; the rows behind them are sent again in time. Returns how many."""
    with app.connection_for_write() as broker:
        channel: Any = broker.default_channel
        return int(channel.queue_purge(queue) or 0)
