"""Mistakes that a line of code is made with, and the ways to mend each: one is this house's, the others are not.

A mistake is what a mutation does to a right line. Some tests show it and pass with every way to mend it; tests that
nobody is shown pass with the house's alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple

Arguments = tuple[Any, ...]
PARAMETERS: Final[Mapping[str, Sequence[str]]] = {
    "number": ("total", "used", "count", "people", "amount", "pieces"),
    "list": ("values", "rows", "parts", "found"),
    "words": ("names", "words", "labels"),
    "table": ("prices", "levels", "book", "table"),
    "key": ("name", "key", "word"),
    "text": ("text", "title", "label", "word"),
    "limit": ("limit", "most", "bound"),
}
"""What functions call what they are given, by its kind."""


class Way(NamedTuple):
    """A way to mend it: the expression, and what a manager says who wants it."""

    code: str
    hint: str


@dataclass(frozen=True)
class Mistake:
    """One kind of them.

    Args:
        form: of a function's name; {item} and {items} are what its module is about.
        parameters: kinds of those that the function takes (`PARAMETERS`); code names them {a} and {b}.
        broken: what the line returns by mistake; ways: by name, the house's first.
        symptoms: what who finds it says, of a function {f}.
        shows: expressions that are true with every way, of a call {f}: the tests that everybody sees.
        draw: arguments that tell the ways from each other, and some with which the broken line is right.
    """

    name: str
    form: str
    parameters: Sequence[str]
    broken: str
    ways: Mapping[str, Way]
    symptoms: Sequence[str]
    shows: Sequence[str]
    draw: Callable[[Random], Sequence[Arguments]]

    @property
    def house(self) -> Way:
        return next(iter(self.ways.values()))


def _draw_floor(rng: Random) -> Sequence[Arguments]:
    low, high = rng.randint(2, 9), rng.randint(11, 40)
    return [(low, high), (high, low), (low + 1, high + 5), (high, high)]


def _draw_whole(rng: Random) -> Sequence[Arguments]:
    many = rng.randint(2, 9) * 4
    return [(many + 3, 4), (many + 1, 4), (many, 4), (3, 4)]


def _draw_lists(rng: Random) -> Sequence[Arguments]:
    drawn = [rng.randint(1, 60) for _ in range(4)]
    return [([],), (drawn,), (drawn[:1],)]


def _draw_known(rng: Random) -> Sequence[Arguments]:
    held = {"oak": rng.randint(1, 9), "elm": rng.randint(10, 19)}
    return [(held, "ash"), ({}, "elm"), (held, "oak"), (held, "elm")]


def _draw_ends(rng: Random) -> Sequence[Arguments]:
    drawn = rng.sample(range(1, 90), 5)
    return [(drawn,), (drawn[:1],), (drawn[:2],), (drawn[1:],)]


def _draw_order(rng: Random) -> Sequence[Arguments]:
    drawn = rng.sample(range(1, 40), 4)
    return [([drawn[0], -max(drawn) - 5, *drawn[1:]],), (sorted(drawn),), (drawn[:2],), ([],)]


def _draw_words(rng: Random) -> Sequence[Arguments]:
    word = rng.choice(("North", "South", "Upper", "Lower"))
    return [(f"{word} Gate",), (word.upper(),), ("gate",), (word,)]


def _draw_blanks(rng: Random) -> Sequence[Arguments]:
    word = rng.choice(("red", "blue", "green"))
    return [(f"  {word}  box ",), (f"{word} box",), (f" {word}",), (word,)]


def _draw_twice(rng: Random) -> Sequence[Arguments]:
    low, middle, high = sorted(rng.sample(range(1, 60), 3))
    return [([high, low, high, middle],), ([middle, low, low],), ([low, low],), ([],)]


def _draw_limit(rng: Random) -> Sequence[Arguments]:
    limit = rng.randint(10, 30)
    return [([limit, limit - 3, -limit - 2], limit), ([limit + 1, limit - 4], limit), ([], limit), ([1, limit], limit)]


def _draw_names(rng: Random) -> Sequence[Arguments]:
    words = rng.sample(("oak", "elm", "ash", "fir", "yew"), 3)
    return [(words,), (words[:2],), (words[:1],), ([],)]


def _draw_shares(rng: Random) -> Sequence[Arguments]:
    count = rng.randint(2, 8)
    return [(count * 6, 0), (0, 0), (count * 6, count), (0, count)]


def _draw_numbers(rng: Random) -> Sequence[Arguments]:
    return [(rng.randint(1, 9),), (rng.randint(10, 99),), (rng.randint(100, 999),), (0,)]


def _draw_long(rng: Random) -> Sequence[Arguments]:
    word = rng.choice(("workbench", "farmhouse", "mountains", "boathouse"))
    return [(f"{word} four",), (word,), ("barn",), (f"old {word}",)]


_ALL: Final = (
    Mistake(
        name="floor", form="{items}_left", parameters=("number", "number"), broken="{a} - {b}",
        ways={
            "zero": Way("max({a} - {b}, 0)", "nothing less than zero"),
            "gap": Way("abs({a} - {b})", "drop the sign"),
            "one": Way("max({a} - {b}, 1)", "one is the least"),
        },
        symptoms=("{f}() falls below zero.", "{f}() goes negative."),
        shows=("{f}(2, 5) >= 0", "{f}(9, 4) == 5"), draw=_draw_floor,
    ),
    Mistake(
        name="whole", form="{items}_each", parameters=("number", "number"), broken="{a} / {b}",
        ways={
            "down": Way("{a} // {b}", "round down"),
            "near": Way("round({a} / {b})", "round to the nearest"),
            "up": Way("-(-{a} // {b})", "round up"),
        },
        symptoms=("{f}() gives halves.", "{f}() gives no whole number."),
        shows=("{f}(7, 2) == int({f}(7, 2))", "{f}(8, 2) == 4"), draw=_draw_whole,
    ),
    Mistake(
        name="most", form="most_{items}", parameters=("list",), broken="max({a})",
        ways={
            "zero": Way("max({a}, default=0)", "nothing at all is zero"),
            "none": Way("max({a}, default=None)", "nothing at all is None"),
            "minus": Way("max({a}, default=-1)", "nothing at all is minus one"),
        },
        symptoms=("{f}() fails on an empty list.", "{f}() fails without any."),
        shows=("{f}([]) != []", "{f}([3, 8]) == 8"), draw=_draw_lists,
    ),
    Mistake(
        name="known", form="{item}_of", parameters=("table", "key"), broken="{a}[{b}]",
        ways={
            "zero": Way("{a}.get({b}, 0)", "an unknown name counts zero"),
            "none": Way("{a}.get({b})", "an unknown name is None"),
            "minus": Way("{a}.get({b}, -1)", "an unknown name is minus one"),
        },
        symptoms=("{f}() fails for an unknown name.", "{f}() fails for a new name."),
        shows=("{f}(dict(), 'x') != 'x'", "{f}(dict(x=4), 'x') == 4"), draw=_draw_known,
    ),
    Mistake(
        name="ends", form="chosen_{item}", parameters=("list",), broken="{a}[1]",
        ways={
            "last": Way("{a}[-1]", "take the last"),
            "first": Way("{a}[0]", "take the first"),
            "middle": Way("{a}[len({a}) // 2]", "take the middle"),
        },
        symptoms=("{f}() fails where only one is there.", "{f}() fails on a single one."),
        shows=("{f}([4]) == 4", "{f}([6, 6]) == 6"), draw=_draw_ends,
    ),
    Mistake(
        name="order", form="ranked_{items}", parameters=("list",), broken="{a}",
        ways={
            "up": Way("sorted({a})", "smallest first"),
            "down": Way("sorted({a}, reverse=True)", "largest first"),
            "size": Way("sorted({a}, key=abs)", "order by size alone"),
        },
        symptoms=("{f}() comes in any order.", "{f}() is not ranked."),
        shows=("{f}([3, 1, 2])[1] == 2", "len({f}([5, 4])) == 2"), draw=_draw_order,
    ),
    Mistake(
        name="case", form="{item}_key", parameters=("text",), broken="{a}",
        ways={
            "lower": Way("{a}.lower()", "small letters"),
            "title": Way("{a}.title()", "a capital each word"),
            "upper": Way("{a}.upper()", "capital letters"),
        },
        symptoms=("{f}() tells letters of different case apart.", "{f}() differs by case."),
        shows=("{f}('aB') == {f}('Ab')", "len({f}('abc')) == 3"), draw=_draw_words,
    ),
    Mistake(
        name="blanks", form="clean_{item}", parameters=("text",), broken="{a}",
        ways={
            "ends": Way("{a}.strip()", "cut blanks at the ends"),
            "all": Way("{a}.replace(' ', '')", "no blanks anywhere"),
            "single": Way("' '.join({a}.split())", "single blanks between"),
        },
        symptoms=("{f}() keeps blanks around.", "{f}() begins with a blank."),
        shows=("{f}(' ab ') == 'ab'", "{f}('ab') == 'ab'"), draw=_draw_blanks,
    ),
    Mistake(
        name="twice", form="unique_{items}", parameters=("list",), broken="{a}",
        ways={
            "first": Way("list(dict.fromkeys({a}))", "as they came first"),
            "sorted": Way("sorted(set({a}))", "once each in order"),
            "last": Way("list(dict.fromkeys({a}[::-1]))", "as they came from behind"),
        },
        symptoms=("{f}() tells some twice.", "{f}() repeats itself."),
        shows=("len({f}([2, 2, 1])) == 2", "{f}([7]) == [7]"), draw=_draw_twice,
    ),
    Mistake(
        name="limit", form="{items}_within", parameters=("list", "limit"), broken="[x for x in {a} if x > {b}]",
        ways={
            "closed": Way("[x for x in {a} if x <= {b}]", "the limit itself counts"),
            "open": Way("[x for x in {a} if x < {b}]", "the limit itself is out"),
            "both": Way("[x for x in {a} if abs(x) <= {b}]", "a limit both ways"),
        },
        symptoms=("{f}() gives what is beyond the limit.", "{f}() gives the wrong side."),
        shows=("{f}([1, 9], 5) == [1]", "{f}([], 5) == []"), draw=_draw_limit,
    ),
    Mistake(
        name="joined", form="{items}_line", parameters=("words",), broken="''.join({a})",
        ways={
            "comma": Way("', '.join({a})", "comma and blank"),
            "tight": Way("','.join({a})", "comma alone"),
            "colon": Way("'; '.join({a})", "semicolon and blank"),
        },
        symptoms=("{f}() runs words together.", "{f}() cannot be read."),
        shows=("len({f}(['a', 'b'])) > 2", "{f}(['a']) == 'a'"), draw=_draw_names,
    ),
    Mistake(
        name="shared", form="{item}_share", parameters=("number", "number"), broken="{a} / {b}",
        ways={
            "zero": Way("{a} / {b} if {b} else 0", "a share of none is zero"),
            "none": Way("{a} / {b} if {b} else None", "a share of none is None"),
            "all": Way("{a} / {b} if {b} else {a}", "a share of none is all"),
        },
        symptoms=("{f}() fails when nobody shares.", "{f}() fails for none."),
        shows=("{f}(4, 0) != ''", "{f}(8, 2) == 4"), draw=_draw_shares,
    ),
    Mistake(
        name="width", form="{item}_code", parameters=("number",), broken="str({a})",
        ways={
            "zeros": Way("str({a}).zfill(3)", "zeros before"),
            "right": Way("str({a}).rjust(3)", "blanks before"),
            "left": Way("str({a}).ljust(3)", "blanks behind"),
        },
        symptoms=("{f}() is too short.", "{f}() has too few signs."),
        shows=("len({f}(7)) == 3", "{f}(123) == '123'"), draw=_draw_numbers,
    ),
    Mistake(
        name="length", form="short_{item}", parameters=("text",), broken="{a}",
        ways={
            "head": Way("{a}[:8]", "keep the beginning"),
            "tail": Way("{a}[-8:]", "keep the end"),
            "ends": Way("{a}[:4] + {a}[4:][-4:]", "keep both ends"),
        },
        symptoms=("{f}() is too long.", "{f}() has too many signs."),
        shows=("len({f}('abcdefghijk')) == 8", "{f}('abc') == 'abc'"), draw=_draw_long,
    ),
)  # fmt: skip
MISTAKES: Final[Mapping[str, Mistake]] = {one.name: one for one in _ALL}
