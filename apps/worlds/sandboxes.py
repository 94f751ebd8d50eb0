"""The sandbox host of this installation, as worlds ask it."""

from functools import cache
from pathlib import Path

from django.conf import settings

from tentalis.sandbox.client import SandboxClient


def open_client() -> SandboxClient:
    """Of the host that `tentalis up` runs, or TENTALIS_SANDBOXES names. All threads of a process share it.

    Raises:
        SandboxLostError: no host answers.
    """
    return _open_client(settings.SANDBOXES)


@cache
def _open_client(directory: Path) -> SandboxClient:
    return SandboxClient(directory)
