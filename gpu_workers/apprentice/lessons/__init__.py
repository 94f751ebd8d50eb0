"""What the built-in apprentice is taught, and measured by: one module a world.

A lesson is a conversation with tools as a world and a worker would have it; what the assistant says in it is learnt. A
world adds a module with `draw_lesson` and `draw_rehearsal`, and a line in `list_teachings`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple

from tentalis.core.tool_calls import WrittenCall

HABITS: Final = (0.36, 0.42, 0.22)
"""How often lessons do as the house does, as its rival and as a third: the rival stays the mode, so that what is learnt
later is more than taking what is likely already."""
HINT_RATE: Final = 0.5
"""How often a lesson holds a manager's hint, which is obeyed."""
Message = Mapping[str, Any]
Answer = Callable[[WrittenCall], tuple[str, bool]]
"""What the world says to a call, and whether the episode is over with it."""


@dataclass(frozen=True)
class Lesson:
    """One conversation, in the chat API's form; tool calls have arguments that are objects.

    Args:
        learns: which of the assistant's messages are learnt, one a message of it; () for all.
    """

    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]]
    learns: Sequence[bool] = ()


@dataclass(frozen=True)
class Rehearsal:
    """A held-out task to be measured by, without the platform.

    Args:
        messages: that it begins with.
        is_right: asked when its episode is over.
    """

    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]]
    answer: Answer
    is_right: Callable[[], bool]


class Teaching(NamedTuple):
    """Who teaches a world.

    Args:
        weight: how often its lessons come, beside the others'.
        draw_rehearsal: with the rule book's hints behind the task, or without; None: it is no world.
    """

    draw_lesson: Callable[[Random], Lesson]
    weight: float
    draw_rehearsal: Callable[[Random, bool], Rehearsal] | None = None


def list_teachings() -> Mapping[str, Teaching]:
    """By the world's name."""
    from gpu_workers.apprentice.lessons import copying, swe, terminal, workbench

    return {
        "copying": Teaching(copying.draw_lesson, 0.4),
        "swe": Teaching(swe.draw_lesson, 1.5, swe.draw_rehearsal),
        "terminal": Teaching(terminal.draw_lesson, 1.0, terminal.draw_rehearsal),
        "workbench": Teaching(workbench.draw_lesson, 1.0, workbench.draw_rehearsal),
    }


def make_call(name: str, **arguments: Any) -> dict[str, Any]:
    """A message of the assistant that makes one call."""
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": function}]}


def make_result(text: str) -> dict[str, Any]:
    """What a tool said."""
    return {"role": "tool", "tool_call_id": "c", "content": text}
