"""The worlds that make tasks up, each as a benchmark: they verify what is done in them themselves."""

from typing import Final

from apps.evals.catalogue import CatalogueEntry
from apps.worlds.registry import list_own_worlds

ENTRIES: Final = tuple(
    CatalogueEntry(
        name=world.name,
        version=world.version or "1",
        about=f"{world.label}: {world.noun}s that the world makes up and verifies.",
        group="worlds",
        licence="MIT",
        environment=world.name,
        sizes={"held_out": 100, "train": 400} if not world.has_turns else {"held_out": 60, "train": 200},
    )
    for world in list_own_worlds()
    if world.panel(1, 0)
)
