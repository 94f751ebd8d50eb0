"""Erase a person (GDPR) at the command line: looking first, then deleting."""

from typing import Annotated

import typer

from tentalis.cli.output import AsJson, Project, print_json
from tentalis.cli.session import choose_project, open_client


def forget(
    project: Project = "",
    end_user: Annotated[str, typer.Option("--end-user", "-u", help="As the agent names them, exactly.")] = "",
    text: Annotated[str, typer.Option("--text", "-t", help="Or words to look for in everything that was said.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking. Without a terminal: needed to.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be deleted.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a person's conversations, and the tasks, feedback, hints and rollouts made of them.

    Adapters that learnt from them cannot be put into service again, and are made again without them.
    """
    if bool(end_user) == bool(text):
        raise typer.BadParameter("wanted either --end-user or --text")
    subject = {"end_user": end_user or None, "text": text or None}
    with open_client() as client:
        slug = choose_project(client, project)
        found = client.forget(slug, **subject, dry_run=True)
        if not as_json:
            _show(found, "would be deleted")
        is_anything = any(found["counts"].values())
        if not dry_run and is_anything and (yes or (not as_json and typer.confirm("Delete all of this for good?"))):
            found = client.forget(slug, **subject, dry_run=False)
            if not as_json:
                _show(found, "deleted")
    if as_json:
        print_json(found)


def _show(found: dict[str, object], done: str) -> None:
    counts, adapters = found["counts"], found["adapters"]
    assert isinstance(counts, dict)
    assert isinstance(adapters, list)
    rows = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    typer.echo(f"{done}: {rows or 'nothing'}; training files: {found['files']}")
    if adapters:
        typer.echo(f"trained on a part of it: {', '.join(adapters)}")
    taught, judges = found["taught"], found["judges"]
    assert isinstance(taught, list)
    assert isinstance(judges, list)
    if taught or judges:
        names = ", ".join([*taught, *judges])
        typer.echo(f"may not be used again: {names}; trainings that are done again: {found['reruns']}")
