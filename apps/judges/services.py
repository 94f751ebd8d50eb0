"""Probes of judges: asked for, done a few questions at a time, and what comes of them."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Final

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.audit.kinds import Kind
from apps.audit.services import move, record
from apps.base.errors import BadInputError, ConflictError, TentalisError
from apps.inference.judges import Voter, find_judging_model, open_voter
from apps.inference.metering import charge
from apps.judges.asking import ask_item, cut_cause
from apps.judges.models import JudgeProbe
from apps.judges.selectors import find_first
from tentalis.core.scoring.judge_probes import (
    OWN,
    SCORES,
    Beside,
    describe_verdict,
    find_probes_version,
    find_verdict,
    measure_judge,
)
from tentalis.core.scoring.probe_items import ITEMS
from tentalis.core.scoring.protocol import Unscored
from tentalis.outbound.scopes import ScopedThreadPool

AT_ONCE: Final = 8
"""Items that are asked about at one time, and kept together."""
PARTS: Final = ("known", "length", "markdown", "bullets", "json", OWN, "self", SCORES)
"""Of a probe, in the order in which they are asked."""
SHOWN_WORDS: Final = 2_000


def ask_probe(*, project: Project, model: str, by: User) -> JudgeProbe:
    """Have a judge probed.

    Args:
        model: SERVER/MODEL, or a model of the installation's; "" for the installation's judge.
    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: no such judge is configured.
        ConflictError: it is being probed.
    """
    require_right(by, project, Right.EVALS_WRITE)
    provider, name = find_judging_model(project.pk, model)
    if not name:
        raise BadInputError.at("model", "wanted SERVER/MODEL, for no model is configured to judge here; found none")
    return open_probe(JudgeProbe(project=project, provider=provider, model=name), by=by.handle)


def open_probe(row: JudgeProbe, *, by: str) -> JudgeProbe:
    """Write a probe that is to be done. Raises ConflictError: its judge is being probed."""
    row.version, row.asked_by = find_probes_version(), by
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            record(Kind.JUDGE_PROBE_ASKED, subject=row, by=by, payload={"judge": row.judge, "version": row.version})
    except IntegrityError:
        raise ConflictError(f"the judge {row.judge} is being probed") from None
    return row


def probe_judge(probe_id: int, *, people: Callable[[JudgeProbe], Sequence[Beside]], by: str) -> None:
    """Go on for a part of the time that a link has; what is left is done by the next one.

    A judge of which nothing at all can be scored at first is not asked further.

    Args:
        people: finds what it and people said of the same tasks.
    """
    row = JudgeProbe.objects.select_related("project", "provider").get(pk=probe_id)
    if row.state == JudgeProbe.State.QUEUED:
        move(row, JudgeProbe.State.RUNNING, by=by)
    if row.state != JudgeProbe.State.RUNNING:
        return
    until = time.monotonic() + settings.TENTALIS["TASK_TIMEOUT_SECONDS"] / 4
    with charge(project=row.project, turn="judge"):
        voter = _find_voter(row)
        while time.monotonic() <= until:
            part = next((one for one in PARTS if len(row.answers.get(one, ())) < len(ITEMS)), "")
            if not part or _is_mute(row):
                _end(row, people(row), by=by)
                return
            _ask_some(row, part, voter)
            JudgeProbe.objects.filter(pk=row.pk).update(answers=row.answers)


def _find_voter(row: JudgeProbe) -> Voter | Unscored:
    try:
        return open_voter(row.project_id, row.provider, row.model)
    except TentalisError as error:
        return Unscored(f"its model cannot be asked: {error}")


def _is_mute(row: JudgeProbe) -> bool:
    """Whether the first part was asked in full and has not a single number."""
    asked = row.answers.get(PARTS[0], ())
    return len(asked) == len(ITEMS) and all(isinstance(one, str) for said in asked for one in said)


def _ask_some(row: JudgeProbe, part: str, voter: Voter | Unscored) -> None:
    """Ask the part's next items and put what is said of them into the row's answers."""
    done = row.answers.setdefault(part, [])
    places = range(len(done), min(len(done) + AT_ONCE, len(ITEMS)))
    if isinstance(voter, Unscored):
        done += [[cut_cause(voter.reason)] for _ in places]
        return
    owns = row.answers.get(OWN) if part == "self" else None
    with ScopedThreadPool(AT_ONCE) as pool:
        done += pool.map(lambda place: ask_item(voter, part, ITEMS[place], owns[place] if owns else ()), places)


def _end(row: JudgeProbe, people: Sequence[Beside], *, by: str) -> None:
    first = find_first(row)
    figures = measure_judge(row.answers, first=None if first is None else first.answers, people=people)
    verdict = find_verdict(figures)
    words = describe_verdict(figures)[:SHOWN_WORDS]
    move(
        row,
        JudgeProbe.State.DONE,
        by=by,
        payload={"judge": row.judge, "verdict": verdict, "words": words},
        figures=[dataclasses.asdict(one) for one in figures],
        verdict=verdict,
        words=words,
        first=first,
        finished_at=timezone.now(),
    )


def fail_probe(probe_id: int, *, link: str, reason: str, by: str) -> None:
    """It could not be done; how the judge stands is as it was."""
    row = JudgeProbe.objects.get(pk=probe_id)
    if row.state in {JudgeProbe.State.QUEUED, JudgeProbe.State.RUNNING}:
        move(row, JudgeProbe.State.FAILED, by=by, failure=reason)


def revive_probe(probe_id: int, *, link: str, by: str) -> None:
    """Let one that failed go on with what was not asked. Raises ConflictError: its judge is being probed."""
    row = JudgeProbe.objects.select_related("provider").get(pk=probe_id)
    if row.state != JudgeProbe.State.FAILED:
        return
    try:
        with transaction.atomic():
            move(row, JudgeProbe.State.RUNNING, by=by, failure="")
    except IntegrityError:
        raise ConflictError(f"the judge {row.judge} is being probed") from None
