"""Which browser is driven here."""

import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Final

NAMES: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first that is there. The shell draws and runs the same; without windows it takes a quarter less CPU."""
DRIVER: Final = "playwright"
"""The package that drives it."""
IN_AN_IMAGE: Final = "in a container: docker compose build --build-arg GUI=1"


def find_chromium(told: Path | None = None) -> str | None:
    """Path of an installed Chromium; None where there is none.

    Args:
        told: which one it is to be (TENTALIS_BROWSER); None: the first of `NAMES` on the path.
    """
    if told is not None:
        return str(told) if told.is_file() and os.access(told, os.X_OK) else None
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def find_lack(told: Path | None = None) -> str:
    """What is missing so that a browser can be driven here; "" for nothing."""
    if find_spec(DRIVER) is None:
        return f"the package {DRIVER} (pip install 'tentalis[gui]'; {IN_AN_IMAGE})"
    if find_chromium(told) is None:
        wanted = f"{told or ', '.join(NAMES)} is not there, and TENTALIS_BROWSER says where another one is"
        return f"Chromium: {wanted} ({IN_AN_IMAGE})"
    return ""
