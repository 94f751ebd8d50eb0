"""Skills: written procedures workers may use."""

from pathlib import Path
from typing import Annotated

import typer

from tentalis.cli.output import AsJson, Project, print_row, print_rows
from tentalis.cli.reading import read_text
from tentalis.cli.session import choose_project, list_rows, open_client

app = typer.Typer(no_args_is_help=True)
SkillId = Annotated[int, typer.Argument(min=1, help="Number of the version.")]


@app.command("list")
def list_skills(project: Project = "", as_json: AsJson = False) -> None:
    """List skills, every version."""
    with open_client() as client:
        rows = list_rows(client, client.list_skills, project=project)
    print_rows(
        rows, ("id", "project", "name", "version", "is_active", "description"), as_json=as_json, empty="no skills"
    )


@app.command()
def show(skill_id: SkillId, as_json: AsJson = False) -> None:
    """Show a version with its text."""
    with open_client() as client:
        print_row(client.get_skill(skill_id), as_json=as_json)


@app.command()
def write(
    name: Annotated[str, typer.Argument(help="Lower-case letters, digits and hyphens.")],
    description: Annotated[str, typer.Argument(help="When to use it, in a line.")],
    file: Annotated[Path, typer.Option("--file", "-f", exists=True, dir_okay=False, help="Its text.")],
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Add a skill, or the next version of the one of this name."""
    body = read_text(str(file))
    with open_client() as client:
        slug = choose_project(client, project)
        made = client.write_skill(project=slug, name=name, description=description, body=body)
    print_row(made, as_json=as_json, skip={"body"})


@app.command()
def switch(
    skill_id: SkillId,
    on: Annotated[bool, typer.Option("--on/--off", help="In or out of force.")],
    as_json: AsJson = False,
) -> None:
    """Put a version in or out of force."""
    with open_client() as client:
        print_row(client.switch_skill(skill_id, is_active=on), as_json=as_json, skip={"body"})
