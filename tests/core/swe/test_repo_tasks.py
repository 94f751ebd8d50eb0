"""What a task says, what a run comes to, and rows of other people's tasks."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tentalis.core.swe.leakage import LEAKS_FROM, measure_leak
from tentalis.core.swe.patches import parse_patch
from tentalis.core.swe.repo_tasks import (
    Environment,
    Report,
    RepoTask,
    RepoTaskError,
    Status,
    TestRun,
    hash_task,
    judge_run,
    name_unittest,
)
from tentalis.core.swe.swe_bench import read_row, say_needs
from tests.verification.repos import GOLD, make_cases_task, make_task

BOTH = {"a": "passed", "b": "passed"}
TASK = replace(make_task(), fail_to_pass=["a"], pass_to_pass=["b"])


def test_a_task_is_read_as_it_was_written() -> None:
    for task in (make_task(), make_cases_task(environment=Environment(python="3.11", plugins=["x"]))):
        again = RepoTask.from_json(json.loads(json.dumps(task.to_json())))
        assert again.to_json() == json.loads(json.dumps(task.to_json()))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"schema": "other"}, "schema: wanted tentalis.repo-task.v1, found 'other'"),
        ({"parser": "nose"}, "parser: wanted one of pytest, unittest"),
        ({"fail_to_pass": []}, "fail_to_pass: wanted a test"),
        ({"fail_to_pass": "a"}, "fail_to_pass: wanted a list of texts, found 'a'"),
        ({"fail_to_pass": ["a"], "pass_to_pass": ["a"]}, "found twice: a"),
        ({"timeout_s": 0}, "timeout_s: wanted more than 0"),
        ({"timeout_s": True}, "timeout_s: wanted more than 0"),
        ({"name": "../x"}, "name: wanted letters"),
        ({"issue": " "}, "issue: wanted words"),
        ({"unheard": 1}, "a task: wanted name, issue"),
        ({"environment": {"image": "python:3"}}, "image: wanted NAME@sha256:DIGEST"),
        ({"environment": {"pythons": 1}}, "environment: wanted python, wheels"),
        ({"environment": {"python": 3.11}}, "python: wanted a text, found 3.11"),
        ({"environment": {"wheels": ["six.whl"]}}, "wheels: wanted texts by name"),
        ({"environment": {"wheels": {"six.whl": 1}}}, "wheels: wanted texts by name"),
        ({"environment": {"plugins": "xdist"}}, "plugins: wanted a list of texts, found 'xdist'"),
        ({"cases": [{"id": "a", "code": 1, "wanted": "1"}]}, "cases: wanted texts as id"),
        ({"parser": "cases"}, "cases: wanted one of each test"),
        ({"parser": "django"}, "command: wanted the script"),
        ({"gold_patch": None}, "gold_patch: wanted a text"),
    ],
)
def test_what_is_no_task_is_said(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(RepoTaskError, match=words.replace("[", r"\[")):
        RepoTask.from_json({**make_task().to_json(), **changed})


def test_words_that_people_read_do_not_change_what_it_is() -> None:
    assert hash_task(TASK, "r") == hash_task(replace(TASK, issue="other words", name="x"), "r")
    assert hash_task(TASK, "r") != hash_task(replace(TASK, timeout_s=1.0), "r") != hash_task(TASK, "s")


@pytest.mark.parametrize(
    ("run", "status", "words"),
    [
        (TestRun(outcomes=BOTH), Status.RESOLVED, "every test passes"),
        (TestRun(outcomes={**BOTH, "a": "failed"}, words={"a": "1 != 2"}), Status.F2P_PARTIAL, "a: 1 != 2"),
        (TestRun(outcomes={**BOTH, "a": "skipped"}), Status.F2P_PARTIAL, "a: skipped"),
        (TestRun(outcomes={"a": "failed", "b": "error"}), Status.P2P_REGRESSED, "b: error"),
        (TestRun(outcomes={"a": "passed"}), Status.TESTS_MISSING, "1 of 2 tests did not run: b"),
        (TestRun(outcomes=BOTH, ended="it was killed"), Status.TESTS_MISSING, "it was killed"),
        (TestRun(outcomes=BOTH, timed_out=True), Status.TIMEOUT, "longer than 20 s"),
        (TestRun(outcomes=BOTH, tampering=["x"]), Status.PATCH_REJECTED, "it changed how it was tested: x"),
    ],
)
def test_a_run_is_resolved_only_if_every_test_ran_and_passed(run: TestRun, status: Status, words: str) -> None:
    found = judge_run(TASK, run)
    assert found[0] is status
    assert words in found[1]


def test_what_was_not_found_out_is_not_known() -> None:
    known = {status for status in Status if Report(status=status, words="").is_known}
    assert set(Status) - known == {Status.BUILD_ERROR, Status.INFRA_ERROR}


@pytest.mark.parametrize("status", Status)
def test_what_a_script_said_counts_where_nothing_was_wrong_with_how_it_came_to_say_it(status: Status) -> None:
    report = Report(status=status, words="", reward=1.0)
    counts = status in {Status.RESOLVED, Status.F2P_PARTIAL}
    assert report.reward == (1.0 if counts else None)
    assert report.outcome == (float(counts) if report.is_known else None)
    assert Report.from_json({**report.to_json(), "reward": 1.0}) == report


def test_unittests_names_are_read_as_they_are_printed() -> None:
    assert name_unittest("test_x (a.b.C)") == name_unittest("test_x (a.b.C.test_x)") == "a.b.C.test_x"
    assert name_unittest("What it does") == "What it does"


def test_a_leak_is_how_much_of_the_fix_stands_in_the_issue() -> None:
    fix = parse_patch(GOLD)
    assert measure_leak("Sums come out wrong.", fix) == 0.0
    assert measure_leak("It should `return a + b`.", fix) == 1.0
    long = parse_patch(
        "--- /dev/null\n+++ b/x.py\n@@ -0,0 +1,3 @@\n+alpha = beta(gamma, delta)\n"
        "+one = two(three, four)\n+five = six\n"
    )
    told = measure_leak("Somewhere it wants alpha = beta(gamma, delta), I think.", long)
    assert told == 1.0 > LEAKS_FROM
    assert measure_leak("alpha and beta, gamma and delta", long) < LEAKS_FROM


ROW = {
    "instance_id": "django__django-1", "repo": "django/django", "base_commit": "abc123", "patch": GOLD,
    "problem_statement": "Sums are wrong.", "FAIL_TO_PASS": '["test_add (calc.tests.CalcTest)"]', "PASS_TO_PASS": [],
    "test_patch": "--- a/tests/calc/tests.py\n+++ b/tests/calc/tests.py\n@@ -1,1 +1,1 @@\n-a\n+b\n",
}  # fmt: skip


def test_a_row_of_swe_bench_is_a_task() -> None:
    task = read_row(ROW, environment=Environment())
    assert (task.name, task.parser, task.base_commit) == ("django__django-1", "django", "abc123")
    assert task.command[-1] == "calc.tests"
    assert task.fail_to_pass == ["test_add (calc.tests.CalcTest)"]
    assert read_row({**ROW, "repo": "x/y"}, environment=Environment()).parser == "pytest"
    assert "a clone of django/django" in say_needs(ROW)
    assert "takes a container engine" in say_needs(ROW)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ([], "wanted a row of SWE-bench as an object"),
        ({"repo": "x"}, "found no instance_id"),
        ({**ROW, "patch": 1}, "patch: wanted a text"),
        ({**ROW, "FAIL_TO_PASS": "test"}, "FAIL_TO_PASS: wanted a list of tests"),
    ],
)
def test_what_is_no_row_is_said(row: Any, words: str) -> None:
    with pytest.raises(RepoTaskError, match=words):
        read_row(row, environment=Environment())
