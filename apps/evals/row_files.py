"""Rows of a data set out of a file's text: objects with its columns."""

import csv
from collections.abc import Mapping
from typing import Any, Final

from apps.base.errors import BadInputError
from apps.evals.services import refuse_rows
from tentalis.core.csv_text import open_csv_rows
from tentalis.core.edge_limits import EdgeLimits
from tentalis.core.strict_json import StrictJsonError, check_text, read_json
from tentalis.core.task_files import find_doubled

FORMS: Final = ("jsonl", "json", "csv")
MOST_DIGITS: Final = 19


def read_rows(text: str, *, form: str) -> list[Mapping[str, Any]]:
    """The rows of a file, in its order; a blank line is none.

    Args:
        form: `jsonl` an object a line, `json` a list of objects, `csv` with a header (RFC 4180).
    Raises:
        BadInputError: at `text`, each line that is no row.
    """
    match form:
        case "csv":
            return _read_csv(text)
        case "json":
            return _read_json(text)
        case "jsonl":
            return _read_lines(text)
    raise BadInputError.at("form", f"wanted one of {', '.join(FORMS)}, found {form!r:.40}")


def _read_lines(text: str) -> list[Mapping[str, Any]]:
    rows, faults = [], {}
    for line, written in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        if not written.strip():
            continue
        try:
            rows.append(
                _require_object(read_json(written, most_levels=EdgeLimits.web_json_depth, most_digits=MOST_DIGITS))
            )
        except (StrictJsonError, ValueError) as error:
            faults[line] = str(error)
    if faults:
        raise refuse_rows(faults)
    return rows


def _read_json(text: str) -> list[Mapping[str, Any]]:
    try:
        found = read_json(text, most_levels=EdgeLimits.web_json_depth, most_digits=MOST_DIGITS)
        if not isinstance(found, list):
            raise ValueError(f"wanted a list of objects, found {type(found).__name__}")
        return [_require_object(row) for row in found]
    except (StrictJsonError, ValueError) as error:
        raise refuse_rows({0: str(error)}) from None


def _read_csv(text: str) -> list[Mapping[str, Any]]:
    try:
        check_text(text)
        reader = open_csv_rows(text.removeprefix("\ufeff"))
        if doubled := find_doubled(reader.fieldnames or ()):
            raise refuse_rows({1: doubled})
        rows, faults = [], {}
        for row in reader:
            if None in row or None in row.values():
                faults[reader.line_num] = f"wanted {len(reader.fieldnames or ())} cells, as the header has"
            rows.append(row)
    except (csv.Error, StrictJsonError) as error:
        raise refuse_rows({0: str(error)}) from None
    if faults:
        raise refuse_rows(faults)
    return list(rows)


def _require_object(row: Any) -> Mapping[str, Any]:
    if not isinstance(row, dict):
        raise ValueError(f"wanted an object, found {type(row).__name__}")
    return row
