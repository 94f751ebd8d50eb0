"""Programs: what they print, what their functions give back, and checks that are really called."""

import ast
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from apps.worlds.sandboxes import open_client
from tentalis.core.graders.programs import match_output, match_value, take_code
from tentalis.core.graders.reading import is_number, read_count, read_word
from tentalis.core.grading import Grade, GradedTask, Grader, UngradedError, decide_grade
from tentalis.core.scoring.protocol import AttemptContext
from tentalis.verification.program_runner import decode
from tentalis.verification.programs import ProgramError, ProgramFindings, ProgramJob, ProgramRunner

TIMEOUT_S: Final = 10
LONGEST_S: Final = 120
MOST_CASES: Final = 1_000
MOST_CHARS: Final = 4 * 2**20
"""Of an answer."""
COMPARED: Final = ("lines", "words", "exact")
_TESTED: Final = {"test", "entry_point", "setup"}
_CALLED: Final = {"function", "cases", "setup"}
_PRINTED: Final = {"cases"}


def check_code(reference: Any, options: Mapping[str, Any]) -> None:
    """Raises ValueError."""
    _read_timeout_s(options)
    read_word(options, "compare", COMPARED)
    tolerance = options.get("tolerance")
    if tolerance is not None and not is_number(tolerance):
        raise ValueError(f"tolerance: wanted a number, found {tolerance!r:.80}")
    if not isinstance(reference, Mapping) or not ("test" in reference) ^ ("cases" in reference):
        raise ValueError(f"reference: wanted an object with a test or with cases, found {reference!r:.80}")
    known = _TESTED if "test" in reference else _CALLED if "function" in reference else _PRINTED
    if unknown := sorted(reference.keys() - known):
        raise ValueError(f"reference: wanted of {', '.join(sorted(known))}, found {', '.join(map(str, unknown))[:200]}")
    for name in {"function", "entry_point", "setup"} & reference.keys():
        if not isinstance(reference[name], str):
            raise ValueError(f"{name}: wanted a text, found {reference[name]!r:.80}")
    if "test" in reference:
        _check_tests(_list_tests(reference), str(reference.get("entry_point") or ""))
    else:
        _check_cases(reference["cases"], is_called="function" in reference)


def _read_timeout_s(options: Mapping[str, Any]) -> int:
    return read_count(options, "timeout_s", TIMEOUT_S, least=1, most=LONGEST_S)


def _list_tests(reference: Mapping[str, Any]) -> list[str]:
    found = reference["test"]
    tests = [found] if isinstance(found, str) else found
    if not isinstance(tests, list) or not tests or not all(isinstance(one, str) for one in tests):
        raise ValueError(f"test: wanted code, or a list of it, found {found!r:.80}")
    return tests


def _check_tests(tests: Sequence[str], entry: str) -> None:
    statements = []
    for test in tests:
        try:
            statements += ast.parse(test).body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ValueError(f"test: wanted code of Python, found {type(error).__name__}: {error}"[:300]) from None
    has_check = any(isinstance(one, ast.FunctionDef) and one.name == "check" for one in statements)
    if has_check and not entry:
        raise ValueError("entry_point: wanted the function that check is called with, found none")
    if not has_check and not any(not isinstance(one, ast.Import | ast.ImportFrom | ast.Assign) for one in statements):
        raise ValueError("test: wanted a function check, or statements that check, found none")


