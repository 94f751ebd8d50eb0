"""Tasks that do not tell a fix from none are quarantined, with the reason."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tentalis.core.swe.patches import write_patch
from tentalis.core.swe.repo_tasks import Environment, RepoTask
from tentalis.verification.admitting import admit_task
from tentalis.verification.loading import LoadedTask
from tentalis.verification.verifying import Verifier
from tests.verification.bad_tasks import BAD_TASKS, BY_SEED
from tests.verification.repos import FILES, GOLD, TESTS, load, make_cases_task, make_task


@pytest.mark.parametrize("name", sorted(BAD_TASKS))
def test_a_bad_task_is_quarantined_for_what_is_wrong_with_it(verifier: Verifier, name: str) -> None:
    make, words = BAD_TASKS[name]
    found = admit_task(verifier, make())
    assert not found.is_admitted
    assert words in found.reason, found.reason


def test_there_are_twenty_of_them() -> None:
    assert len(BAD_TASKS) >= 20


@pytest.mark.parametrize("make", [make_task, make_cases_task])
def test_a_task_that_tells_a_fix_is_admitted(verifier: Verifier, make: Callable[[], RepoTask]) -> None:
    found = admit_task(verifier, load(make()))
    assert found.is_admitted, found.reason
    assert (found.leak, found.dropped) == (0.0, [])
    assert found.to_json()["state"] == "admitted"


def test_a_flaky_test_is_dropped_and_the_rest_is_admitted(verifier: Verifier) -> None:
    flaky = TESTS + b"\n    def test_order(self):\n        self.assertEqual(" + BY_SEED + b", '1')\n"
    task = make_task()
    task = replace(task, pass_to_pass=[*task.pass_to_pass, "tests.test_calc.CalcTest.test_order"])
    found = admit_task(verifier, LoadedTask(task, {**FILES, "tests/test_calc.py": flaky}))
    assert found.is_admitted, found.reason
    (dropped,) = found.dropped
    assert dropped.test == "tests.test_calc.CalcTest.test_order"
    assert dropped.why == "passes 1 times of 3 on the base"
    assert found.task.pass_to_pass == ["tests.test_calc.CalcTest.test_absolute"]


def test_what_cannot_be_built_is_not_known(verifier: Verifier) -> None:
    environment = Environment(image="python@sha256:" + "0" * 64)
    found = admit_task(verifier, load(make_task(environment=environment)))
    assert not found.is_known
    assert "no container engine" in found.reason


def test_tests_that_come_with_a_patch_count(verifier: Verifier) -> None:
    old = {**FILES, "tests/test_calc.py": TESTS.split(b"    def test_add")[0] + TESTS.split(b"3)\n\n")[1]}
    task = make_task(test_patch=write_patch(old, {"tests/test_calc.py": TESTS}), gold_patch=GOLD)
    assert admit_task(verifier, LoadedTask(task, old)).is_admitted
