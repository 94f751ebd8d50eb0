"""What a worker's adapters are measured on: held-out items of its world, and what identifies them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from apps.workers.models import Worker
from apps.worlds.registry import get_world
from tentalis.core.canon import canonical_json
from tentalis.core.learning.gate import LEAST_CONFIRMED, GatePolicy
from tentalis.core.worlds import PanelItem, World

WORLD_OF_KIND = {Worker.Kind.DESK: "desk"}
PANEL_SEED = 20_000


@dataclass(frozen=True)
class ItemSet:
    """Items of one world in their order. The same hash means the same items and seeds."""

    name: str
    world: World
    items: Sequence[PanelItem]

    @cached_property
    def keys(self) -> Sequence[int]:
        """(items,) by what each says and its seed, in [0, 2^63)."""
        return [key_of(item) for item in self.items]

    @cached_property
    def hash(self) -> str:
        spelled = b"".join(key.to_bytes(8) for key in self.keys)
        return hashlib.blake2b(self.world.name.encode() + spelled, digest_size=16).hexdigest()


def key_of(item: PanelItem) -> int:
    """By which the same item is known in every set."""
    said = canonical_json([item.prompt, item.reference, item.checks, item.seed])
    return int.from_bytes(hashlib.blake2b(said, digest_size=8).digest()) >> 1


@dataclass(frozen=True)
class Panel:
    """Held-out tasks of one world. The same name means the same tasks and seeds."""

    name: str
    world: World
    size: int
    seed: int

    @property
    def items(self) -> Sequence[PanelItem]:
        return self.item_set.items

    @property
    def item_set(self) -> ItemSet:
        return draw_panel(self)


@lru_cache(maxsize=32)
def draw_panel(panel: Panel) -> ItemSet:
    """Its tasks, drawn once a process: the same seed gives the same."""
    return ItemSet(panel.name, panel.world, tuple(panel.world.panel(panel.size, panel.seed)))


@lru_cache(maxsize=32)
def draw_skills(panel: Panel) -> Sequence[PanelItem]:
    """As `draw_panel`, of what must not be lost."""
    return tuple(panel.world.skills(panel.size, panel.seed))


def has_panel(worker: Worker) -> bool:
    """Whether there are held-out tasks of a worker's kind, on which its adapters are measured."""
    return worker.kind in WORLD_OF_KIND


def choose_panel(worker: Worker, *, version: int, policy: GatePolicy) -> Panel | None:
    """The panel that this version of the worker is measured on; None where its world has no held-out tasks."""
    world_name = WORLD_OF_KIND.get(Worker.Kind(worker.kind))
    if world_name is None:
        return None
    draw = version // policy.panel_lifetime
    return Panel(
        f"{world_name}/{policy.panel_size}/{draw}", get_world(world_name), policy.panel_size, PANEL_SEED + draw
    )


@dataclass(frozen=True)
class FreshPanel:
    """Held-out tasks that no other candidate was measured on.

    Attributes:
        first: what every candidate is measured on.
        further: what is asked besides where those leave a doubt, or something is to be proved.
    """

    first: ItemSet
    further: ItemSet


def draw_fresh(panel: Panel, *, key: str, policy: GatePolicy) -> FreshPanel:
    """Held-out tasks of the panel's world that are not on the panel, drawn anew for each key.

    As many as the policy says and at most as many as are on the panel, but never fewer than a confirmation wants.

    Args:
        key: lower-case hex, a candidate's hash: whoever made it could not know the tasks.
    """
    size = min(policy.fresh_size, panel.size)
    both = max(size, min(policy.confirm_size, panel.size), LEAST_CONFIRMED)
    known = {item.prompt for item in panel.items}
    wide = replace(panel, size=2 * both, seed=int(key[:12], 16))
    drawn = [item for item in wide.items if item.prompt not in known][:both]
    name, further = f"{panel.world.name}/{size}/{key[:12]}", drawn[size:]
    return FreshPanel(ItemSet(name, panel.world, drawn[:size]), ItemSet(f"{name}+{len(further)}", panel.world, further))


def open_panel(name: str) -> Panel | None:
    """The panel a result was measured on, drawn again by its name; None where that says too little."""
    world_name, _, rest = name.partition("/")
    size, _, draw = rest.partition("/")
    if world_name not in WORLD_OF_KIND.values() or not (size.isdecimal() and draw.isdecimal()):
        return None
    return Panel(name, get_world(world_name), int(size), PANEL_SEED + int(draw))
