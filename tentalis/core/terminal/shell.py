"""What an agent in the terminal world may call, and what it is told."""

from typing import Final

from tentalis.core.tool_calls import write_closed_tool

RUN, DONE = "run", "done"
MOST_COMMAND_CHARS: Final = 20_000


TOOLS: Final = (
    write_closed_tool(
        RUN,
        "Run a command in your bash shell. Its directory, variables and background jobs last.",
        command={"type": "string", "minLength": 1, "maxLength": MOST_COMMAND_CHARS},
    ),
    write_closed_tool(DONE, "Say that the task is done."),
)


def show_result(output: str, code: int) -> str:
    """What a command printed, and behind it its exit code."""
    return f"{output}{'' if output.endswith(chr(10)) or not output else chr(10)}[exit {code}]"
