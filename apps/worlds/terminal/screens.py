"""What stands on the screen of a full-screen program, told as text."""

import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import pyte

from tentalis.core.terminal.shell import show_screen
from tentalis.sandbox.client import Drawn
from tentalis.sandbox.frames import SCREEN_COLUMNS, SCREEN_LINES

MOST_S: Final = 3.0
"""What a program draws is waited for, at most."""
QUIET_S: Final = 0.2
"""It is taken to be done when it has drawn nothing for so long since it began to."""
LOOK_EVERY_S: Final = 0.02
_ESCAPE: Final = "\x1b"


class _Page(pyte.Screen):
    """Letters alone: marks that are put over another could be piled up without end."""

    def draw(self, data: str) -> None:
        super().draw("".join(letter for letter in data if not unicodedata.combining(letter)))

    def select_graphic_rendition(self, *attrs: int, **_: Any) -> None:
        """No colours."""


class Screen:
    """Of one program: what it draws, from first to last."""

    def __init__(self) -> None:
        self._page = _Page(SCREEN_COLUMNS, SCREEN_LINES)
        self._stream = pyte.ByteStream(self._page)

    def follow(self, drawn: Drawn, ask: Callable[[], Drawn], *, within_s: float = MOST_S) -> tuple[str, int | None]:
        """What stands there once it has come to rest, and the code of a program that has ended.

        Args:
            drawn: what it drew so far. ask: for what it drew since.
        """
        until = quiet = time.monotonic() + within_s
        while True:
            self._take(drawn.data)
            now = time.monotonic()
            if drawn.data:
                quiet = now + QUIET_S
            if drawn.has_ended or now > min(until, quiet):
                break
            time.sleep(LOOK_EVERY_S)
            drawn = ask()
        code = drawn.code if drawn.has_ended else None
        cursor = self._page.cursor
        return show_screen(self._page.display, line=cursor.y + 1, column=cursor.x + 1, code=code), code

    def _take(self, drawn: bytes) -> None:
        for part in _split(drawn):
            with suppress(Exception):  # a sequence that pyte cannot follow is left out, whatever it raises for it
                self._stream.feed(part)


def _split(drawn: bytes) -> Iterator[bytes]:
    """In pieces that begin with an escape."""
    escape = _ESCAPE.encode()
    first, *rest = drawn.split(escape)
    yield first
    for part in rest:
        yield escape + part
