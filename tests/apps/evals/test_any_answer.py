"""Whatever an answer is, every pure grader and check says what it is worth: nobody writes himself unscored."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.base.texts import make_storable
from apps.checks.language import KINDS, read_check
from apps.evals.graders import REGISTRY
from tentalis.core.grading import Grade
from tests.apps.evals.graders.asking import ask_grader
from tests.apps.evals.graders.test_calls import describe
from tests.apps.evals.test_text_graders import RIGHT

WORDS = ["startend:quotation", "detectable_format:json_format", "length_constraints:number_sentences"]
FOLLOWED = {"instruction_id_list": WORDS, "kwargs": [{}, {}, {"num_sentences": 1, "relation": "at least"}]}
SHOUTED = {
    "instruction_id_list": ["change_case:capital_word_frequency", "detectable_format:multiple_sections"],
    "kwargs": [
        {"capital_frequency": 1, "capital_relation": "at least"},
        {"section_spliter": "PART", "num_sections": 1},
    ],
}
INTEGRAL = {"generator": "simple_integration", "settings": {}, "answer": "x + C", "metadata": {"variable": "x"}}
MATRIX = {"generator": "spiral_matrix", "settings": {}, "answer": "1 2 3", "metadata": {"solution": [1, 2, 3]}}


def call(kind: str, value: Any, items: str = "") -> Any:
    described = {"type": kind, "items": {"type": items}} if items else kind
    return {"functions": [describe("f", ("x",), x=described)], "calls": [{"f": {"x": [value]}}]}


RIGHT_ANSWERS: list[tuple[str, Any, Mapping[str, Any], str]] = [
    *((name, *one) for name, one in RIGHT.items()),
    ("bfcl", call("float", 1.5), {}, "[f(x=1.5)]"),
    ("bfcl", call("dict", {"a": [1]}), {}, "[f(x={'a': 1})]"),
    ("bfcl", call("array", [[1], [2]], "array"), {}, "[f(x=[[1], [2]])]"),
    ("bfcl", call("double", 1.5), {"language": "java"}, "f(x=1.5)"),
    ("bfcl", call("ArrayList", [1, 2], "integer"), {"language": "java"}, "f(x=new ArrayList<Integer>(List.of(1, 2)))"),
    ("bfcl", call("array", [[1], [2]]), {"language": "javascript"}, "f(x=[[1], [2]])"),
    ("bfcl", call("dict", {"a": [1]}), {"language": "javascript"}, "f(x={a: 1})"),
    ("bfcl", {"relevant": True}, {}, "[f(x=1)]"),
    ("bfcl", {"told": ["Ulm 7"]}, {}, "It is Ulm 7."),
    ("episode", None, {}, "done"),
    ("ifeval", FOLLOWED, {}, '"yes"'),
    ("ifeval", SHOUTED, {"loose": True}, "ALL of it.\nPART 1 is this."),
    ("reasoning_gym", INTEGRAL, {}, "x + C"),
    ("reasoning_gym", MATRIX, {}, "<answer>1 2 3</answer>"),
    ("json_schema", {"items": {"maximum": 3, "pattern": "^a"}}, {}, '[1, "a"]'),
    ("point_in_mask", {"box": [0, 0, 9, 9]}, {"several": True, "width": 10}, "(0.1, 2), (0.2, 3)"),
]
"""Grader, reference, options, and an answer that is right."""
CHECKS: list[tuple[dict[str, Any], str]] = [
    ({"check": "exact", "value": "Ulm 7"}, "Ulm 7"),
    ({"check": "contains", "value": "Ulm"}, "It is Ulm 7."),
    ({"check": "number", "value": 7, "tolerance": 0.5}, "It is 7.1"),
    ({"check": "regex", "pattern": r"\bA-\d{4}\b"}, "see A-1234."),
    ({"check": "regex", "pattern": "(?:a?){900}[^a]$"}, "aaa 1"),
    ({"check": "json_schema", "schema": {"properties": {"age": {"maximum": 3}}}}, '{"age": 3}'),
    ({"check": "length", "unit": "words", "max": 3}, "one two 3"),
    ({"check": "forbidden", "words": ["guarantee", "none"]}, "We try 2"),
]
"""Checks, but for `language`: nobody can tell that of a few words."""
HOSTILE: Mapping[str, str] = {
    "nothing": "",
    "390 digits": "9" * 390,
    "400 digits": "9" * 400,
    "4,300 digits": "9" * 4_300,
    "5,000 digits": "9" * 5_000,
    "a long fraction": "1/" + "9" * 60,
    "an infinity": "1e999",
    "a number next to none": "-1e-999",
    "no number": "NaN",
    "Infinity": "-Infinity",
    "by zero": "1/0",
    "a power of powers": "9**9**9**9",
    "a complex number": "(-8)**0.5 % 2",
    "digits of elsewhere": "٣²½Ⅷ",
    "a list as a key": "{[1]: 2}",
    "the deep": "[" * 300 + "]" * 300,
    "the deeper": "[" * 3_000 + "1" + "]" * 3_000,
    "deep objects": '{"a": ' * 3_000 + "1" + "}" * 3_000,
    "what never closes": "[" * 5_000,
    "many signs": "-" * 1_999 + "1",
    "many terms": "x+" * 990 + "1",
    "many choices": "The answer is B" + ", Z" * 5_000,
    "NUL": "a\x00b",
    "half a character": "a\ud800b",
    "half a character, escaped": '{"name": "\\ud800", "\\udfff": 1}',
    "NUL, escaped": '"\\u0000"',
    "a path of no digit": '"a/\\9"',
    "long": "a 1 " * 2_500,
    "brackets and quotes": "([{<\"'`}])>",
    "constructors": "new ArrayList<>(); add(add(add(" * 50,
}
DIGITS = re.compile(r"\d+")
FAMILIES = pytest.mark.parametrize("name", sorted({one[0] for one in RIGHT_ANSWERS}))


def place(right: str, piece: str) -> Iterator[str]:
    """The piece alone, at both ends of what is right, in brackets of JSON, and instead of each number in it."""
    yield from (piece, right + piece, piece + right, f"[{piece}]", f'{{"a": {piece}}}')
    for found in DIGITS.finditer(right):
        yield right[: found.start()] + piece + right[found.end() :]


def ask(name: str, reference: Any, options: Mapping[str, Any], answer: str) -> Grade:
    return ask_grader(name, reference, answer, facts={"outcome": 1.0}, **options)


def require_graded(grade: Grade, answer: str) -> None:
    assert grade.value is not None, (grade.cause, answer[:200])
    told = {**grade.signals, **grade.evidence}
    json.dumps(told, allow_nan=False)
    assert make_storable(told) == told


def test_every_pure_grader_and_every_check_is_among_them() -> None:
    pure = {name for name in REGISTRY if (grader := REGISTRY.get(name)) and grader.is_pure}
    assert {one[0] for one in RIGHT_ANSWERS} == pure - {"alignment"}  # neither honest nor misaligned is no outcome
    assert {spec["check"] for spec, _ in CHECKS} == KINDS.keys() - {"language"}


@FAMILIES
def test_no_answer_leaves_a_grader_without_a_grade(name: str) -> None:
    for _, reference, options, right in (one for one in RIGHT_ANSWERS if one[0] == name):
        assert ask(name, reference, options, right).is_correct
        for piece in HOSTILE.values():
            for answer in place(right, piece):
                require_graded(ask(name, reference, options, answer), answer)


@pytest.mark.parametrize(("spec", "right"), CHECKS, ids=lambda one: one["check"] if isinstance(one, dict) else "")
def test_no_answer_leaves_a_check_unscored(spec: dict[str, Any], right: str) -> None:
    check = read_check(spec)
    assert check.run(right).share == 1.0
    for piece in HOSTILE.values():
        for answer in place(right, piece):
            found = check.run(answer)
            assert found.share is not None, (found.words, answer[:200])
            assert make_storable(found.to_json()) == found.to_json()


@settings(max_examples=150)
@given(
    chosen=st.sampled_from(RIGHT_ANSWERS),
    pieces=st.lists(st.text(max_size=8) | st.sampled_from([one for one in HOSTILE.values() if len(one) < 500])),
    cut=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_no_answer_that_is_cut_and_filled_leaves_a_grader_without_a_grade(
    chosen: tuple[str, Any, Mapping[str, Any], str], pieces: list[str], cut: tuple[float, float]
) -> None:
    name, reference, options, right = chosen
    start, end = sorted(round(share * len(right)) for share in cut)
    answer = right[:start] + "".join(pieces) + right[end:]
    require_graded(ask(name, reference, options, answer), answer)
