"""How commands show what came back: tables for people, JSON for programs."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Match = Annotated[str, typer.Option(help="How an answer is right: exact, contains or number; default: as it looks.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="Rows at most.")]
Project = Annotated[str, typer.Option("--project", "-p", help="Slug of the project; default: your only one.")]
Worker = Annotated[str, typer.Option("--worker", "-w", help="Name; default: the project's only one.")]

MAX_CELL_CHARS = 60
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
    """A list as a table of some columns, or whole as one JSON list."""
    found = list(rows)
    if as_json:
        print_json(found)
        return
    if not found:
        typer.echo(empty)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in columns:
        values = [row.get(name) for row in found]
        is_number = all(isinstance(value, int | float | None) for value in values)
        table.add_column(name.replace("_", " "), justify="right" if is_number else "left")
    for row in found:
        table.add_row(*(to_cell(row.get(name)) for name in columns))
    Console(soft_wrap=True, highlight=False, markup=False).print(table)


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


def to_cell(value: Any) -> str:
    """One line, short; an empty cell for nothing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}"
    text = to_printable(" ".join(str(value).split()))
    if TIME.fullmatch(text):
        return text[:16].replace("T", " ")
    return text if len(text) <= MAX_CELL_CHARS else text[: MAX_CELL_CHARS - 1] + "…"


def to_line(text: str, *, indent: int) -> str:
    return ("\n" + " " * indent).join(to_printable(line) for line in text.splitlines())


def to_printable(text: str) -> str:
    """Without control characters: what an agent wrote must not move the reader's terminal."""
    return "".join(sign if sign.isprintable() else "�" for sign in text)
