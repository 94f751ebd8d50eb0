"""Sessions and exchanges: what the gateway saw."""

from itertools import islice
from typing import Annotated

import typer

from tentalis.cli.output import AsJson, Limit, Project, print_json, print_row, print_rows

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_sessions(
    project: Project = "",
    worker: Annotated[str, typer.Option("--worker", "-w")] = "",
    user: Annotated[str, typer.Option(help="Who talks to the agent, as the agent names them.")] = "",
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List conversations, newest first."""
    from tentalis.cli.session import open_client

    filters = {"project": project, "worker": worker, "end_user": user}
    with open_client() as client:
        given = {name: value for name, value in filters.items() if value}
        rows = list(islice(client.iterate(client.list_sessions, limit=min(limit, 200), **given), limit))
    columns = ("id", "project", "key", "worker", "agent", "end_user", "last_seen_at", "closed_at")
    print_rows(rows, columns, as_json=as_json, empty="no sessions")


@app.command()
def asked(
    project: Project = "",
    worker: Annotated[str, typer.Option("--worker", "-w")] = "",
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List what was asked first in each conversation; `tentalis task from-sessions` makes tasks of it."""
    from tentalis.cli.session import choose_project, open_client

    with open_client() as client:
        given = {"project": choose_project(client, project), **({"worker": worker} if worker else {})}
        rows = list(islice(client.iterate(client.list_asked, limit=min(limit, 200), **given), limit))
    print_rows(rows, ("session", "words", "obstacle"), as_json=as_json, empty="no sessions")


@app.command()
def show(
    session_id: Annotated[int, typer.Argument(min=1, help="Number of the session.")],
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """Show a conversation and its exchanges, newest first."""
    from tentalis.cli.session import open_client

    with open_client() as client:
        session = client.get_session(session_id)
        rows = list(islice(client.iterate(client.list_exchanges, session=session_id, limit=min(limit, 200)), limit))
    if as_json:
        print_json({**session, "exchanges": rows})
        return
    print_row(session, as_json=False)
    typer.echo()
    columns = (
        "id",
        "turn",
        "model",
        "adapter",
        "prompt_tokens",
        "completion_tokens",
        "cost_usd",
        "status",
        "created_at",
    )
    print_rows(rows, columns, as_json=False, empty="no exchanges")


@app.command()
def exchange(
    exchange_id: Annotated[str, typer.Argument(help="Its number, or the X-Tentalis-Exchange of its answer.")],
    as_json: AsJson = False,
) -> None:
    """Show an exchange with its words; --json adds its exact tokens."""
    from tentalis.cli.session import open_client

    with open_client() as client:
        row = client.get_exchange(exchange_id)
    if as_json:
        print_json(row)
        return
    print_row(row, as_json=False, skip={"messages", "tokens", "text"})
    for message in row["messages"]:
        typer.echo()
        print_row({message.get("role", "?"): message.get("content")}, as_json=False)
    typer.echo()
    print_row({"answer": row["text"]}, as_json=False)


@app.command()
def feedback(
    session_id: Annotated[str, typer.Argument(help="Number of the session, or its key.")],
    score: Annotated[float | None, typer.Option(min=0, max=1, help="0 to 1.")] = None,
    text: Annotated[str, typer.Option(help="What was good or bad.")] = "",
    as_json: AsJson = False,
) -> None:
    """Judge the last answer of a conversation."""
    from tentalis.cli.session import open_client

    if score is None and not text:
        raise typer.BadParameter("wanted a judgement: --score or --text")
    with open_client() as client:
        given = client.give_session_feedback(session_id, score=score, text=text or None)
    if as_json:
        print_json(given)
    else:
        typer.echo(f"feedback {given['id']} on task {given['task']}")
