"""The last check of the whole chain, so that asking for it often costs no more than asking for it now and then."""

import threading
import time

from apps.audit.chain import ChainReport, verify_chain

SHARE = 0.05
"""Of one core's time that checks may take, whoever asks however often."""


class LastReport:
    """One a process. Who asks while a check is under way waits for that one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._report: ChainReport | None = None
        self._holds_until_s = 0.0

    def find(self) -> ChainReport:
        with self._lock:
            began_s = time.monotonic()
            if self._report is None or began_s >= self._holds_until_s:
                self._report = verify_chain()
                ended_s = time.monotonic()
                self._holds_until_s = ended_s + (ended_s - began_s) / SHARE
            return self._report

    def forget(self) -> None:
        """Check anew at the next question."""
        with self._lock:
            self._report = None


LAST_REPORT = LastReport()
