"""Leaving a queue process that lives, is connected, and does nothing: the supervisor starts a fresh one, which takes up
what it left behind."""

import logging
import os
import threading
import time
from typing import Any

from celery.signals import worker_ready
from django.conf import settings
from django.db import close_old_connections

from apps.outbox.links import HOST, keeper, served
from apps.outbox.relay import free_leases_of_dead, silent_for
from tentalis.garbage import settle_garbage

logger = logging.getLogger(__name__)
EXIT_CODE = 75  # EX_TEMPFAIL


def start_watchdog(sender: Any = None, **_: Any) -> None:
    """Watch this queue process, which has loaded everything by now, from a thread of its own."""
    settle_garbage()
    queues = [str(name) for name in sender.app.amqp.queues.consume_from]
    served.update(queues)
    concurrency = int(getattr(sender.pool, "limit", 1) or 1)
    threading.Thread(target=_watch, args=(queues, concurrency), name="watchdog", daemon=True).start()


def is_stalled(queues: list[str], concurrency: int, *, silent_s: float, patience_s: float) -> bool:
    """Whether work waits that this process should have taken.

    Args:
        silent_s: seconds since this process last took a link.
    """
    if silent_s < patience_s or keeper.count_in_time() >= concurrency:
        return False
    return silent_for(patience_s).filter(queue__in=queues).exists()


def _watch(queues: list[str], concurrency: int) -> None:
    patience_s = settings.TENTALIS["WATCHDOG_SECONDS"]
    keeper.last_claim_at = time.monotonic()
    may_have_left = True
    while True:
        may_have_left = may_have_left and not _free_leases()
        try:
            close_old_connections()
            silent_s = time.monotonic() - keeper.last_claim_at
            stalled = is_stalled(queues, concurrency, silent_s=silent_s, patience_s=patience_s)
        except Exception:
            logger.warning("the watchdog cannot see", exc_info=True)
            stalled = False
        if stalled:
            logger.error("work waits on %s and nothing was taken for %.0f s: leaving", ", ".join(queues), silent_s)
            os._exit(EXIT_CODE)
        time.sleep(patience_s / 3)


def _free_leases() -> bool:
    """Give back what dead processes of this host hold; whether that could be done."""
    try:
        close_old_connections()
        if count := free_leases_of_dead(HOST):
            logger.warning("%d links of processes that died go on", count)
    except Exception:
        logger.warning("the watchdog cannot free what the dead held", exc_info=True)
        return False
    return True


def connect() -> None:
    worker_ready.connect(start_watchdog, weak=False)
