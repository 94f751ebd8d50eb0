"""What `tests.bench.arms` says before every ticket where nothing is trained: rules in words, examples, or the best of
both that is found by trying."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tentalis.cli.support_desk import RULES, Ticket
from tentalis.cli.task import follow_task
from tentalis.client.clients import Client

EXAMPLES: Final = 3
"""How many a prompt shows at most."""
_KNOWN: Final = 8
"""How many of the tickets to train on there are to choose from."""
Part = tuple[str, str]
"""What it is, `rule` or `example`, and its text."""


def write_prompt(usual: str, parts: Sequence[Part]) -> str:
    """The usual prompt with rules before it, and with these examples instead of its own where there are any."""
    title, _, own = usual.strip().partition("\n\n")
    rules = [text for kind, text in parts if kind == "rule"]
    examples = [text for kind, text in parts if kind == "example"]
    told = ["\n".join(["Rules of the house:", *rules])] if rules else []
    return "\n\n".join([*told, title, *(examples or [own])]) + "\n"


def list_rules() -> list[Part]:
    return [("rule", about) for _, about, _ in RULES]


def list_examples(tickets: Sequence[Ticket], count: int = EXAMPLES) -> list[Part]:
    """The first of the tickets with the manager's own replies."""
    return [("example", f"{ticket.prompt} {ticket.write_right_reply()}") for ticket in tickets[:count]]


@dataclass(frozen=True)
class Sizes:
    """How much is learnt from.

    Args:
        tasks: an update. group: attempts a task.
        a_sentence: tickets by each sentence that tells of a trouble, a sixth of which are held out.
    """

    updates: int
    tasks: int
    group: int
    a_sentence: int


@dataclass(frozen=True)
class Found:
    """The best prompt that was tried, and its share of checks among the attempts that judged it."""

    prompt: str
    share: float


def search_prompt(
    client: Client, slug: str, usual: str, tickets: Sequence[Ticket], sizes: Sizes, *, seed: int
) -> Found:
    """Climb from the usual prompt, one part more or less at a time: as many prompts as there are updates, each judged
    by the checks of a project that learns from nothing, on as many attempts as an update has, tickets in turns."""
    (worker,) = client.list_workers(project=slug)["results"]
    drawn = Random(seed)
    parts, order = [*list_rules(), *list_examples(tickets, _KNOWN)], drawn.sample(tickets, len(tickets))
    best, share = list[Part](), -1.0
    for number in range(sizes.updates):
        tried = _change(best, parts, drawn) if number else best
        client.change_worker(worker["id"], system_prompt=write_prompt(usual, tried))
        shown = [order[(number * sizes.tasks + place) % len(order)] for place in range(sizes.tasks)]
        found = _try_prompt(client, slug, shown, group=sizes.group, seed=(seed * 1_000 + number) * 1_000)
        if found > share:
            best, share = tried, found
    return Found(write_prompt(usual, best), share)


def _change(best: Sequence[Part], parts: Sequence[Part], drawn: Random) -> list[Part]:
    """One part more, or one that is there less; as few examples as a prompt shows."""
    part = drawn.choice(parts)
    if part in best:
        return [one for one in best if one != part]
    examples = [one for one in best if one[0] == "example"]
    given_up = drawn.choice(examples) if part[0] == "example" and len(examples) == EXAMPLES else None
    return [*(one for one in best if one != given_up), part]


def _try_prompt(client: Client, slug: str, tickets: Sequence[Ticket], *, group: int, seed: int) -> float:
    """Mean outcome of so many attempts at each ticket."""
    tasks = [
        client.submit_task(
            project=slug, prompt=ticket.prompt, environment="chat", group_size=group, checks={"use": "house"},
            metadata=ticket.facts, seed=seed + place,
        )
        for place, ticket in enumerate(tickets)
    ]  # fmt: skip
    return statistics.fmean(outcome for task in tasks for outcome in _wait_for_outcomes(client, task))


def _wait_for_outcomes(client: Client, task: dict[str, Any]) -> list[float]:
    task = follow_task(client, task)
    if task["state"] != "done":
        raise SystemExit(f"task {task['id']} {task['state']} at {task['failed_link']}: {task['failure']}")
    # an empty reply is a failed attempt, and keeps no rule
    return [float(one["outcome"] or 0.0) for one in client.iterate(client.list_attempts, task_id=task["id"])]
