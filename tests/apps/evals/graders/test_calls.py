"""Calls of functions: the right ones and no others, however they are made."""

import json
from typing import Any

import pytest

from tentalis.core.graders.calls import UnreadableCallError, match_told, read_calls, read_java, read_javascript
from tentalis.core.grading import Grade
from tentalis.core.steps import ParsedStep
from tests.apps.evals.graders.asking import ask_grader


def describe(name: str, required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    told = {key: {"type": kind} if isinstance(kind, str) else kind for key, kind in properties.items()}
    return {"name": name, "parameters": {"type": "dict", "properties": told, "required": list(required)}}


WEATHER = describe(
    "weather.get", ("city",), city="string", days="integer", near={"type": "array", "items": {"type": "string"}}
)
RATE = describe("rate", ("amount",), amount="float", options="dict", at={"type": "tuple", "items": {"type": "float"}})
FUNCTIONS = [WEATHER, RATE]
ONE = [{"weather.get": {"city": ["Berlin", "Berlin, Germany"], "days": [3, ""]}}]
TWO = [*ONE, {"rate": {"amount": [1.5]}}]


def ask(answer: str | None, calls: Any = ONE, *steps: ParsedStep, functions: Any = FUNCTIONS, **options: Any) -> Grade:
    return ask_grader("bfcl", {"functions": functions, "calls": calls}, answer, steps=steps, **options)


def make_call(name: str, arguments: str) -> ParsedStep:
    return ParsedStep(kind="call", text=name, start=0, end=0, tool_name=name, arguments=arguments)


@pytest.mark.parametrize(
    ("answer", "is_right"),
    [
        ("[weather.get(city='Berlin')]", True),
        ("weather.get(city='berlin germany', days=3)", True),
        ("```python\n[weather.get(city='Berlin', days=3)]\n```", True),
        ("[weather.get(city='Berlin', days=4)]", False),
        ("[weather.get(city='Berlin', days='3')]", False),
        ("[weather.get(city='Berlin', days=True)]", False),
        ("[weather.get(city='Berlin', hours=3)]", False),
        ("[weather.get(days=3)]", False),
        ("[weather.get('Berlin')]", False),
        ("[weather.get(city='Paris', city='Berlin')]", False),
        ("[weather(city='Berlin')]", False),
        ("[weather.get(city='Berlin'), rate(amount=1.5)]", False),
        ("[weather.get(city='Berlin'), weather.get(city='Berlin')]", False),
        ("[]", False),
        ("", False),
        ("I would call weather.get(city='Berlin').", False),
        ("[" * 1_000, False),
    ],
)
def test_one_call_is_right_with_its_arguments_and_no_other_call(answer: str, is_right: bool) -> None:
    grade = ask(answer)
    assert (grade.is_correct, grade.value) == (is_right, float(is_right))


@pytest.mark.parametrize(
    ("steps", "is_right"),
    [
        ([("weather.get", {"city": "Berlin"})], True),
        ([("weather_get", {"city": "Berlin", "days": 3})], True),
        ([("weather_get", {"city": "Berlin"}), ("rate", {"amount": 1})], False),
        ([("weather_got", {"city": "Berlin"})], False),
        ([("", {"city": "Berlin"})], False),
    ],
)
def test_calls_that_a_chat_model_makes_count_before_its_words(steps: list[Any], is_right: bool) -> None:
    calls = [make_call(name, json.dumps(arguments)) for name, arguments in steps]
    for words in (None, "I asked for the weather.", "[weather.get(city='Paris')]"):
        assert ask(words, ONE, *calls).is_correct is is_right
    assert ask("[weather.get(city='Berlin')]", ONE, make_call("weather_get", "{city")).value == 0.0


def test_several_calls_are_right_in_any_order_in_which_they_fit() -> None:
    right = "[rate(amount=1.5), weather.get(city='Berlin')]"
    assert ask(right, TWO).is_correct
    assert ask(right, TWO[::-1]).is_correct
    assert not ask("[rate(amount=1.5)]", TWO).is_correct
    assert not ask("[rate(amount=1.5), rate(amount=1.5)]", TWO).is_correct
    loose = [{"weather.get": {"city": ["Berlin", "Paris"]}}, {"weather.get": {"city": ["Berlin"]}}]
    assert ask("[weather.get(city='Berlin'), weather.get(city='Paris')]", loose).is_correct


@pytest.mark.parametrize(
    ("wanted", "answer", "is_right"),
    [
        ({"amount": [2]}, "rate(amount=2)", True),
        ({"amount": [2]}, "rate(amount=1 + 1)", True),
        ({"amount": ["price"]}, "rate(amount=price)", True),
        ({"amount": ["price"]}, "rate(amount='cost')", False),
        ({"amount": [2], "at": [[1.0, 2.5]]}, "rate(amount=2, at=(1.0, 2.5))", True),
        ({"amount": [2], "at": [[1.0, 2.5]]}, "rate(amount=2, at=(1.0, 3.5))", False),
        (
            {"amount": [2], "options": [{"tax": [True], "in": ["EUR", ""]}]},
            "rate(amount=2, options={'tax': True})",
            True,
        ),
        ({"amount": [2], "options": [{"tax": [True]}]}, "rate(amount=2, options={'tax': True, 'x': 1})", False),
        ({"amount": [2], "options": [{"tax": [True]}]}, "rate(amount=2, options={})", False),
        ({"amount": [2], "options": ["", {}]}, "rate(amount=2)", True),
    ],
)
def test_values_are_of_their_kind_and_one_of_those_that_they_may_be(wanted: Any, answer: str, is_right: bool) -> None:
    assert ask(answer, [{"rate": wanted}]).is_correct is is_right


def test_lists_of_texts_and_of_objects_are_compared_in_order() -> None:
    row = describe("put", ("rows",), rows={"type": "array", "items": {"type": "dict"}})
    wanted = [{"put": {"rows": [[{"id": [1]}, {"id": [2], "name": ["a b", ""]}]]}}]
    assert ask("put(rows=[{'id': 1}, {'id': 2}])", wanted, functions=[row]).is_correct
    assert not ask("put(rows=[{'id': 2}, {'id': 1}])", wanted, functions=[row]).is_correct
    near = [{"weather.get": {"city": ["Berlin"], "near": [["Bad Saarow", "Köln"]]}}]
    assert ask("weather.get(city='Berlin', near=['bad-saarow', 'KÖLN'])", near).is_correct
    assert not ask("weather.get(city='Berlin', near=['Köln', 'Bad Saarow'])", near).is_correct


def test_java_and_javascript_are_read_as_they_are_written() -> None:
    java = describe(
        "A.b", ("names",), names={"type": "ArrayList", "items": {"type": "String"}}, id="long", map="HashMap"
    )
    wanted = [{"A.b": {"names": [["x, y", "z"]], "id": [5], "map": [{"k": [1]}]}}]
    answer = (
        '[A.b(names=new ArrayList<>(Arrays.asList("x, y", "z")), id=5L, '
        'map=new HashMap<String, Integer>() {{ put("k", 1); }})]'
    )
    assert ask(answer, wanted, functions=[java], language="java").is_correct
    assert not ask(answer.replace("5L", "5"), wanted, functions=[java], language="java").is_correct
    script = describe("go", ("list",), list={"type": "array", "items": {"type": "float"}}, made="dict", on="Boolean")
    wanted = [{"go": {"list": [[1.5, 2.0]], "made": [{"a": [[1, "x"]], "b": [True]}], "on": [True]}}]
    answer = "[go(list=[1.5, 2], made={a: [1, 'x'], 'b': true}, on=true)]"
    assert ask(answer, wanted, functions=[script], language="javascript").is_correct
    assert not ask(answer.replace("on=true", "on=false"), wanted, functions=[script], language="javascript").is_correct


@pytest.mark.parametrize(
    ("text", "kind", "inner", "value"),
    [
        ("1.5f", "float", "", 1.5),
        ("1.5", "float", "", "1.5"),
        ("1e3", "double", "", 1000.0),
        ("true", "boolean", "", True),
        ('new String[]{"a", "b"}', "Array", "String", ["a", "b"]),
        ("new int[]{}", "Array", "integer", []),
        ('new ArrayList<String>() {{ add("a"); add("b)"); }}', "ArrayList", "String", ["a", "b)"]),
        ("new HashMap<>()", "HashMap", "", {}),
        ("names", "ArrayList", "String", "names"),
        ("new int[]{1, ", "Array", "integer", "new int[]{1, "),
    ],
)
def test_a_value_of_java_is_what_it_stands_for(text: str, kind: str, inner: str, value: Any) -> None:
    assert read_java(text, kind, inner) == value


@pytest.mark.parametrize(
    ("text", "kind", "inner", "value"),
    [
        ("12n", "Bigint", "", 12),
        ("'a'", "String", "", "a"),
        ("new Array(1, 2)", "array", "integer", [1, 2]),
        ("[[1, 2], [3]]", "array", "array", [[1, 2], [3]]),
        ("{a: {b: 'c, d'}}", "dict", "", {"a": {"b": "c, d"}}),
        ("options", "dict", "", "options"),
    ],
)
def test_a_value_of_javascript_is_what_it_stands_for(text: str, kind: str, inner: str, value: Any) -> None:
    assert read_javascript(text, kind, inner) == value


@pytest.mark.parametrize("text", ["f(a=1", "f(a=(1]", "a + b", "f(1)", "f(**a)", "f(a=lambda: 1)", "f(a=1)(b=2)", "1"])
def test_what_is_no_list_of_calls_is_not_read_as_one(text: str) -> None:
    with pytest.raises(UnreadableCallError):
        read_calls(text)
    if text not in {"f(a=lambda: 1)"}:
        with pytest.raises(UnreadableCallError):
            read_calls(text, "java")


@pytest.mark.parametrize(
    ("relevant", "answer", "is_right"),
    [
        (False, "I cannot do that.", True),
        (False, "", True),
        (False, "[]", True),
        (False, "[rate(amount=1)]", False),
        (True, "[rate(amount=1)]", True),
        (True, "I cannot do that.", False),
        (True, "", False),
    ],
)
def test_where_nothing_is_to_be_called_a_call_is_wrong(relevant: bool, answer: str, is_right: bool) -> None:
    assert ask_grader("bfcl", {"relevant": relevant}, answer).is_correct is is_right
    call = make_call("rate", "{broken")
    assert not ask_grader("bfcl", {"relevant": False}, answer, steps=(call,)).is_correct


def test_turns_are_compared_by_what_they_found_and_left() -> None:
    turns = [
        {"results": ["a", "b"], "state": {"x": 1}},
        {"results": [], "state": {"x": 1}},
        {"results": ["c"], "state": {"x": 2}},
    ]

    def tell(*changed: tuple[int, str, Any]) -> bool | None:
        played = [dict(turn) for turn in turns]
        for number, key, value in changed:
            played[number][key] = value
        return ask_grader("bfcl", {"turns": turns}, "Done.", facts={"turns": played}).is_correct

    assert tell()
    assert tell((0, "results", ["b", "x", "a"]), (1, "results", ["y"]), (1, "state", {}))
    assert tell((0, "results", ["a", "b", "c"]), (2, "results", ["z"]))
    assert tell((2, "state", {"x": 1})) is False
    assert tell((0, "results", ["a"])) is False
    assert tell((2, "results", [])) is False
    assert ask_grader("bfcl", {"turns": turns}, "Done.", facts={"turns": turns[:2]}).value == 0.0
    unknown = ask_grader("bfcl", {"turns": turns}, "Done.")
    assert (unknown.value, unknown.correct) == (None, None)
    assert "no turns are known" in unknown.cause


@pytest.mark.parametrize(
    ("answer", "holds"),
    [
        ("It is Thirty-Five.", False),
        ("thirty five, I say", True),
        ("x35", False),
        ("(35)", True),
        ("3.5", True),
        ("", False),
    ],
)
def test_a_text_holds_one_of_some_as_words_of_their_own(answer: str, holds: bool) -> None:
    assert match_told(answer, ["35", "thirty five"]) is holds
    assert ask_grader("bfcl", {"told": ["35", "thirty five"]}, answer).is_correct is holds


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ({}, "wanted an object of functions and calls"),
        ({"functions": FUNCTIONS, "calls": []}, "calls: wanted a list of 1 to"),
        ({"functions": FUNCTIONS, "calls": [{}]}, "wanted objects of one function"),
        ({"functions": FUNCTIONS, "calls": [{"other": {}}]}, "wanted one of weather.get, rate"),
        ({"functions": FUNCTIONS, "calls": [{"rate": {"amount": 1}}]}, "wanted the values it may have"),
        ({"functions": [describe("f", a="odd")], "calls": [{"f": {"a": [1]}}]}, "wanted one of string"),
        ({"relevant": "no"}, "true or false"),
        ({"relevant": False, "calls": []}, "wanted an object of"),
        ({"turns": [{"results": [], "state": {}}]}, "wanted one at least in which something is called"),
        ({"turns": [{"results": []}]}, "wanted objects of results"),
        ({"told": [" "]}, "told: wanted texts"),
        ({"told": ["35", "-- (.)"]}, "told: wanted texts of more than marks"),
    ],
)
def test_a_truth_that_is_empty_or_none_is_refused(reference: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ask_grader("bfcl", reference, "[rate(amount=1)]")


def test_a_language_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="language: wanted one of python"):
        ask("rate(amount=1)", language="cobol")
