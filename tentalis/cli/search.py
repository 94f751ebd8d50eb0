"""One search over everything of a project."""

from typing import Annotated

import typer

from tentalis.cli.output import AsJson, Project, print_json, print_rows
from tentalis.cli.session import choose_project, open_client


def search(
    words: Annotated[list[str], typer.Argument(help="Words, a number such as “run 8”, a hash or the id of a call.")],
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Find what of a project holds all the words, or has the number; of each kind the newest."""
    with open_client() as client:
        found = client.search(project=choose_project(client, project), q=" ".join(words))
    if as_json:
        print_json(found)
        return
    hits = [found["jump"]] if found["jump"] else [hit for group in found["results"] for hit in group["hits"]]
    print_rows(hits, ("kind", "id", "name", "text"), as_json=False, empty="nothing found")
    for group in found["results"]:
        if group["trouble"]:
            typer.echo(f"{group['kind']}: {group['trouble']}", err=True)
