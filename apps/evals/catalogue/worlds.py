"""The worlds that make tasks up, each as a benchmark, whole and by the kinds of their tasks; they verify what is done
in them themselves."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from random import Random
from typing import Any, Final

from apps.base.errors import BadInputError
from apps.evals.catalogue import CatalogueEntry, CatalogueItem
from apps.evals.services import HELD_OUT, TRAIN, draw_rows
from apps.worlds.registry import get_world, list_own_worlds
from tentalis.core.worlds import World

DRAWN_TO_NAME: Final = 300
"""Tasks that are drawn to know what kinds there are."""
MOST_DRAWN: Final = 10_000
"""Tasks that are drawn at most to find those of a kind."""
MOST_ADDED: Final = 10_000
"""Tasks of one split that were added, in one benchmark."""
COLUMNS: Final = {"prompt": "the task", "reference": "what its world verifies by", "seed": "of its state"}


def list_families(world: World) -> list[str]:
    """The kinds of a world's tasks, without what tells two of a kind apart; [] where they are all of one."""
    rng = Random(0)
    prompts = [prompt for _ in range(DRAWN_TO_NAME) if (prompt := world.draw_prompt(rng)) is not None]
    found = sorted({find_family(world, prompt) for prompt in prompts})
    return found if len(found) > 1 else []


def find_family(world: World, prompt: str) -> str:
    """The kind of a task, without what tells two of a kind apart."""
    return world.find_kind(prompt).partition(",")[0].strip()


def make_rows(environment: str, family: str, split: str, count: int, seed: int) -> Iterator[Mapping[str, Any]]:
    """Tasks that a world makes up, the same for the same seed; of one family, or "" of all."""
    world, size = get_world(environment), count if not family else 8 * count
    told: dict[str, Mapping[str, Any]] = {}
    while size <= MOST_DRAWN:
        before = len(told)
        for row in draw_rows(environment, count=size, seed=seed, split=split):
            if family in ("", find_family(world, row.prompt)):
                told.setdefault(row.prompt, {"prompt": row.prompt, "reference": row.reference, "seed": row.seed})
        if len(told) >= count or len(told) == before or not family:  # twice as many drawn, and no other among them
            break
        size *= 2
    yield from list(told.values())[:count]


def list_rows(environment: str, split: str, count: int, seed: int) -> Iterator[Mapping[str, Any]]:
    """The tasks that were added to a world. Raises BadInputError where one is damaged, or none to be measured on."""
    try:
        prompts = get_world(environment).list_tasks(held_out=split == HELD_OUT)
    except ValueError as error:
        raise BadInputError.at("name", f"{environment}: {error}"[:300]) from None
    if split == HELD_OUT and not prompts:
        words = f"{environment} has no tasks to measure on: add some, tentalis repo-task add DIRECTORY --held-out"
        raise BadInputError.at("name", words)
    for place, prompt in enumerate(prompts):
        yield {"prompt": prompt, "reference": None, "seed": seed + place}


def read_row(environment: str, row: Mapping[str, Any]) -> CatalogueItem:
    """A task of a world, in its kind."""
    category = get_world(environment).find_kind(row["prompt"])[:64]
    return CatalogueItem(prompt=row["prompt"], world_reference=row["reference"], seed=row["seed"], category=category)


def _list_entries() -> Iterator[CatalogueEntry]:
    for world in list_own_worlds():
        entry = partial(CatalogueEntry, version=world.version or "1", group="worlds", licence="MIT", columns=COLUMNS)
        entry = partial(entry, environment=world.name, read=partial(read_row, world.name))
        if world.takes_tasks:
            about = f"{world.label}: {world.noun}s that were added to this installation; the world verifies."
            make = partial(list_rows, world.name)
            yield entry(name=world.name, about=about, make=make, sizes={HELD_OUT: MOST_ADDED, TRAIN: MOST_ADDED})
            continue
        for family in ("", *list_families(world)) if world.panel(1, 0) else ():
            what = f"{world.noun}s of the kind {family}" if family else f"{world.noun}s"
            sizes = {HELD_OUT: 60, TRAIN: 200} if world.has_turns or family else {HELD_OUT: 100, TRAIN: 400}
            yield entry(
                name=f"{world.name}/{re.sub('[^a-z0-9]+', '-', family)}" if family else world.name,
                about=f"{world.label}: {what} that the world makes up and verifies.",
                make=partial(make_rows, world.name, family),
                sizes=sizes,
            )


ENTRIES: Final = tuple(_list_entries())
