"""What a worker's adapters are measured on: held-out items of its world, and what identifies them."""

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from django.db.models import Max, Q, QuerySet

from apps.accounts.models import Project
from apps.evals.models import ChosenPanel, Item, Taskset
from apps.workers.agents import can_measure, works_outside
from apps.workers.kinds import find_kind
from apps.workers.models import Worker
from apps.workers.rules import find_environment_error
from apps.worlds.registry import WORLDS, find_world, get_world
from tentalis.core.canon import canonical_json
from tentalis.core.learning.gate import LEAST_CONFIRMED, GatePolicy
from tentalis.core.worlds import PanelItem, World

PANEL_SEED, SKILLS_SEED = 20_000, 90_000
OWN = "own/"
"""What the name of a project's own items as a panel begins with."""
LEAST_OWN = 10
"""Of a project's own items: fewer than these refuse what is good as easily as what is bad, and are not asked."""
MOST_TRIES = 8
"""Of each item, where a project's own are few: beyond so many it is the items that are missing."""
MOST_READ_AGAIN = 2_000
"""Items whose words are looked for again."""
LATEST_TASKS = 1_000
"""Of a worker: by these it is told in which environments it works."""
OWN_CHOICE = (
    "its agent chooses the model itself: give it a model of its own (its base model, on a model server or the "
    "installation's engine), which the agent asks the gateway for"
)


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
        if any(item.weight != 1.0 for item in self.items):
            spelled += canonical_json([[key, item.weight] for key, item in zip(self.keys, self.items, strict=True)])
        return hashlib.blake2b(self.world.name.encode() + spelled, digest_size=16).hexdigest()


def key_of(item: PanelItem) -> int:
    """By which the same item is known in every set."""
    said = canonical_json([item.prompt, item.reference, item.checks, item.seed, *filter(None, [item.messages])])
    return int.from_bytes(hashlib.blake2b(said, digest_size=8).digest()) >> 1


@dataclass(frozen=True)
class Panel:
    """Held-out tasks that a line is measured on version after version. The same name means the same tasks and seeds.

    Attributes:
        own: a project's own items, where the world makes none up; nothing can be drawn besides them.
        own_skills: its items that must not be lost.
        tries: of each item.
    """

    name: str
    world: World
    size: int
    seed: int = 0
    own: Sequence[PanelItem] = ()
    own_skills: Sequence[PanelItem] = ()
    tries: int = 1

    @property
    def items(self) -> Sequence[PanelItem]:
        return self.item_set.items

    @property
    def item_set(self) -> ItemSet:
        return ItemSet(self.name, self.world, self.own) if self.own else _draw_panel(self)

    def draw_behind(self, count: int) -> Sequence[PanelItem]:
        """So many tasks that are not on it, of a world that makes them up."""
        return replace(self, size=self.size + count).items[self.size :]

    def draw_skills(self, count: int) -> Sequence[PanelItem]:
        """At most so many tasks of what must not be lost."""
        return self.own_skills[:count] if self.own else _draw_skills(replace(self, size=count, seed=SKILLS_SEED))


@lru_cache(maxsize=32)
def _draw_panel(panel: Panel) -> ItemSet:
    """Its tasks, drawn once a process: the same seed gives the same."""
    return ItemSet(panel.name, panel.world, tuple(panel.world.panel(panel.size, panel.seed)))


@lru_cache(maxsize=32)
def _draw_skills(panel: Panel) -> Sequence[PanelItem]:
    return tuple(panel.world.skills(panel.size, panel.seed))


def find_generator(worker: Worker) -> World | None:
    """The world that makes up a worker's held-out tasks: the only one it may work in, where that draws any."""
    worlds = [world for world in WORLDS.values() if not find_environment_error(worker, world.name)]
    return worlds[0] if len(worlds) == 1 and not refuse_tries(worker, worlds[0]) and worlds[0].panel(1, 0) else None


def refuse_tries(worker: Worker, world: World) -> str:
    """Why nobody has a worker's model try tasks of a world only to measure it; "" where that does no harm. What an
    agent outside does is its own."""
    if world.keeps_nothing or works_outside(worker):
        return ""
    return f"a try in {world.label} ({world.name}) changes something beyond itself, and is made for a task alone"


def has_panel(worker: Worker) -> bool:
    """Whether a worker's adapters can be measured. At most six queries; none where its world makes tasks up, since a
    taskset is only chosen in place of these with enough items."""
    return find_generator(worker) is not None or len(_choose_own(worker)[1]) >= LEAST_OWN


