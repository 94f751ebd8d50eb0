"""How commands show what came back: tables for people, JSON for programs."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Match = Annotated[str, typer.Option(help="How an answer is right: exact, contains or number; default: as it looks.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="Rows at most.")]
Project = Annotated[
    str, typer.Option("--project", "-p", help="Slug of the project; default: TENTALIS_PROJECT, or your only one.")
]
Check = Annotated[str, typer.Option(help="NAME or NAME@VERSION of a check: of rows that bring none.")]
Worker = Annotated[str, typer.Option("--worker", "-w", help="Name; default: the project's only one.")]

BEGINNINGS = frozenset({"about", "answer", "description", "prompt", "text", "tool_result"})
"""Columns that only begin what can be pages long: `show` or --json has all of it. Every other cell is whole."""
MAX_BEGINNING_CHARS = 60
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*")


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False))


def print_result(value: Any, message: str, *, as_json: bool) -> None:
    """What came of a command: a line for people, or all of it for programs."""
    if as_json:
        print_json(value)
    else:
        typer.echo(message)


def print_rows(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool, empty: str) -> None:
    """A list as a table of some columns, a row a line however wide, or whole as one JSON list."""
    found = list(rows)
    if as_json:
        print_json(found)
        return
    if not found:
        typer.echo(empty)
        return
    from rich.cells import cell_len

    lines = [[to_cell(row.get(name), is_beginning=name in BEGINNINGS) for name in columns] for row in found]
    lines.insert(0, [name.replace("_", " ") for name in columns])
    widths = [max(map(cell_len, cells)) for cells in zip(*lines, strict=True)]
    numbers = [all(isinstance(row.get(name), int | float | None) for row in found) for name in columns]
    for place, cells in enumerate(lines):
        padded = [
            " " * (width - cell_len(cell)) + cell if is_number else cell + " " * (width - cell_len(cell))
            for cell, width, is_number in zip(cells, widths, numbers, strict=True)
        ]
        typer.secho("  ".join(padded).rstrip(), bold=place == 0)


def print_row(row: Mapping[str, Any], *, as_json: bool, skip: Iterable[str] = ()) -> None:
    """One thing, field by field; what is empty is left out."""
    if as_json:
        print_json(row)
        return
    shown = {name: value for name, value in row.items() if name not in set(skip) and value not in (None, "", [], {})}
    width = max((len(name) for name in shown), default=0)
    for name, value in shown.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        typer.echo(f"{name.replace('_', ' '):<{width}}  {to_line(text, indent=width + 2)}")


def to_cell(value: Any, *, is_beginning: bool = False) -> str:
    """One line, of which only the beginning may be wanted; an empty cell for nothing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}"
    text = to_printable(" ".join(str(value).split()))
    if TIME.fullmatch(text):
        return text[:16].replace("T", " ")
    return text[: MAX_BEGINNING_CHARS - 1] + "…" if is_beginning and len(text) > MAX_BEGINNING_CHARS else text


def to_line(text: str, *, indent: int) -> str:
    return ("\n" + " " * indent).join(to_printable(line) for line in text.splitlines())


def to_printable(text: str) -> str:
    """Without control characters: what an agent wrote must not move the reader's terminal."""
    return "".join(sign if sign.isprintable() else "�" for sign in text)
