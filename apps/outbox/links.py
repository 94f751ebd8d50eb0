"""Turning a function of subjects' ids into a Celery job that claims, runs and ends a link of their segments."""

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import close_old_connections

from apps.base.errors import TentalisError
from apps.outbox import services
from apps.outbox.errors import BrokerAwayError, LostClaimError
from apps.outbox.relay import Message, send
from apps.outbox.services import Claim, Hold
from tentalis.celery import app
from tentalis.outbound.scopes import CancelScope
from tentalis.platform.processes import process_identity

logger = logging.getLogger(__name__)

LOOK_S = 1.0
"""So often a process looks whether a link it is at was cancelled."""


Link = Callable[[Sequence[int]], Any]
TimeOf = Callable[[int], float]
LINKS: dict[str, Link] = {}
_TIMES: dict[str, TimeOf] = {}
"""How many seconds a link may take, by subject, where that is not the usual."""
served: set[str] = set()
"""Queues of which this process does the links, once it is ready."""


def link(name: str, *, time_s: TimeOf | None = None) -> Callable[[Callable[[int], Any]], Any]:
    """Register a link that does one subject at a time: the function gets its id.

    Args:
        time_s: how many seconds it may take for a subject; None: as long as a model server has for an answer.
    """
    if time_s is not None:
        _TIMES[name] = time_s

    def decorate(function: Callable[[int], Any]) -> Any:
        def do_one(subject_ids: Sequence[int]) -> None:
            (subject_id,) = subject_ids
            function(subject_id)

        do_one.__doc__ = function.__doc__
        return set_link(name)(do_one)

    return decorate


def set_link(name: str) -> Callable[[Link], Any]:
    """Register a link: its message carries segments' ids and their position, the function gets the subjects' ids.

    What it writes, it writes in `services.final_write`, of the subjects which that yields.
    """

    def decorate(function: Link) -> Any:
        def run(segment_ids: list[int], position: int) -> None:
            run_links(segment_ids, position)

        LINKS[name] = function
        run.__doc__ = function.__doc__
        return app.task(name=name)(run)

    return decorate


def run_links(segment_ids: Sequence[int], position: int) -> None:
    """Do the link that is due of these segments, and those behind it whose queues this process serves too; whoever
    serves the next one's is sent a message."""
    claim = services.claim_links(segment_ids, position, owner=OWNER, served=served)
    while claim is not None:
        held = run_claim(LINKS[claim.link], claim)
        claim = services.find_next(held, served=served)
        if claim is None and held.ended and not held.claim.is_last:
            send_on(held)


def send_on(held: Hold) -> None:
    """Send the message of the next link; where the broker is away it is sent again by the sweep."""
    position = held.claim.position + 1
    try:
        send([Message(held.claim.links[position], list(held.ended), position)])
    except BrokerAwayError as error:
        logger.info("%s", error)


def run_claim(function: Link, claim: Claim) -> Hold:
    """Call the function with the subjects' ids and end the link, or keep on the rows why it failed.

    A set that fails is given back: each of it is tried alone, so that what breaks it hurts nothing else.
    """
    held, scope = Hold(claim), CancelScope(_find_time_s(claim))
    keeper.add(claim, scope)
    try:
        with scope, services.hold(held):
            function(list(claim.subjects.values()))
            services.end_unwritten(held)
    except LostClaimError as error:
        logger.info("%s", error)
    except Exception as error:  # the boundary: whatever a link raises is kept on its row
        if held.ended:
            logger.warning("%s failed behind its last write", claim, exc_info=True)
        elif scope.is_cancelled:
            logger.info("%s was ended: %s", claim, error)
        elif len(claim.subjects) > 1:
            logger.warning("%s failed as a set: %r", claim.link, error)
            services.give_back(claim)
        else:
            fail(claim, error)
    finally:
        keeper.remove(claim.fence)
    return held


def _find_time_s(claim: Claim) -> float:
    if (time_of := _TIMES.get(claim.link)) is not None:
        return max(map(time_of, claim.subjects.values()))
    usual: float = settings.TENTALIS["TASK_TIMEOUT_SECONDS"]
    return usual


def fail(claim: Claim, error: Exception) -> None:
    """Keep on the row of one segment why its link failed."""
    ours = error if isinstance(error, TentalisError) else None
    is_final, is_away = ours is not None and ours.is_final, ours is not None and ours.is_away
    level = logging.INFO if is_final else logging.WARNING
    logger.log(level, "%s failed: %r", claim.link, error, exc_info=not (is_final or is_away))
    services.fail_link(
        claim,
        error_type=type(error).__name__,
        message=str(error),
        is_final=is_final,
        is_away=is_away,
        wait_s=ours.wait_s if ours else None,
        has_a_turn=ours is not None and ours.has_a_turn,
        retry_after_s=ours.retry_after_s if ours else None,
    )


@dataclass(frozen=True)
class _AtWork:
    claim: Claim
    scope: CancelScope


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
            self._at_work[claim.fence] = _AtWork(claim, scope)
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
        now = time.monotonic()
        with self._lock:
            return [one.claim for one in self._at_work.values() if (one.scope.deadline or now + 1) > now]

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


HOST = socket.gethostname()
OWNER = f"{HOST}:{process_identity(os.getpid())}"
keeper = LeaseKeeper()
