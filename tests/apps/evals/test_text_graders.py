"""Graders of texts, numbers and places: what is right, what is wrong, and what says nothing of an answer."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from apps.evals.graders import mathematics
from tentalis.core.grading import Grade, UngradedError
from tentalis.math_answers import MathVerifier
from tests.apps.evals.graders.asking import ask_grader

GAINS = {"d1": 3, "d2": 1, "d3": 0}
MASK = {"counts": [4, 2, 2, 1], "size": [3, 3]}
"""Column by column of 3: outside 4, inside 2, outside 2, inside 1: (1, 1), (1, 2) and (2, 2) count."""
SCHEMA = {"type": "object", "required": ["age"], "properties": {"age": {"type": "integer"}}}
TOWNS = "CREATE TABLE town (name TEXT, people INT); INSERT INTO town VALUES ('Ulm', 126), ('Jena', 110), ('Bonn', 330);"
MORE_TOWNS = TOWNS + "INSERT INTO town VALUES ('Hof', 47)"
SQL = {"setup": TOWNS, "query": "SELECT name FROM town WHERE people < 200"}
IN_ORDER = {"setup": TOWNS, "query": "SELECT name, people FROM town ORDER BY people"}
FILES = {"before": {"a.txt": "one\ntwo\nthree\n"}, "after": {"a.txt": "one\n2\nthree\n"}}
PATCH = "```diff\n--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n```"
_COUNT = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 100000)"
_CELLS = ",".join(["printf('%.9990c%d', 1, x)"] * 190)
_LONG = "replace(printf('%.999999c', 1), '1', printf('%.99c', 1))"
_LARGE = f"CREATE TABLE t (x); INSERT INTO t {_COUNT} SELECT printf('%.30000c', 1) FROM c LIMIT 2000"
CHOICES = {"choices": ["red", "green", "blue", "a dog"]}
NUMBERS = {"numbers": [3, 5, 7], "target": 38}
RIGHT: Mapping[str, tuple[Any, Mapping[str, Any], str]] = {
    "choice": ("B", CHOICES, "The answer is B."),
    "exact": ("Ulm", {}, " ulm "),
    "em": ("the Ulm Minster", {}, "Ulm minster!"),
    "f1": ("Ulm Minster", {}, "the Ulm Minster"),
    "bleu": ("There is a cat on the mat.", {"floor": 0.1}, "There is a cat on the mat."),
    "chrf": ("There is a cat on the mat.", {"floor": 0.3}, "There is a cat on the mat."),
    "ter": ("There is a cat on the mat.", {}, "There is a cat on the mat."),
    "number": (1234.5, {}, "so it is $1,234.50"),
    "countdown": (NUMBERS, {}, "First 7 + 5.\nSo: 7 * 5 + 3 = 38"),
    "depth": (2.4, {}, "At pixel (320, 240) it is 2.5 m away"),
    "retrieval": (GAINS, {}, '["d1", "d2"]'),
    "iou": ([0, 0, 10, 10], {}, "[0, 0, 10, 10]"),
    "point_in_mask": (MASK, {}, '<point x="1.5" y="2.1">it</point>'),
    "json_schema": (SCHEMA, {}, '```json\n{"age": 3}\n```'),
    "sql": (SQL, {}, "```sql\nSELECT name FROM town WHERE people <= 126 ORDER BY name;\n```"),
    "diff": (FILES, {}, PATCH),
}


NOTHING = (
    None,
    "",
    " \n\t",
    "I cannot answer.",
    "I'm sorry, but I can't help with that.",
    "qz vkx jjw; ~~ ## xq -- zzv",
    "\\boxed{}",
    "```\n```",
    "<answer></answer>",
    "null",
    "[]",
    "{}",
    "NaN",
    "((((((((",
    "\ud800 \x00 \u202e",
)


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_worth_one_and_what_answers_nothing_is_worth_nothing(name: str) -> None:
    reference, options, answer = RIGHT[name]
    assert ask_grader(name, reference, answer, **options) == _is(value=1.0, correct=True)
    for nothing in NOTHING:
        found = ask_grader(name, reference, nothing, **options)
        assert found.value is not None, (nothing, found.cause)
        assert found.value <= 0.02, nothing
        assert found.is_correct is False, nothing


CHEATS = (
    *(("choice", text) for text in (
        "A B C D",
        "A, B, C, D",
        "A\nB\nC\nD",
        "A) red\nB) green\nC) blue\nD) a dog",
        "The answer is A. The answer is B. The answer is C. The answer is D.",
        "The answer is B or C",
        "The answer is A, B, C and D",
        "\\boxed{A} \\boxed{B} \\boxed{C} \\boxed{D}",
        "Option A, option B, option C, option D",
        "red, green, blue, a dog",
        "B / C",
        "B; C",
        "The answer is B, C and D",
        "The answer is B, E or C",
        "The answer is B or A, depending on it",
        "The answer is B, or a dog",
        "The answer is B, C is right too",
    )),
    ("exact", "Ulm Jena Bonn"),
    ("em", "Ulm Minster or Jena Minster"),
    ("number", "1,233.5, 1,234.5 or 1,235.5"),
    ("number", "It is 1234.5 or 7"),
    ("number", "The answer is 7, 8, 1234.5"),
    ("countdown", "38"),
    ("countdown", "38 + 0 * 3 * 5 * 7"),
    ("countdown", "7 * 5 + 3 + 3 - 3"),
    ("countdown", "7 * 5 + 3 or 7 * 5 - 3"),
    ("countdown", "__import__('os').system('true')"),
    ("countdown", "7 ** 5 // 3"),
    ("depth", "between 1 and 3 m"),
    ("depth", "2.4 m, or 9 m"),
    ("iou", "[0, 0, 10, 10] or [5, 5, 20, 20]"),
    ("iou", "[10, 10, 0, 0]"),
    ("point_in_mask", "(0, 0) (0, 1) (1, 1) (1, 2) (2, 2)"),
    ("json_schema", '{"age": "any of 1, 2, 3"}'),
    ("sql", "SELECT name FROM town"),
    ("sql", "DROP TABLE town; SELECT 1"),
    ("sql", "INSERT INTO town VALUES ('x', 1)"),
    ("sql", "PRAGMA writable_schema = 1"),
    ("sql", "ATTACH '/tmp/x.db' AS x"),
    ("sql", "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"),
    ("sql", "SELECT zeroblob(1000000000)"),
    ("sql", f"{_COUNT} SELECT count(*) FROM c WHERE printf('%.9990c%d', 'a', x) LIKE '%{'a' * 490}b'"),
    ("sql", f"{_COUNT} SELECT {_CELLS} FROM c"),
    ("diff", PATCH.replace(" one", " eins")),
    ("diff", PATCH.replace("+2", "+two")),
    ("diff", PATCH.replace("a.txt", "../a.txt")),
)  # fmt: skip


@pytest.mark.parametrize("name", dict(CHEATS))
def test_what_cheats_is_worth_nothing(name: str) -> None:
    reference, options, _ = RIGHT[name]
    for answer in (answer for of, answer in CHEATS if of == name):
        assert ask_grader(name, reference, answer, **options) == _is(value=0.0, correct=False), answer


WORTHS: Sequence[tuple[str, Any, Mapping[str, Any], str, float]] = (
    ("choice", "B", {}, "**B**", 1),
    ("choice", "B", CHOICES, "green", 1),
    ("choice", "D", CHOICES, "The answer is a dog", 1),
    ("choice", "A", CHOICES, "The answer is a dog", 0),
    ("choice", "A", {}, "The answer is A because of that.", 1),
    ("choice", "I", {}, "I think it is C", 0),
    ("choice", "C", {}, "I think the answer is C", 1),
    ("choice", "C", {}, "Option A is wrong, option B too. The correct answer is (C) blue.", 1),
    ("choice", "C", CHOICES, "The answer is B. No, wait: the answer is C.", 1),
    ("choice", "D", {}, "**Answer:** D", 1),
    ("choice", "B", CHOICES, "The answer is B, I think.", 1),
    ("choice", "B", {}, "The answer is B, I think.", 1),
    ("choice", "B", {}, "The answer is B, I'm sure.", 1),
    ("choice", "B", CHOICES, "The answer is B, a mammal.", 1),
    ("choice", "C", {}, "The answer is (C) and I am sure.", 1),
    ("choice", "B", CHOICES, "The answer is B; A fails because it is too small.", 1),
    ("choice", "B", CHOICES, "The answer is B; C fails because it is too large.", 1),
    ("choice", "B", CHOICES, "B; A fails because it is too small.", 1),
    ("choice", "B", CHOICES, "The answer is B, E being no choice.", 1),
    ("choice", "I", {}, "The answer is I'd say B", 0),
    ("choice", "D", {}, "$\\boxed{\\text{D}}$", 1),
    ("choice", "C", CHOICES, "C. blue, for B. would be green", 1),
    ("exact", ["Ulm", "Jena"], {}, "jena", 1),
    ("exact", "Ulm", {"case": True}, "ulm", 0),
    ("exact", "Ulm", {"punctuation": False}, "Ulm.", 1),
    ("exact", "Ulm", {"of": "last_line"}, "I know:\nUlm", 1),
    ("em", "", {}, "", 1),
    ("em", "", {}, "Ulm", 0),
    ("f1", ["Jena", "Ulm Minster"], {}, "Ulm", 2 / 3),
    ("number", "3/4", {}, "it is 0.75", 1),
    ("number", 0.05, {"percent": True}, "5 %", 1),
    ("number", 5, {}, "5%", 1),
    ("number", "5%", {}, "The answer is 5%.", 1),
    ("number", "5%", {}, "5", 1),
    ("number", "5%", {}, "0.05", 0),
    ("number", "5%", {"percent": True}, "5 %", 1),
    ("number", "5%", {"percent": True}, "0.05", 1),
    ("number", "5%", {"percent": True}, "5", 0),
    ("number", 10, {"tolerance": 1}, "about 10.9", 1),
    ("number", 10, {"tolerance": 1}, "about 11.1", 0),
    ("number", 18, {}, "She sells 16 - 3 - 4 = 9 eggs, 9 * 2 = 18.\n#### 18", 1),
    ("number", 5, {}, "The answer is 5. Check: 5 * 2 = 10", 1),
    ("number", 12, {}, "The answer is 3 * 4 = 12.", 1),
    ("number", -4, {}, "x = −4", 1),
    ("number", 1e21, {}, "1e21", 1),
    ("number", 1234, {}, "The answer is 1,234, since 1,200 + 34.", 1),
    ("number", 0, {}, "It costs 1,000,000, give or take.", 0),
    ("number", 1_000_000, {}, "It costs 1,000,000, give or take.", 1),
    ("number", 234, {}, "1,234,5", 0),
    ("number", 5, {}, "1,234,5", 0),
    ("number", 10_000, {}, "\\boxed{10{,}000}", 1),
    ("number", 10, {}, "\\boxed{10{,}000}", 0),
    ("number", 10_000, {}, "$10,\\!000$", 1),
    ("number", 10_000, {}, "The answer is 2{,}500 * 4 = 10{,}000", 1),
    ("number", 10, {}, "\\boxed{10{,}00}", 0),
    ("number", 2.5, {}, "\\boxed{2\\frac{1}{2}}", 1),
    ("number", 10.5, {}, "\\boxed{2\\frac{1}{2}}", 0),
    ("number", -2.5, {}, "$-2\\dfrac{1}{2}$", 1),
    ("number", 1000.25, {}, "\\boxed{1{,}000\\frac{1}{4}}", 1),
    ("number", 0.75, {}, "$x = \\frac{3}{4}$", 1),
    ("depth", 1234, {}, "The distance is 1,234, in meters.", 1),
    ("countdown", NUMBERS, {"use": "some"}, "7 * 5 + 3", 1),
    ("countdown", {"numbers": [3, 5, 7, 2], "target": 38}, {"use": "some"}, "7 × 5 + 3 = 38", 1),
    ("countdown", {"numbers": [3, 5, 7, 2], "target": 38}, {}, "7 * 5 + 3", 0),
    ("countdown", {"numbers": [8, 3], "target": 3}, {}, "8 / 3", 0),
    ("countdown", {"numbers": [0, 3], "target": 3}, {}, "3 / 0", 0),
    ("depth", 2.4, {}, "240 cm", 1),
    ("depth", 2.4, {}, "3.1 meters", 0),
    ("depth", 240, {"unit": "cm"}, "2.4 m", 1),
    ("depth", 240, {"unit": "cm"}, "250", 1),
    ("retrieval", GAINS, {"measure": "recall", "k": 1}, "d1", 0.5),
    ("retrieval", ["d1"], {"measure": "mrr"}, "1. d9\n2. d1", 0.5),
    ("retrieval", ["d1"], {"measure": "precision", "k": 2}, "d1, d1", 0.5),
    ("retrieval", ["d1", "d2"], {"measure": "map"}, "d1, d1, d1, d2", 0.75),
    ("iou", [0, 0, 10, 10], {}, '{"bbox_2d": [0, 0, 10, 5]}', 0.5),
    ("iou", [0, 0, 10, 10], {"form": "xywh"}, "[5, 0, 10, 10]", 1 / 3),
    ("point_in_mask", MASK, {}, "(0, 0)", 0),
    ("point_in_mask", MASK, {"several": True}, "(1, 1), (0, 0)", 0.5),
    ("point_in_mask", {"polygon": [[0, 0], [10, 0], [0, 10]]}, {"width": 10, "height": 10}, "0.2, 0.3", 1),
    ("point_in_mask", {"polygon": [[0, 0], [10, 0], [0, 10]]}, {"width": 10, "height": 10}, "0.8, 0.9", 0),
    ("point_in_mask", {"box": [0, 0, 5, 5]}, {}, '{"x": 5, "y": 5}', 1),
    ("json_schema", SCHEMA, {}, '{"age": 3.5}', 0),
    ("sql", IN_ORDER, {}, "SELECT name, people FROM town", 0),
    ("sql", IN_ORDER, {"ordered": False}, "SELECT name, people + 0.0 FROM town", 1),
    ("sql", {"setup": TOWNS, "rows": [["Ulm"], ["Jena"]]}, {}, "SELECT name FROM town WHERE people < 200", 1),
    ("sql", {**SQL, "setup": [TOWNS, MORE_TOWNS]}, {}, "SELECT 'Ulm' UNION SELECT 'Jena'", 0),
    ("diff", FILES, {"partial": True}, PATCH.replace("+2", "+zwei"), 0.5),
)  # fmt: skip


@pytest.mark.parametrize("name", sorted({row[0] for row in WORTHS}))
def test_answers_are_worth_what_their_rule_says(name: str) -> None:
    for _, reference, options, answer, value in (row for row in WORTHS if row[0] == name):
        found = ask_grader(name, reference, answer, **options)
        assert found.value == pytest.approx(value, abs=1e-12), (reference, options, answer)


def test_a_little_shared_is_not_right() -> None:
    """F1 of .13 has been taken for right elsewhere."""
    found = ask_grader("f1", "Ulm Minster", "the cat and a dog went out with all of my other friends now Ulm")
    assert found.value == pytest.approx(2 / 15)
    assert found.is_correct is False
    assert ask_grader("f1", "Ulm Minster", "Ulm", least=0.6).is_correct
    assert ask_grader("f1", "Ulm Minster", "Ulm", floor=0.7) == _is(value=0.0, correct=False)


def test_the_last_distance_is_read_not_the_first() -> None:
    assert ask_grader("depth", 2.4, "Of the 2.4 million pixels, the one at 320 is 7.9 m away") == _is(0.0, False)
    assert ask_grader("depth", 2.4, "Of the 100 pixels, the one at 320 is 2.5 m away") == _is(1.0, True)


REFUSED: Sequence[tuple[str, Any, Mapping[str, Any], str]] = (
    ("choice", "B", {"colour": 1}, "options: wanted of choices, found colour"),
    ("choice", "E", CHOICES, "reference: wanted a letter from A to D"),
    ("choice", "A", {"choices": ["one", "One "]}, "texts that differ"),
    ("exact", None, {}, "reference: wanted what is right, found none"),
    ("exact", " ", {}, "reference: wanted a text"),
    ("exact", "Ulm", {"case": "yes"}, "case: wanted true or false"),
    ("exact", "!?", {"punctuation": False}, "more than punctuation"),
    ("em", "the", {}, "more than articles"),
    ("f1", "Ulm", {"least": 0}, "least: wanted a share above 0"),
    ("f1", "Ulm", {"least": 1.5}, "least: wanted a number from 0 to 1, found 1.5"),
    ("f1", ["Ulm", 3], {}, "wanted a text, or 1 to 64"),
    ("bleu", "Ulm", {"tokenizer": "spm"}, "tokenizer: wanted one of 13a, none, char"),
    ("chrf", "Ulm", {"words": 1}, "words: wanted 0, or 2"),
    ("ter", "word " * 401, {}, "at most 400 words"),
    ("number", "many", {}, "reference: wanted a number"),
    ("number", float("nan"), {}, "reference: wanted a number"),
    ("number", True, {}, "reference: wanted a number"),
    ("number", 1, {"tolerance": -1}, "tolerance: wanted a number from 0"),
    ("countdown", {"numbers": [1, 2]}, {}, "wanted numbers and target"),
    ("countdown", {"numbers": [1.5], "target": 1}, {}, "whole numbers"),
    ("countdown", {"numbers": [1], "target": 1}, {"use": "none"}, "use: wanted one of all, some"),
    ("depth", 0, {}, "a distance above 0"),
    ("depth", 1, {"unit": "mile"}, "unit: wanted one of m, mm"),
    ("retrieval", {"d1": 0}, {}, "a document that is relevant"),
    ("retrieval", ["d1"], {"measure": "bpref"}, "measure: wanted one of ndcg"),
    ("retrieval", ["d1"], {"k": 0}, "k: wanted a whole number from 1"),
    ("iou", [0, 0, 0, 10], {}, "a box of some area"),
    ("iou", [0, 0, 10], {}, "the four numbers of a box"),
    ("point_in_mask", {"counts": [9], "size": [3, 3]}, {}, "some pixels inside"),
    ("point_in_mask", {"counts": [1, 2], "size": [3, 3]}, {}, "wanted 3 times 3 pixels, found 3"),
    ("point_in_mask", {"polygon": [[0, 0]]}, {}, "3 to 10,000 corners"),
    ("json_schema", {}, {}, "a schema that something does not fit"),
    ("json_schema", {"type": "colour"}, {}, "wanted a JSON schema"),
    ("sql", {"setup": TOWNS, "query": "SELECT 1 WHERE 0"}, {}, "one that finds nothing"),
    ("sql", {"setup": "CREATE TABBLE", "query": "SELECT 1"}, {}, "setup: near"),
    ("sql", {"setup": f"CREATE TABLE t AS SELECT {_LONG} AS x", "query": "SELECT 1"}, {}, "too big"),
    ("sql", {"setup": _LARGE, "query": "SELECT 1"}, {}, "disk is full, wanted at most 32 MiB"),
    ("sql", {"setup": "ATTACH '/tmp/x.db' AS x", "query": "SELECT 1"}, {}, "setup: not authorized"),
    ("sql", {"setup": TOWNS, "query": "SELECT 1", "rows": [[1]]}, {}, "one of query and rows"),
    ("diff", {"before": {"a": "1"}, "after": {"a": "1"}}, {}, "files that change"),
    ("episode", "x", {}, "reference: wanted none"),
    ("math", "", {}, "wanted a text"),
    ("math", "\\frac{1}{2", {}, "braces and \\$ in pairs"),
    ("math", "9" * 300, {}, "fewer than 200 digits"),
    ("math", "+-", {}, "wanted mathematics"),
    ("rubric_judge", [], {}, "a rubric, or 1 to 32 criteria"),
    ("rubric_judge", [{"criterion": "short", "points": 0}], {}, "a number other than 0"),
    ("rubric_judge", [{"criterion": "rude", "points": -1}], {}, "a criterion with points above 0"),
    ("pairwise_judge", " ", {}, "reference: wanted a text"),
    ("group_judge", "one", {}, "other answers"),
    ("llm_equality", 3, {}, "reference: wanted a text"),
)  # fmt: skip


@pytest.mark.parametrize("name", sorted({row[0] for row in REFUSED}))
def test_what_nothing_can_be_graded_by_is_refused(name: str) -> None:
    for _, reference, options, refused in (row for row in REFUSED if row[0] == name):
        with pytest.raises(ValueError, match=refused):
            ask_grader(name, reference, "an answer", **options)


@pytest.mark.parametrize("name", RIGHT)
def test_a_grade_tells_nothing_of_what_is_right(name: str) -> None:
    reference, options, _ = RIGHT[name]
    found = ask_grader(name, reference, "Ploen 77 [1, 2, 3, 4] (0, 0)", **options)
    told = json.dumps([found.cause, dict(found.evidence)])
    secrets = {"exact": "Ulm", "em": "Minster", "number": "1234", "sql": "people", "diff": "three", "retrieval": "d1"}
    assert secrets.get(name, "no secret") not in told


# --- the world's word


def test_an_episode_is_worth_what_its_world_found() -> None:
    assert ask_grader("episode", None, "done", facts={"outcome": 1.0}) == _is(1.0, True)
    assert ask_grader("episode", None, "done", facts={"outcome": 0.4}, least=0.4) == _is(0.4, True)
    assert ask_grader("episode", None, None, facts={"tests": True}, fact="tests") == _is(1.0, True)
    assert ask_grader("episode", None, "done", facts={"unverified": "nobody looked"}).cause == "nobody looked"
    assert ask_grader("episode", None, "done", facts={"outcome": float("nan")}).value is None
    assert ask_grader("episode", None, "done", facts={"outcome": 7}).value is None


# --- judges

JUDGED: Mapping[str, tuple[Any, Mapping[str, Any]]] = {
    "rubric_judge": ("It names the town.", {}),
    "pairwise_judge": ("Perhaps Jena.", {}),
    "group_judge": (["Perhaps Jena.", "Bonn"], {}),
    "llm_equality": ("Ulm", {}),
}


def _is(value: float, correct: bool) -> "_Like":
    return _Like(value, correct)


class _Like:
    """Equal to a grade of that value."""

    def __init__(self, value: float, correct: bool) -> None:
        self.value, self.correct = value, correct

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grade) and (other.value, other.is_correct) == (self.value, self.correct)

    def __repr__(self) -> str:
        return f"a grade of {self.value}, {'right' if self.correct else 'wrong'}"

    __hash__ = None  # type: ignore[assignment]  # it changes with whom it is compared


def _raise(_: str) -> str:
    raise UngradedError("the judge could not be asked: busy")


@pytest.mark.parametrize("name", JUDGED)
@pytest.mark.parametrize(
    "ask",
    [
        None,
        _raise,
        lambda _: "",
        lambda _: "Yes, it is right.",
        lambda _: '{"score": 1.0} or {"score": 0.0}, {"better": "first"} or {"better": "second"}, {"same": 1}',
        lambda _: '{"score": 2, "better": "both", "same": "yes", "met": [1]}',
        lambda _: '<think>{"score": 1.0, "same": true, "better": "first"}',
        lambda _: '{"score": NaN, "same": null}',
    ],
)
def test_a_judge_that_is_not_understood_makes_nothing_right_or_wrong(
    name: str, ask: Callable[[str], str] | None
) -> None:
    reference, options = JUDGED[name]
    found = ask_grader(name, reference, "Ulm", ask=ask, **options)
    assert (found.value, found.is_correct) == (None, None)
    assert found.cause


@pytest.mark.parametrize("name", JUDGED)
def test_nobody_is_asked_about_no_answer(name: str) -> None:
    reference, options = JUDGED[name]
    assert ask_grader(name, reference, " ", ask=_raise, **options) == _is(0.0, False)


def test_criteria_have_points_and_some_are_required() -> None:
    criteria = [
        {"criterion": "names Ulm", "required": True},
        {"criterion": "is short", "points": 3},
        {"criterion": "is rude", "points": -2},
    ]

    def judge(met: list[bool]) -> Grade:
        return ask_grader("rubric_judge", criteria, "Ulm", ask=lambda _: json.dumps({"met": met, "reason": ""}))

    assert judge([True, True, False]) == _is(1.0, True)
    assert judge([True, True, True]) == _is(0.5, False)
    assert judge([False, True, False]) == _is(0.0, False)
    assert judge([True, False, True]) == _is(0.0, False)
    assert judge([True, True]).value is None


def _prefer(better: Callable[[str, str], str]) -> Callable[[str], str]:
    """A judge that sees both answers in the order in which they stand."""

    def ask(question: str) -> str:
        blocks = question.partition("<<<FIRST ANSWER")[2].split("<<<SECOND ANSWER")
        first, second = (block.split("\n")[1] for block in blocks)
        return json.dumps({"better": better(first, second), "reason": "so"})

    return ask


def test_pairs_are_asked_in_both_orders() -> None:
    longer = _prefer(lambda first, second: "first" if len(first) > len(second) else "second")
    assert ask_grader("pairwise_judge", "Jena", "Ulm on the Danube", ask=longer) == _is(1.0, True)
    assert ask_grader("pairwise_judge", "Jena on the Saale", "Ulm", ask=longer) == _is(0.0, False)
    swayed = ask_grader("pairwise_judge", "Jena", "Ulm", ask=_prefer(lambda *_: "first"))
    assert swayed == _is(0.5, False)
    assert swayed.signals["swayed"] == 1
    tied = ask_grader("pairwise_judge", "Jena", "Ulm", ask=_prefer(lambda *_: "tie"))
    assert (tied.value, tied.signals["swayed"]) == (0.5, 0)


def test_a_group_is_worth_the_share_of_others_that_it_is_better_than() -> None:
    longer = _prefer(lambda first, second: "first" if len(first) > len(second) else "second")
    assert ask_grader("group_judge", ["Ulm", "Ulm on the Danube"], "Jena!", ask=longer) == _is(0.5, False)


def test_equality_is_the_judges_word() -> None:
    assert ask_grader("llm_equality", "Ulm", "in Ulm", ask=lambda _: '{"same": true}') == _is(1.0, True)
    assert ask_grader("llm_equality", "Ulm", "in Ulm", ask=lambda _: '{"same": false}') == _is(0.0, False)


# --- mathematics, whose processes take a second to start: all in one


def test_mathematics_is_compared_by_what_it_says_and_never_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    verifier = MathVerifier(1)
    monkeypatch.setattr(mathematics, "_VERIFIER", verifier)
    cases = [
        ("\\frac{1}{2}", "So it is \\boxed{0.5}.", 1),
        ("1/2", "\\frac{1}{2}", 1),
        ("\\{1, 2\\}", "$\\{2, 1\\}$", 1),
        ("[0, 1)", "$[0, 1)$", 1),
        ("[0, 1)", "$[0, 1]$", 0),
        ("5\\text{ cm}", "\\boxed{5}", 1),
        ("x^2 + 2x + 1", "$(x+1)^2$", 1),
        (["3", "4"], "\\boxed{4}", 1),
        (3, "\\boxed{1} \\boxed{2} \\boxed{3}", 0),
        (42, "I cannot answer.", 0),
        (42, "qz vkx jjw", 0),
        (42, None, 0),
    ]
    found: list[Grade] = []

    def grade_all() -> None:  # where signals cannot be used
        found.extend(ask_grader("math", reference, answer) for reference, answer, _ in cases)

    thread = threading.Thread(target=grade_all)
    thread.start()
    thread.join()
    assert [one.value for one in found] == [value for _, _, value in cases], [one.cause for one in found]
    monkeypatch.setattr("tentalis.math_answers.MOST_S", 0.2)
    slow = ask_grader("math", 1, "\\boxed{9^{9^{9^{9}}}}")
    assert (slow.value, slow.is_correct) == (None, None)
    assert "slower" in slow.cause
    assert ask_grader("math", 1, "\\boxed{1}") == _is(1.0, True)
    verifier.close()
