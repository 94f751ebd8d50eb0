"""The letter box in the broker: a thread of the relay opens what the training box sends and passes on what is genuine.

Lost on the way, a result lies in the artifact store, where the sweep finds it.
"""

import logging
import threading
from collections.abc import Sequence

import redis
from django.conf import settings
from django.db import close_old_connections, connection
from django.db.utils import Error as DatabaseError
from kombu.exceptions import OperationalError as BrokerError

from apps.training.box import DroppedLetters, ForgedLetterError, open_letter
from tentalis.celery import app
from tentalis.core.letters import LETTER_BOX, RESULT

logger = logging.getLogger(__name__)

WAIT_S = 1
AWAY_S = 1.0
AWAY = (redis.RedisError, BrokerError, DatabaseError, OSError)
"""Whom the letter box needs is not there."""
RECORD_JOB, HEARTBEAT_JOB = "training.record", "training.heartbeat"


def take_letter(content: bytes, refusals: DroppedLetters) -> bool:
    """Pass on one letter; whether it was genuine.

    Raises:
        DatabaseError, BrokerError, OSError: it is lost; see above.
    """
    try:
        letter = open_letter(content)
    except ForgedLetterError as error:
        refusals.note(str(error))
        return False
    body = dict(letter.body)
    if letter.kind == RESULT:
        app.send_task(RECORD_JOB, args=[body], retry=False)
    else:
        app.send_task(HEARTBEAT_JOB, args=[letter.run_id, letter.attempt, body, letter.number], retry=False)
    return True


class LetterBox:
    """Looks into the letter box until it is told to stop."""

    def __init__(self, refusals: DroppedLetters | None = None) -> None:
        self._ended = threading.Event()
        self._refusals = refusals or DroppedLetters()
        self._thread = threading.Thread(target=self._look, name="letter box", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(timeout=2 * WAIT_S + 5)

    def _look(self) -> None:
        key = f"{settings.CELERY_BROKER_TRANSPORT_OPTIONS['global_keyprefix']}{LETTER_BOX}"
        was_away = False
        while not self._ended.is_set():
            try:
                with redis.Redis.from_url(
                    settings.REDIS_URL, socket_timeout=WAIT_S + 5, socket_connect_timeout=5
                ) as client:
                    was_away = False
                    while not self._ended.is_set():
                        self._take(client.brpop([key], timeout=WAIT_S))
            except AWAY as error:
                if not was_away:
                    logger.warning("the letter box waits: %s", error)
                was_away = True
                self._ended.wait(AWAY_S)
        connection.close()

    def _take(self, found: Sequence[bytes] | None) -> None:
        close_old_connections()
        if found is None:
            return
        try:
            take_letter(found[1], self._refusals)
        except AWAY:
            raise
        except Exception:  # the boundary of a thread, which nobody starts again: a letter costs only itself
            logger.exception("a letter is lost; a result lies in the artifact store too, where the sweep finds it")
