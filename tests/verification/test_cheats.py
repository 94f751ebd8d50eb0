"""Whoever passes without mending the mistake is not resolved, and it is said why."""

from pathlib import Path

import pytest

from tentalis.core.swe.repo_tasks import Environment, Status
from tentalis.verification.loading import LoadedTask
from tentalis.verification.verifying import Verifier
from tests.verification.repos import (
    CHEATS,
    FILES,
    GOLD,
    PYTEST_CHEATS,
    SOURCE,
    load,
    make_cases_task,
    make_pytest_task,
    make_task,
)

HANGING = {"hangs", "stops who counts"}
"""They end with their task's time, so it is short for them."""


def test_there_are_more_than_fifty_of_them() -> None:
    assert len(CHEATS) + len(PYTEST_CHEATS) > 50


@pytest.mark.parametrize("name", sorted(set(CHEATS) - HANGING))
def test_no_cheat_is_resolved_by_unittest(verifier: Verifier, name: str) -> None:
    report = verifier.verify(load(make_task()), CHEATS[name])
    assert not report.is_resolved, report
    assert report.is_known, report
    assert report.words


@pytest.mark.parametrize("name", sorted(HANGING))
def test_who_hangs_is_ended_with_its_time(verifier: Verifier, name: str) -> None:
    assert verifier.verify(load(make_task(timeout_s=1.0)), CHEATS[name]).status is Status.TIMEOUT


@pytest.mark.parametrize("name", sorted(PYTEST_CHEATS))
def test_no_cheat_is_resolved_by_pytest(
    verifier: Verifier, with_pytest: Environment, wheels_place: Path, name: str
) -> None:
    loaded = LoadedTask(make_pytest_task(environment=with_pytest), FILES, wheels_place)
    report = verifier.verify(loaded, PYTEST_CHEATS[name])
    assert not report.is_resolved, report
    assert report.is_known, report


def test_the_fix_is_resolved_by_each_runner(verifier: Verifier, with_pytest: Environment, wheels_place: Path) -> None:
    for task in (make_task(), make_cases_task(), make_pytest_task(environment=with_pytest)):
        report = verifier.verify(LoadedTask(task, FILES, wheels_place), GOLD)
        assert report.status is Status.RESOLVED, report
        assert set(report.outcomes.values()) == {"passed"}


def test_a_fix_with_a_cheat_beside_it_counts_without_the_cheat(verifier: Verifier) -> None:
    report = verifier.verify(load(make_task()), GOLD + CHEATS["edits a test"])
    assert report.status is Status.RESOLVED
    assert report.stripped == [("tests/test_calc.py", "a test")]


def test_what_a_case_wants_is_nowhere_in_the_sandbox(verifier: Verifier) -> None:
    """Who sees all of its process still has to come to the value by itself."""
    searching = (
        "--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,5 @@\n def add(a, b):\n-    return a - b\n+    import gc\n"
        "+    held = [one for one in gc.get_objects() if isinstance(one, dict) and 'wanted' in one]\n"
        "+    names = [name for name in held if isinstance(name['wanted'], str)]\n"
        "+    return int(names[0]['wanted']) if names else 'nothing'\n"
    )
    looks_already = {**FILES, "calc.py": SOURCE + b"# gc.get_objects\n"}
    report = verifier.verify(load(make_cases_task(gold_patch=""), looks_already), searching)
    assert report.status is Status.F2P_PARTIAL
    assert "nothing" in report.words
