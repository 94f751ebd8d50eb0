"""Packages of strangers: one file, found by its entry points as pip would have put it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def put_package(site: Path, module: str, file: Path, points: str) -> None:
    """Into a directory that is on the path of whoever is to find it.

    Args:
        module: what the file is imported as.
        points: its entry points, as in entry_points.txt.
    """
    info = site / f"{module}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module.replace('_', '-')}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(points)
    (site / f"{module}.py").write_text(file.read_text(encoding="utf-8"), encoding="utf-8")


@contextmanager
def installed(site: Path, module: str, file: Path, points: str) -> Iterator[None]:
    """Beside us and beside every process that is started meanwhile."""
    put_package(site, module, file, points)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(site), before]))
    sys.path.insert(0, str(site))
    try:
        yield
    finally:
        sys.path.remove(str(site))
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
