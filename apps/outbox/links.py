"""Turning a function of a subject's id into a Celery job that claims, runs and ends one link."""

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from celery.exceptions import Ignore
from django.conf import settings
from django.db import close_old_connections

from apps.base.errors import TentalisError
from apps.outbox import services
from apps.outbox.errors import LostClaimError
from apps.outbox.services import Claim
from tentalis.celery import app
from tentalis.outbound.scopes import CancelScope

logger = logging.getLogger(__name__)

LOOK_S = 1.0
"""So often a process looks whether a link it is at was cancelled."""


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
    scope = CancelScope(settings.TENTALIS["TASK_TIMEOUT_SECONDS"])
    keeper.add(claim, scope)
    try:
        with scope, services.hold(claim):
            function(claim.subject_id)
            services.end_unwritten(claim)
    except LostClaimError as error:
        logger.info("%s", error)
        raise Ignore from error
    except Exception as error:  # the boundary: whatever a link raises is kept on its row
        if scope.is_cancelled:
            logger.info("%s of %s %s was ended: %s", claim.link, claim.kind, claim.subject_id, error)
            raise Ignore from error
        is_final = isinstance(error, TentalisError) and error.is_final
        is_away = isinstance(error, TentalisError) and error.is_away
        logger.log(
            logging.INFO if is_final else logging.WARNING,
            "%s failed: %r",
            claim.link,
            error,
            exc_info=not (is_final or is_away),
        )
        services.fail_link(
            claim,
            error_type=type(error).__name__,
            message=str(error),
            is_final=is_final,
            is_away=is_away,
            wait_s=error.wait_s if isinstance(error, TentalisError) else None,
        )
        raise Ignore from error
    finally:
        keeper.remove(claim.fence)


@dataclass(frozen=True)
class _AtWork:
    claim: Claim
    scope: CancelScope
    started_at: float


class LeaseKeeper:
    """Renews the leases of the links at work in this process, until a link has had its time, and ends the requests of
    those whose claim is lost: cancelled, or somebody else's by now."""

    def __init__(self) -> None:
        self._at_work: dict[uuid.UUID, _AtWork] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.last_claim_at = time.monotonic()

    def add(self, claim: Claim, scope: CancelScope) -> None:
        with self._lock:
            self.last_claim_at = time.monotonic()
            self._at_work[claim.fence] = _AtWork(claim, scope, self.last_claim_at)
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep_for_ever, name="lease-keeper", daemon=True)
                self._thread.start()

    def remove(self, fence: uuid.UUID) -> None:
        with self._lock:
            self._at_work.pop(fence, None)

    def count_in_time(self) -> int:
        """Links at work that have not overrun their time."""
        return len(self._in_time())

    def end_lost(self) -> None:
        """End the requests of links whose claim is lost; what they would write is refused anyway."""
        with self._lock:
            found = list(self._at_work.values())
        lost = {claim.fence for claim in services.find_lost([one.claim for one in found])} if found else set()
        for one in found:
            if one.claim.fence in lost:
                one.scope.cancel(f"the claim of {one.claim.link} is lost: it was cancelled, or is somebody else's now")

    def _in_time(self) -> list[Claim]:
        limit = time.monotonic() - settings.TENTALIS["TASK_TIMEOUT_SECONDS"]
        with self._lock:
            return [one.claim for one in self._at_work.values() if one.started_at > limit]

    def _keep_for_ever(self) -> None:
        renew_at = 0.0
        while True:
            every_s = settings.TENTALIS["LEASE_SECONDS"] / 3
            time.sleep(min(LOOK_S, every_s))
            try:
                close_old_connections()
                self.end_lost()
                if time.monotonic() >= renew_at:
                    renew_at = time.monotonic() + every_s
                    if claims := self._in_time():
                        services.renew_leases(claims)
            except Exception:
                logger.warning("leases could not be renewed", exc_info=True)


OWNER = f"{socket.gethostname()}:{os.getpid()}"
keeper = LeaseKeeper()
