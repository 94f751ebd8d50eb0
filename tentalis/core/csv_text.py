"""CSV (RFC 4180), with cells as long as the platform takes them: Python's own limit is 131,072 characters."""

import csv
import io
from typing import Any, Final

MOST_CELL_CHARS: Final = 1_000_000
csv.field_size_limit(MOST_CELL_CHARS)  # of the whole process: there is no other


def open_csv(text: str) -> Any:
    """Lists of cells, by `csv.reader`. Reading raises csv.Error."""
    return csv.reader(io.StringIO(text, newline=""), strict=True)


def open_csv_rows(text: str) -> "csv.DictReader[str]":
    """Objects by the first line's names. Reading raises csv.Error."""
    return csv.DictReader(io.StringIO(text, newline=""), strict=True)
