"""Turning a function of a subject's id into a Celery job that claims, runs and ends one link."""

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from celery.exceptions import Ignore
from django.conf import settings
from django.db import close_old_connections

from apps.base.errors import TentalisError
from apps.outbox import services
from apps.outbox.errors import LostClaimError
from tentalis.celery import app

logger = logging.getLogger(__name__)


def link(name: str) -> Callable[[Callable[[int], Any]], Any]:
    """Register a link: its message carries the segment's id and position, the function gets the subject's id."""

    def decorate(function: Callable[[int], Any]) -> Any:
        def run(segment_id: int, position: int) -> None:
            run_link(function, segment_id, position)

        run.__doc__ = function.__doc__
        return app.task(name=name)(run)

    return decorate


def run_link(function: Callable[[int], Any], segment_id: int, position: int) -> None:
    """Claim the link, call the function with the subject's id, end the link.

    Raises:
        Ignore: there was nothing to do, or the link failed (the row says so): the messages behind this one are dropped.
    """
    claim = services.claim_link(segment_id, position, owner=OWNER)
    if claim is None:
        raise Ignore
    keeper.add(claim.fence)
    try:
        with services.hold(claim):
            function(claim.subject_id)
            services.end_unwritten(claim)
    except LostClaimError as error:
        logger.info("%s", error)
        raise Ignore from error
    except Exception as error:  # the boundary: whatever a link raises is kept on its row
        is_final = isinstance(error, TentalisError) and error.is_final
        is_away = isinstance(error, TentalisError) and error.is_away
        logger.log(
            logging.INFO if is_final else logging.WARNING, "%s failed: %r", claim.link, error, exc_info=not is_final
        )
        services.fail_link(
            claim, error_type=type(error).__name__, message=str(error), is_final=is_final, is_away=is_away
        )
        raise Ignore from error
    finally:
        keeper.remove(claim.fence)


class LeaseKeeper:
    """Renews the leases of the links at work in this process, until a link has had its time."""

    def __init__(self) -> None:
        self._started_at: dict[uuid.UUID, float] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.last_claim_at = time.monotonic()

    def add(self, fence: uuid.UUID) -> None:
        with self._lock:
            self.last_claim_at = time.monotonic()
            self._started_at[fence] = self.last_claim_at
            if self._thread is None:
                self._thread = threading.Thread(target=self._renew_for_ever, name="lease-keeper", daemon=True)
                self._thread.start()

    def remove(self, fence: uuid.UUID) -> None:
        with self._lock:
            self._started_at.pop(fence, None)

    def count_in_time(self) -> int:
        """Links at work that have not overrun their time."""
        return len(self._in_time())

    def _in_time(self) -> list[uuid.UUID]:
        limit = time.monotonic() - settings.TENTALIS["TASK_TIMEOUT_SECONDS"]
        with self._lock:
            return [fence for fence, started_at in self._started_at.items() if started_at > limit]

    def _renew_for_ever(self) -> None:
        while True:
            time.sleep(settings.TENTALIS["LEASE_SECONDS"] / 3)
            try:
                close_old_connections()
                if fences := self._in_time():
                    services.renew_leases(fences)
            except Exception:
                logger.warning("leases could not be renewed", exc_info=True)


OWNER = f"{socket.gethostname()}:{os.getpid()}"
keeper = LeaseKeeper()
