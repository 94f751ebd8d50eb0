"""Programs are graded by what they do, whatever they do to be thought right."""

import json
import re
from typing import Any

import pytest
from django.test import override_settings

from apps.evals.graders import code
from tentalis.core.graders.programs import match_output, match_value, take_code
from tentalis.sandbox.errors import SandboxLostError
from tentalis.verification import program_runner, programs
from tentalis.verification.program_runner import decode, encode
from tests.apps.evals.graders.asking import ask_grader
from tests.apps.evals.graders.programs import CALLED, CHEATS, CHECKED, PRINTED, PRINTING_CHEATS, PRINTS, RIGHT, spoil

QUICK = (
    "exits at once", "ends the process when it is called", "another check, in all modules", "another AssertionError",
    "reads the test, wherever it lies", "reads the memory around it", "a number that equals everything",
    "exits behind it", "another json", "writes a verdict into everything open of its parent", "ends everything",
    "goes on in another process",
)  # fmt: skip
"""Of all cheats, which `make bench BENCH=graders` tries."""
HANDED = "from dataclasses import dataclass\n\n\n@dataclass\nclass Pair:\n    left: int\n    right: int\n"


@pytest.mark.usefixtures("sandboxes")
def test_a_right_program_passes_in_every_form() -> None:
    fenced = f"It adds:\n\n```python\n{RIGHT}```\nand prints\n\n```\n5\n```"
    for answer in (RIGHT, fenced, "    return a + b\n", "return a + b"):
        assert ask_grader("code", CHECKED, answer).is_correct, answer
    assert ask_grader("code", CALLED, RIGHT).evidence == {"passed": 2, "cases": 2}
    assert ask_grader("code", PRINTED, PRINTS).is_correct
    half = ask_grader("code", PRINTED, "print(5)")
    assert (half.value, half.signals) == (0.0, {"passed": 0.5})


@pytest.mark.usefixtures("sandboxes")
def test_a_check_is_called_and_what_is_broken_fails() -> None:
    for way, broken in spoil(RIGHT, "add").items():
        grade = ask_grader("code", CHECKED, broken, timeout_s=1)
        assert (grade.value, grade.correct) == (0.0, False), way
    assert ask_grader("code", CHECKED, "def other(a, b):\n    return a + b").value == 0.0
    assert ask_grader("code", CHECKED, "").value == 0.0


@pytest.mark.usefixtures("sandboxes")
@pytest.mark.parametrize("name", QUICK)
def test_a_program_that_cheats_is_wrong(name: str) -> None:
    assert ask_grader("code", CHECKED, CHEATS[name], timeout_s=1).value == 0.0


@pytest.mark.usefixtures("sandboxes")
def test_a_program_that_prints_as_if_is_wrong() -> None:
    assert {ask_grader("code", PRINTED, cheat).value for cheat in PRINTING_CHEATS.values()} == {0.0}


@pytest.mark.usefixtures("sandboxes")
def test_a_program_that_is_killed_took_no_longer_than_it_did_however_long_it_ran_before() -> None:
    program = (
        "import os, time\n\nif input() == 'work':\n    while time.process_time() < 0.1:\n        pass\nelse:\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    cases = [{"input": word, "output": ""} for word in (*["work"] * 11, "end")]
    grade = ask_grader("code", {"cases": cases}, program, timeout_s=1)
    assert grade.evidence == {"passed": 11, "cases": 12, "why": "it was ended by signal 9"}


@pytest.mark.usefixtures("sandboxes")
@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("KeyError", "def f():\n    return {}[1]"),
        ("LookupError", "def f():\n    return {}[1]"),
        ("IOError", "def f():\n    open('/none')"),
        ("UnicodeDecodeError", "def f():\n    return b'\\xff'.decode()"),
        ("ValueError", "def f():\n    return b'\\xff'.decode()"),
        ("JSONDecodeError", "import json\n\n\ndef f():\n    return json.loads('{')"),
        ("ValueError", "import json\n\n\ndef f():\n    return json.loads('{')"),
        ("OutOfStock", "class OutOfStock(LookupError):\n    pass\n\n\ndef f():\n    raise OutOfStock('none')"),
        ("LookupError", "class OutOfStock(LookupError):\n    pass\n\n\ndef f():\n    raise OutOfStock('none')"),
        ("SystemExit", "def f():\n    raise SystemExit(1)"),
    ],
)
def test_what_is_raised_goes_by_its_own_name_and_by_those_of_pythons_own_errors(name: str, program: str) -> None:
    assert ask_grader("code", {"function": "f", "cases": [{"raises": name}]}, program).value == 1.0
    for other in ("OutOfReach", "TypeError", "ArithmeticError"):
        assert ask_grader("code", {"function": "f", "cases": [{"raises": other}]}, program).value == 0.0


