"""Whoever passes without mending the mistake is not resolved, and it is said why."""

from dataclasses import replace
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
    patch_of,
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


OTHER_TESTS = b"""import asyncio
import contextlib
import unittest

import calc


class OtherTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.one = 1

    def setUp(self):
        self.open = open
        self.addCleanup(setattr, __import__("builtins"), "open", open)
        __import__("builtins").open = lambda *words: self.fail("nothing is opened")

    def tearDown(self):
        self.assertEqual(calc.absolute(self.one), 1)

    def test_parts(self):
        for a, b in ((1, 2), (0, 3)):
            with self.subTest(a=a):
                self.assertEqual(calc.add(a, b), 3)

    def test_behind_it(self):
        self.addCleanup(lambda: self.assertEqual(calc.add(self.one, 1), 2))

    def test_that_raises(self):
        with self.assertRaises(TypeError), contextlib.ExitStack():
            calc.add(1, None)


class LaterTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        await asyncio.sleep(0)

    async def test_later(self):
        await asyncio.sleep(0)
        self.assertEqual(calc.add(1, 2), 3)
"""
OTHER = ("OtherTest.test_parts", "OtherTest.test_behind_it", "LaterTest.test_later")
OTHER_PLAIN_TESTS = b"""import builtins
import os

import calc
import pytest


@pytest.fixture
def one(monkeypatch):
    monkeypatch.setattr(builtins, "open", None)
    monkeypatch.setattr(os, "getlogin", None)
    yield 1
    assert calc.absolute(-1) == 1


class TestAll:
    @pytest.mark.parametrize("other", [1, 2])
    def test_all(self, one, other, request):
        assert request.instance is self
        assert calc.add(one, other) == one + other
"""
OTHER_PLAIN = [f"tests/test_plain_other.py::TestAll::test_all[{one}]" for one in (1, 2)]


def load_others(parser: str, environment: Environment, place: Path) -> LoadedTask:
    files = {**FILES, "tests/test_other.py": OTHER_TESTS, "tests/test_plain_other.py": OTHER_PLAIN_TESTS}
    if parser == "unittest":
        names = [f"tests.test_other.{one}" for one in (*OTHER, "OtherTest.test_that_raises")]
        task = make_task(fail_to_pass=names[:3], pass_to_pass=names[3:])
    else:
        names = [f"tests/test_other.py::{one.replace('.', '::')}" for one in (*OTHER, "OtherTest.test_that_raises")]
        task = make_pytest_task(
            environment=environment, fail_to_pass=[*names[:3], *OTHER_PLAIN], pass_to_pass=names[3:]
        )
    return LoadedTask(task, files, place)


@pytest.mark.parametrize("parser", ["unittest", "pytest"])
def test_tests_of_other_kinds_tell_a_fix_from_none(
    verifier: Verifier, with_pytest: Environment, wheels_place: Path, parser: str
) -> None:
    """Those with parts, with what is done before and behind them, that patch built-ins for a while, that wait."""
    loaded = load_others(parser, with_pytest, wheels_place)
    report = verifier.verify(loaded, GOLD)
    assert report.status is Status.RESOLVED, report
    report = verifier.verify(loaded, patch_of({"calc.py": SOURCE.decode() + "# nothing else\n"}))
    assert report.status is Status.F2P_PARTIAL, report
    assert {report.outcomes[one] for one in loaded.task.fail_to_pass} <= {"failed", "error"}


@pytest.mark.parametrize("parser", ["unittest", "pytest"])
@pytest.mark.parametrize("name", ["addSubTest", "addFailure", "addError"])
def test_no_part_of_a_test_is_told_otherwise_once(
    verifier: Verifier, with_pytest: Environment, wheels_place: Path, parser: str, name: str
) -> None:
    loaded = load_others(parser, with_pytest, wheels_place)
    kind = "unittest.TestResult" if parser == "unittest" else "_pytest.unittest.TestCaseFunction"
    cheat = (
        f"import {kind.rpartition('.')[0]}\n\n_true = {kind}.{name}\n\n\ndef _once(self, *words):\n"
        f"    {kind}.{name} = _true\n\n\ndef add(a, b):\n    {kind}.{name} = _once\n    return a - b\n\n\n"
        f"def absolute(a):\n    {kind}.{name} = _once\n    return a\n"
    )
    for tests in (loaded.task.fail_to_pass[:1], loaded.task.fail_to_pass[1:2]):
        task = replace(loaded.task, fail_to_pass=tests, pass_to_pass=[])
        report = verifier.verify(replace(loaded, task=task), patch_of({"calc.py": cheat}))
        assert report.is_known, report
        assert not report.is_resolved, report


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
