"""Control items: tasks whose right judgement is known, handed out to learn how well people judge."""

from typing import Annotated, Any

import typer

from tentalis.cli.output import AsJson, Limit, Project, print_row, print_rows
from tentalis.cli.session import list_rows, open_client

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_gold(project: Project = "", limit: Limit = 50, as_json: AsJson = False) -> None:
    """List control items, newest first, with how often each was judged and how often rightly."""
    with open_client() as client:
        rows = list_rows(client, client.list_gold, limit, project=project)
    columns = ("id", "project", "task", "truth", "added_by", "judged", "compared", "right", "created_at")
    print_rows(rows, columns, as_json=as_json, empty="no control items")


@app.command()
def add(
    task_id: Annotated[int, typer.Argument(min=1, help="Number of the task.")],
    feedback: Annotated[
        int | None, typer.Option(min=1, help="Number of the judgement that is taken for the truth.")
    ] = None,
    score: Annotated[float | None, typer.Option(min=0, max=1, help="The right score of the whole, 0 to 1.")] = None,
    attempt: Annotated[
        list[str] | None, typer.Option(help="'ATTEMPT=SCORE', the right score of one, from 0; repeatable.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Hand a task out as a control item; with no option, what was verified of its answers is the truth."""
    expected: dict[str, Any] = {} if score is None else {"score": score}
    if attempt:
        expected["attempts"] = dict(map(read_attempt, attempt))
    with open_client() as client:
        print_row(client.add_gold(task_id, feedback=feedback, expected=expected or None), as_json=as_json)


@app.command()
def remove(gold_id: Annotated[int, typer.Argument(min=1, help="Number of the control item.")]) -> None:
    """Hand a control item out no more; what was said of it stays."""
    with open_client() as client:
        client.remove_gold(gold_id)
    typer.echo(f"control item {gold_id} is handed out no more")


def read_attempt(text: str) -> tuple[str, float]:
    """'0=1' -> ("0", 1.0). Raises typer.BadParameter where it is nothing like that."""
    index, _, score = text.partition("=")
    try:
        return index.strip(), float(score)
    except ValueError:
        raise typer.BadParameter(f"--attempt wants 'ATTEMPT=SCORE', such as 0=1, found {text!r}") from None
