"""Checks as data: what they say of answers, what is refused where they are written, and that they end."""

import json
from typing import Any

import pytest

from apps.checks import schemas, tongues
from apps.checks.language import read_check, read_checks
from apps.checks.results import CheckError, CheckVerdict

PERSON = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "age": {"minimum": 0}}}
LETTER = "Dear customer, thank you very much for your kind letter, which we have read with great pleasure."
BRIEF = "Sehr geehrte Kundin, vielen Dank für Ihren freundlichen Brief, den wir mit großer Freude gelesen haben."
PASSES = {"check": "contains", "value": "a"}
FAILS = {"check": "contains", "value": "b"}
UNKNOWN = {"check": "language", "languages": ["en"]}
"""Of the answer "a": too short to tell."""


@pytest.mark.parametrize(
    ("spec", "answer", "passes"),
    [
        ({"check": "exact", "value": "New  York"}, " new york\n", True),
        ({"check": "exact", "value": "Paris", "case": True}, "paris", False),
        ({"check": "contains", "value": "Paris"}, "It is PARIS.", True),
        ({"check": "contains", "value": 7}, "of 17", True),
        ({"check": "number", "value": 12}, "6 * 2 makes 12", True),
        ({"check": "number", "value": 12, "tolerance": 0.01}, "12.009", True),
        ({"check": "number", "value": 12, "tolerance": 0.01}, "12.02", False),
        ({"check": "number", "value": 12}, "about 1e999", False),
        ({"check": "number", "value": "1,234.5"}, "it is 1234.5", True),
        ({"check": "number", "value": "12 kg"}, "they weigh 12 kg", True),
        ({"check": "number", "value": 0.5}, "it is .5", True),
        ({"check": "number", "value": 5}, "it is .5", False),
        ({"check": "number", "value": "-.5"}, "-0.5", True),
        ({"check": "number", "value": 5}, "see section a.5", True),
        ({"check": "number", "value": -5}, "it is \u22125", True),
        ({"check": "number", "value": 5}, "it is \u22125", False),
        ({"check": "number", "value": "\u22125"}, "-5", True),
        ({"check": "number", "value": 5}, "10\u22125", True),
        ({"check": "number", "value": 1234567}, "1234568", False),
        ({"check": "number", "value": 1234567}, "1,234,567.0", True),
        ({"check": "number", "value": 1234567, "tolerance": 1}, "1234568", True),
        ({"check": "number", "value": 10_000_000_000, "tolerance": 1}, "10000000002", False),
        ({"check": "number", "value": 9007199254740993}, "9007199254740992", False),
        ({"check": "number", "value": 12, "tolerance": 0.1}, "12.1", True),
        ({"check": "number", "value": 0.3}, "0.30000000000000004", True),
        ({"check": "number", "value": 12}, "11.999999999999998", True),
        ({"check": "number", "value": 0.333333}, "0.3333333", False),
        ({"check": "regex", "pattern": r"\bA-\d{4}\b"}, "see A-1234.", True),
        ({"check": "regex", "pattern": r"A-\d{4}", "whole": True}, "see A-1234.", False),
        ({"check": "regex", "pattern": r"(?i)^dear"}, "DEAR all", True),
        ({"check": "json_schema", "schema": PERSON}, '{"name": "Ada"}', True),
        ({"check": "json_schema", "schema": PERSON}, '```json\n{"name": "Ada", "age": 3}\n```', True),
        ({"check": "json_schema", "schema": PERSON}, '{"name": 3}', False),
        ({"check": "json_schema", "schema": PERSON}, '{"name": "Ada", "age": NaN}', False),
        ({"check": "json_schema", "schema": PERSON}, "Ada", False),
        ({"check": "json_schema", "schema": {"items": {"maximum": 10}}}, "[1e999]", False),
        ({"check": "json_schema", "schema": PERSON}, '{"name": "half \\ud800"}', True),
        ({"check": "regex", "pattern": "^A.B$"}, "A\ud800B", True),
        ({"check": "forbidden", "words": ["free"]}, "free\x00\ud800", False),
        ({"check": "json_schema", "schema": False}, "1", False),
        ({"check": "length", "unit": "words", "min": 2, "max": 3}, " one two ", True),
        ({"check": "length", "max": 3}, "four", False),
        ({"check": "length", "unit": "lines", "min": 2}, "one", False),
        ({"check": "forbidden", "words": ["guarantee", "free of charge"]}, "This is free  of\nCHARGE.", False),
        ({"check": "forbidden", "words": ["free"]}, "We set them at freedom.", True),
        ({"check": "language", "languages": ["de"]}, BRIEF, True),
        ({"check": "language", "languages": ["de", "fr"]}, LETTER, False),
    ],
)
def test_a_check_says_whether_an_answer_is_right(spec: dict[str, Any], answer: str, passes: bool) -> None:
    found = read_check(spec).run(answer)
    assert (found.verdict, found.share) == (CheckVerdict.PASSED if passes else CheckVerdict.FAILED, float(passes))
    assert found.check == spec["check"]
    assert found.words


