"""Sessions and exchanges: what the gateway saw."""

from typing import Annotated

import typer

from tentalis.cli.output import AsJson, Limit, Project, print_json, print_result, print_row, print_rows
from tentalis.cli.session import choose_project, list_rows, open_client

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
    with open_client() as client:
        rows = list_rows(client, client.list_sessions, limit, project=project, worker=worker, end_user=user)
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
    with open_client() as client:
        slug = choose_project(client, project)
        rows = list_rows(client, client.list_asked, limit, project=slug, worker=worker)
    print_rows(rows, ("session", "words", "obstacle"), as_json=as_json, empty="no sessions")


@app.command()
def show(
    session_id: Annotated[int, typer.Argument(min=1, help="Number of the session.")],
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """Show a conversation and its exchanges, newest first."""
    with open_client() as client:
        session = client.get_session(session_id)
        rows = list_rows(client, client.list_exchanges, limit, session=session_id)
    if as_json:
        print_json({**session, "exchanges": rows})
        return
    print_row(session, as_json=False)
    typer.echo()
    tokens = ("prompt_tokens", "completion_tokens")
    columns = ("id", "turn", "model", "adapter", *tokens, "cost_usd", "status", "created_at")
    print_rows(rows, columns, as_json=False, empty="no exchanges")


@app.command()
def exchange(
    exchange_id: Annotated[str, typer.Argument(help="Its number, or the X-Tentalis-Exchange of its answer.")],
    as_json: AsJson = False,
) -> None:
    """Show an exchange with its words; --json adds its exact tokens."""
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
    if score is None and not text:
        raise typer.BadParameter("wanted a judgement: --score or --text")
    with open_client() as client:
        given = client.give_session_feedback(session_id, score=score, text=text or None)
    print_result(given, f"feedback {given['id']} on task {given['task']}", as_json=as_json)
