"""What an agent in the terminal world may call, and what it is told."""

from collections.abc import Mapping
from typing import Any, Final

RUN, DONE = "run", "done"
MOST_COMMAND_CHARS: Final = 20_000


def _write_tool(name: str, about: str, **properties: Any) -> Mapping[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}


TOOLS: Final = (
    _write_tool(
        RUN,
        "Run a command in your bash shell. Its directory, variables and background jobs last.",
        command={"type": "string", "minLength": 1, "maxLength": MOST_COMMAND_CHARS},
    ),
    _write_tool(DONE, "Say that the task is done."),
)


def show_result(output: str, code: int) -> str:
    """What a command printed, and behind it its exit code."""
    return f"{output}{'' if output.endswith(chr(10)) or not output else chr(10)}[exit {code}]"