@pytest.mark.parametrize(
    ("spec", "verdict", "share"),
    [
        ({"all": [PASSES, PASSES]}, "passed", 1.0),
        ({"all": [PASSES, FAILS]}, "failed", 0.0),
        ({"any": [PASSES, FAILS]}, "passed", 1.0),
        ({"any": [FAILS, FAILS]}, "failed", 0.0),
        ({"weighted": [[3, PASSES], [1, FAILS]]}, "failed", 0.75),
        ({"weighted": [[0.1, PASSES], [0.2, PASSES]]}, "passed", 1.0),
        ({"all": [PASSES, UNKNOWN]}, "unscored", None),
        ({"all": [FAILS, UNKNOWN]}, "failed", 0.0),
        ({"any": [PASSES, UNKNOWN]}, "passed", 1.0),
        ({"any": [FAILS, UNKNOWN]}, "unscored", None),
        ({"weighted": [[1, PASSES], [1, UNKNOWN]]}, "unscored", None),
        ({"all": [{"weighted": [[1, PASSES], [1, FAILS]]}, UNKNOWN]}, "unscored", None),
    ],
)
def test_parts_make_a_whole_and_what_could_not_be_run_is_neither_right_nor_wrong(
    spec: dict[str, Any], verdict: str, share: float | None
) -> None:
    found = read_check(spec).run("a")
    assert (found.verdict, found.share) == (verdict, share)
    assert len(found.parts) == 2
    assert found.to_json()["parts"][0]["result"] in set(CheckVerdict)
    json.dumps(found.to_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("Paris", "check: wanted an object such as"),
        ({}, "wanted one of check, all, any, weighted or use, found nothing"),
        ({"all": [PASSES], "any": [PASSES]}, "found all, any"),
        (
            {"check": "weighted", "parts": []},
            r'wanted {"weighted": \[\[weight, check\], …\]}, found {"check": "weighted"',
        ),
        ({"check": "vibes"}, r"check\.check: wanted one of exact, .*found 'vibes'"),
        ({"check": ["exact"]}, r"check\.check: wanted one of"),
        ({"check": "exact"}, r"check\.value: wanted a text or a number .*found none"),
        ({"check": "exact", "value": " "}, "wanted a text or a number"),
        ({"check": "exact", "value": True}, "found True"),
        ({"check": "exact", "value": "a\x00"}, "NUL"),
        ({"check": "exact", "value": float("nan")}, "wanted a finite number, found nan"),
        ({"check": "exact", "value": "x", "weight": 2}, "wanted case, value, found weight"),
        ({"check": "number", "value": "many"}, "wanted a number, one alone, .*found 'many'"),
        ({"check": "number", "value": "1/2"}, "wanted a number, one alone, .*found '1/2'"),
        ({"check": "number", "value": "12 to 14"}, "wanted a number, one alone, .*found '12 to 14'"),
        ({"check": "number", "value": "1e999"}, "wanted a number, one alone, .*found '1e999'"),
        ({"check": "number", "value": 1, "tolerance": float("nan")}, "tolerance: wanted a finite number of at least 0"),
        ({"check": "number", "value": 1, "tolerance": -1}, "found -1"),
        ({"check": "regex", "pattern": "("}, r"check\.pattern: .*missing \)"),
        ({"check": "regex", "pattern": "(?=a)b"}, "a pattern that RE2 reads"),
        ({"check": "regex", "pattern": "((a{100}){100}){100}"}, "pattern: wanted a pattern"),
        ({"check": "regex", "pattern": "(?:a?){1000}b?{1000}|c{1000}"}, "pattern: wanted a pattern"),
        ({"check": "length"}, "wanted min or max"),
        ({"check": "length", "min": 3, "max": 2}, "max: wanted at least min, 3, found 2"),
        ({"check": "length", "unit": "pages", "min": 3}, "one of characters, words, lines"),
        ({"check": "length", "max": 2.5}, "whole number"),
        ({"check": "forbidden", "words": []}, "a list of 1 to 500 texts"),
        ({"check": "forbidden", "words": "bad"}, "a list of 1 to 500 texts, found 'bad'"),
        ({"check": "language", "languages": ["english"]}, "not known: english"),
        ({"check": "json_schema"}, "schema: wanted a JSON schema, found none"),
        ({"check": "json_schema", "schema": {"type": "strin"}}, "wanted a JSON schema"),
        ({"check": "json_schema", "schema": {"minimum": float("nan")}}, "wanted a JSON schema"),
        ({"check": "json_schema", "schema": {"pattern": "(?=a)b"}}, "wanted a JSON schema"),
        ({"check": "json_schema", "schema": {"$ref": "https://example.org/s"}}, "references into the schema itself"),
        ({"check": "json_schema", "schema": {"$ref": "file:///etc/hostname"}}, "references into the schema itself"),
        ({"check": "json_schema", "schema": {"$schema": "https://example.org/s"}}, "wanted a JSON schema"),
        ({"check": "json_schema", "schema": {"$ref": "#/$defs/none"}}, "a place in the schema"),
        ({"check": "json_schema", "schema": {"$ref": "#"}}, "inside itself"),
        ({"check": "json_schema", "schema": {"properties": {"default": {"$ref": "#"}}}}, "inside itself"),
        ({"check": "json_schema", "schema": {"items": {"$id": "x", "$ref": "#/a"}}}, "an id at the top alone"),
        ({"check": "json_schema", "schema": {"$dynamicRef": "#x"}}, r"found \$dynamicRef"),
        ({"all": []}, "wanted a list of checks"),
        ({"all": [PASSES] * 33}, "at most 32 checks"),
        ({"all": [{"any": [PASSES] * 20}] * 2}, "at most 32 checks with all inside, found 43"),
        (
            {"all": [PASSES, {"any": [{"check": "regex", "pattern": "("}]}]},
            r"check\.all\[1\]\.any\[0\]\.pattern: wanted",
        ),
        ({"weighted": [PASSES]}, r"weighted\[0\]: wanted \[weight, check\]"),
        ({"weighted": [[0, PASSES]]}, "a finite number above 0, found 0"),
        ({"weighted": [[float("nan"), PASSES]]}, "a finite number above 0, found nan"),
        ({"use": "polite@1"}, "wanted a check of a project, found 'polite@1' where there is none"),
        ({"use": "polite@1", "is": {"use": "polite@1"}}, r"use\(polite@1\).use: wanted a check of a project"),
        ({"use": "polite@1", "all": []}, "wanted one of check, all, any, weighted or use, found use, all"),
        ({"use": 3}, "wanted name@version, found 3"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(spec: Any, complaint: str) -> None:
    with pytest.raises(CheckError, match=complaint):
        read_check(spec)


def test_checks_within_each_other_end() -> None:
    spec: dict[str, Any] = PASSES
    for _ in range(50):
        spec = {"all": [spec]}
    with pytest.raises(CheckError, match="at most 6 checks within each other"):
        read_check(spec)


def test_a_list_of_checks_names_the_one_that_cannot_be_read() -> None:
    assert len(read_checks(PASSES)) == 1
    with pytest.raises(CheckError, match=r"checks\[1\]\.value"):
        read_checks([PASSES, {"check": "exact"}])
    with pytest.raises(CheckError, match="wanted a list"):
        read_checks("exact")


def test_a_schema_whose_references_double_is_refused() -> None:
    """Thirty lines that would be looked at 2^30 times."""
    doubled = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(30)} | {"d30": {}}
    with pytest.raises(CheckError, match="at most 2,000 parts"):
        read_check({"check": "json_schema", "schema": {"$defs": doubled, "$ref": "#/$defs/d0"}})
    chain = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(2000)} | {"d2000": {}}
    with pytest.raises(CheckError, match="references that end"):
        read_check({"check": "json_schema", "schema": {"$defs": chain, "$ref": "#/$defs/d0"}})


