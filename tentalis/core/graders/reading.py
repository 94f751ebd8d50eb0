"""What graders read: references and options where a check is written, JSON and lists in answers."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

MOST_REFERENCES: Final = 64
_FENCE: Final = re.compile(r"^ {0,3}```([^\n`]{0,40})$", re.MULTILINE)
_MOST_BRACKETS: Final = 200


def read_texts(reference: Any) -> list[str]:
    """A text, or several of which each is right. Raises ValueError for none, and for what is blank."""
    texts = reference if isinstance(reference, list) else [reference]
    if not 1 <= len(texts) <= MOST_REFERENCES or not all(isinstance(text, str) and text.strip() for text in texts):
        raise ValueError(f"reference: wanted a text, or 1 to {MOST_REFERENCES} of them, found {reference!r:.120}")
    return texts


def read_share(options: Mapping[str, Any], name: str, default: float) -> float:
    """An option in [0, 1]. Raises ValueError."""
    return read_number(options, name, default, least=0, most=1)


def read_least(options: Mapping[str, Any], default: float = 1.0) -> float:
    """The option `least`: the share, above 0, from which on an answer counts as right. Raises ValueError."""
    if (least := read_share(options, "least", default)) == 0:
        raise ValueError("least: wanted a share above 0, found 0")
    return least


def read_number(options: Mapping[str, Any], name: str, default: float, *, least: float, most: float) -> float:
    """Raises ValueError."""
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ValueError(f"{name}: wanted a number from {least:g} to {most:g}, found {value!r:.80}")
    return float(value)


def read_count(options: Mapping[str, Any], name: str, default: int, *, least: int, most: int) -> int:
    """Raises ValueError."""
    value = options.get(name, default)
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{name}: wanted a whole number from {least} to {most}, found {value!r:.80}")
    return value


def read_flag(options: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """Raises ValueError."""
    value = options.get(name, default)
    if not isinstance(value, bool):
        raise ValueError(f"{name}: wanted true or false, found {value!r:.80}")
    return value


def read_word(options: Mapping[str, Any], name: str, words_known: Sequence[str]) -> str:
    """One of those known, the first where none is given. Raises ValueError."""
    value = options.get(name, words_known[0])
    if value not in words_known:
        raise ValueError(f"{name}: wanted one of {', '.join(words_known)}, found {value!r:.80}")
    return str(value)


def find_fenced(answer: str, languages: Sequence[str] = ()) -> str | None:
    """What stands in an answer's last fenced block, one of these languages before any other; None where none is."""
    marks = list(_FENCE.finditer(answer))
    blocks = []
    place = 0
    while place < len(marks):
        opened = marks[place]
        closing = next((at for at in range(place + 1, len(marks)) if not marks[at][1].strip()), len(marks))
        end = marks[closing].start() if closing < len(marks) else len(answer)
        blocks.append((opened[1].strip().lower(), answer[opened.end() : end].strip("\n")))
        place = closing + 1
    preferred = [text for language, text in blocks if language in languages]
    texts = preferred or [text for _, text in blocks]
    return texts[-1] if texts else None


def find_json(answer: str) -> Any:
    """The JSON value of an answer: the whole, its last fenced block, or else the last object or list in it.

    Raises:
        ValueError: there is none.
    """
    for text in (answer, find_fenced(answer, ("json",))):
        if text is not None:
            try:
                return json.loads(text, parse_constant=_refuse_constant)
            except (ValueError, RecursionError):
                pass
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    last: list[Any] = []
    place, tried = 0, 0
    while tried < _MOST_BRACKETS:
        starts = [start for mark in "[{" if (start := answer.find(mark, place)) >= 0]
        if not starts:
            break
        tried += 1
        try:
            value, place = decoder.raw_decode(answer, min(starts))
            last = [value]
        except (ValueError, RecursionError):
            place = min(starts) + 1
    if not last:
        raise ValueError("wanted JSON, found none")
    return last[0]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"wanted a number, found {name}")


def is_number(value: Any) -> bool:
    """Whether it is a finite number, as JSON has it, that a float can hold."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
