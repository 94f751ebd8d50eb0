"""Alarms: opened when a rule is broken for longer than its patience, closed when it has not been for two minutes."""

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from django.conf import settings
from django.core.cache import cache
from django.db import connections, transaction
from django.db.models.functions import Now

from apps.audit.kinds import Kind
from apps.audit.services import move, record
from apps.base.texts import make_storable
from apps.operations.figures import measure
from apps.operations.models import SUBJECT_CHARS, WORDS_CHARS, Alarm
from apps.operations.monitors import find_all_troubles
from apps.operations.rules import Trouble
from apps.operations.telling import tell_all
from apps.webhooks.installation import keep_alarm_webhook

logger = logging.getLogger(__name__)

OPEN_COUNT = "operations:open_alarms"
KNOWN_S = 15
CALM_S = 120.0
"""An alarm is over when nothing was found for so long: what comes and goes is one alarm, and is told once."""
BY = "operations"


class Watch:
    """What is wrong, and since when; one process looks at a time, and a new one is patient anew."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}
        self._calm_since: dict[tuple[str, str], float] = {}

    def look(self, troubles: Sequence[Trouble], *, now_s: float) -> None:
        """Open and close alarms.

        Args:
            now_s: of a clock that is never set.
        """
        found = {(trouble.rule.name, trouble.subject): trouble for trouble in map(_fit, troubles)}
        self._since = {key: self._since.get(key, now_s) for key in found}
        alarms = {(alarm.rule, alarm.subject): alarm for alarm in Alarm.objects.filter(state=Alarm.State.OPEN)}
        for key, trouble in found.items():
            if (alarm := alarms.get(key)) is not None:
                Alarm.objects.filter(pk=alarm.pk).exclude(words=trouble.words).update(words=trouble.words)
            elif now_s - self._since[key] >= trouble.rule.patience_s:
                open_alarm(trouble)
        calm = {key: alarm for key, alarm in alarms.items() if key not in found}
        self._calm_since = {key: self._calm_since.get(key, now_s) for key in calm}
        for key, alarm in calm.items():
            if now_s - self._calm_since[key] >= CALM_S:
                told = _payload(alarm)
                move(alarm, Alarm.State.CLOSED, by=BY, payload=told, closed_at=Now(), mail_tries=0, mail_after=None)
                logger.warning("alarm %s is over", alarm)


def _fit(trouble: Trouble) -> Trouble:
    """As much of it as an alarm holds, its subject in a line: a monitor of another package may say anything."""
    subject, words = " ".join(make_storable(trouble.subject).split()), make_storable(trouble.words)
    return replace(trouble, subject=subject[:SUBJECT_CHARS], words=words[:WORDS_CHARS])


def open_alarm(trouble: Trouble) -> Alarm:
    with transaction.atomic():
        alarm = Alarm.objects.create(rule=trouble.rule.name, subject=trouble.subject, words=trouble.words)
        record(Kind.ALARM_OPENED, subject=alarm, by=BY, payload=_payload(alarm))
    logger.warning("alarm %s: %s", alarm, alarm.words)
    return alarm


def _payload(alarm: Alarm) -> dict[str, str]:
    return {"rule": alarm.rule, "subject": alarm.subject, "words": alarm.words}


def count_open() -> int:
    """As of at most 15 seconds ago: every page of an admin asks."""
    counted = cache.get_or_set(OPEN_COUNT, Alarm.objects.filter(state=Alarm.State.OPEN).count, KNOWN_S)
    return int(counted or 0)


_watch = Watch()
_teller: threading.Thread | None = None


def watch() -> None:
    """What the timetable does: look, and tell people beside it, so that a slow mail server delays nothing."""
    global _teller
    keep_alarm_webhook(url=settings.TENTALIS["ALARM_WEBHOOK_URL"], secret=settings.TENTALIS["ALARM_WEBHOOK_SECRET"])
    _watch.look(find_all_troubles(measure()), now_s=time.monotonic())
    if _teller is None or not _teller.is_alive():
        _teller = threading.Thread(target=_tell, name="alarms", daemon=True)
        _teller.start()


def _tell() -> None:
    try:
        tell_all()
    except Exception:  # the boundary of a thread: it is tried again
        logger.exception("alarms could not be sent")
    finally:
        connections.close_all()
