"""Rows as bytes: CSV that no spreadsheet runs as a formula, canonical JSON lines, Parquet."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Any

from apps.base.unpacking import KINDS_KEY
from tentalis.core.canon import canonical_json

Row = Mapping[str, Any]
BATCH = 500
# what makes a spreadsheet take a text for a formula, and the guard itself, so that it can be taken off again
DANGEROUS = ("=", "+", "-", "@", "\t", "\r", "\n", "'")
GUARD = "'"
# where the list separator is no comma, a spreadsheet may cut a text, and what follows is the beginning of a cell
_CUT = re.compile(r"""([;\t\r\n][\s"]{0,32})('*[=+\-@])""")
_GUARDED_CUT = re.compile(r"""([;\t\r\n][\s"]{0,32})'('*[=+\-@])""")


def guard(text: str) -> str:
    """A text that no spreadsheet runs, whatever it takes for a separator; `unguard` gives it back."""
    text = _CUT.sub(r"\1'\2", text)
    return GUARD + text if text.startswith(DANGEROUS) else text


def unguard(text: str) -> str:
    return _GUARDED_CUT.sub(r"\1\2", text.removeprefix(GUARD))


def write_csv(rows: Iterable[Row], columns: Mapping[str, str]) -> Iterator[bytes]:
    """UTF-8 with a byte order mark, so that spreadsheets read it as such; nested values as JSON texts."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    yield b"\xef\xbb\xbf"
    iterator = iter(rows)
    while batch := list(islice(iterator, BATCH)):
        writer.writerows([[_as_cell(row[name], kind) for name, kind in columns.items()] for row in batch])
        yield _empty(text)
    yield _empty(text)


def write_jsonl(rows: Iterable[Row], columns: Mapping[str, str]) -> Iterator[bytes]:
    """One canonical JSON object a line."""
    for row in rows:
        yield canonical_json({name: _plain(row[name]) for name in columns}) + b"\n"


def write_parquet(rows: Iterable[Row], columns: Mapping[str, str]) -> Iterator[bytes]:
    """One file, handed out while it grows; nested values are JSON texts."""
    import pyarrow
    import pyarrow.parquet

    ints, floats = pyarrow.list_(pyarrow.int32()), pyarrow.list_(pyarrow.float32())
    spans = {"start": pyarrow.int64(), "end": pyarrow.int64(), "score": pyarrow.float64(), "said": pyarrow.float64()}
    kinds = {
        "int": pyarrow.int64(), "float": pyarrow.float64(), "bool": pyarrow.bool_(), "text": pyarrow.string(),
        "time": pyarrow.timestamp("us", tz="UTC"), "json": pyarrow.string(), "ints": ints, "floats": floats,
        "bools": pyarrow.list_(pyarrow.bool_()), "texts": pyarrow.list_(pyarrow.string()),
        "lists of ints": pyarrow.list_(ints), "lists of floats": pyarrow.list_(floats),
        "steps": pyarrow.list_(pyarrow.struct(spans)),
        "messages": pyarrow.list_(pyarrow.struct([("role", pyarrow.string()), ("content", pyarrow.string())])),
    }  # fmt: skip
    said = {KINDS_KEY: json.dumps(dict(columns)).encode()}
    schema = pyarrow.schema([(name, kinds[kind]) for name, kind in columns.items()], metadata=said)
    sink = Sink()
    iterator = iter(rows)
    with pyarrow.parquet.ParquetWriter(sink, schema) as writer:
        while batch := list(islice(iterator, BATCH)):
            table = {name: [_as_stored(row[name], kind) for row in batch] for name, kind in columns.items()}
            writer.write_table(pyarrow.Table.from_pydict(table, schema=schema))
            yield sink.take()
    yield sink.take()


WRITERS: Mapping[str, tuple[Callable[[Iterable[Row], Mapping[str, str]], Iterator[bytes]], str]] = {
    "csv": (write_csv, "text/csv; charset=utf-8"),
    "jsonl": (write_jsonl, "application/x-ndjson"),
    "parquet": (write_parquet, "application/vnd.apache.parquet"),
}


class Sink(io.RawIOBase):
    """A file that is only written: what came since one last looked can be taken away, and is not kept."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._length = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._length += len(part)
        return len(part)

    def tell(self) -> int:
        return self._length

    def take(self) -> bytes:
        taken = b"".join(self._parts)
        self._parts.clear()
        return taken


def _empty(text: io.StringIO) -> bytes:
    said = text.getvalue().encode()
    text.seek(0)
    text.truncate()
    return said


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _as_cell(value: Any, kind: str) -> Any:
    if value is None:
        return ""
    if kind in {"int", "float", "time"}:
        return _plain(value)
    if kind == "bool":
        return "true" if value else "false"
    return guard(value if kind == "text" else json.dumps(value, ensure_ascii=False))


def _as_stored(value: Any, kind: str) -> Any:
    return json.dumps(value, ensure_ascii=False) if kind == "json" and value is not None else value
