"""A whole project out of one file: settings, worker, checks and tasks to be measured on, each through the REST API."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import typer

from tentalis.cli.reading import read_text
from tentalis.cli.session import list_rows
from tentalis.cli.support_desk import write_support_desk

if TYPE_CHECKING:
    from tentalis.client import Client

STARTERS: Final = {"support-desk": write_support_desk}
PARTS: Final = ("environment", "project", "checks", "taskset", "worker", "rows", "shown")
SHOWN_PARTS: Final = ("recipe", "replies")


def read_starter(source: str, *, seed: int) -> Mapping[str, Any]:
    """A project as it is written: one of `STARTERS`, or a file of the same form."""
    if source in STARTERS:
        return STARTERS[source](seed=seed)
    try:
        told = json.loads(read_text(source))
    except (typer.BadParameter, ValueError) as error:
        known = ", ".join(STARTERS)
        raise typer.BadParameter(f"--from: wanted {known} or a file of JSON, found {source!r}: {error}") from None
    _require_parts(source, told, PARTS)
    _require_parts(f"{source}: shown", told["shown"], SHOWN_PARTS)
    return dict(told)


def _require_parts(name: str, told: Any, parts: Sequence[str]) -> None:
    found = sorted(told) if isinstance(told, dict) else type(told).__name__
    if found != sorted(parts):
        raise typer.BadParameter(f"{name}: wanted an object of {', '.join(sorted(parts))}, found {found}")


def start_project(
    client: "Client", slug: str, told: Mapping[str, Any], *, server: str = "", model: str = "", tasks: int = 0
) -> Iterator[str]:
    """Make everything, and say each thing that was made. A project that is there is filled.

    Args:
        server: "" for the installation's own engine, which has the models that are kept on its machine.
        tasks: so many rows to train on are submitted; what they want of facts stands in their metadata.
    Raises:
        typer.BadParameter: a project that is to be made could not ask the server; nothing is made.
    """
    environment, rows = told["environment"], told["rows"]
    if slug in {project["slug"] for project in list_rows(client, client.list_projects)}:
        client.change_project(slug, **told["project"])
    else:
        _require_model(client, slug, told["worker"], server, model)
        client.create_project(slug=slug, **({"name": slug} | told["project"]))
        yield f"made project {slug}"
    served = {name: value for name, value in (("provider", server), ("base_model", model)) if value}
    worker = client.create_worker(project=slug, **told["worker"], **served)
    yield f"made worker {worker['name']}"
    for check in told["checks"]:
        default_for = check.get("default_for", "")
        made = client.write_check(project=slug, **{name: check[name] for name in check if name != "default_for"})
        if default_for:
            client.set_default_check(made["id"], default_for=default_for)
        yield f"made check {made['name']}@{made['version']}" + (f", of all {default_for}" if default_for else "")
    taskset = client.make_taskset(project=slug, environment=environment, **told["taskset"])
    added = client.add_items(taskset["id"], split="train", text=_write_lines(rows), form="jsonl", name=slug)
    held_out = sum(row.get("split") == "held_out" for row in rows)
    yield f"made taskset {taskset['name']}: {added['added']} items, {held_out} of them held out"
    if replies := told["shown"]["replies"]:
        text = _write_lines(replies)
        client.import_tasks(
            project=slug, text=text, form="jsonl", rows="sft", environment=environment, worker=worker["name"]
        )
        yield f"imported {len(replies)} replies that are there, to be imitated"
    if first := [row for row in rows if row.get("split") == "train"][:tasks]:
        text = _write_lines({"prompt": row["prompt"], "metadata": row.get("metadata", {})} for row in first)
        client.import_tasks(project=slug, text=text, form="jsonl", environment=environment, worker=worker["name"])
        yield f"submitted {len(first)} tasks"


def _require_model(client: "Client", slug: str, worker: Mapping[str, Any], server: str, model: str) -> None:
    """That the worker of a new project has a model to ask, as far as it can be known before there is the project."""
    from tentalis.client.endpoints import Call

    server = server or str(worker.get("provider", ""))
    model = model or str(worker.get("base_model", ""))
    if not server:
        if worker.get("kind") == "chat" and not model:
            raise typer.BadParameter(
                "name --model, one that is kept on this machine, or --server: its worker needs one"
            )
        return
    seen = client.send(Call("GET", "providers", {"name": server, "limit": 200}))["results"]
    found = next((row for row in seen if row["project"] is None), None)
    if found is None:
        raise typer.BadParameter(
            f"--server: a new project may ask shared model servers, and {server!r} is none: "
            f"tentalis model setup {server} --everywhere"
        )
    if found["granted_to"] != "everyone":
        raise typer.BadParameter(
            f"--server: {server} is for the projects that it is granted to: `tentalis project create {slug}`, "
            f"`tentalis model grant {server} {slug}`, and this again"
        )
    if not (model or found["default_model"]):
        raise typer.BadParameter(f"name --model: {server} has no default model")


def _write_lines(rows: Any) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
