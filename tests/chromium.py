"""Which browser the tests drive."""

import shutil

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first that is there. The shell draws and runs the same; without windows it takes a quarter less CPU."""


def find_chromium() -> str | None:
    """Path of an installed Chromium; None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)