@pytest.mark.parametrize(
    ("spec", "answer", "words"),
    [
        ({"check": "regex", "pattern": "(?:a?){900}[^a]$"}, "a" * 300_000, "for so large a pattern, found 300,000"),
        ({"check": "contains", "value": "a"}, "a" * 400_001, "wanted an answer of at most 400,000 characters"),
        ({"any": [PASSES, PASSES]}, "a" * 400_001, "wanted an answer of at most 400,000 characters"),
        ({"check": "json_schema", "schema": True}, "[" * 100_000, "levels"),
        ({"check": "json_schema", "schema": True}, "[" * 300 + "]" * 300, "levels"),
    ],
)
def test_an_answer_that_is_longer_or_deeper_than_is_looked_at_is_wrong(
    spec: dict[str, Any], answer: str, words: str
) -> None:
    found = read_check(spec).run(answer)
    assert (found.verdict, found.share) == ("failed", 0.0)
    assert words in found.words


def test_a_language_that_nobody_can_tell_is_unscored() -> None:
    found = read_check(UNKNOWN).run("17")
    assert (found.verdict, found.share) == ("unscored", None)
    assert "too short to tell" in found.words


@pytest.mark.parametrize(
    "spec",
    [
        {"check": "regex", "pattern": "(a+)+$"},
        {"check": "regex", "pattern": "(a|aa|a?)*b"},
        {"check": "json_schema", "schema": {"pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}},
        {"check": "forbidden", "words": ["a" * 199 + "b", "aa b"]},
        {"check": "number", "value": 1},
    ],
)
def test_a_catastrophic_pattern_ends(spec: dict[str, Any]) -> None:
    """Any that goes back would not be done within the life of the house."""
    read_check(spec).run(json.dumps("a" * 200_000 + "!"))


def test_a_library_that_fails_leaves_the_check_unscored(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: Any) -> Any:
        raise RuntimeError("out of memory")

    check = read_check({"all": [PASSES, {"check": "json_schema", "schema": PERSON}]})
    monkeypatch.setattr(schemas, "find_faults", fail)
    found = check.run('{"name": "Ada"}')
    assert found.verdict == "unscored"
    assert "out of memory" in found.parts[1].words


def test_words_never_hold_the_right_answer() -> None:
    for spec in ({"check": "exact", "value": "Rosebud"}, {"check": "contains", "value": "Rosebud"}):
        assert "Rosebud" not in read_check(spec).run("no").words
    schema = {"const": "Rosebud"}
    assert "Rosebud" not in read_check({"check": "json_schema", "schema": schema}).run('"no"').words


def test_every_language_that_may_be_named_is_known() -> None:
    assert set(tongues._open().nb_classes) >= tongues.LANGUAGES
    assert len(tongues.LANGUAGES) > 100
