"""Terminal output: colours and weights become classes, every other escape sequence is shown and does nothing."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from apps.console.rendering.hidden import visible

# CSI; OSC, DCS, SOS, PM and APC up to their end, or to the end of the line where they have none; two-character escapes
SEQUENCE = re.compile(
    "\x1b\\[(?P<parameters>[0-9;:<=>?]*)[ -/]*(?P<final>[@-~])"
    "|\x1b[\\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\\\)?"
    "|\x1b[ -/]*[0-~]?"
)
MOST_SHOWN = 200
"""Characters of a dropped sequence that are shown."""
WEIGHTS = {1: "bold", 2: "faint", 3: "italic", 4: "underline", 7: "inverse", 9: "struck"}
OFF = {22: ("bold", "faint"), 23: ("italic",), 24: ("underline",), 27: ("inverse",), 29: ("struck",)}
# the 6 x 6 x 6 cube and the greys come down to the eight colours a theme can keep readable
NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


@dataclass(frozen=True)
class Pen:
    """How the terminal writes at the moment."""

    ink: str = ""
    ground: str = ""
    weights: frozenset[str] = frozenset()

    @property
    def classes(self) -> str:
        names = [f"ansi-{weight}" for weight in sorted(self.weights)]
        names += [f"ansi-{self.ink}"] if self.ink else []
        names += [f"ansi-on-{self.ground}"] if self.ground else []
        return " ".join(names)


def has_colours(text: str) -> bool:
    """Whether there is a sequence in the text that sets colours or weights."""
    return any(match["final"] == "m" for match in SEQUENCE.finditer(text))


def render_ansi(text: str) -> SafeString:
    """HTML of a terminal's output, escaped; only classes of our own name are set."""
    return format_html_join("", "{}", ((piece,) for piece in _render(text.replace("\r\n", "\n"))))


def _render(text: str) -> Iterator[SafeString]:
    pen, last = Pen(), 0
    for match in SEQUENCE.finditer(text):
        yield _write(pen, text[last : match.start()])
        last = match.end()
        if match["final"] == "m" and not match["parameters"].strip("0123456789;:"):
            pen = _turn(pen, _read_numbers(match["parameters"]))
        else:
            yield _show_sequence(match[0])
    yield _write(pen, text[last:])


def _write(pen: Pen, text: str) -> SafeString:
    if not text or not pen.classes:
        return visible(text)
    return format_html('<span class="{}">{}</span>', pen.classes, visible(text))


def _show_sequence(sequence: str) -> SafeString:
    body = sequence[1:].rstrip("\x07\x1b\\")
    cut = "…" if len(body) > MOST_SHOWN else ""
    return format_html(
        '<span class="hidden-char" title="escape sequence, not carried out">ESC{}{}</span>', body[:MOST_SHOWN], cut
    )


def _read_numbers(parameters: str) -> list[int]:
    return [int(part[:4] or 0) for part in re.split("[;:]", parameters)] or [0]


def _turn(pen: Pen, numbers: Sequence[int]) -> Pen:
    place = 0
    while place < len(numbers):
        number = numbers[place]
        if number in {38, 48}:
            name, used = _read_colour(numbers[place + 1 :])
            pen = replace(pen, ink=name) if number == 38 else replace(pen, ground=name)
            place += used
        else:
            pen = _turn_once(pen, number)
        place += 1
    return pen


def _turn_once(pen: Pen, number: int) -> Pen:
    if number == 0:
        return Pen()
    if number in WEIGHTS:
        return replace(pen, weights=pen.weights | {WEIGHTS[number]})
    if number in OFF:
        return replace(pen, weights=pen.weights - set(OFF[number]))
    if 30 <= number <= 37 or 90 <= number <= 97:
        return replace(pen, ink=NAMES[number % 10])
    if 40 <= number <= 47 or 100 <= number <= 107:
        return replace(pen, ground=NAMES[number % 10])
    if number == 39:
        return replace(pen, ink="")
    return replace(pen, ground="") if number == 49 else pen


def _read_colour(numbers: Sequence[int]) -> tuple[str, int]:
    """(nearest of the eight, how many numbers it took) of what follows 38 or 48."""
    if numbers[:1] == [5] and len(numbers) >= 2:
        return _name_indexed(numbers[1]), 2
    if numbers[:1] == [2] and len(numbers) >= 4:
        return _name_rgb(*numbers[1:4]), 4
    return "", len(numbers)


def _name_indexed(index: int) -> str:
    if index < 16:
        return NAMES[index % 8]
    if index < 232:
        cube = index - 16
        return _name_rgb(*(level * 51 for level in (cube // 36 % 6, cube // 6 % 6, cube % 6)))
    return _name_rgb(*[8 + 10 * (index - 232)] * 3)


def _name_rgb(red: int, green: int, blue: int) -> str:
    top = max(red, green, blue)
    if top < 64:
        return "black"
    return NAMES[sum(bit for bit, level in ((1, red), (2, green), (4, blue)) if level > 0.6 * top)]
