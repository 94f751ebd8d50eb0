"""Proposals: what running agents want to do, and one's word on it."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from tentalis.cli.output import AsJson, Limit, Project, print_json, print_result, print_row, print_rows
from tentalis.cli.session import list_rows, open_client
from tentalis.cli.task import read_object

app = typer.Typer(no_args_is_help=True)
ProposalId = Annotated[int, typer.Argument(min=1, help="Number of the proposal.")]


@app.command("list")
def list_proposals(
    project: Project = "",
    state: Annotated[
        str, typer.Option(help="pending, approved, rejected, edited, hinted, taken_over, expired; `all` for every one.")
    ] = "pending",
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List what agents want to do, oldest first."""
    with open_client() as client:
        rows = list_rows(client, client.list_proposals, limit, project=project, state="" if state == "all" else state)
    if not as_json:
        rows = [{**row, "wants": say_action(row["action"])} for row in rows]
    columns = ("id", "project", "task", "worker", "wants", "state", "decided_by", "deadline_at")
    print_rows(rows, columns, as_json=as_json, empty="no proposals")


@app.command()
def show(proposal_id: ProposalId, as_json: AsJson = False) -> None:
    """Show what an agent wants to do, and what led there."""
    with open_client() as client:
        proposal = client.get_proposal(proposal_id)
    if as_json:
        print_json(proposal)
        return
    print_row({**proposal, "action": say_action(proposal["action"])}, as_json=False, skip=("permitted", "decision"))
    said = {name: say_action(value) if name == "action" else value for name, value in proposal["decision"].items()}
    print_row({f"decision {name}": value for name, value in said.items()}, as_json=False)


@app.command()
def decide(
    proposal_id: ProposalId,
    decision: Annotated[str, typer.Argument(help="approve, reject, edit, hint or take-over.")],
    reason: Annotated[str, typer.Option(help="Of reject.")] = "",
    arguments: Annotated[str, typer.Option(help="Of edit: JSON object of the tool's arguments to change.")] = "",
    text: Annotated[str, typer.Option(help="Of edit: the message or answer instead.")] = "",
    hint: Annotated[str, typer.Option(help="Of hint: what to think of.")] = "",
    answer: Annotated[str, typer.Option(help="Of take-over: what you answered.")] = "",
    as_json: AsJson = False,
) -> None:
    """Say what becomes of a proposal; the first word counts."""
    word = decision.replace("-", "_")
    if word not in WANTED:
        raise typer.BadParameter(f"wanted approve, reject, edit, hint or take-over, found {decision!r}")
    given = {"reason": reason, "arguments": arguments, "text": text, "hint": hint, "answer": answer}
    said: dict[str, Any] = {name: value for name, value in given.items() if value}
    if not set(said) <= set(WANTED[word]) or (WANTED[word] and len(said) != 1):
        wanted = " or ".join(f"--{name}" for name in WANTED[word]) or "no option"
        raise typer.BadParameter(
            f"{decision} takes {wanted}, found {', '.join(f'--{name}' for name in said) or 'none'}"
        )
    changes = read_object("--arguments", arguments) or {}
    with open_client() as client:
        if word == "edit":
            action = client.get_proposal(proposal_id)["action"]
            said = {"action": change_action(action, changes, text)}
        decided = client.decide_proposal(proposal_id, decision=word, **said)
    print_result(decided, f"proposal {proposal_id} is {decided['state'].replace('_', ' ')}", as_json=as_json)


WANTED: dict[str, tuple[str, ...]] = {
    "approve": (),
    "reject": ("reason",),
    "edit": ("arguments", "text"),
    "hint": ("hint",),
    "take_over": ("answer",),
}
"""Decision -> the options of which it takes one."""


def change_action(action: Mapping[str, Any], changes: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The action with some arguments, or its text, in place of its own. Raises typer.BadParameter for the other's."""
    if action["kind"] == "tool":
        if text:
            raise typer.BadParameter("this is a tool call: change its --arguments")
        return {**action, "arguments": {**action["arguments"], **changes}}
    if changes:
        raise typer.BadParameter(f"this is a {action['kind']}: change its --text")
    return {**action, "text": text}


def say_action(action: Mapping[str, Any]) -> str:
    """One line: `refund(order=17, amount=5)`."""
    if action["kind"] != "tool":
        return f"{action['kind']}: {action['text']}"
    pairs = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in action["arguments"].items())
    return f"{action['tool']}({', '.join(pairs)})"
