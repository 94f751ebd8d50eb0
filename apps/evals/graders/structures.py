"""Answers of a form: JSON as a schema says, a query, a patch."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from apps.checks.language import Check, read_check
from apps.checks.results import CheckVerdict
from tentalis.core.canon import canonical_json
from tentalis.core.graders.queries import MOST_SETUPS, QueryError, Row, find_rows, is_ordered, same_rows
from tentalis.core.graders.reading import find_fenced, read_flag
from tentalis.core.grading import Grade, GradedTask, Grader, UngradedError, decide_grade
from tentalis.core.scoring.protocol import AttemptContext
from tentalis.core.swe.patches import FilePatch, PatchError, apply_patch, overlay, parse_patch, write_patch

MOST_HUNKS: Final = 200

# --- JSON


def check_json_schema(reference: Any, options: Mapping[str, Any]) -> None:
    """Raises ValueError. A schema that everything fits says nothing of an answer."""
    if reference is True or reference == {}:
        raise ValueError("reference: wanted a schema that something does not fit, found one that everything fits")
    _open_schema(canonical_json(reference))


@lru_cache(maxsize=256)
def _open_schema(schema: bytes) -> Check:
    return read_check({"check": "json_schema", "schema": json.loads(schema)}, where="reference")


def grade_json_schema(task: GradedTask, episode: AttemptContext) -> Grade:
    """Right where the answer is JSON, fenced or not, that is as the schema says."""
    result = _open_schema(canonical_json(task.reference)).run(episode.answer or "")
    if result.verdict is CheckVerdict.UNSCORED:
        raise UngradedError(result.words)
    return decide_grade(correct=result.verdict is CheckVerdict.PASSED, words=result.words)


# --- SQL


def check_sql(reference: Any, options: Mapping[str, Any]) -> None:
    """Raises ValueError. A query that finds nothing anywhere is no reference: any that finds nothing would do."""
    if not isinstance(reference, dict) or reference.keys() - {"setup", "query", "rows"} or "setup" not in reference:
        raise ValueError(f"reference: wanted setup, and query or rows, found {reference!r:.120}")
    setups = _list_setups(reference)
    if not 1 <= len(setups) <= MOST_SETUPS or not all(isinstance(one, str) and one.strip() for one in setups):
        raise ValueError(f"setup: wanted SQL, or 1 to {MOST_SETUPS} texts of it, found {reference['setup']!r:.120}")
    if ("query" in reference) == ("rows" in reference):
        raise ValueError("reference: wanted one of query and rows")
    if "rows" in reference:
        rows = reference["rows"]
        if not isinstance(rows, list) or not rows or not all(isinstance(row, list) for row in rows):
            raise ValueError(f"rows: wanted a list of rows, found {rows!r:.120}")
        if len(setups) > 1:
            raise ValueError("rows: wanted a query where there are several setups")
        find_rows(setups[0], "SELECT 1")
    elif not isinstance(reference["query"], str):
        raise ValueError(f"query: wanted SQL, found {reference['query']!r:.120}")
    elif not max([len(find_rows(setup, reference["query"])) for setup in setups]):
        raise ValueError("query: wanted one that finds something, found one that finds nothing")
    read_flag(options, "ordered", default=False)


def grade_sql(task: GradedTask, episode: AttemptContext) -> Grade:
    """Right where its query finds what is right, in every database; in any order unless one is asked for."""
    answer = episode.answer or ""
    query = (find_fenced(answer, ("sql", "sqlite")) or answer).strip().rstrip(";").strip()
    if not query:
        return decide_grade(correct=False, query="none")
    wants_order = is_ordered(task.reference.get("query", ""))
    in_order = read_flag(task.options, "ordered", default=wants_order)
    for number, setup in enumerate(_list_setups(task.reference), 1):
        try:
            wanted = _find_wanted(setup, task.reference)
        except QueryError as error:
            raise UngradedError(f"reference: {error}") from None
        try:
            rows = find_rows(setup, query)
        except QueryError as error:
            return decide_grade(correct=False, trouble=str(error))
        if not same_rows(rows, wanted, in_order=in_order):
            return decide_grade(correct=False, rows=len(rows), database=number)
    return decide_grade(correct=True)


def _list_setups(reference: Mapping[str, Any]) -> list[Any]:
    setup = reference["setup"]
    return setup if isinstance(setup, list) else [setup]


def _find_wanted(setup: str, reference: Mapping[str, Any]) -> list[Row]:
    if "rows" in reference:
        return [tuple(row) for row in reference["rows"]]
    return _find_reference_rows(setup, reference["query"])


@lru_cache(maxsize=16)
def _find_reference_rows(setup: str, query: str) -> list[Row]:
    return find_rows(setup, query)


# --- diff


def check_diff(reference: Any, options: Mapping[str, Any]) -> None:
    """Raises ValueError."""
    if not isinstance(reference, dict) or reference.keys() != {"before", "after"}:
        raise ValueError(f"reference: wanted files before and after, found {reference!r:.120}")
    for name, files in reference.items():
        if not isinstance(files, dict) or not all(isinstance(text, str) for text in files.values()):
            raise ValueError(f"{name}: wanted path -> text, found {files!r:.120}")
    if reference["before"] == reference["after"]:
        raise ValueError("reference: wanted files that change, found the same before and after")
    read_flag(options, "partial", default=False)


def grade_diff(task: GradedTask, episode: AttemptContext) -> Grade:
    """Right where its patch turns the files before into those after; where `partial` is asked for, a patch that applies
    is worth the share of changed lines that are right."""
    answer = episode.answer or ""
    before = _encode(task.reference["before"])
    try:
        patch = parse_patch((find_fenced(answer, ("diff", "patch")) or answer.strip("\n")) + "\n")
        if (count := sum(len(one.hunks) for one in patch)) > MOST_HUNKS:
            raise PatchError(f"wanted at most {MOST_HUNKS} changes, found {count:,}")
        changed = apply_patch(before, patch)
    except PatchError as error:
        return decide_grade(correct=False, trouble=str(error)[:300])
    after = _encode(task.reference["after"])
    right = bool(patch) and overlay(before, changed) == after
    wanted = parse_patch(write_patch(before, {path: after.get(path) for path in before.keys() | after.keys()}))
    own, other = Counter(_list_changes(patch)), Counter(_list_changes(wanted))
    shared = (own & other).total()
    lines = 2 * shared / (own.total() + other.total()) if shared else 0.0
    partial = lines if read_flag(task.options, "partial", default=False) else 0.0
    return Grade(value=1.0 if right else partial, correct=right, signals={"lines": lines})


def _encode(files: Mapping[str, str]) -> dict[str, bytes]:
    return {path: text.encode() for path, text in files.items()}


def _list_changes(patch: list[FilePatch]) -> Iterator[tuple[str, str, str]]:
    for one in patch:
        for hunk in one.hunks:
            old, new = Counter(hunk.old), Counter(hunk.new)
            yield from ((one.name, "-", line) for line in (old - new).elements())
            yield from ((one.name, "+", line) for line in (new - old).elements())


GRADERS: Final = (
    Grader(
        name="json_schema",
        version="2",
        about="JSON that is as a schema says.",
        grade=grade_json_schema,
        check=check_json_schema,
    ),
    Grader(
        name="sql",
        version="1",
        about="A query, by what it finds in a small database.",
        grade=grade_sql,
        check=check_sql,
        options={"ordered": "whether the order of rows counts; as the reference's query asks where this is not given"},
    ),
    Grader(
        name="diff",
        version="2",
        about="A patch, by what it makes of files.",
        grade=grade_diff,
        check=check_diff,
        options={"partial": "whether a patch that applies is worth the share of its changed lines that are right"},
    ),
)