_NAMES = "('KeyError', 'TypeError', 'OutOfStock', 'ZeroDivisionError', 'OutOfReach')"


@pytest.mark.usefixtures("sandboxes")
@pytest.mark.parametrize(
    "program",
    [
        "class Odd(KeyError, TypeError, ZeroDivisionError):\n    pass\n\n\ndef f(_):\n    raise Odd",
        f"last = Exception\nfor name in (*{_NAMES}, 'Odd'):\n    last = type(name, (last,), {{}})\n\n\n"
        "def f(_):\n    raise last",
        "class Meta(type):\n    __name__ = property(lambda cls: Every())\n\n\nclass Every(str):\n"
        "    __eq__ = lambda *_: True\n    __hash__ = None\n\n\nclass Odd(Exception, metaclass=Meta):\n    pass\n\n\n"
        "def f(_):\n    raise Odd",
        "import json\nimport os\n\n\ndef f(_):\n"
        f"    told = json.dumps({{'error': 'Odd', 'kinds': list({_NAMES}), 'raised': list({_NAMES}), 'words': ''}})\n"
        "    for end in range(3, 256):\n        try:\n            os.write(end, b'%12d' % len(told) + told.encode())\n"
        "        except OSError:\n            pass\n",
        "import json\nimport os\n\n\ndef f(_):\n    told = json.dumps({'value': {'object': []}})\n"
        "    for end in range(3, 256):\n        try:\n            os.write(end, b'%12d' % len(told) + told.encode())\n"
        "        except OSError:\n            pass\n",
    ],
    ids=[
        "several at once",
        "a line of them",
        "a name that equals every name",
        "tells names",
        "tells what is no object",
    ],
)
def test_a_program_that_says_that_it_raises_everything_has_not_raised_what_was_wanted(program: str) -> None:
    """One line of Python's own errors at most, as any class has; never two, and never another's name."""
    won = [
        name
        for name in ("KeyError", "TypeError", "OutOfStock", "ZeroDivisionError", "OutOfReach", "IndexError")
        if ask_grader("code", {"function": "f", "cases": [{"args": [1], "raises": name}]}, program).is_correct
    ]
    assert won in ([], ["KeyError"])


@pytest.mark.usefixtures("sandboxes")
@pytest.mark.parametrize("name", ["KeyError", "LookupError", "Exception", "NameError"])
def test_a_program_without_the_function_raises_nothing_that_was_wanted(name: str) -> None:
    grade = ask_grader("code", {"function": "f", "cases": [{"args": [1], "raises": name}]}, "x = 1")
    assert (grade.value, grade.evidence["why"]) == (0.0, "wanted f in it, found none")
    failed = ask_grader("code", {"function": "f", "cases": [{"args": [1], "raises": name}]}, "raise KeyError")
    assert (failed.value, failed.evidence["why"]) == (0.0, "it raised KeyError")


@pytest.mark.usefixtures("sandboxes")
def test_a_check_catches_errors_that_are_made_of_more_than_words() -> None:
    program = "def f(number):\n    return b'\\xff'.decode() if number else int('x')\n"
    test = "try:\n    f({number})\nexcept UnicodeDecodeError:\n    pass\nelse:\n    raise AssertionError"
    assert ask_grader("code", {"test": test.format(number=1)}, program).is_correct
    assert ask_grader("code", {"test": test.format(number=0)}, program).value == 0.0


@pytest.mark.usefixtures("sandboxes")
@pytest.mark.parametrize(
    "given_back",
    ["10**400", "10**5_000", "{10**5_000: 1}", "{(10**5_000,): 1}", "float('inf')", "[[10**400]]", "object()"],
)
def test_what_no_float_and_no_text_can_hold_is_wrong(given_back: str) -> None:
    for wanted in (2.0, {"a": 1}, [[2.0]]):
        asked = {"function": "f", "cases": [{"returns": wanted}]}
        assert ask_grader("code", asked, f"def f():\n    return {given_back}\n", tolerance=1e-6).value == 0.0


