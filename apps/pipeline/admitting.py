"""Tasks of own repositories that are handed in: a few at a time, for each runs tests for minutes."""

from collections.abc import Sequence
from typing import Any, Final, Unpack

from django.db import transaction

from apps.accounts.models import User
from apps.outbox import services as outbox
from apps.outbox.kinds import SegmentKind
from apps.outbox.models import Segment
from apps.worlds.models import RepoTaskAdmission
from apps.worlds.repos import admitting
from apps.worlds.repos.admitting import HandedIn

AT_ONCE: Final = 2


def hand_in(*, rows: Sequence[Any], split: str, by: User, **handed_in: Unpack[HandedIn]) -> list[RepoTaskAdmission]:
    """Have tasks looked at, and added where they may be used; see `apps.worlds.repos.admitting.ask_admissions`."""
    with transaction.atomic():
        made = admitting.ask_admissions(rows=rows, split=split, by=by, **handed_in)
        go_on()
    return made


def go_on(_: Sequence[int] = ()) -> None:
    """Take up those that wait, as many as there is room for."""
    at_work = Segment.objects.filter(kind=SegmentKind.ADMIT, state=Segment.State.OPEN)
    held = list(at_work.values_list("subject_id", flat=True))
    waiting = RepoTaskAdmission.objects.filter(state=RepoTaskAdmission.State.QUEUED).exclude(pk__in=held)
    following = waiting.order_by("pk").values_list("pk", flat=True)[: max(AT_ONCE - len(held), 0)]
    outbox.start_many(SegmentKind.ADMIT, [(pk, None) for pk in following])


def fail(admission_id: int, *, link: str, reason: str, by: str) -> None:
    """Nothing could be found out of it; others go on."""
    admitting.fail_admission(admission_id, link=link, reason=reason, by=by)
    go_on()
