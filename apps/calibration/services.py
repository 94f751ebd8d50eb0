"""Judgements meet the truth: each comparison is kept once, and the rater's weight follows in the same transaction."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection, transaction
from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from apps.accounts.models import Project, Role, User
from apps.accounts.services import require_role
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.audit.services import record, record_many
from apps.base.errors import BadInputError, ConflictError, NotFoundError
from apps.base.texts import require_text
from apps.calibration.errors import NotQuarantinedError
from apps.calibration.models import Comparison, FavourScreen, Rater
from apps.calibration.selectors import REMEMBERED, find_counted, find_sittings
from apps.tasks.models import Attempt
from tentalis.core.field_limits import MAX_REASON_CHARS
from tentalis.core.scoring.calibration import APPROVES, POLICY, Confusion, Standing

NOTICEABLE = 0.1
"""The audit tells of a weight that moved this far since it last did."""
MANAGERS = (Role.OWNER, Role.MANAGER)

BY = "calibration"
_LOCK, _FITS_LOCK = 0x7261, 0x6669  # "ra", "fi": what sets these locks apart from other advisory locks
_WEIGHED = [
    "weight",
    "told_weight",
    "standing",
    "bad",
    "false_approvals",
    "good",
    "false_rejections",
    "sittings",
    "counted_from",
    "drifted_at",
    "quarantined_at",
    "quarantined_by",
    "quarantine_reason",
    "reinstated_by",
    "reinstate_reason",
    "updated_at",
]

_KEEP = """
INSERT INTO calibration_comparison (project_id, rater_id, attempt_id, step_id, said, truth, source, against, counts, at)
SELECT %s, new.rater, new.attempt, new.step, new.said, new.truth, new.source, new.against, new.counts,
       statement_timestamp() + new.sitting * interval '1 microsecond'
FROM jsonb_to_recordset(%s::jsonb) AS new(sitting int, rater bigint, attempt bigint, step bigint, said double precision,
                                          truth double precision, source text, against text, counts boolean)
ON CONFLICT DO NOTHING
RETURNING extract(microseconds FROM at - statement_timestamp())::int, said, truth, counts
"""
"""Each sitting has a time of its own."""


class JudgedRow(NamedTuple):
    """One judgement with what it is held against.

    Args:
        step_id: None: the attempt as a whole.
        said, truth: in [0, 1].
        source: one of `Comparison.Source`.
        against: handle of who said `truth`, where that is somebody.
        counts: it enters the rater's weight; a peer's word is no truth and never does.
    """

    attempt_id: int
    step_id: int | None
    said: float
    truth: float
    source: str
    against: str = ""
    counts: bool = True


@dataclass(frozen=True)
class Sitting:
    """What one rater said at one time."""

    handle: str
    kind: str
    rows: Sequence[JudgedRow]


class _Kept(NamedTuple):
    said: float
    truth: float
    counts: bool


def record_comparisons(*, project_id: int, sittings: Iterable[Sitting]) -> None:
    """Keep comparisons and let the raters' weights follow: four statements, however many raters and rows.

    What was compared before is not counted again. The project's raters are locked until the caller's transaction
    ends, so that call this last in it.
    """
    spoken = [one for one in sittings if one.rows]
    if not spoken:
        return
    with transaction.atomic(savepoint=False):  # whoever cannot note what was said cannot have it said
        raters = _lock_raters(project_id, {one.handle: one.kind for one in spoken})
        kept = _keep(project_id, [(raters[one.handle].pk, one.rows) for one in spoken])
        before = {rater.pk: rater.quarantined_at is not None for rater in raters.values()}
        changed: dict[str, Rater] = {}
        for place, one in enumerate(spoken):
            if any(row.counts for row in kept[place]):
                changed[one.handle] = raters[one.handle]
                _count(raters[one.handle], kept[place])
        _settle(list(changed.values()), before)


def forget_judgements(
    *, project_id: int, handle: str, attempt_ids: Iterable[int], kept: Collection[tuple[str, JudgedRow]] = ()
) -> None:
    """Take back what came of a rater's word on these attempts: it was undone or retracted.

    Goes for comparisons of the rater, and of others with its word; the weights are counted anew. A person who is
    quarantined stays so: only `reinstate` ends that.

    Args:
        kept: (handle, comparison) that stay, for they come of other words too; whether they count is as it was.
    """
    stays = {(rater, row._replace(counts=True)) for rater, row in kept}
    with transaction.atomic():
        _lock_project(project_id)
        rows = Comparison.objects.filter(project_id=project_id, attempt__in=list(attempt_ids))
        rows = rows.filter(Q(rater__handle=handle) | Q(against=handle)).select_related("rater")
        gone = [row for row in rows if (row.rater.handle, _read_row(row)) not in stays]
        _drop(project_id, gone, {handle, *(row.rater.handle for row in gone)})


def forget_known(*, project_id: int, attempts: QuerySet[Attempt]) -> None:
    """Take back what was held against known answers of these attempts, which turned out not to be known.

    The weights are counted anew, as by `forget_judgements`.
    """
    with transaction.atomic():
        _lock_project(project_id)
        rows = Comparison.objects.filter(attempt__in=attempts, source=Comparison.Source.GOLD)
        gone = list(rows.select_related("rater"))
        _drop(project_id, gone, {row.rater.handle for row in gone})


def _drop(project_id: int, gone: Sequence[Comparison], touched: Collection[str]) -> None:
    """Delete comparisons and count the weights of raters anew, the project's raters locked."""
    raters = _lock_raters(project_id, dict.fromkeys(touched, ""), make_missing=False)
    Comparison.objects.filter(pk__in=[row.pk for row in gone]).delete()
    before = {rater.pk: rater.quarantined_at is not None for rater in raters.values()}
    for rater in raters.values():
        _recount(rater)
    _settle(list(raters.values()), before)


