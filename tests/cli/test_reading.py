"""Files that have no end are refused by a name, and read no further than the platform takes."""

from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from tentalis.cli.check import _read_spec
from tentalis.cli.reading import MOST_BYTES, read_text
from tentalis.cli.starting import read_starter
from tentalis.cli.task import _read_prompt, read_rows_file

Read = Callable[[str], object]


@pytest.mark.parametrize(
    "read",
    [
        read_rows_file,
        lambda file: _read_prompt(f"@{file}"),
        lambda file: _read_spec(f"@{file}"),
        lambda file: read_starter(file, seed=0),
    ],
)
@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("/dev/zero", f"/dev/zero: wanted at most {MOST_BYTES:,} bytes, found more"),
        ("gone.csv", "gone.csv cannot be read"),
    ],
)
def test_a_file_without_an_end_or_one_that_is_not_there_is_named(read: Read, file: str, words: str) -> None:
    with pytest.raises(typer.BadParameter, match=words):
        read(file)


def test_a_check_is_read_as_json_or_by_its_name() -> None:
    assert _read_spec("right-label@2") == {"use": "right-label@2"}
    with pytest.raises(typer.BadParameter, match=r"wanted JSON, NAME or @FILE, found '\{label: 1'"):
        _read_spec("{label: 1")


def test_what_is_no_text_is_named_and_packed_rows_are_read_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(typer.BadParameter, match=r"rows\.csv cannot be read"):
        read_text(str(file))
    packed = file.rename(tmp_path / "rows.zip")
    assert read_rows_file(str(packed)) == ("//4=", "packed")


def test_a_standard_input_without_an_end_is_read_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless:
        def __init__(self) -> None:
            self.taken = 0

        def read(self, count: int) -> str:
            assert count > 0
            self.taken += count
            return "x" * count

    monkeypatch.setattr("sys.stdin", endless := Endless())
    with pytest.raises(
        typer.BadParameter, match=f"standard input: wanted at most {MOST_BYTES:,} characters, found more"
    ):
        read_rows_file("-")
    assert endless.taken == MOST_BYTES + 1
