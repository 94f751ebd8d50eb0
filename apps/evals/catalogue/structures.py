"""Answers of a form: queries, JSON, patches and rankings, made up with their data."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from random import Random
from typing import Any, Final

from apps.evals.catalogue import CatalogueEntry, CatalogueItem, Row
from apps.evals.catalogue.shapes import require_text

SIZES: Final = {"held_out": 60, "train": 120}
DATABASES: Final = 3
"""That a query is tried on: in one alone another may find the same by luck."""
_SPLITS: Final = {"held_out": 0, "train": 1}
THINGS: Final = [
    "lantern",
    "violin",
    "compass",
    "thimble",
    "saddle",
    "beacon",
    "kettle",
    "ribbon",
    "ladder",
    "candle",
    "anchor",
    "mirror",
]
TOWNS: Final = ["Alder", "Birk", "Corva", "Dunmore", "Elst", "Farrow", "Gent", "Holm", "Irun", "Jena"]


def _draw(name: str, make: Callable[[Random, int], Row], split: str, size: int, seed: int) -> Iterator[Row]:
    """A split's numbers are those of no other."""
    drawn = Random(f"{name} {split} {seed}")
    return (make(drawn, 1_000 + 2 * n + _SPLITS[split]) for n in range(size))


def _make_query(drawn: Random, number: int) -> Row:
    setups, town = [], drawn.choice(TOWNS)
    for _ in range(DATABASES):
        rows = [
            (n, drawn.choice(TOWNS), drawn.choice(THINGS), drawn.randrange(1, 60)) for n in range(number, number + 40)
        ]
        inserted = ", ".join(
            f"({n}, '{place}', '{thing}', {count})"
            for n, place, thing, count in [*rows, (number + 40, town, "lantern", 1)]
        )
        setups.append(
            "CREATE TABLE sales (id INTEGER, town TEXT, thing TEXT, pieces INTEGER); "
            f"INSERT INTO sales VALUES {inserted};"
        )
    least = drawn.randrange(10, 50)
    asked, query = drawn.choice(
        (
            (f"How many pieces were sold of each thing in {town}? Name the thing and the sum.",
             f"SELECT thing, SUM(pieces) FROM sales WHERE town = '{town}' GROUP BY thing"),
            (f"Which sales, by their id, are of more than {least} pieces, the most pieces first, then by id?",
             f"SELECT id FROM sales WHERE pieces > {least} ORDER BY pieces DESC, id"),
            (f"In which towns were sales of at least {least} pieces? Name the town and how many such sales.",
             f"SELECT town, COUNT(*) FROM sales WHERE pieces >= {least} GROUP BY town"),
        )
    )  # fmt: skip
    prompt = (
        f"The table sales (id INTEGER, town TEXT, thing TEXT, pieces INTEGER) holds the sales of shop {number}. "
        f"{asked} Answer with one query of SQLite alone."
    )
    return {"prompt": prompt, "reference": json.dumps({"setup": setups, "query": query}), "oracle": query}


def _make_form(drawn: Random, number: int) -> Row:
    town, thing, pieces = drawn.choice(TOWNS), drawn.choice(THINGS), drawn.randrange(2, 99)
    right = {"order": number, "town": town, "thing": thing, "pieces": pieces}
    schema = {
        "type": "object",
        "properties": {name: {"const": value} for name, value in right.items()},
        "required": list(right),
        "additionalProperties": False,
    }
    prompt = (
        f'"This is {town}. Our order is number {number}: we want {pieces} times the {thing}, please." Write it as a '
        "JSON object with order and pieces as numbers, town and thing as texts, and nothing else."
    )
    return {"prompt": prompt, "reference": json.dumps(schema), "oracle": json.dumps(right)}


def _make_patch(drawn: Random, number: int) -> Row:
    thing, other = drawn.sample(THINGS, 2)
    lines = [f"{name}: {drawn.randrange(10, 99)}" for name in drawn.sample(THINGS, 8) if name != thing]
    place = drawn.randrange(len(lines))
    old, new = f"{thing}: {number}", f"{other}: {number}"
    before = [*lines[:place], old, *lines[place:]]
    after = [*lines[:place], new, *lines[place:]]
    path = f"stock/{number}.txt"
    start, end = max(0, place - 2), min(len(before), place + 3)
    shown = (
        [f" {one}" for one in before[start:place]]
        + [f"-{old}", f"+{new}"]
        + [f" {one}" for one in before[place + 1 : end]]
    )
    count = end - start
    patch = f"--- a/{path}\n+++ b/{path}\n@@ -{start + 1},{count} +{start + 1},{count} @@\n" + "\n".join(shown) + "\n"
    text, changed = "\n".join(before) + "\n", "\n".join(after) + "\n"
    prompt = (
        f"This is {path}:\n\n{text}\nIn the line that holds {number}, write {other} in place of {thing}. Answer with a "
        "unified diff alone."
    )
    return {
        "prompt": prompt,
        "reference": json.dumps({"before": {path: text}, "after": {path: changed}}),
        "oracle": f"```diff\n{patch}```",
    }


def _make_ranking(drawn: Random, number: int) -> Row:
    names = [f"page-{number}-{letter}" for letter in "abcdefgh"]
    thing, *others = drawn.sample(THINGS, 4)
    shares = sorted(drawn.sample(range(2, 9), 3), reverse=True)
    order = drawn.sample(names, len(names))
    told, gains = {}, {}
    for place, name in enumerate(order):
        often = shares[place] if place < 3 else 0
        words = [thing] * often + drawn.choices(others, k=9 - often)
        drawn.shuffle(words)
        told[name] = " ".join(words)
        if often:
            gains[name] = often
    pages = "\n".join(f"{name}: {told[name]}" for name in names)
    prompt = (
        f"{pages}\n\nWhich pages name the {thing}, those first that name it most often? Answer with their names alone, "
        "one a line."
    )
    return {"prompt": prompt, "reference": json.dumps(gains), "oracle": "\n".join(order[:3])}


def _read(row: Row, *, options: Mapping[str, Any]) -> CatalogueItem:
    return CatalogueItem(
        prompt=require_text(row, "prompt"),
        reference=json.loads(require_text(row, "reference")),
        options=options,
        oracle=row.get("oracle"),
    )


def _open(
    name: str, about: str, grader: str, make: Callable[[Random, int], Row], options: Mapping[str, Any] | None = None
) -> CatalogueEntry:
    return CatalogueEntry(
        name=f"structures/{name}",
        version="1",
        about=about,
        group="structures",
        licence="MIT",
        grader=grader,
        columns={"prompt": "what is asked", "reference": "what it is graded by, as JSON"},
        read=partial(_read, options=options or {}),
        make=partial(_draw, name, make),
        sizes=SIZES,
    )


ENTRIES: Final = (
    _open("sql", "Queries on a small table, by what they find.", "sql", _make_query),
    _open("json", "Orders in words, written as JSON.", "json_schema", _make_form),
    _open("diff", "A line to be changed, as a patch.", "diff", _make_patch),
    _open("ranking", "Pages to be put in order, by nDCG.", "retrieval", _make_ranking, {"measure": "ndcg", "k": 3}),
)