def reinstate(*, project: Project, handle: str, reason: str, by: User) -> Rater:
    """Use a quarantined rater's word again: it starts as an unknown one, and what was compared before counts no more.

    Raises:
        NotFoundError, NotAllowedError: `by` may not, or there is no such rater.
        BadInputError: no reason, or one that is too long.
        NotQuarantinedError: it is in use.
    """
    require_role(by, project, *MANAGERS)
    words = require_text("reason", reason, MAX_REASON_CHARS)
    with transaction.atomic():
        rater = _lock_raters(project.pk, {handle: ""}, make_missing=False).get(handle)
        if rater is None:
            raise NotFoundError(f"no rater {handle} in {project.slug}")
        if handle == by.handle and not by.is_superuser:
            raise BadInputError("somebody else has to reinstate you", errors={"reason": ["Ask another manager."]})
        if rater.quarantined_at is None:
            raise NotQuarantinedError(f"{handle} is not quarantined: its weight is {rater.weight:.2f}")
        rater.counted_from = timezone.now()
        rater.reinstated_by, rater.reinstate_reason = by.handle, words
        before = rater.weight
        _release(rater)
        _start_anew(rater)
        rater.told_weight = rater.weight
        rater.save(update_fields=_WEIGHED)
        payload = {"handle": handle, "before": round(before, 4), "after": rater.weight, "reinstated": words}
        record(Kind.RATER_WEIGHED, subject=rater, by=by.handle, payload=payload)
    return rater


def quarantine(*, project: Project, handle: str, reason: str, by: User) -> Rater:
    """Use a rater's word no more, and give it no new reviews, until a person reinstates it.

    Raises:
        NotFoundError, NotAllowedError: `by` may not, or nobody of that handle judges in the project.
        BadInputError: no reason, or one that is too long, or it is oneself.
        ConflictError: it is quarantined.
    """
    require_role(by, project, *MANAGERS)
    words = require_text("reason", reason, MAX_REASON_CHARS)
    if handle == by.handle:
        raise BadInputError("somebody else has to quarantine you", errors={"reason": ["Ask another manager."]})
    with transaction.atomic():
        kind = Rater.Kind.PERSON if handle.startswith("user:") else Rater.Kind.AI
        is_named = FavourScreen.objects.filter(project=project, groups__contains=[{"raters": [handle]}]).exists()
        rater = _lock_raters(project.pk, {handle: kind}, make_missing=is_named).get(handle)
        if rater is None:
            raise NotFoundError(f"no rater {handle} in {project.slug}")
        if rater.quarantined_at is not None:
            raise ConflictError(f"{handle} is quarantined already")
        rater.quarantined_at, rater.quarantined_by, rater.quarantine_reason = timezone.now(), by.handle, words
        rater.save(update_fields=_WEIGHED)
        payload = {"handle": handle, "before": round(rater.weight, 4), "quarantined": True, "reason": words}
        record(Kind.RATER_WEIGHED, subject=rater, by=by.handle, payload=payload)
    return rater


