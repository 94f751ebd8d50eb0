"""Files that commands read: of each no more than the platform would take, whatever its size says."""

import sys
from pathlib import Path
from typing import Final

import typer

from tentalis.core.edge_limits import EdgeLimits

MOST_BYTES: Final = 4 * EdgeLimits.import_chars
"""Of a sign at most four; nothing larger is read into memory to be refused by the platform."""


def read_bytes(file: str, *, most: int = MOST_BYTES) -> bytes:
    """What a file holds. Raises typer.BadParameter naming it, where it cannot be read or holds more."""
    try:
        with Path(file).open("rb") as opened:
            found = opened.read(most + 1)
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error}") from None
    if len(found) > most:
        raise typer.BadParameter(f"{file}: wanted at most {most:,} bytes, found more")
    return found


def read_text(file: str, *, most: int = MOST_BYTES) -> str:
    """The same as text; "-" is the standard input."""
    if file == "-":
        text = sys.stdin.read(most + 1)
        if len(text) > most:
            raise typer.BadParameter(f"standard input: wanted at most {most:,} characters, found more")
        return text
    try:
        return read_bytes(file, most=most).decode()
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error}") from None