def _check_cases(cases: Any, *, is_called: bool) -> None:
    if not isinstance(cases, list) or not 1 <= len(cases) <= MOST_CASES:
        count = len(cases) if isinstance(cases, list) else cases
        raise ValueError(f"cases: wanted a list of 1 to {MOST_CASES:,}, found {count!r:.80}")
    for case in cases:
        if not isinstance(case, Mapping):
            raise ValueError(f"cases: wanted objects, found {case!r:.80}")
        if not is_called:
            if case.keys() != {"input", "output"} or not all(isinstance(one, str) for one in case.values()):
                raise ValueError(f"cases: wanted input and output, texts, found {sorted(case)!r:.80}")
            continue
        if case.keys() - {"args", "kwargs", "returns", "raises"} or not ("returns" in case) ^ ("raises" in case):
            raise ValueError(f"cases: wanted args or kwargs, and returns or raises, found {sorted(case)!r:.80}")
        if not isinstance(case.get("args", []), list) or not isinstance(case.get("kwargs", {}), Mapping):
            raise ValueError(f"cases: wanted args as a list and kwargs as an object, found {case!r:.80}")


@cache
def _open_runner() -> ProgramRunner:
    return ProgramRunner(open_client)


def grade_code(task: GradedTask, episode: AttemptContext) -> Grade:
    """Right where every case comes out, or the whole check passes; a program that takes too long is wrong."""
    reference, answer = task.reference, episode.answer or ""
    code = take_code(answer)
    if not code.strip():
        return decide_grade(correct=False, why="there is no code in it")
    if len(answer) > MOST_CHARS:
        return decide_grade(correct=False, why=f"it is longer than {MOST_CHARS:,} characters")
    job = _write_job(reference, code, _read_timeout_s(task.options))
    try:
        found = _open_runner().run(job)
    except ProgramError as error:
        raise UngradedError(str(error)) from None
    if job.kind == "check":
        return decide_grade(correct=found.passed, why=found.ended or found.words)
    passed = _match_cases(job, found, task)
    count = len(reference["cases"])
    correct = passed == count and not found.ended
    why = found.ended or next((str(one["ended"]) for one in found.cases if one.get("ended")), "")
    return Grade(
        value=float(correct),
        correct=correct,
        signals={"passed": passed / count},
        evidence={"passed": passed, "cases": count, **({"why": why} if why else {})},
    )


def _write_job(reference: Mapping[str, Any], code: str, timeout_s: int) -> ProgramJob:
    setup = str(reference.get("setup") or "")
    if "test" in reference:
        entry = str(reference.get("entry_point") or "")
        return ProgramJob(
            kind="check", code=code, setup=setup, entry=entry, tests=_list_tests(reference), timeout_s=timeout_s
        )
    cases = reference["cases"]
    if "function" not in reference:
        return ProgramJob(kind="program", code=code, inputs=[case["input"] for case in cases], timeout_s=timeout_s)
    entry = reference["function"]
    asked = [{"function": entry, "args": case.get("args"), "kwargs": case.get("kwargs")} for case in cases]
    return ProgramJob(kind="calls", code=code, setup=setup, entry=entry, cases=asked, timeout_s=timeout_s)


def _match_cases(job: ProgramJob, found: ProgramFindings, task: GradedTask) -> int:
    """How many cases came out as they should."""
    tolerance, compare, passed = task.options.get("tolerance"), read_word(task.options, "compare", COMPARED), 0
    for case, told in zip(task.reference["cases"], found.cases, strict=False):
        if job.kind == "program":
            passed += not told["ended"] and match_output(
                str(told["output"]), case["output"], compare=compare, tolerance=tolerance
            )
        elif "raises" in case:
            passed += case["raises"] in told.get("raised", ())
        elif "value" in told:
            passed += _match_told(told["value"], case["returns"], tolerance)
    return passed


def _match_told(told: Any, wanted: Any, tolerance: float | None) -> bool:
    try:
        return match_value(decode(told, lambda held: object()), wanted, tolerance=tolerance)
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError):
        return False


GRADERS: Final = (
    Grader(
        name="code",
        version="2",
        about="A program, by what it prints, what its functions give back, or a check that is called.",
        grade=grade_code,
        options={
            "timeout_s": f"seconds of the processor that a run may take; {TIMEOUT_S} where none are said",
            "compare": "of what is printed: lines, words or exact",
            "tolerance": "by which numbers may differ",
        },
        check=check_code,
        is_pure=False,
    ),
)