def set_rubric(*, project_id: int, handle: str, of: str, weights: Mapping[str, float], gate: float) -> Rater:
    """Let an AI manager judge by these weights from now on, trusted by `gate`, in the running transaction.

    Under other weights it is another judge: it starts as an unknown one, and what was compared before counts no more.
    Whoever calls this audits it.

    Args:
        of: hash of the rubric as it was written when they were fitted.
        weights: by item; {}: as written.
        gate: in [0, 1].
    """
    return _judge_by(project_id, handle, "rubric", {"of": of, "weights": dict(weights)} if weights else {}, gate)


def set_adapter(*, project_id: int, handle: str, adapter: Mapping[str, str], gate: float) -> Rater:
    """Let an AI manager that is a language model judge by an adapter from now on; else as `set_rubric`.

    Args:
        adapter: {"name", "uri", "sha256"}; {}: its model as it is.
    """
    return _judge_by(project_id, handle, "adapter", dict(adapter), gate)


def _judge_by(project_id: int, handle: str, field: str, value: dict[str, Any], gate: float) -> Rater:
    with transaction.atomic():
        rater = _lock_raters(project_id, {handle: Rater.Kind.AI})[handle]
        if getattr(rater, field) != value:
            setattr(rater, field, value)
            rater.counted_from = timezone.now()
            _release(rater)
            _start_anew(rater)
            rater.told_weight = rater.weight
        rater.gate = gate
        rater.save(update_fields=[*_WEIGHED, field, "gate"])
    return rater


