"""Tasks out of a file: a prompt a line, CSV with a header, or JSON lines. Pure; a file is taken whole or not at all."""

import csv
import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from tentalis.core.csv_text import open_csv
from tentalis.core.edge_limits import EdgeLimits
from tentalis.core.strict_json import StrictJsonError, check_text, read_json

FORMS: Final = ("lines", "csv", "jsonl")
MOST_FAULTS: Final = 20
"""So many are told; there may be more."""
_FIELDS: Final = ("prompt", "reference", "match", "group_size", "seed", "checks")
_JSON_FIELDS: Final = ("prompt", "reference", "checks", "metadata", "group_size", "seed")
_OF_AN_EXPORT: Final = frozenset({"created_at", "state", "submitted_by", "answer"})
_OF_ITEMS: Final = frozenset({"split", "content_hash"})
_LEFT_OUT: Final = (
    *_OF_AN_EXPORT, "id", "worker", "environment", "score", "failure", "held_out", "taskset", "source", "content_hash",
)  # fmt: skip
"""What a platform's own export of tasks or items says beside them, which is not taken over."""
_LEVELS, _DIGITS = EdgeLimits.web_json_depth, 19


class TaskRow(NamedTuple):
    """A task as the file has it.

    Args:
        line: where it begins, from 1.
        reference: as JSON says it where `match` is None; else a text as people type it, and how it matches ("": guess).
        group_size, seed, checks: None where the file says nothing.
    """

    line: int
    prompt: str
    reference: Any = None
    match: str | None = None
    metadata: Mapping[str, Any] = {}
    group_size: int | None = None
    seed: int | None = None
    checks: Any = None


class TaskFileError(ValueError):
    """What is wrong with a file, by line; 0 is the file as a whole. At most `MOST_FAULTS` are told."""

    def __init__(self, faults: Mapping[int, str]) -> None:
        self.faults = dict(list(faults.items())[:MOST_FAULTS])
        super().__init__("; ".join(self.lines))

    @property
    def lines(self) -> list[str]:
        """Each fault in words that name its line."""
        return [f"line {line}: {words}" if line else words for line, words in self.faults.items()]


def guess_form(name: str, text: str) -> str:
    """The form of a file by the end of its name; else by how it begins."""
    ending = name.lower().rpartition(".")[2]
    known = {"csv": "csv", "jsonl": "jsonl", "ndjson": "jsonl", "txt": "lines"}
    if ending in known:
        return known[ending]
    first = text.lstrip("\ufeff").lstrip().partition("\n")[0].strip()
    if first.startswith("{"):
        return "jsonl"
    return "csv" if "prompt" in (cell.strip().lower() for cell in first.split(",")) and "," in first else "lines"


def read_task_rows(
    text: str, *, form: str, most: int = EdgeLimits.import_tasks, beside: Collection[str] = ()
) -> list[TaskRow]:
    """The tasks of a file, in its order.

    Args:
        form: one of `FORMS`. CSV (RFC 4180) needs a column `prompt`; `reference`, `match`, `group_size`, `seed` and
            `checks` (as JSON) are known, other columns become metadata. A JSON line is an object of prompt, reference,
            checks, metadata, group_size and seed; of an export what was done with them is left out. Blank
            lines are left out.
        most: tasks.
        beside: further fields that a JSON line may have; they come as metadata, as other columns of CSV do.
    Raises:
        TaskFileError: with each line that is not what is wanted.
    """
    readers: dict[str, Callable[[str], Iterator[TaskRow | tuple[int, str]]]] = {
        "lines": _read_lines,
        "csv": _read_csv,
        "jsonl": partial(_read_json_lines, beside=beside),
    }
    if form not in readers:
        raise TaskFileError({0: f"form: wanted one of {', '.join(FORMS)}, found {form!r}"})
    rows: list[TaskRow] = []
    faults: dict[int, str] = {}
    for found in readers[form](text.removeprefix("\ufeff")):
        if isinstance(found, TaskRow):
            rows.append(found)
        else:
            faults.setdefault(*found)
        if len(rows) + len(faults) > most:
            raise TaskFileError(faults or {0: f"wanted at most {most:,} tasks in a file, found more"})
    if faults or not rows:
        raise TaskFileError(faults or {0: "wanted tasks, found none"})
    return rows


def _read_lines(text: str) -> Iterator[TaskRow | tuple[int, str]]:
    for line, prompt in enumerate(io.StringIO(text, newline=None), start=1):
        if prompt.strip():
            fault = _find_fault(prompt)
            yield (line, fault) if fault else TaskRow(line, prompt.strip())


