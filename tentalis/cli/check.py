"""Checks: what a right answer is, as data."""

import json
import re
from typing import Annotated, Any

import typer

from tentalis.cli.output import AsJson, Project, print_json, print_result, print_row, print_rows
from tentalis.cli.reading import read_text
from tentalis.cli.session import choose_project, list_rows, open_client

app = typer.Typer(no_args_is_help=True)
Spec = Annotated[
    str, typer.Argument(help='The check, as JSON: {"check": "length", "max": 400}; NAME of one; @FILE reads a file.')
]
CheckId = Annotated[int, typer.Argument(min=1, help="Number of the version.")]
_NAMED = re.compile(r"[a-z][a-z0-9-]*(@[0-9]+)?")
Default = Annotated[str, typer.Option(help="Environment whose tasks it checks by default, such as chat.")]


@app.command("list")
def list_checks(project: Project = "", as_json: AsJson = False) -> None:
    """List checks, every version."""
    with open_client() as client:
        rows = list_rows(client, client.list_checks, project=project)
    print_rows(rows, ("id", "project", "name", "version", "default_for", "about"), as_json=as_json, empty="no checks")


@app.command()
def show(check_id: CheckId, as_json: AsJson = False) -> None:
    """Show a version with its text."""
    with open_client() as client:
        print_row(client.get_check(check_id), as_json=as_json)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Lower-case letters, digits and hyphens.")],
    spec: Spec,
    about: Annotated[str, typer.Option(help="What it is for, in a line.")] = "",
    default_for: Default = "",
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Add a check, or the next version of the one of this name.

    Kinds: exact, contains, number, regex, json_schema, length, forbidden, language, grader, scorer, judge; an error
    says which fields one wants. Joined: {"all": [check, ...]}, {"any": [check, ...]}, {"weighted": [[2, check], ...]}.
    """
    with open_client() as client:
        slug = choose_project(client, project)
        made = client.write_check(project=slug, name=name, spec=_read_spec(spec), about=about)
        if default_for:
            made = client.set_default_check(made["id"], default_for=default_for)
    print_row(made, as_json=as_json)


@app.command()
def remove(check_id: CheckId, as_json: AsJson = False) -> None:
    """Delete a version that nothing uses."""
    with open_client() as client:
        client.remove_check(check_id)
    print_result({"removed": check_id}, f"check {check_id} is deleted", as_json=as_json)


@app.command("try")
def try_check(
    spec: Spec,
    answer: Annotated[
        list[str] | None, typer.Option(help="An answer to try it on; default: the project's newest.")
    ] = None,
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Try a check on stored answers, or on given ones. Nothing is kept."""
    with open_client() as client:
        slug = choose_project(client, project)
        tried = client.try_check(project=slug, spec=_read_spec(spec), answers=answer or None)
    if as_json:
        print_json(tried)
        return
    typer.echo(", ".join(f"{count} {verdict}" for verdict, count in tried["counts"].items()))
    print_rows(tried["examples"], ("attempt", "result", "words", "answer"), as_json=False, empty="no answers yet")


def _read_spec(text: str) -> Any:
    if _NAMED.fullmatch(text):
        return {"use": text}
    try:
        return json.loads(read_text(text[1:]) if text.startswith("@") else text)
    except ValueError as error:
        raise typer.BadParameter(f"wanted JSON, NAME or @FILE, found {text[:60]!r}: {error}") from None