def choose_panel(worker: Worker, *, version: int, policy: GatePolicy) -> Panel | None:
    """What this version of the worker is measured on; None where there are no held-out tasks that can be checked.

    Those of the taskset that was chosen for its gate; else those that its world makes up, another draw of them every
    so many versions; else the project's own, all that stand in the environment of which there are most.
    """
    if find_chosen(worker) is None and (world := find_generator(worker)) is not None:
        draw = version // policy.panel_lifetime
        return Panel(f"{world.name}/{policy.panel_size}/{draw}", world, policy.panel_size, PANEL_SEED + draw)
    return _make_own(worker, size=policy.panel_size)


def choose_unchecked_panel(worker: Worker, *, size: int) -> Panel | None:
    """As `choose_panel`, of the project's own items that nothing checks: answers to them can only be compared.

    Args:
        size: answers that are compared at most.
    """
    return _make_own(worker, size=size, is_checked=False)


def find_chosen(worker: Worker) -> Taskset | None:
    """The taskset whose held-out items a worker's gate asks, where somebody chose one."""
    row = ChosenPanel.objects.filter(worker=worker.line_id).select_related("taskset").first()
    return None if row is None else row.taskset


def _make_own(worker: Worker, *, size: int, is_checked: bool = True) -> Panel | None:
    environment, items = _choose_own(worker, is_checked=is_checked)
    if len(items) < LEAST_OWN:
        return None
    own, world = items[: max(size, LEAST_OWN)], get_world(environment)
    return Panel(
        name=f"{OWN}{environment}/{ItemSet('', world, own).hash[:12]}",
        world=world,
        size=len(own),
        own=own,
        own_skills=find_own(worker, Item.Split.SKILLS).get(environment, ()) if is_checked else (),
        tries=min(MOST_TRIES, max(size // len(own), 1)),
    )


def say_missing(worker: Worker) -> str:
    """Why nothing can be measured, in words."""
    if not find_kind(worker.kind).asks_model:
        return f"a worker of kind {worker.kind} asks no model"
    if not can_measure(worker):
        return OWN_CHOICE
    if not worker.project.has_held_out:
        return "no held-out tasks in this environment"
    refusals = [refuse_tries(worker, find_world(one.environment)) for one in _find_tasksets(worker)]
    if refusals and all(refusals):
        return refusals[0]
    if count := len(_choose_own(worker)[1]):
        return f"{count} held-out {'item' if count == 1 else 'items'} so far: wanted at least {LEAST_OWN}"
    words = "no held-out item in this environment says what a right answer is: give them a reference or checks"
    unchecked = len(_choose_own(worker, is_checked=False)[1])
    return f"{words}; or have {LEAST_OWN}, whose answers can be compared: {unchecked} so far" if unchecked else words


def _choose_own(worker: Worker, *, is_checked: bool = True) -> tuple[str, Sequence[PanelItem]]:
    """An environment and the project's own items in it; none of none. Of environments with enough of them the one where
    most of the worker's tasks are, or before its first its usual one; else that of most items."""
    found = find_own(worker, is_checked=is_checked)
    if len(found) < 2:
        return next(iter(found.items()), ("", ()))
    rank = _count_tasks(worker) or Counter([worker.home])
    return max(found.items(), key=lambda one: (len(one[1]) >= LEAST_OWN, rank[one[0]], len(one[1])))


def _count_tasks(worker: Worker) -> "Counter[str]":
    """Environment -> the latest tasks there of a worker's line; tries of evaluations are none. One query."""
    its = Worker.objects.filter(Q(pk=worker.line_id) | Q(learns_with=worker.line_id))
    tasks = its.filter(tasks__isnull=False, tasks__evaluation=None).order_by("-tasks__id")
    return Counter(tasks.values_list("tasks__environment", flat=True)[:LATEST_TASKS])


def find_own(
    worker: Worker, split: str = Item.Split.HELD_OUT, *, is_checked: bool = True
) -> Mapping[str, Sequence[PanelItem]]:
    """Environment -> the project's own items that can be checked, or those that cannot, of each taskset's newest
    version, or of the one that was chosen; no conversations where its agent takes none. At most four queries."""
    if not worker.project.has_held_out or not can_measure(worker):
        return {}
    tasksets = [one for one in _find_tasksets(worker) if not refuse_tries(worker, find_world(one.environment))]
    rows = Item.objects.filter(taskset__in=tasksets, split=split).select_related("taskset").order_by("content_hash")
    found: dict[str, dict[str, PanelItem]] = {}
    for row in rows:
        if has_past(row) and works_outside(worker):
            continue  # a task says no more than its prompt
        verifies = _verifies_alone(row.taskset.environment)
        if (row.reference is not None or row.checks is not None or verifies) is is_checked:
            found.setdefault(row.taskset.environment, {}).setdefault(row.content_hash, read_item(row))
    return {environment: tuple(items.values()) for environment, items in found.items()}


@lru_cache(maxsize=64)
def _verifies_alone(environment: str) -> bool:
    """Whether a world says of any of its tasks what is right: by the state it leaves, or because it makes them up."""
    world = find_world(environment)
    return world.judges_states or bool(world.panel(1, 0))


def _find_tasksets(worker: Worker) -> list[Taskset]:
    """The one that was chosen for its gate; else the newest version of each that stands where the worker does tasks, or
    before its first could: what is asked elsewhere says nothing of it.

    Never those of benchmarks, which are for whom they were chosen, of what other tools asked, whose runs come and go,
    and of corrections that must hold: what a gate measures stays.
    """
    if (chosen := find_chosen(worker)) is not None:
        return [chosen]
    others = (Taskset.Origin.IMPORTED, Taskset.Origin.REGRESSIONS)
    own = list(find_newest(worker.project).exclude(origin__in=others).filter(benchmarks=None))
    done = _count_tasks(worker) if own else None
    its = [one for one in own if one.environment in done] if done else own
    return [one for one in its if not find_environment_error(worker, one.environment)]


def has_past(row: Item | PanelItem) -> bool:
    """Whether something was said before, which its prompt alone does not tell."""
    return any(isinstance(one, Mapping) and one.get("role") == "assistant" for one in row.messages)


def read_item(row: Item) -> PanelItem:
    """A taskset's item as it is measured on: the same for the gate and for whoever asks."""
    seed = int(row.content_hash[:8], 16) if row.seed is None else row.seed
    told: dict[str, Any] = {name: getattr(row, name) for name in ("messages", "weight", "checks", "category")}
    return PanelItem(prompt=row.prompt, reference=row.reference, seed=seed, **told)


def find_newest(project: Project) -> QuerySet[Taskset]:
    """The newest version of each of a project's tasksets."""
    last = Taskset.objects.filter(project=project).order_by().values("name").annotate(last=Max("pk")).values("last")
    return Taskset.objects.filter(pk__in=last)


def draw_fresh(panel: Panel, *, key: str, policy: GatePolicy) -> ItemSet:
    """Held-out tasks of the panel's world that are not on the panel, drawn anew for each key.

    As many as the policy says and at most as many as are on the panel, but never fewer than a confirmation wants. A
    project's own cannot be drawn anew: those are asked with other seeds.

    Args:
        key: lower-case hex, a candidate's hash: whoever made it could not know the tasks.
    """
    if panel.own:
        shift = int(key[:8], 16) + 1
        return ItemSet(
            f"{panel.name}/{key[:12]}", panel.world, [replace(item, seed=item.seed + shift) for item in panel.own]
        )
    size = max(min(max(policy.fresh_size, policy.confirm_size), panel.size), LEAST_CONFIRMED)
    known = {item.prompt for item in panel.items}
    wide = replace(panel, size=2 * size, seed=int(key[:12], 16))
    drawn = [item for item in wide.items if item.prompt not in known][:size]
    return ItemSet(f"{panel.world.name}/{size}/{key[:12]}", panel.world, drawn)


def is_own(item_set: str) -> bool:
    return item_set.startswith(OWN)


def find_own_prompts(project_id: int, keys: Collection[int]) -> Mapping[int, str]:
    """Key -> what the project's own item says, of those that stand still, in whatever version. One query."""
    found: dict[int, str] = {}
    rows = Item.objects.filter(taskset__project=project_id, split=Item.Split.HELD_OUT).defer("bands")
    for row in rows.order_by("content_hash")[:MOST_READ_AGAIN]:  # the order in which a panel takes them
        item = read_item(row)
        if (key := key_of(item)) in keys:
            found[key] = item.prompt
        if len(found) == len(keys):
            break
    return found


def open_panel(name: str) -> Panel | None:
    """The panel a result was measured on, drawn again by its name; None where that says too little."""
    world_name, _, rest = name.partition("/")
    size, _, draw = rest.partition("/")
    if world_name not in WORLDS or not (size.isdecimal() and draw.isdecimal()):
        return None
    return Panel(name, get_world(world_name), int(size), PANEL_SEED + int(draw))
