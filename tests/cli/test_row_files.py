"""Files of rows as commands read and send them; what is none is refused by name."""

import base64
import io
import json
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from tentalis.cli.dataset import fill_template, read_splits
from tentalis.cli.row_reading import MOST_BYTES, MOST_PACKED, pack_rows, read_file_rows
from tentalis.platform.dataset_hub import DatasetHubError, require_network

ROWS = [{"question": "Größer?", "answer": 1}, {"question": 'b,\n"c"', "answer": 2}]


def write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
        return
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as opened, pa.ipc.new_stream(opened, table.schema) as writer:
        writer.write_table(table)


def test_every_form_gives_the_same_rows(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\ufeff" + "\n\n".join(json.dumps(row) for row in ROWS))
    (tmp_path / "a.json").write_text(json.dumps({"version": "1", "data": ROWS}))
    (tmp_path / "a.csv").write_text('question,answer\r\nGrößer?,1\r\n"b,\n""c""",2\r\n')
    write_table(tmp_path / "a.parquet", ROWS)
    write_table(tmp_path / "a.arrow", ROWS)
    write_table(tmp_path / "saved" / "data-00000-of-00001.arrow", ROWS)
    for name in ("a.jsonl", "a.json", "a.parquet", "a.arrow", "saved"):
        assert read_file_rows(str(tmp_path / name)) == ROWS, name
    assert read_file_rows(str(tmp_path / "a.csv")) == [row | {"answer": str(row["answer"])} for row in ROWS]


def test_a_line_ends_where_json_lines_say_it_does(tmp_path: Path) -> None:
    rows = [{"question": f"one{sign}two", "answer": 1} for sign in "\u2028\u2029\x85"]
    (tmp_path / "a.jsonl").write_bytes("\r\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode())
    assert read_file_rows(str(tmp_path / "a.jsonl")) == rows


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.jsonl", b'{"a": NaN}', "line 1: wanted JSON: wanted numbers, found NaN"),
        ("a.jsonl", b'{"a": 1}\n[1]', "line 2: wanted an object, found list"),
        ("a.jsonl", b'{"a": "\xff"}', "wanted text in UTF-8, found a byte that is none at 7"),
        ("a.jsonl", b"\n", "wanted rows, found none"),
        ("a.json", b'"text"', "wanted a list of objects, found str"),
        ("a.json", b"[" * 100_000, "wanted JSON"),
        ("a.csv", b"a,a\n1,2\n", "wanted each column once"),
        ("a.csv", b"a,b\n1\n", "line 2: wanted 2 cells"),
        ("a.parquet", b"PAR1nonsense", "wanted a table of Parquet or Arrow"),
        ("a.arrow", b"nonsense", "wanted a table of Parquet or Arrow"),
    ],
)
def test_what_is_no_file_of_rows_is_refused_by_name(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(typer.BadParameter) as refused:
        read_file_rows(str(path))
    assert str(path) in refused.value.message
    assert words in refused.value.message


def test_a_number_that_is_none_is_refused_by_row_and_column(tmp_path: Path) -> None:
    write_table(tmp_path / "a.parquet", [{"x": 1.0}, {"x": float("nan")}])
    with pytest.raises(typer.BadParameter, match="row 2: x: wanted a number, found nan"):
        read_file_rows(str(tmp_path / "a.parquet"))


def test_a_file_of_a_gigabyte_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with path.open("wb") as opened:
        opened.truncate(2**30)  # holes: it takes no room
    with pytest.raises(typer.BadParameter, match=f"wanted at most {MOST_BYTES:,} bytes, found 1,073,741,824"):
        read_file_rows(str(path))


def test_too_many_rows_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n' * 4)
    with pytest.raises(typer.BadParameter, match="wanted at most 3 rows, found more"):
        read_file_rows(str(tmp_path / "a.jsonl"), most=3)


def test_a_split_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}')
    file = str(tmp_path / "a.jsonl")
    for told in ([f"train={file}", f"train={file}"], [f"test={file}", f"validation={file}"]):
        with pytest.raises(typer.BadParameter, match="wanted each split once"):
            read_splits("", told)
    with pytest.raises(typer.BadParameter, match="held_out twice"):
        read_splits(file, [f"held_out={file}"])
    with pytest.raises(typer.BadParameter, match="wanted train, held_out, test or validation, found 'dev'"):
        read_splits("", [f"dev={file}"])
    assert [row["split"] for row in read_splits(file, [f"train={file}"])] == ["held_out", "train"]


def test_a_template_is_filled_once_with_what_the_row_has() -> None:
    row = {"Question": "What is {answer}?", "answer": 7}
    assert fill_template('{Question} {"a": {none}} {answer}', row) == 'What is {answer}? {"a": {none}} 7'


def test_rows_are_sent_in_pieces_that_a_request_takes_and_hold_bytes() -> None:
    rows = [{"n": n, "noise": Random(n).randbytes(30_000)} for n in range(60)]
    pieces = list(pack_rows(rows, where="rows"))
    assert len(pieces) > 1
    told = []
    for piece in pieces:
        packed = base64.b64decode(piece)
        assert len(packed) <= MOST_PACKED
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            told += [json.loads(line) for line in archive.read("rows.jsonl").splitlines()]
    assert [row["n"] for row in told] == list(range(60))
    assert base64.b64decode(told[59]["noise"].partition(",")[2]) == rows[59]["noise"]


def test_without_a_network_that_is_said_at_once() -> None:
    with pytest.raises(DatasetHubError, match=r"wanted a network: 127\.0\.0\.1 cannot be reached"):
        require_network("http://127.0.0.1:1", wait_s=2.0)