@pytest.mark.usefixtures("sandboxes")
def test_who_tells_what_nobody_can_read_is_wrong() -> None:
    """Brackets that a reader of JSON takes and its writer does not."""
    program = (
        "import os\n\n\ndef f():\n    told = b'{{\"value\": ' + b'[' * {deep} + b']' * {deep} + b'}}'\n"
        "    for end in range(3, 256):\n        try:\n            os.write(end, b'%12d' % len(told) + told)\n"
        "        except OSError:\n            pass\n"
    )
    for deep in (110, 900, 960, 985, 20_000):
        asked = {"function": "f", "cases": [{"returns": []}]}
        assert ask_grader("code", asked, program.format(deep=deep)).value == 0.0, deep


@pytest.mark.usefixtures("sandboxes")
def test_what_a_program_says_of_itself_can_be_kept() -> None:
    program = (
        "import os\n\ntold = b'{\"error\": \"\\\\u0000\\\\ud800' + b'x' * 10_000 + b'\"}'\nfor end in range(3, 256):\n"
        "    try:\n        os.write(end, b'%12d' % len(told) + told)\n    except OSError:\n        pass\n"
    )
    found = ask_grader("code", {"function": "f", "cases": [{"returns": 1}]}, program)
    assert (found.value, found.evidence["why"]) == (0.0, f"it raised \ufffd\ufffd{'x' * 78}")


def test_who_searches_its_own_memory_finds_what_is_there() -> None:
    """So that the cheat is one: it does find where it may look."""
    kept, names = CHECKED["test"], dict[str, Any]()
    alone = CHEATS["reads the memory around it"].replace('("self", str(os.getppid()), "1")', '("self",)')
    exec(alone, names)
    assert names["add"](40, 2) == 42
    assert "candidate(40, 2) == 42" in kept


@pytest.mark.usefixtures("sandboxes")
def test_a_program_has_nothing_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENTALIS_SECRET_KEY", "hidden")
    asked = {"function": "look", "cases": [{"returns": ["HOME", "PATH", "PYTHONHASHSEED", "SHELL", "USER"]}]}
    kept = "{'LC_CTYPE', 'PWD', 'SHLVL', '_'}"
    look = f"import os\n\n\ndef look():\n    return sorted(set(os.environ) - {kept})\n"
    assert ask_grader("code", asked, look).is_correct


@pytest.mark.usefixtures("sandboxes")
def test_a_check_may_hold_what_it_is_given_and_see_what_became_of_it() -> None:
    """Objects go back to the program, lists are changed in place, generators are read, errors are caught."""
    tests = [
        "pair = Pair(1, 2)\nassert swap(pair).left == 2 and swap(pair).right == 1",
        "numbers = [3, 1, 2]\nassert order(numbers) is None and numbers == [1, 2, 3]",
        "assert list(count(3)) == [0, 1, 2] and len(list(count(0))) == 0",
        "try:\n    order(None)\nexcept TypeError:\n    pass\nelse:\n    raise AssertionError",
        "assert 1j in made() and made()[1] == {(1, 2): {3}} and made()[2] == 10**30",
    ]
    program = (
        f"{HANDED}\n\ndef swap(pair):\n    return Pair(pair.right, pair.left)\n\n\ndef order(numbers):\n"
        "    numbers.sort() if numbers is not None else len(numbers)\n\n\n"
        "def count(most):\n    yield from range(most)\n\n\ndef made():\n    return [1j, {(1, 2): {3}}, 10**30]\n"
    )
    assert ask_grader("code", {"test": tests}, program).evidence == {"why": "every check passes"}
    assert ask_grader("code", {"test": [*tests, "assert swap(Pair(1, 2)) == Pair(2, 1)"]}, program).value == 0.0


@pytest.mark.usefixtures("sandboxes")
@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ({"test": "assert True"}, "its check never calls it"),
        ({"test": "assert add(lambda: 1, 2)"}, "hands over function: wanted data"),
        ({"test": "assert add(1, 2)", "setup": "import nowhere"}, "cannot be run: ModuleNotFoundError"),
    ],
)
def test_what_is_no_check_is_neither_right_nor_wrong(reference: Any, words: str) -> None:
    grade = ask_grader("code", reference, RIGHT)
    assert (grade.value, grade.correct) == (None, None)
    assert words in grade.cause


