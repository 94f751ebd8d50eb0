"""The sandbox host of this installation, as worlds ask it."""

import atexit
from functools import cache
from pathlib import Path
from typing import Final

from django.conf import settings

from tentalis.sandbox.client import SandboxClient

PATIENCE_S: Final = 60.0
"""For a host that is started again: its supervisor waits half of that at most."""


def open_client() -> SandboxClient:
    """Of the host that `tentalis up` runs, or TENTALIS_SANDBOXES names. All threads of a process share it.

    Raises:
        SandboxLostError: no host answers, for a minute.
    """
    return _open_client(settings.SANDBOXES)


@cache
def _open_client(directory: Path) -> SandboxClient:
    client = SandboxClient(directory, patience_s=PATIENCE_S)
    atexit.register(client.close)
    return client
