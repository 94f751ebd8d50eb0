"""When a request is sent again, and after how long."""

import random
import time
from dataclasses import dataclass

from tentalis.core.backoff import grow_wait, read_retry_after

STILL_RUNNING = "still_running"
TRY_AGAIN = frozenset({429, 502, 503, 504})


@dataclass(frozen=True)
class Retries:
    """How often and how patiently.

    Sending again is safe for every verb: what changes something carries an Idempotency-Key that stays the same.

    Args:
        attempts: in all; 1 never sends again.
        base_s, cap_s: the wait doubles from the first to the second, with jitter.
    """

    attempts: int = 5
    base_s: float = 0.2
    cap_s: float = 5.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts must be at least 1, found {self.attempts}")

    def wait_s(self, attempt: int, retry_after: str | None) -> float:
        """Seconds before attempt `attempt` + 1; what the platform asked for where it did, at most `cap_s` of it.

        Args:
            attempt: how many were sent, from 1.
        """
        asked_s = read_retry_after(retry_after, now=time.time(), longest_s=self.cap_s)
        if asked_s is not None:
            return asked_s
        longest = grow_wait(attempt - 1, first_s=self.base_s, cap_s=self.cap_s)
        return random.uniform(longest / 2, longest)

    def may_help(self, status: int, code: str) -> bool:
        """Whether another try may bring another answer."""
        return status in TRY_AGAIN or code == STILL_RUNNING