def _read_csv(text: str) -> Iterator[TaskRow | tuple[int, str]]:
    reader = open_csv(text)
    names: list[str] | None = None
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield line, f"wanted CSV: {error}"
            return
        if cells is None:
            return
        if names is None:
            names = [cell.strip() for cell in cells]
            if fault := _find_header_fault(names):
                yield line, fault
                return
        elif any(cell.strip() for cell in cells):
            yield _read_cells(line, names, cells)


def _find_header_fault(names: list[str]) -> str:
    if "prompt" not in names:
        return f"wanted a header with a column prompt, found {', '.join(names)[:200]!r}"
    if set(names) >= _OF_AN_EXPORT:
        return "this is an export of tasks as CSV, which is for reading: import it as JSON lines or Parquet"
    return find_doubled(names)


def find_doubled(names: Sequence[str]) -> str:
    """What is wrong with a header that names a column twice; "" with others."""
    doubles = sorted({name for name in names if names.count(name) > 1})
    return f"wanted each column once, found twice: {', '.join(doubles)[:200]!r}" if doubles else ""


def _read_cells(line: int, names: list[str], cells: list[str]) -> TaskRow | tuple[int, str]:
    if len(cells) > len(names):
        return line, f"wanted {len(names)} cells as in the header, found {len(cells)}"
    said = {name: cell.strip() for name, cell in zip(names, cells, strict=False) if cell.strip()}
    if fault := next((fault for cell in (*names, *said.values()) if (fault := _find_fault(cell))), ""):
        return line, fault
    numbers: dict[str, int | None] = {"group_size": None, "seed": None}
    for name in numbers:
        if cell := said.get(name):
            if not (cell.isascii() and cell.isdigit() and len(cell) <= _DIGITS):
                return line, f"{name}: wanted a whole number, found {cell[:60]!r}"
            numbers[name] = int(cell)
    if "prompt" not in said:
        return line, "prompt: wanted some text, found none"
    try:
        checks = _read_nested(said["checks"]) if "checks" in said else None
    except StrictJsonError as error:
        return line, f"checks: {error}"
    metadata = {name: cell for name, cell in said.items() if name not in _FIELDS}
    match = said.get("match", "")
    return TaskRow(line, said["prompt"], said.get("reference", ""), match, metadata, **numbers, checks=checks)


def _read_json_lines(text: str, *, beside: Collection[str]) -> Iterator[TaskRow | tuple[int, str]]:
    for line, found in enumerate(text.split("\n"), start=1):
        if found.strip():
            yield _read_object(line, found, beside)


def _read_object(line: int, text: str, beside: Collection[str]) -> TaskRow | tuple[int, str]:
    try:
        said = read_json(text, most_levels=_LEVELS, most_digits=_DIGITS)
    except StrictJsonError as error:
        return line, str(error)
    if not isinstance(said, dict):
        return line, f"wanted an object, found {text.strip()[:60]!r}"
    if said.keys() >= _OF_AN_EXPORT or said.keys() >= _OF_ITEMS:
        said = {name: value for name, value in said.items() if name not in _LEFT_OUT}
        if isinstance(said.get("metadata"), str):
            try:
                nested = ("metadata", "reference", "checks")
                said |= {name: _read_nested(said[name]) for name in nested if name in said}
            except StrictJsonError as error:
                return line, f"metadata, reference, checks: {error}"
    if unknown := [name for name in said if name not in (*_JSON_FIELDS, *beside)]:
        return line, f"wanted {', '.join((*_JSON_FIELDS, *beside))}; found {', '.join(unknown)[:200]}"
    if not isinstance(prompt := said.get("prompt"), str) or not prompt.strip():
        return line, "prompt: wanted some text, found none"
    for name in ("group_size", "seed"):
        if (number := said.get(name)) is not None and (type(number) is not int or number < 0):
            return line, f"{name}: wanted a whole number, found {number!r:.60}"
    if not isinstance(metadata := said.get("metadata") or {}, dict):
        return line, "metadata: wanted an object"
    metadata = metadata | {name: said[name] for name in beside if name in said}
    reference = said.get("reference")
    sizes = said.get("group_size"), said.get("seed")
    return TaskRow(line, prompt, reference, None, metadata, *sizes, said.get("checks"))


def _read_nested(value: Any) -> Any:
    """JSON in a text, as an export's Parquet keeps it and what reads that (`datasets`) writes it again."""
    return read_json(value, most_levels=_LEVELS, most_digits=_DIGITS) if isinstance(value, str) else value


def _find_fault(text: str) -> str:
    try:
        check_text(text)
    except StrictJsonError as error:
        return str(error)
    return ""
