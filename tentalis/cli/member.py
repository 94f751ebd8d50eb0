"""Members of projects."""

from typing import TYPE_CHECKING, Annotated

import typer

from tentalis.cli.output import AsJson, Project, print_row, print_rows

if TYPE_CHECKING:
    from tentalis.client import Client, Json

app = typer.Typer(no_args_is_help=True)
Username = Annotated[str, typer.Argument(help="User name.")]
Role = Annotated[str, typer.Argument(help="owner, manager, reviewer, auditor, viewer or agent.")]


@app.command("list")
def list_members(project: Project = "", as_json: AsJson = False) -> None:
    """List who belongs to your projects."""
    from tentalis.cli.session import open_client

    with open_client() as client:
        rows = list(client.iterate(client.list_members, **({"project": project} if project else {})))
    print_rows(rows, ("id", "project", "username", "is_agent", "role"), as_json=as_json, empty="no members")


@app.command()
def add(username: Username, role: Role, project: Project = "", as_json: AsJson = False) -> None:
    """Give a user a role; an unknown name with the role agent makes that agent."""
    from tentalis.cli.session import choose_project, open_client

    with open_client() as client:
        slug = choose_project(client, project)
        print_row(client.add_member(project=slug, username=username, role=role), as_json=as_json)


@app.command()
def change(username: Username, role: Role, project: Project = "", as_json: AsJson = False) -> None:
    """Give a member another role."""
    from tentalis.cli.session import open_client

    with open_client() as client:
        member = find_member(client, username, project)
        print_row(client.change_member(member["id"], role=role), as_json=as_json)


@app.command()
def remove(username: Username, project: Project = "") -> None:
    """Take a member out."""
    from tentalis.cli.session import open_client

    with open_client() as client:
        member = find_member(client, username, project)
        client.remove_member(member["id"])
    typer.echo(f"{username} is no member of {member['project']} any more")


def find_member(client: "Client", username: str, project: str) -> "Json":
    """A member by name. Raises typer.BadParameter where there is none."""
    from tentalis.cli.session import choose_project

    slug = choose_project(client, project)
    for member in client.iterate(client.list_members, project=slug):
        if member["username"] == username:
            return member
    raise typer.BadParameter(f"no member {username!r} in {slug}")
