"""A session as a tree: its calls in order, under each the tools it called, under those the agents they started.

What the exchanges tell decides: a call that goes on from another stands behind it; a new talk that begins while an
agent's call has asked for tools, and ends before that agent goes on, was started by one of these tools.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.utils.functional import cached_property

from apps.console.selectors.sessions import read_calls, read_message
from apps.inference.models import Exchange, Session

MOST_CALLS = 200
MOST_ROOTS = 40
MOST_DEPTH = 8
MOST_CHARS = 160
LEAST_WIDTH = 0.4
_FIELDS = (
    *("pk", "parent_id", "turn", "model", "adapter_name", "text", "tool_calls", "error", "status", "created_at"),
    *("latency_ms", "prompt_tokens", "completion_tokens"),
)


@dataclass
class TreeTool:
    """A tool that was called, and the talks of whom it started."""

    name: str
    given: str
    started: list[list["TreeCall"]] = field(default_factory=list)


@dataclass
class TreeCall:
    """A call to a model. `beside`: talks that began while it was the latest, and that no tool of its started.

    Attributes:
        left, width: of its time within that of the tree, in per cent.
    """

    pk: int
    parent: int | None
    turn: str
    model: str
    text: str
    error: str
    began: datetime
    ended: datetime
    took_ms: float | None
    prompt_tokens: int
    completion_tokens: int
    tools: list[TreeTool]
    beside: list[list["TreeCall"]] = field(default_factory=list)
    depth: int = 0
    left: float = 0.0
    width: float = 0.0

    @property
    def is_leaf(self) -> bool:
        return not self.tools and not self.beside


@dataclass(frozen=True)
class Tree:
    """The talks of a session that stand at its top; `is_cut`: there are more calls than were read."""

    talks: Sequence[Sequence[TreeCall]]
    calls: int
    is_cut: bool

    @cached_property
    def is_flat(self) -> bool:
        """Whether it says no more than a list does."""
        return len(self.talks) < 2 and all(call.is_leaf for talk in self.talks for call in talk)


def read_tree(session: Session) -> Tree:
    """The first `MOST_CALLS` calls of a session. Two queries."""
    rows = list(Exchange.objects.filter(session=session).order_by("id").values(*_FIELDS)[: MOST_CALLS + 1])
    calls = [_read_call(row) for row in rows[:MOST_CALLS]]
    known = {call.pk for call in calls}
    roots = [call.pk for call in calls if call.parent not in known][1 : 1 + MOST_ROOTS]
    asked = Exchange.objects.filter(pk__in=roots).values_list("pk", "messages") if roots else []
    prompts = {pk: _find_prompt(messages) for pk, messages in asked}
    return Tree(grow_tree(calls, prompts), len(calls), len(rows) > MOST_CALLS)


def grow_tree(calls: Sequence[TreeCall], prompts: Mapping[int, str]) -> list[list[TreeCall]]:
    """The talks at the top, each its calls in order; the others hang below calls and tools.

    Args:
        calls: oldest first.
        prompts: what a person, or an agent, said first in the talk that a call begins.
    """
    talks: dict[int, list[TreeCall]] = {}
    top: list[list[TreeCall]] = []
    goes_on = {call.parent: call for call in reversed(calls) if call.parent is not None}
    seen: list[TreeCall] = []
    for call in calls:
        if (talk := talks.get(call.parent or 0)) is not None:
            call.depth = talk[0].depth
            talk.append(call)
        else:
            talk = [call]
            _find_place(call, seen, goes_on, prompts.get(call.pk, ""), top).append(talk)
        talks[call.pk] = talk
        seen.append(call)
    _spread(calls)
    return top


def _find_place(
    call: TreeCall,
    seen: Sequence[TreeCall],
    goes_on: Mapping[int, TreeCall],
    prompt: str,
    top: list[list[TreeCall]],
) -> list[list[TreeCall]]:
    """Where the talk belongs that this call begins."""
    for other in reversed(seen):
        following = goes_on.get(other.pk)
        if other.depth >= MOST_DEPTH or (following is not None and following.pk < call.pk):
            continue  # that agent had gone on by then
        said = [tool for tool in other.tools if prompt and prompt[:MOST_CHARS] in tool.given]
        if said or (other.tools and following is not None):
            call.depth = other.depth + 1
            return (said or other.tools)[0].started
        if call.turn != "main":
            call.depth = other.depth + 1
            return other.beside
    return top


def _spread(calls: Sequence[TreeCall]) -> None:
    if not calls:
        return
    first, last = min(call.began for call in calls), max(call.ended for call in calls)
    whole = max((last - first).total_seconds(), 1e-3)
    for call in calls:
        call.width = max(LEAST_WIDTH, 100 * (call.ended - call.began).total_seconds() / whole)
        call.left = min(100 - call.width, 100 * (call.began - first).total_seconds() / whole)


def _read_call(row: Mapping[str, Any]) -> TreeCall:
    ended, took_ms = row["created_at"], row["latency_ms"]
    return TreeCall(
        pk=row["pk"],
        parent=row["parent_id"],
        turn=row["turn"],
        model=row["adapter_name"] or row["model"],
        text=row["text"][:MOST_CHARS],
        error=row["error"][:MOST_CHARS] or (str(row["status"]) if row["status"] >= 400 else ""),
        began=ended - timedelta(milliseconds=took_ms or 0),
        ended=ended,
        took_ms=took_ms,
        prompt_tokens=row["prompt_tokens"],
        completion_tokens=row["completion_tokens"],
        tools=[TreeTool(name, _say_given(given)) for name, given in read_calls(row["tool_calls"])],
    )


def _say_given(given: Mapping[str, Any]) -> str:
    values = [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in given.values()]
    return " · ".join(value[: 4 * MOST_CHARS] for value in values)


def _find_prompt(messages: Any) -> str:
    said = [read_message(one) for one in messages if isinstance(messages, list)]
    return next((one.text.strip() for one in reversed(said) if one.role == "user"), "")
