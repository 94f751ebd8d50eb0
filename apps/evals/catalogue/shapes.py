"""Shapes that rows of public data sets come in, and rows made up in the same shapes."""

import ast
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from apps.evals.catalogue import CatalogueEntry, CatalogueItem, Row, render

FILE: Final = frozenset({"file", "network"})
"""What an entry needs whose rows come from a file: somebody fetches it."""
LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
ASK_CHOICE: Final = (
    '{question}\n\n{choices}\n\nThink about it as long as you want, then end with a line "Answer: X", X being the '
    "letter of your choice."
)
_THINGS: Final = [
    "harbour",
    "lantern",
    "meadow",
    "violin",
    "copper",
    "glacier",
    "orchard",
    "compass",
    "thimble",
    "falcon",
    "saddle",
    "beacon",
    "marble",
    "willow",
    "anchor",
    "kettle",
    "summit",
    "ribbon",
    "quarry",
    "barley",
]


def require_text(row: Row, column: str) -> str:
    """A column that holds words. Raises ValueError."""
    found = row[column]
    if not isinstance(found, str) or not found.strip():
        raise ValueError(f"{column}: wanted a text, found {found!r:.80}")
    return found


def read_json_text(row: Row, column: str) -> dict[str, Any]:
    """A column that holds a JSON object, as text or as it is; {} for an empty one. Raises ValueError."""
    found = row.get(column)
    if isinstance(found, Mapping):
        return dict(found)
    try:
        read = json.loads(found or "{}")
    except (TypeError, ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        raise ValueError(f"{column}: wanted a JSON object, found {found!r:.80}")
    return read


def read_list(row: Row, column: str) -> list[Any]:
    """A column that holds a list, or a text that writes one as JSON or Python does. Raises ValueError."""
    found = row[column]
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except (ValueError, RecursionError):
            try:
                found = ast.literal_eval(found)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                found = None
    if not isinstance(found, list | tuple) or not found:
        raise ValueError(f"{column}: wanted a list, found {row[column]!r:.80}")
    return list(found)


def read_index(row: Row, column: str) -> int:
    """A column that says which choice is right by its number, as a number or as text. Raises ValueError."""
    found = row[column]
    if isinstance(found, bool) or not str(found).strip().isdecimal():
        raise ValueError(f"{column}: wanted the number of a choice, found {found!r:.80}")
    return int(found)


def read_letter(row: Row, column: str) -> int:
    """The same by its letter."""
    found = str(row[column]).strip().upper()
    if len(found) != 1 or found not in LETTERS:
        raise ValueError(f"{column}: wanted the letter of a choice, found {row[column]!r:.80}")
    return LETTERS.index(found)


def list_choices(choices: Sequence[str]) -> str:
    """One a line behind its letter."""
    return "\n".join(f"{LETTERS[place]}. {one}" for place, one in enumerate(choices))


def ask_choice(
    question: str, choices: Sequence[Any], right: Any, *, category: str = "", pictures: Sequence[str] = ()
) -> CatalogueItem:
    """A question with choices. Raises ValueError."""
    texts = [str(one) for one in choices]
    if not 2 <= len(texts) <= len(LETTERS):
        raise ValueError(f"wanted 2 to {len(LETTERS)} choices, found {len(texts)}")
    if isinstance(right, bool) or not isinstance(right, int) or not 0 <= right < len(texts):
        raise ValueError(f"wanted the right one of {len(texts)} choices, found {right!r:.80}")
    return CatalogueItem(
        prompt=render(ASK_CHOICE, {"question": question.strip(), "choices": list_choices(texts)}),
        reference=LETTERS[right],
        options={"choices": texts},
        category=category[:64],
        oracle=f"Answer: {LETTERS[right]}",
        pictures=pictures,
    )


def mix(right: str, wrong: Sequence[str], *, by: str) -> tuple[list[str], int]:
    """Choices in an order that follows from the question's words, and where the right one stands."""
    choices = [right, *wrong]
    Random(by).shuffle(choices)
    return choices, choices.index(right)


@dataclass(frozen=True)
class MadeQuestion:
    """A question made up, with its answer in words, and three that are wrong."""

    place: int
    question: str
    answer: str
    wrong: tuple[str, str, str]
    context: str
    names: Mapping[str, Any] = field(default_factory=dict)


def make_questions(count: int, seed: int) -> Iterator[MadeQuestion]:
    """Questions that the text beside them answers; each has another answer."""
    drawn = Random(seed)
    for place in range(count):
        thing, other = _THINGS[place % len(_THINGS)], _THINGS[(place + 7) % len(_THINGS)]
        number = 100 + place * 13 + drawn.randrange(5)
        answer = f"{thing} {number}"
        wrong = tuple(f"{other} {number + step}" for step in (1, 2, 3))
        yield MadeQuestion(
            place=place,
            question=f"What did keeper {number} find behind the {other} house?",
            answer=answer,
            wrong=(wrong[0], wrong[1], wrong[2]),
            context=f"On a cold day keeper {number} looked behind the {other} house and found {answer}.",
        )


def make_sums(count: int, seed: int) -> Iterator[tuple[str, int]]:
    """Questions whose answers are numbers, each another."""
    drawn = Random(seed)
    for place in range(count):
        first, second = 20 + place * 17 + drawn.randrange(9), 3 + place
        thing = _THINGS[place % len(_THINGS)]
        yield (
            f"A shop sells {first} pieces of {thing} on Monday and {second} on Tuesday. How many in both?",
            first + second,
        )


def make_choices(write: Callable[[MadeQuestion, list[str], int], Row]) -> Callable[[int, int], Iterator[Row]]:
    """Rows of a shape out of questions with four choices."""

    def make(count: int, seed: int) -> Iterator[Row]:
        for one in make_questions(count, seed):
            choices = list(one.wrong)
            right = (one.place * 7 + seed) % 4
            choices.insert(right, one.answer)
            yield write(one, choices, right)

    return make


def make_pairs(write: Callable[[MadeQuestion], Row]) -> Callable[[int, int], Iterator[Row]]:
    """Rows of a shape out of questions with an answer."""
    return lambda count, seed: (write(one) for one in make_questions(count, seed))


def make_numbers(write: Callable[[str, int, int], Row]) -> Callable[[int, int], Iterator[Row]]:
    """Rows of a shape out of (question, number, place)."""
    return lambda count, seed: (write(*one, place) for place, one in enumerate(make_sums(count, seed)))


def from_file(
    name: str,
    about: str,
    licence: str,
    origin: tuple[str, str, str],
    columns: Mapping[str, str],
    read: Callable[[Row], CatalogueItem],
    synthetic: Callable[[int, int], Iterator[Row]],
    *,
    group: str,
    grader: str,
    template: str = "",
    needs: frozenset[str] = frozenset(),
    tries: int = 1,
    shared: float = 0.0,
) -> CatalogueEntry:
    """An entry whose rows come from a file, in its first version.

    Args:
        needs: beside the file.
    """
    return CatalogueEntry(
        name=name,
        version="1",
        about=about,
        group=group,
        licence=licence,
        template=template,
        grader=grader,
        columns=columns,
        read=read,
        needs=FILE | needs,
        origin=origin,
        synthetic=synthetic,
        tries=tries,
        shared=shared,
    )
