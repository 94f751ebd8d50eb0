"""Rows of data sets out of local files: JSON lines, JSON, CSV, Parquet, Arrow, and what `datasets` saves."""

import base64
import csv
import io
import json
import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import typer

from tentalis.core.csv_text import open_csv_rows
from tentalis.core.edge_limits import EdgeLimits

MOST_BYTES: Final = 512 * 2**20
"""Of a file that is read."""
MOST_ROWS: Final = 100_000
MOST_PACKED: Final = EdgeLimits.import_chars * 3 // 4
"""Bytes of a piece, which is sent as base64."""
MOST_PLAIN: Final = EdgeLimits.import_unpacked_bytes // 2
TABLES: Final = (".parquet", ".arrow", ".feather", ".ipc")
AT_ONCE: Final = 256


def read_file_rows(file: str, *, most: int = MOST_ROWS) -> list[dict[str, Any]]:
    """The rows of a file, or of a directory that the `datasets` library saved.

    Raises:
        typer.BadParameter: naming the file, and the row, with what was wanted and found.
    """
    path = Path(file)
    if not path.exists():
        raise typer.BadParameter(f"{file}: there is no such file")
    parts = _list_parts(path)
    if (size := sum(part.stat().st_size for part in parts)) > MOST_BYTES:
        raise typer.BadParameter(f"{file}: wanted at most {MOST_BYTES:,} bytes, found {size:,}")
    rows: list[dict[str, Any]] = []
    for part in parts:
        for row in _read_part(part):
            if len(rows) == most:
                raise typer.BadParameter(f"{file}: wanted at most {most:,} rows, found more")
            _check_row(row, f"{file}: row {len(rows) + 1}")
            rows.append(row)
    if not rows:
        raise typer.BadParameter(f"{file}: wanted rows, found none")
    return rows


def _list_parts(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if (path / "dataset_dict.json").is_file():
        splits = ", ".join(sorted(one.name for one in path.iterdir() if one.is_dir()))
        raise typer.BadParameter(f"{path}: wanted one split, such as {path}/test; found {splits}")
    parts = sorted(path.glob("*.arrow")) or sorted(path.glob("*.parquet"))
    if not parts:
        raise typer.BadParameter(f"{path}: wanted *.arrow or *.parquet files in it, found none")
    return parts


def _read_part(path: Path) -> Iterator[dict[str, Any]]:
    ending = path.suffix.lower()
    if ending in TABLES:
        yield from _read_table(path)
        return
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise typer.BadParameter(
            f"{path}: wanted text in UTF-8, found a byte that is none at {error.start:,}"
        ) from None
    if ending == ".csv":
        yield from _read_csv(path, text)
    elif ending == ".json":
        yield from _read_json(path, text)
    else:
        for line, written in enumerate(text.split("\n"), start=1):
            if written.strip():
                yield _require_object(_parse(written, f"{path}: line {line}"), f"{path}: line {line}")


def _read_table(path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if path.suffix.lower() == ".parquet":
            batches: Any = pq.ParquetFile(path).iter_batches(batch_size=AT_ONCE)
        else:
            with path.open("rb") as opened:
                is_file = opened.read(6) == b"ARROW1"
            source = pa.memory_map(str(path))
            reader: Any = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
            batches = (reader.get_batch(n) for n in range(reader.num_record_batches)) if is_file else iter(reader)
        for batch in batches:
            for start in range(0, batch.num_rows, AT_ONCE):
                yield from batch.slice(start, AT_ONCE).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise typer.BadParameter(f"{path}: wanted a table of Parquet or Arrow: {error}"[:300]) from None


def _read_csv(path: Path, text: str) -> Iterator[dict[str, Any]]:
    reader = open_csv_rows(text)
    try:
        names = list(reader.fieldnames or ())
        if len(set(names)) < len(names):
            raise typer.BadParameter(f"{path}: wanted each column once, found {', '.join(names)[:200]}")
        for row in reader:
            if None in row or None in row.values():
                raise typer.BadParameter(
                    f"{path}: line {reader.line_num}: wanted {len(names)} cells, as the header has"
                )
            yield dict(row)
    except csv.Error as error:
        raise typer.BadParameter(f"{path}: line {reader.line_num}: wanted CSV: {error}") from None


def _read_json(path: Path, text: str) -> Iterator[dict[str, Any]]:
    found = _parse(text, str(path))
    if isinstance(found, dict):  # one list beside facts about it
        lists = [value for value in found.values() if isinstance(value, list)]
        found = lists[0] if len(lists) == 1 else found
    if not isinstance(found, list):
        raise typer.BadParameter(f"{path}: wanted a list of objects, found {type(found).__name__}")
    for place, row in enumerate(found, start=1):
        yield _require_object(row, f"{path}: row {place}")


def _parse(text: str, where: str) -> Any:
    def refuse(name: str) -> Any:
        raise ValueError(f"wanted numbers, found {name}")

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{where}: wanted JSON: {error}"[:300]) from None


def _require_object(row: Any, where: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise typer.BadParameter(f"{where}: wanted an object, found {type(row).__name__}")
    return row


def _check_row(row: Mapping[str, Any], where: str) -> None:
    for name, value in row.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise typer.BadParameter(f"{where}: {name}: wanted a number, found {value}")


def pack_rows(rows: Sequence[Mapping[str, Any]], *, where: str) -> Iterator[str]:
    """Rows as packed files in base64, each as large as one request takes.

    Raises:
        typer.BadParameter: a row alone is larger.
    """
    lines = [json.dumps(row, ensure_ascii=False, default=_write).encode() + b"\n" for row in rows]
    start = 0
    while start < len(lines):
        end, size = start, 0
        while end < len(lines) and (end == start or size + len(lines[end]) <= MOST_PLAIN):
            size += len(lines[end])
            end += 1
        packed = _zip(lines[start:end])
        while len(packed) > MOST_PACKED and end - start > 1:
            end = start + max(1, (end - start) * MOST_PACKED // len(packed) * 9 // 10)
            packed = _zip(lines[start:end])
        if len(packed) > MOST_PACKED or size > EdgeLimits.import_unpacked_bytes:
            raise typer.BadParameter(
                f"{where}: row {start + 1}: wanted at most {MOST_PACKED:,} bytes, found {len(packed):,}"
            )
        yield base64.b64encode(packed).decode()
        start = end


def _zip(lines: Sequence[bytes]) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        archive.writestr("rows.jsonl", b"".join(lines))
    return held.getvalue()


def _write(value: Any) -> Any:
    if isinstance(value, bytes):
        return f"data:;base64,{base64.b64encode(value).decode()}"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
