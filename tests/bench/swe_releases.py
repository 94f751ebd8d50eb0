"""Tasks of real repositories: what changed between two releases of a package, as their source distributions hold it.

pip fetches them. The tests of the newer release decide, and its sources are the gold patch.
"""

import subprocess
import sys
import tarfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from tentalis.core.swe.patches import write_patch
from tentalis.core.swe.repo_tasks import Environment, RepoTask
from tentalis.verification.loading import LoadedTask, load_task, save_task
from tests.verification.repos import PYTEST, make_wheel


@dataclass(frozen=True)
class Release:
    """Two of a package, the second of which mends what the issue says."""

    package: str
    before: str
    behind: str
    issue: str
    tests: tuple[str, ...]
    parser: str
    own_python: bool = False

    @property
    def name(self) -> str:
        return f"{self.package}-{self.behind}"


RELEASES: Final = (
    Release(
        "packaging", "23.1", "23.2", "A marker with words behind its end is taken, and they are dropped.",
        ("tests/test_markers.py", "tests/test_utils.py"), "pytest",
    ),
    Release(
        "cachetools", "5.3.3", "5.4.0", "Whoever uses the cache that drops what was used last should be told that it "
        "will go away.", ("tests.test_mru", "tests.test_func", "tests.test_cachedmethod"), "unittest", own_python=True,
    ),
)  # fmt: skip


def fetch_task(release: Release, place: Path) -> LoadedTask:
    """Make its task in a directory, with the tests not chosen yet."""
    before, behind = (_fetch(release.package, version, place) for version in (release.before, release.behind))
    tests = {path: behind.get(path) for path in {*before, *behind} if path.startswith("tests/")}
    sources = {path: behind.get(path) for path in {*before, *behind} if path.startswith("src/")}
    wheels = dict(map(make_wheel, PYTEST)) if release.parser == "pytest" else {}
    python = f"{sys.base_prefix}/bin/python{sys.version_info[0]}.{sys.version_info[1]}" if release.own_python else ""
    environment = Environment(
        python=python, wheels={name: sha256(content).hexdigest() for name, content in wheels.items()}
    )
    task = RepoTask(
        name=release.name, issue=release.issue, parser=release.parser, roots=("src", "."), environment=environment,
        test_patch=write_patch(before, tests), gold_patch=write_patch(before, sources), fail_to_pass=release.tests,
        timeout_s=120.0,
    )  # fmt: skip
    save_task(task, before, place / release.name, wheels=wheels)
    return load_task(place / release.name)


def _fetch(package: str, version: str, place: Path) -> dict[str, bytes]:
    """The text files of a source distribution, without what its build put there."""
    argv = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-binary",
        package,
        "--dest",
        str(place),
    ]
    subprocess.run([*argv, f"{package}=={version}"], check=True, capture_output=True, timeout=300)
    files = {}
    with tarfile.open(place / f"{package}-{version}.tar.gz") as archive:
        for entry in archive:
            path = entry.name.partition("/")[2]
            if entry.isfile() and not path.endswith((".bin", "PKG-INFO")) and ".egg-info/" not in path:
                stream = archive.extractfile(entry)
                files[path] = stream.read() if stream else b""
    return {path: content for path, content in files.items() if _is_text(content)}


def _is_text(content: bytes) -> bool:
    try:
        return "\0" not in content.decode()
    except UnicodeDecodeError:
        return False
