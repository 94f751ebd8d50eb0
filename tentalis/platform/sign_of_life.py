"""A queue process tells the supervisor that it is ready, and then every two seconds that it is not frozen.

Celery imports this module in each of our queue processes (`--include`). The file's name comes by environment; without
one, as under somebody's own process manager, nothing happens.
"""

import os
import threading
from pathlib import Path
from typing import Any

from celery.signals import worker_ready

from tentalis.platform.probes import SIGN_OF_LIFE_VARIABLE

INTERVAL_S = 2.0


def _touch_for_ever(file: Path, stop: threading.Event) -> None:
    while True:
        file.touch()
        if stop.wait(INTERVAL_S):
            return


@worker_ready.connect(weak=False)
def start_signs_of_life(**_: Any) -> None:
    """Touch the file from now on, in a thread that dies with the process."""
    if name := os.environ.get(SIGN_OF_LIFE_VARIABLE):
        threading.Thread(
            target=_touch_for_ever, args=(Path(name), threading.Event()), name="sign-of-life", daemon=True
        ).start()
