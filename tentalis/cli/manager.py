"""AI managers: what they learnt from audits, and back to what was before."""

from typing import Annotated

import typer

from tentalis.cli.exporting import Base, Converter, Dtype, Form, OllamaModel, Out, check_form, save_adapter
from tentalis.cli.output import AsJson, Limit, Project, print_row, print_rows
from tentalis.cli.session import list_rows, open_client

app = typer.Typer(no_args_is_help=True)
FitId = Annotated[int, typer.Argument(min=1, help="Number of the fit.")]


@app.command("runs")
def list_fits(
    project: Project = "",
    manager: Annotated[str, typer.Option("--manager", "-m", help="Handle, such as agent:rubric:desk.")] = "",
    state: Annotated[str, typer.Option(help="training, applied, refused, replaced, rolled_back…")] = "",
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List what managers learnt, newest first."""
    with open_client() as client:
        rows = list_rows(client, client.list_manager_runs, limit, project=project, manager=manager, state=state)
    columns = ("id", "manager", "kind", "state", "audits", "auc_before", "auc_after", "gate", "words")
    shown = rows if as_json else [row["metrics"] | row for row in rows]
    print_rows(shown, columns, as_json=as_json, empty="no manager learnt anything yet")


@app.command()
def show(fit: FitId, as_json: AsJson = False) -> None:
    """Show a fit: weights by item before and after, or its adapter; AUCs, why."""
    with open_client() as client:
        print_row(client.get_manager_run(fit), as_json=as_json)


@app.command()
def rollback(
    fit: FitId, reason: Annotated[str, typer.Option("--reason", "-r", help="Why; the audit keeps it.")]
) -> None:
    """Let a manager judge by what was before this fit again."""
    with open_client() as client:
        run = client.roll_back_manager_run(fit, reason=reason)
    typer.echo(f"{run['manager']} judges by what was before fit {run['id']} again")


@app.command()
def export(
    fit: FitId,
    out: Out = None,
    form: Form = "peft",
    base: Base = "",
    converter: Converter = None,
    ollama_model: OllamaModel = "",
    dtype: Dtype = "auto",
    as_json: AsJson = False,
) -> None:
    """Save the adapter a manager was trained, as `adapter export` saves a worker's.

    It says yes or no to the manager's own question and nothing else: served without that question it is no judge.
    """
    check_form(form, dtype)
    with open_client() as client:
        adapter = client.get_manager_run(fit)["adapter"]
        save_adapter(
            client,
            f"manager-runs/{fit}/download",
            name=adapter.get("name", ""),
            sha256=adapter.get("sha256", ""),
            form=form,
            out=out,
            base=base,
            converter=converter,
            ollama_model=ollama_model,
            dtype=dtype,
            as_json=as_json,
        )
