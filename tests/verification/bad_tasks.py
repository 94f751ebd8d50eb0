"""Tasks that nobody may be measured or trained on, each with a word of why."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tentalis.core.swe.patches import write_patch
from tentalis.verification.loading import LoadedTask
from tests.verification.repos import FILES, GOLD, SOURCE, TESTS, load, make_cases_task, make_task, patch_of

FIXED: Final = SOURCE.replace(b"a - b", b"a + b")
ADD: Final = "tests.test_calc.CalcTest.test_add"
ABSOLUTE: Final = "tests.test_calc.CalcTest.test_absolute"
BY_SEED: Final = b"__import__('os').environ['PYTHONHASHSEED']"
"""What the order in a set hangs on, whatever Python it is."""


def _with_tests(tests: bytes, **changed: Any) -> LoadedTask:
    files = {**FILES, "tests/test_calc.py": tests}
    return LoadedTask(make_task(**changed), files)


def _with_source(source: bytes, **changed: Any) -> LoadedTask:
    files = {**FILES, "calc.py": source}
    gold = write_patch(files, {"calc.py": changed.pop("gold", FIXED)})
    return LoadedTask(make_task(gold_patch=gold, **changed), files)


def _flaky_test() -> LoadedTask:
    return _with_tests(TESTS.replace(b"calc.add(1, 2), 3", BY_SEED + b", '1'"))


def _flaky_gold() -> LoadedTask:
    return _with_source(SOURCE, gold=SOURCE.replace(b"a - b", b"a + b if " + BY_SEED + b" < '1' else 0"))


BAD_TASKS: Final[Mapping[str, tuple[Callable[[], LoadedTask], str]]] = {
    "the base passes": (lambda: _with_source(FIXED, gold=FIXED + b"# better\n"), "passes on the base, and should fail"),
    "the gold patch fails": (
        lambda: load(make_task(gold_patch=patch_of({"calc.py": SOURCE.decode().replace("a - b", "a * b")}))),
        "does not pass on the gold patch",
    ),
    "the gold patch is another file's": (
        lambda: load(make_task(gold_patch=patch_of({"other.py": "pass\n"}))), "does not pass on the gold patch",
    ),
    "the gold patch does not apply": (
        lambda: load(make_task(gold_patch=GOLD.replace("a - b", "a / b"))), "the gold patch does not apply",
    ),
    "the gold patch cannot be read": (
        lambda: load(make_task(gold_patch="add the numbers")), "wanted a unified diff",
    ),
    "there is no gold patch": (lambda: load(make_task(gold_patch="")), "there is no gold patch"),
    "the gold patch breaks something": (
        lambda: _with_source(SOURCE, gold=FIXED.replace(b"a if a > 0 else -a", b"a")),
        "passes on the base, and not on the gold patch",
    ),
    "what should pass before does not": (
        lambda: load(make_task(pass_to_pass=[ADD], fail_to_pass=[ABSOLUTE])), "passes on the base, and should fail",
    ),
    "what passes is broken at the base": (
        lambda: _with_source(SOURCE.replace(b"a if a > 0 else -a", b"a"), gold=FIXED),
        "does not pass on the base, and should",
    ),
    "a test is not there": (
        lambda: load(make_task(fail_to_pass=["tests.test_calc.CalcTest.test_nothing"])),
        "does not pass on the gold patch",
    ),
    "a module of tests is not there": (
        lambda: load(make_task(fail_to_pass=["tests.test_none.NoneTest.test_add"])), "does not pass on the gold patch",
    ),
    "a test that passes is not there": (
        lambda: load(make_task(pass_to_pass=["tests.test_calc.CalcTest.test_nothing"])),
        "does not pass on the base, and should",
    ),
    "its test is flaky": (_flaky_test, "no test is left"),
    "its fix is flaky": (_flaky_gold, "no test is left"),
    "its test is skipped": (
        lambda: _with_tests(TESTS.replace(b"    def test_add", b"    @unittest.skip('later')\n    def test_add")),
        "does not pass on the gold patch",
    ),
    "its test always fails": (
        lambda: _with_tests(TESTS.replace(b"calc.add(1, 2), 3", b"1, 2")), "does not pass on the gold patch",
    ),
    "its tests cannot be imported": (
        lambda: _with_tests(b"import nothing_of_this_name\n" + TESTS), "does not pass on the base, and should",
    ),
    "the issue tells the fix": (
        lambda: load(make_task(issue="In add() it should say: return a + b instead of what is there.")),
        "the issue tells the fix",
    ),
    "the issue holds the patch": (lambda: load(make_task(issue=f"Please apply:\n{GOLD}")), "the issue tells the fix"),
    "the gold patch changes the test": (
        lambda: load(make_task(gold_patch=patch_of({"tests/test_calc.py": TESTS.decode().replace("2), 3", "2), -1")}))),
        "the gold patch touches tests/test_calc.py, which is a test",
    ),
    "the gold patch changes how it is tested": (
        lambda: _with_source(
            SOURCE, gold=b"import unittest\n\nunittest.TestCase.assertEqual = lambda *a: None\n" + SOURCE
        ),
        "the gold patch changes how it is tested",
    ),
    "its tests take too long": (
        lambda: _with_tests(TESTS.replace(b"import calc\n", b"import calc\n\nwhile True:\n    pass\n"), timeout_s=1.0),
        "take longer than 1 s",
    ),
    "a case that nothing comes to": (
        lambda: load(make_cases_task(fail_to_pass=["absolute"], pass_to_pass=["add"])),
        "passes on the base, and should fail",
    ),
}  # fmt: skip