def lock_fits(project_id: int) -> None:
    """A project's AI managers are fitted, taken back and barred by one transaction at a time; until it ends.

    Their rows as raters are not what is locked: whoever notes judgements holds all raters, and must not wait for a fit
    that waits for them. Take this lock before any judgement is noted.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [_FITS_LOCK, project_id])


def _lock_raters(project_id: int, kinds: Mapping[str, str], *, make_missing: bool = True) -> dict[str, Rater]:
    """The raters by handle; a handle that is new gets a row.

    A project's raters are changed by one transaction at a time. Locks on their rows alone would deadlock where one
    transaction notes several feedbacks, whose raters come in any order.
    """
    _lock_project(project_id)
    found = {rater.handle: rater for rater in Rater.objects.filter(project_id=project_id, handle__in=kinds)}
    missing = [
        Rater(project_id=project_id, handle=handle, kind=kinds[handle]) for handle in kinds if handle not in found
    ]
    if missing and make_missing:
        found |= {rater.handle: rater for rater in Rater.objects.bulk_create(missing)}
    return found


def _lock_project(project_id: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [_LOCK, project_id])


def _read_row(kept: Comparison) -> JudgedRow:
    return JudgedRow(kept.attempt_id, kept.step_id, kept.said, kept.truth, kept.source, kept.against)


def _keep(project_id: int, sittings: Sequence[tuple[int, Sequence[JudgedRow]]]) -> dict[int, list[_Kept]]:
    """Place of a sitting, (rater id, what was judged) -> its comparisons that are new."""
    data = [
        {
            "sitting": place,
            "rater": rater,
            "attempt": row.attempt_id,
            "step": row.step_id,
            "said": row.said,
            "truth": row.truth,
            "source": str(Comparison.Source(row.source).value),
            "against": row.against,
            "counts": row.counts and row.source != Comparison.Source.PEER,
        }
        for place, (rater, rows) in enumerate(sittings)
        for row in rows
    ]
    kept: dict[int, list[_Kept]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_KEEP, [project_id, json.dumps(data)])
        for place, said, truth, counts in cursor.fetchall():
            kept[place].append(_Kept(said, truth, counts))
    return kept


def _count(rater: Rater, rows: Iterable[_Kept], *, at: datetime | None = None) -> None:
    """Let one sitting into the weight, in memory."""
    judged = [(row.said, row.truth) for row in rows if row.counts]
    standing, rang = Standing.from_json(rater.standing).add(judged)
    rater.standing = standing.to_json()
    rater.weight = standing.weight()
    _add_counts(rater, Confusion.of(judged))
    rater.sittings += 1
    if any(rang):
        rater.drifted_at = at or timezone.now()
    _judge(rater, at=at)


def _judge(rater: Rater, *, at: datetime | None) -> None:
    """Quarantine below the line; a machine that is good again is let back by itself, a person by a person."""
    is_known = rater.audited >= POLICY.quarantine_items and rater.sittings >= POLICY.quarantine_sittings
    if rater.quarantined_at is None and is_known and rater.weight < POLICY.quarantine_below:
        rater.quarantined_at = at or timezone.now()
    elif rater.quarantined_at and _is_released_by_itself(rater) and rater.weight > POLICY.release_above:
        rater.quarantined_at = None


def _is_released_by_itself(rater: Rater) -> bool:
    """A person, and what a person decided, is let back by a person only."""
    return rater.kind != Rater.Kind.PERSON and not rater.quarantined_by


def _release(rater: Rater) -> None:
    rater.quarantined_at, rater.quarantined_by, rater.quarantine_reason = None, "", ""


def _start_anew(rater: Rater) -> None:
    rater.standing, rater.weight = {}, 1.0
    rater.bad = rater.false_approvals = rater.good = rater.false_rejections = rater.sittings = 0
    rater.drifted_at = None


def _add_counts(rater: Rater, found: Confusion) -> None:
    rater.bad += found.false_approvals + found.true_rejections
    rater.false_approvals += found.false_approvals
    rater.good += found.true_approvals + found.false_rejections
    rater.false_rejections += found.false_rejections


def _recount(rater: Rater) -> None:
    """Count the weight anew from what is kept, in memory: the counts from all of it, the weight from the last."""
    sittings = find_sittings(rater)
    _start_anew(rater)
    if _is_released_by_itself(rater):
        rater.quarantined_at = None
    for at, judged in sittings:
        _count(rater, [_Kept(said, truth, True) for said, truth in judged], at=at)
    if rater.audited >= REMEMBERED:
        bad, good = Q(truth__lt=APPROVES), Q(truth__gte=APPROVES)
        found = find_counted(rater).aggregate(
            bad=Count("pk", bad),
            false_approvals=Count("pk", bad & Q(said__gte=APPROVES)),
            good=Count("pk", good),
            false_rejections=Count("pk", good & Q(said__lt=APPROVES)),
            sittings=Count("at", distinct=True),
        )
        for name, count in found.items():
            setattr(rater, name, count)


def _settle(raters: Sequence[Rater], was_quarantined: Mapping[int, bool]) -> None:
    """Save the weights in one statement; audit those that moved noticeably, and quarantine that began or ended."""
    entries = []
    for rater in raters:
        rater.updated_at = timezone.now()
        is_quarantined = rater.quarantined_at is not None
        if abs(rater.weight - rater.told_weight) >= NOTICEABLE or is_quarantined != was_quarantined[rater.pk]:
            entries.append(_entry(rater))
            rater.told_weight = rater.weight
    if len(raters) == 1:
        raters[0].save(update_fields=_WEIGHED)
    elif raters:
        Rater.objects.bulk_update(raters, _WEIGHED)
    if entries:
        record_many(entries)


def _entry(rater: Rater) -> AuditEntry:
    payload = {
        "handle": rater.handle,
        "before": round(rater.told_weight, 4),
        "after": round(rater.weight, 4),
        "audited": rater.audited,
        "errors": rater.errors,
        "quarantined": rater.quarantined_at is not None,
    }
    return AuditEntry(
        kind=Kind.RATER_WEIGHED,
        subject_type="rater",
        subject_id=rater.pk,
        project_id=rater.project_id,
        actor=BY,
        payload=payload,
    )
