"""Webhooks: addresses told what happens."""

from typing import Annotated

import typer

from tentalis.cli.output import AsJson, Limit, Project, print_json, print_result, print_row, print_rows
from tentalis.cli.session import choose_project, list_rows, open_client

app = typer.Typer(no_args_is_help=True)
WebhookId = Annotated[int, typer.Argument(min=1, help="Number of the webhook.")]
Kinds = Annotated[
    list[str] | None, typer.Option("--kind", "-k", help="e.g. task.done; repeatable; default: everything.")
]


@app.command()
def create(
    url: Annotated[str, typer.Argument(help="https://host/path; redirects are not followed.")],
    project: Project = "",
    kind: Kinds = None,
    name: Annotated[str, typer.Option(help="What it is for.")] = "",
    details: Annotated[
        bool, typer.Option("--details", help="Send the entries' payloads too, free text included.")
    ] = False,
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="For admins: an address of your network.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Tell an address what happens, and print the secret its messages are signed with, this once."""
    settings = {"name": name, "kinds": kind, "include_details": details, "allow_private": allow_private}
    with open_client() as client:
        slug = choose_project(client, project)
        made = client.create_webhook(
            project=slug, url=url, **{field: value for field, value in settings.items() if value}
        )
    _tell_secret(made, as_json=as_json)


@app.command("list")
def list_webhooks(project: Project = "", as_json: AsJson = False) -> None:
    """List webhooks."""
    with open_client() as client:
        rows = list_rows(client, client.list_webhooks, project=project)
    columns = ("id", "project", "name", "url", "is_active", "failures", "disabled_reason")
    print_rows(rows, columns, as_json=as_json, empty="no webhooks")


@app.command()
def show(webhook_id: WebhookId, as_json: AsJson = False) -> None:
    """Show a webhook and its latest messages."""
    with open_client() as client:
        webhook = client.get_webhook(webhook_id)
        deliveries = list_rows(client, client.list_deliveries, 20, webhook=webhook_id)
    if as_json:
        print_json({**webhook, "deliveries": deliveries})
        return
    print_row(webhook, as_json=False)
    typer.echo()
    _print_deliveries(deliveries, as_json=False)


@app.command()
def change(
    webhook_id: WebhookId,
    url: Annotated[str, typer.Option(help="Another address.")] = "",
    kind: Kinds = None,
    on: Annotated[bool | None, typer.Option("--on/--off", help="Switch it on or off.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change a webhook."""
    changes = {"url": url or None, "kinds": kind, "is_active": on}
    given = {name: value for name, value in changes.items() if value is not None}
    if not given:
        raise typer.BadParameter("say what changes: --url, --kind, --on or --off")
    with open_client() as client:
        print_row(client.change_webhook(webhook_id, **given), as_json=as_json)


@app.command()
def rotate(webhook_id: WebhookId, as_json: AsJson = False) -> None:
    """Give it a new secret and print it; the old one signs too for a day."""
    with open_client() as client:
        _tell_secret(client.rotate_webhook(webhook_id), as_json=as_json)


@app.command("test")
def send_test(webhook_id: WebhookId, as_json: AsJson = False) -> None:
    """Send it a test message."""
    with open_client() as client:
        delivery = client.try_webhook(webhook_id)
    print_result(
        delivery,
        f"message {delivery['id']} is on its way; `tentalis webhook show {webhook_id}` tells what came of it",
        as_json=as_json,
    )


@app.command()
def deliveries(
    webhook: Annotated[int | None, typer.Option("--webhook", "-w", min=1, help="Of one webhook.")] = None,
    state: Annotated[str, typer.Option(help="pending, delivered or dead.")] = "dead",
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List messages: those that were given up, unless another state is named."""
    with open_client() as client:
        rows = list_rows(client, client.list_deliveries, limit, state=state, webhook=webhook)
    _print_deliveries(rows, as_json=as_json)


@app.command()
def redeliver(
    webhook_id: WebhookId,
    delivery: Annotated[int | None, typer.Option("--message", "-m", min=1, help="One message alone.")] = None,
) -> None:
    """Send again what was given up, or one message."""
    with open_client() as client:
        if delivery is not None:
            client.redeliver(delivery)
            typer.echo(f"message {delivery} is sent again")
        else:
            typer.echo(f"{client.redeliver_all(webhook_id)['redelivered']} messages are sent again")


@app.command()
def delete(webhook_id: WebhookId) -> None:
    """Tell it nothing more."""
    with open_client() as client:
        client.delete_webhook(webhook_id)
    typer.echo(f"webhook {webhook_id} is deleted")


def _print_deliveries(rows: list[dict[str, object]], *, as_json: bool) -> None:
    columns = ("id", "webhook", "kind", "entry", "state", "attempts", "status", "next_at")
    print_rows(rows, columns, as_json=as_json, empty="no messages")


def _tell_secret(webhook: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        print_json(webhook)
    else:
        typer.echo(webhook["secret"])
        typer.echo(f"Keep it: it is not shown again. It signs what webhook {webhook['id']} is sent.", err=True)
