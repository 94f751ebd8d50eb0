"""Members of projects."""

from typing import TYPE_CHECKING, Annotated

import typer

from tentalis.cli.output import AsJson, Project, print_json, print_row, print_rows
from tentalis.cli.session import choose_project, list_rows, open_client

if TYPE_CHECKING:
    from tentalis.client import Client, Json

app = typer.Typer(no_args_is_help=True)
Username = Annotated[str, typer.Argument(help="User name.")]
InvitationId = Annotated[int, typer.Argument(min=1, help="Number of the invitation.")]
Role = Annotated[str, typer.Argument(help="owner, manager, reviewer, auditor, viewer or agent.")]


@app.command("list")
def list_members(project: Project = "", as_json: AsJson = False) -> None:
    """List who belongs to your projects."""
    with open_client() as client:
        rows = list_rows(client, client.list_members, project=project)
    print_rows(rows, ("id", "project", "username", "is_agent", "role"), as_json=as_json, empty="no members")


@app.command()
def add(username: Username, role: Role, project: Project = "", as_json: AsJson = False) -> None:
    """Invite a person, or add an agent: an unknown name with the role agent makes that agent."""
    with open_client() as client:
        slug = choose_project(client, project)
        if role == "agent":
            print_row(client.add_member(project=slug, username=username, role=role), as_json=as_json)
        else:
            _show_invitation(client.invite(project=slug, username=username, role=role), as_json=as_json)


@app.command()
def invite(username: Username, role: Role, project: Project = "", as_json: AsJson = False) -> None:
    """Offer a person a role, and print the link for them, this once. They are a member when they accept."""
    with open_client() as client:
        slug = choose_project(client, project)
        _show_invitation(client.invite(project=slug, username=username, role=role), as_json=as_json)


@app.command()
def invitations(as_json: AsJson = False) -> None:
    """List the invitations you have, and those of your projects."""
    with open_client() as client:
        rows = list(client.iterate(client.list_invitations))
    columns = ("id", "project", "username", "role", "invited_by", "state", "expires_at")
    print_rows(rows, columns, as_json=as_json, empty="no invitations")


@app.command()
def accept(invitation_id: InvitationId, as_json: AsJson = False) -> None:
    """Become a member."""
    with open_client() as client:
        print_row(client.accept_invitation(invitation_id), as_json=as_json)


@app.command()
def decline(invitation_id: InvitationId) -> None:
    """Say no to an invitation."""
    with open_client() as client:
        client.decline_invitation(invitation_id)
    typer.echo(f"invitation {invitation_id} is declined")


@app.command()
def withdraw(invitation_id: InvitationId) -> None:
    """Take an offer back that nobody answered yet."""
    with open_client() as client:
        client.withdraw_invitation(invitation_id)
    typer.echo(f"invitation {invitation_id} is withdrawn")


@app.command()
def leave(project: Project = "") -> None:
    """Be a member of a project no more."""
    with open_client() as client:
        slug = choose_project(client, project)
        client.leave_project(slug)
    typer.echo(f"you have left {slug}")


@app.command()
def change(username: Username, role: Role, project: Project = "", as_json: AsJson = False) -> None:
    """Give a member another role."""
    with open_client() as client:
        member = find_member(client, username, project)
        print_row(client.change_member(member["id"], role=role), as_json=as_json)


@app.command()
def remove(username: Username, project: Project = "") -> None:
    """Take a member out."""
    with open_client() as client:
        member = find_member(client, username, project)
        client.remove_member(member["id"])
    typer.echo(f"{username} is no member of {member['project']} any more")


def _show_invitation(made: "Json", *, as_json: bool) -> None:
    if as_json:
        print_json(made)
        return
    typer.echo(made["link"])
    typer.echo(f"for {made['username']}, who is a member when they accept; it is not shown again", err=True)


def find_member(client: "Client", username: str, project: str) -> "Json":
    """A member by name. Raises typer.BadParameter where there is none."""
    slug = choose_project(client, project)
    for member in client.iterate(client.list_members, project=slug):
        if member["username"] == username:
            return member
    raise typer.BadParameter(f"no member {username!r} in {slug}")
