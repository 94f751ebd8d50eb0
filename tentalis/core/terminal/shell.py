"""What an agent in the terminal world may call, and what it is told."""

import re
from collections.abc import Sequence
from typing import Final

from tentalis.core.tool_calls import write_closed_tool

RUN, DONE = "run", "done"
MOST_COMMAND_CHARS: Final = 20_000


TOOLS: Final = (
    write_closed_tool(
        RUN,
        "Run a command in your bash shell. Its directory, variables and background jobs last.",
        ["command"],
        command={"type": "string", "minLength": 1, "maxLength": MOST_COMMAND_CHARS},
        screen={
            "type": "boolean",
            "description": "true for a program that fills a screen, or asks. While it is there, command is what is "
            "typed into it, such as /error<Enter>, <Down>, <Esc>, <C-c>; <Wait> only looks.",
        },
    ),
    write_closed_tool(DONE, "Say that the task is done."),
)


_KEYS: Final = {
    "Enter": "\r", "Tab": "\t", "Esc": "\x1b", "Space": " ", "Backspace": "\x7f", "Delete": "\x1b[3~", "Wait": "",
    "Up": "\x1b[A", "Down": "\x1b[B", "Right": "\x1b[C", "Left": "\x1b[D", "Home": "\x1b[1~", "End": "\x1b[4~",
    "PageUp": "\x1b[5~", "PageDown": "\x1b[6~", "lt": "<",
    **{f"C-{letter}": chr(ord(letter) - 96) for letter in "abcdefghijklmnopqrstuvwxyz"},
}  # fmt: skip
"""Name -> what a Linux terminal sends."""
_KEY: Final = re.compile(f"<({'|'.join(_KEYS)})>")


def read_keys(typed: str) -> str:
    """What is sent for what was typed: names of keys stand between < and >; all else is as it is."""
    return _KEY.sub(lambda found: _KEYS[found[1]], typed)


def show_screen(lines: Sequence[str], *, line: int, column: int, code: int | None) -> str:
    """What stands on a screen, and behind it where its cursor is (from 1), or how its program ended."""
    text = "\n".join(one.rstrip() for one in lines).rstrip("\n")
    if code is not None:
        return show_result(text, code)
    return f"{text}{chr(10) if text else ''}[on the screen, cursor at line {line}, column {column}]"


def show_result(output: str, code: int) -> str:
    """What a command printed, and behind it its exit code."""
    return f"{output}{'' if output.endswith(chr(10)) or not output else chr(10)}[exit {code}]"
