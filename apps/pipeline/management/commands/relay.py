"""`manage.py relay`: publishes the outbox, sweeps what stalled and keeps the timetable, until it is told to stop."""

import logging
import signal
import threading
import time
from typing import Any

import psycopg
from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import close_old_connections, connection
from django.db.utils import Error as DatabaseError

from apps.outbox.errors import BrokerAwayError
from apps.outbox.relay import publish_due
from apps.outbox.services import CHANNEL
from apps.pipeline import beat
from apps.pipeline.letter_box import LetterBox
from tentalis.garbage import settle_garbage

logger = logging.getLogger(__name__)

POLL_S = 0.5
PACE_S = 0.03
"""So long after something was sent nothing more is: what is started meanwhile goes out together, in sets."""
LOOK_S = 0.01
"""So long after a look there is no other, whatever was sent: a burst of nudges is looked at once."""
TICK_S = 0.25
AWAY_S = 1.0
STOP_S = 2.0


class Command(BaseCommand):
    help = "Publish the outbox, sweep what stalled and keep the timetable."
    requires_system_checks: list[str] = []  # they load every page; this process shows none
    is_stopping = False

    def handle(self, *args: Any, **options: Any) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        settle_garbage()
        letters = LetterBox()
        letters.start()
        keepers = [
            threading.Thread(target=self._keep, args=(timetable,), name="timetable", daemon=True)
            for timetable in (beat.TIMETABLE, beat.SERVERS_TIMETABLE, beat.SPANS_TIMETABLE)
            if timetable is not beat.SPANS_TIMETABLE or settings.TENTALIS["OTLP_ENDPOINT"]
        ]
        for keeper in keepers:
            keeper.start()
        was_away = False
        while not self.is_stopping:
            try:
                close_old_connections()
                pace_s = PACE_S if publish_due() else LOOK_S
                looked_at = time.monotonic()
                if was_away:
                    logger.info("back at work")
                was_away = False
                self._wait_for_nudge(until=looked_at + pace_s)
            except (DatabaseError, psycopg.Error, BrokerAwayError) as error:
                if not was_away:
                    logger.warning("waiting: %s", error)
                was_away = True
                time.sleep(AWAY_S)
        letters.stop()
        connection.close()
        for keeper in keepers:
            keeper.join(STOP_S)

    def _keep(self, timetable: beat.Timetable) -> None:
        """Keep one timetable, on a connection that stays this thread's: its advisory lock is the connection's."""
        while not self.is_stopping:
            try:
                beat.run_due(timetable=timetable)
            except (DatabaseError, psycopg.Error) as error:
                logger.info("the timetable waits: %s", error)
            if connection.errors_occurred and not connection.is_usable():
                connection.close()
            time.sleep(TICK_S)

    def _stop(self, *_: Any) -> None:
        self.is_stopping = True

    def _wait_for_nudge(self, *, until: float) -> None:
        """Sleep until somebody writes to the outbox, at most POLL_S seconds, and then until `until`."""
        connection.ensure_connection()
        raw = connection.connection
        raw.execute(f"LISTEN {CHANNEL}")
        for _ in raw.notifies(timeout=POLL_S, stop_after=1):
            time.sleep(max(0.0, until - time.monotonic()))
        for _ in raw.notifies(timeout=0):
            pass  # what they tell of is committed, and looked at next
