"""Real repositories as tasks: two releases of two packages each, with an interpreter and packages of their own."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tentalis.core.swe.patches import write_patch
from tentalis.core.swe.repo_tasks import Status
from tentalis.sandbox.client import SandboxClient, start_host
from tentalis.verification.admitting import admit_task, find_tests
from tentalis.verification.verifying import Verifier
from tests.bench.swe_releases import RELEASES, fetch_task
from tests.sandbox.conftest import find_obstacle

OBSTACLE = find_obstacle()
pytestmark = [pytest.mark.releases, pytest.mark.slow, pytest.mark.skipif(bool(OBSTACLE), reason=OBSTACLE)]


def test_releases_of_two_packages_are_verified_side_by_side(tmp_path: Path) -> None:
    with start_host(tmp_path / "host", warm=2):
        client = SandboxClient(tmp_path / "host")
        verifier = Verifier(lambda: client)
        tasks = [fetch_task(release, tmp_path) for release in RELEASES]
        chosen = [replace(one, task=find_tests(verifier, one)) for one in tasks]
        for one in chosen:
            assert len(one.task.fail_to_pass) > 10
            found = admit_task(verifier, one, rounds=2)
            assert found.is_admitted, found.reason
        with ThreadPoolExecutor(len(chosen)) as pool:
            reports = list(pool.map(lambda one: verifier.verify(one, one.task.gold_patch), chosen))
        assert [one.status for one in reports] == [Status.RESOLVED] * len(chosen)
        assert len({one.environment_hash for one in reports}) == len(chosen)
        spaced = {
            path: content + b"\n# nothing else\n"
            for path, content in chosen[0].files.items() if path.endswith("/utils.py")
        }  # fmt: skip
        idle = verifier.verify(chosen[0], write_patch(chosen[0].files, spaced))
        assert idle.status is Status.F2P_PARTIAL
        client.close()
