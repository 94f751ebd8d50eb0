"""Named places to die at, for fault tests: `TENTALIS_CRASH_AT=<name>` ends the process there, as `kill -9` would."""

import os
import signal
from enum import StrEnum

from django.conf import settings


class CrashPoint(StrEnum):
    AFTER_CLAIM = "after-claim"
    IN_FINAL_WRITE = "in-final-write"
    AFTER_FINAL_WRITE = "after-final-write"
    BEFORE_PUBLISH = "before-publish"
    AFTER_PUBLISH = "after-publish"


def pass_crash_point(point: CrashPoint) -> None:
    if settings.TENTALIS["CRASH_AT"] == point:
        os.kill(os.getpid(), signal.SIGKILL)
