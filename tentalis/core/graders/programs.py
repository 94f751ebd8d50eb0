"""Code of an answer, and whether what a program printed or gave back is what was wanted."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

FENCE: Final = "```"
PYTHON: Final = frozenset({"python", "python3", "py"})
"""How a block of code says that it is Python."""


def take_code(answer: str) -> str:
    """The last block of Python in it, else its last block, else all of it; a block that is not closed goes to its end.

    Blanks in front of the first line stay: code may go on where something else stopped.
    """
    blocks: list[tuple[str, list[str]]] = []
    is_open = False
    for line in answer.splitlines(keepends=True):
        mark = line.strip()
        if not mark.startswith(FENCE):
            if is_open:
                blocks[-1][1].append(line)
        elif is_open and mark == FENCE:
            is_open = False
        elif is_open:
            blocks[-1][1].append(line)
        else:
            is_open = True
            blocks.append((mark.strip("`").partition(" ")[0].lower(), []))
    told = [lines for tag, lines in blocks if tag in PYTHON] or [lines for _, lines in blocks]
    return "".join(told[-1]) if told else answer


def match_output(output: str, wanted: str, *, compare: str = "lines", tolerance: float | None = None) -> bool:
    """Whether a program printed what was wanted.

    Args:
        compare: lines: blanks at the end of lines, and empty lines at the end, do not count; words: no blanks do;
            exact: each sign counts.
        tolerance: by which two numbers may differ, absolutely or as a share of the wanted one; None: by nothing.
    """
    if compare == "exact":
        return output == wanted
    if compare == "words":
        told, right = [output.split()], [wanted.split()]
    elif tolerance is not None:
        told, right = [line.split() for line in _lines(output)], [line.split() for line in _lines(wanted)]
    else:
        told, right = [[line.rstrip()] for line in _lines(output)], [[line.rstrip()] for line in _lines(wanted)]
    if [len(line) for line in told] != [len(line) for line in right]:
        return False
    pairs = [pair for ours, theirs in zip(told, right, strict=True) for pair in zip(ours, theirs, strict=True)]
    return all(one == other or _are_near(one, other, tolerance) for one, other in pairs)


def _lines(text: str) -> list[str]:
    return text.rstrip().split("\n") if text.strip() else []


def _are_near(told: str, right: str, tolerance: float | None) -> bool:
    if tolerance is None:
        return False
    try:
        return match_value(float(told), float(right), tolerance=tolerance)
    except ValueError:
        return False


def match_value(value: Any, wanted: Any, *, tolerance: float | None = None) -> bool:
    """Whether a value is what was wanted, as JSON has it: a tuple is a list there, and a key a text. True is no 1.

    Args:
        tolerance: as of `match_output`.
    """
    if isinstance(value, bool) or isinstance(wanted, bool) or value is None or wanted is None:
        return value is wanted
    if isinstance(value, int | float) and isinstance(wanted, int | float):
        if value == wanted or (value != value and wanted != wanted):
            return True
        return tolerance is not None and math.isclose(value, wanted, rel_tol=tolerance, abs_tol=tolerance)
    if isinstance(value, str) and isinstance(wanted, str):
        return value == wanted
    if isinstance(value, list | tuple) and isinstance(wanted, Sequence) and not isinstance(wanted, str):
        return len(value) == len(wanted) and all(
            match_value(one, other, tolerance=tolerance) for one, other in zip(value, wanted, strict=True)
        )
    if isinstance(value, dict) and isinstance(wanted, Mapping):
        told = {_spell_key(key): one for key, one in value.items()}
        return (
            len(told) == len(value)
            and told.keys() == wanted.keys()
            and all(match_value(told[key], wanted[key], tolerance=tolerance) for key in told)
        )
    return False


def _spell_key(key: Any) -> str:
    """As JSON writes a key."""
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    return key if isinstance(key, str) else repr(key)