def test_a_sandbox_that_is_lost_is_tried_again_and_never_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def lose() -> Any:
        asked.append(1)
        raise SandboxLostError("the sandbox host is gone")

    monkeypatch.setattr(code, "_open_runner", lambda: programs.ProgramRunner(lose))
    with override_settings(SANDBOXES=None):
        grade = ask_grader("code", CHECKED, RIGHT)
    assert (grade.value, grade.cause, len(asked)) == (None, "the sandbox host is gone", programs.TRIES)


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (None, "reference: wanted what is right, found none"),
        ({}, "wanted an object with a test or with cases"),
        ({"test": "def check(candidate):\n    assert candidate(1)"}, "entry_point: wanted the function"),
        ({"test": "import math"}, "wanted a function check, or statements"),
        ({"test": "def check(:"}, "test: wanted code of Python, found SyntaxError"),
        ({"test": "assert f(1)", "cases": []}, "wanted an object with a test or with cases"),
        ({"cases": []}, "cases: wanted a list of 1 to 1,000, found 0"),
        ({"cases": [{"input": "1"}]}, "cases: wanted input and output"),
        ({"function": "f", "cases": [{"args": [1]}]}, "returns or raises"),
        ({"function": "f", "cases": [{"args": 1, "returns": 2}]}, "args as a list"),
        ({"cases": [{"input": "", "output": ""}], "colour": 1}, "wanted of cases, found colour"),
    ],
)
def test_a_reference_that_nothing_could_be_graded_by_is_refused(reference: Any, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        ask_grader("code", reference, RIGHT)


@pytest.mark.parametrize("options", [{"timeout_s": 0}, {"timeout_s": True}, {"compare": "near"}, {"tolerance": "no"}])
def test_an_option_that_means_nothing_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="wanted"):
        ask_grader("code", CHECKED, RIGHT, **options)


@pytest.mark.parametrize(
    ("answer", "taken"),
    [
        ("x = 1", "x = 1"),
        ("    return 1", "    return 1"),
        ("```\nx\n```", "x\n"),
        ("```python\nx\n```\n```bash\nls\n```", "x\n"),
        ("```py\nx\n```\nor\n```Python\ny\n```", "y\n"),
        ("```python\nx = '''\n```js\n'''\n", "x = '''\n```js\n'''\n"),
        ("", ""),
    ],
)
def test_code_is_taken_from_the_last_block_or_is_all(answer: str, taken: str) -> None:
    assert take_code(answer) == taken


@pytest.mark.parametrize(
    ("output", "wanted", "how", "matches"),
    [
        ("5 \n\n", "5", {}, True),
        (" 5", "5", {}, False),
        ("1 2\n3", "1\n2 3", {}, False),
        ("1 2\n3", "1\n2 3", {"compare": "words"}, True),
        ("5\n", "5", {"compare": "exact"}, False),
        ("0.3000001", "0.3", {"tolerance": 1e-5}, True),
        ("0.31", "0.3", {"tolerance": 1e-5}, False),
        ("nan", "0.3", {"tolerance": 1e9}, False),
        ("", "0", {}, False),
        ("", "", {}, True),
    ],
)
def test_what_is_printed_is_compared_by_lines(output: str, wanted: str, how: dict[str, Any], matches: bool) -> None:
    assert match_output(output, wanted, **how) is matches


@pytest.mark.parametrize(
    ("value", "wanted", "matches"),
    [
        (1, 1.0, True),
        (True, 1, False),
        (None, None, True),
        ((1, 2), [1, 2], True),
        ({1: "a"}, {"1": "a"}, True),
        ({1: "a", "1": "b"}, {"1": "b"}, False),
        ({1, 2}, [1, 2], False),
        ("1", 1, False),
        (float("nan"), float("nan"), True),
        ([1, [2]], [1, [3]], False),
    ],
)
def test_values_are_compared_as_json_has_them(value: Any, wanted: Any, matches: bool) -> None:
    assert match_value(value, wanted) is matches


def test_data_goes_from_process_to_process_and_comes_out_the_same() -> None:
    def keep(value: object) -> object:
        raise TypeError

    class Number(int):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    values = [
        None, True, -7, 2**70, 1.5, -0.0, float("inf"), 1 - 2j, "ä\ud800", b"\0", bytearray(b"x"), [1, (2,)], {1: {2}},
        frozenset((1,)), range(3),
    ]  # fmt: skip
    for value in values:
        told = decode(json.loads(json.dumps(encode(value, keep))), keep)
        assert (type(told), told) == (type(value), value)
    assert type(decode(encode(Number(3), keep), keep)) is int
    with pytest.raises(TypeError):
        encode(object(), keep)
    for wrong in ({"odd": 1}, {"int": "x"}, {"dict": [[[], 1]]}, {"float": "1"}, {"Fraction": [1, 0]}):
        with pytest.raises((ValueError, TypeError, KeyError, ArithmeticError)):
            decode(wrong, keep)


def test_the_runner_imports_nothing_of_ours() -> None:
    assert not re.search(r"(?:import|from) (?:apps|tentalis)", programs._SOURCE)
    assert program_runner.__name__.startswith("tentalis.")
