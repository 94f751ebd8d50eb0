"""Tasksets: filled with all of what is given or none of it, split, frozen."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models.functions import Now

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError, ConflictError
from apps.checks.language import Find
from apps.checks.services import find_named, settle_checks
from apps.evals.holding import NearTexts, is_kept_by_world
from apps.evals.models import Item, Taskset
from apps.evals.panels import find_newest
from apps.worlds.registry import get_world
from tentalis.core.conversations.turns import find_last_said
from tentalis.core.field_limits import MAX_ABOUT_CHARS, NAME_OF_VERSIONS
from tentalis.core.near_duplicates import hash_words, list_bands, list_texts
from tentalis.core.task_files import TaskFileError
from tentalis.core.worlds import World

MAX_WEIGHT = 100.0
MAX_ITEM_SEED = 2**63 - 1
MOST_MESSAGES = 200
TRAIN, HELD_OUT = Item.Split.TRAIN.value, Item.Split.HELD_OUT.value


class ItemRow(NamedTuple):
    """An item as somebody gives it.

    Args:
        line: what a fault of it is told at.
        facts: what its checks take their values from.
    """

    line: int
    prompt: str
    split: str
    reference: Any = None
    checks: Any = None
    messages: Sequence[Mapping[str, Any]] = ()
    seed: int | None = None
    weight: Any = 1.0
    source: str = ""
    category: str = ""
    answer: str = ""
    facts: Mapping[str, Any] = MappingProxyType({})


class Added(NamedTuple):
    """What became of rows: how many are new in the taskset, and how many said what an item there says already."""

    taskset: Taskset
    added: int
    repeated: int


def add_items(
    *,
    project: Project,
    name: str,
    environment: str,
    rows: Sequence[ItemRow],
    by: User,
    about: str = "",
    learnt: Mapping[int, str] | None = None,
    is_whole: bool = False,
    origin: str = Taskset.Origin.MADE,
) -> Added:
    """Add items to a taskset, made where there is none of that name; of a frozen one to its next version.

    Args:
        learnt: line -> what learnt from words like the row's; such a row cannot be measured on.
        is_whole: these are all that the version holds; of the frozen one nothing is taken over.
    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: each row that is not what is wanted, by line, at `text`.
        ConflictError: they are to be all, and the version that takes items holds some.
    """
    require_right(by, project, Right.EVALS_WRITE)
    _check_set(name, about)
    world = get_world(environment)
    faults, items, named = {}, [], find_named(project)
    for row in rows:
        try:
            items.append(_read_row(row, world, project, named))
        except (BadInputError, ValueError) as error:
            faults[row.line] = str(error)
    if faults or not rows:
        raise refuse_rows(faults or {0: "wanted items, found none"})
    with transaction.atomic():
        Project.objects.select_for_update(no_key=True).get(pk=project.pk)
        last = _find_last(project, name)
        if last is not None and last.environment != environment:
            message = f"{name} holds items of {last.environment}: wanted the same, found {environment!r}"
            raise BadInputError.at("environment", message)
        if is_whole and last is not None and last.frozen_at is None and last.items.exists():
            raise ConflictError(f"{last} is open and holds items: wanted it frozen or removed before others replace it")
        faults = _find_wrong_sides(project, environment, rows, items) | {
            row.line: words for row in rows if row.split != TRAIN and (words := (learnt or {}).get(row.line))
        }
        if faults:
            raise refuse_rows(faults)
        taskset = _open(project, name, environment, origin=origin, about=about, takes_over=not is_whole)
        there = set(taskset.items.values_list("content_hash", flat=True))
        new: dict[str, Item] = {}
        for item in items:
            if item.content_hash not in there:
                new.setdefault(item.content_hash, item)
        _save(taskset, list(new.values()))
        if new:
            payload = {"name": name, "version": taskset.version, "added": len(new)}
            record(Kind.TASKSET_CHANGED, subject=taskset, by=by.handle, payload=payload)
    return Added(taskset, len(new), len(items) - len(new))


def make_taskset(*, project: Project, name: str, environment: str, by: User, about: str = "") -> Taskset:
    """An empty taskset.

    Raises:
        ConflictError: there is one of that name.
    """
    require_right(by, project, Right.EVALS_WRITE)
    _check_set(name, about)
    get_world(environment)
    with transaction.atomic():
        Project.objects.select_for_update(no_key=True).get(pk=project.pk)
        if Taskset.objects.filter(project=project, name=name).exists():
            raise ConflictError(f"{project.slug} has a taskset {name} already: wanted another name")
        taskset = _open(project, name, environment, origin=Taskset.Origin.MADE, about=about)
        record(Kind.TASKSET_CHANGED, subject=taskset, by=by.handle, payload={"name": name, "version": 1, "added": 0})
    return taskset


def draw_rows(environment: str, *, count: int, seed: int, split: str) -> list[ItemRow]:
    """Tasks that an environment makes up, the same for the same seed: what it holds out, but those to train on.

    Raises:
        BadInputError: it makes none up.
    """
    world = get_world(environment)
    if split == TRAIN:
        drawn = Random(seed)
        prompts = [prompt for _ in range(count) if (prompt := world.draw_prompt(drawn)) is not None]
        rows = [ItemRow(n, prompt, split) for n, prompt in enumerate(prompts, start=1)]
    else:
        made = world.panel(count, seed) if split == HELD_OUT else world.skills(count, seed)
        rows = [ItemRow(n, one.prompt, split, one.reference, seed=one.seed) for n, one in enumerate(made, start=1)]
    if not rows:
        raise BadInputError.at("environment", f"wanted one that makes up {split} tasks, found {environment!r}")
    return [row._replace(source=f"{environment}, seed {seed}, {row.line}") for row in rows]


def freeze_taskset(*, taskset: Taskset, by: User) -> Taskset:
    """Let a version never change again.

    Raises:
        ConflictError: it is empty, or frozen already.
    """
    require_right(by, taskset.project, Right.EVALS_WRITE)
    with transaction.atomic():
        _lock_open(taskset)
        if not taskset.items.exists():
            raise ConflictError(f"{taskset} is empty: wanted an item at least to freeze")
        Taskset.objects.filter(pk=taskset.pk).update(frozen_at=Now())
        record(Kind.TASKSET_FROZEN, subject=taskset, by=by.handle, payload={"version": taskset.version})
    taskset.refresh_from_db()
    return taskset


def split_taskset(
    *, taskset: Taskset, shares: Mapping[str, int], seed: int, by: User, learnt: Iterable[int] = ()
) -> dict[str, int]:
    """Put each item of an open version on a side, by a hash of its words and the seed.

    Items that say nearly the same go where the first of them goes; one whose words were learnt from stays with what
    may be trained on, and takes those with it.

    Args:
        shares: split -> percent, together 100.
        learnt: ids of items whose words something learnt from.
    Returns:
        How many each split has now.
    Raises:
        ConflictError: the version is frozen, or empty.
    """
    require_right(by, taskset.project, Right.EVALS_WRITE)
    is_whole = all(type(share) is int and share >= 0 for share in shares.values())
    if not is_whole or sum(shares.values()) != 100:
        raise BadInputError.at("shares", f"wanted whole percents that make 100, found {dict(shares)!r:.200}")
    for name in shares:
        read_split(name)
    with transaction.atomic():
        _lock_open(taskset)
        items, taught = list(taskset.items.order_by("content_hash")), set(learnt)
        if not items:
            raise ConflictError(f"{taskset} is empty: wanted an item at least to split")
        near, sides = NearTexts(), dict[str, str]()
        for item in sorted(items, key=lambda one: one.pk not in taught):
            told = (taskset.environment, item.prompt, item.bands)
            first = near.find(*told)
            side = TRAIN if item.pk in taught else sides[first] if first is not None else None
            item.split = sides[item.prompt] = side or _draw_side(item.content_hash, shares, seed)
            near.add(*told)
        Item.objects.bulk_update(items, ["split"])
        _note_held_out(taskset.project, items)
        counts = {split: sum(one.split == split for one in items) for split in Item.Split.values}
        payload = {"name": taskset.name, "version": taskset.version, **counts}
        record(Kind.TASKSET_CHANGED, subject=taskset, by=by.handle, payload=payload)
    return counts


def keep_own_work(project: Project, environment: str, items: Sequence[Item]) -> None:
    """Put items of a project's own work aside, in the running transaction; words that are there already stay as they
    are."""
    taskset = _open(project, f"own-work-{environment}", environment, origin=Taskset.Origin.OWN_WORK)
    for item in items:
        item.split = HELD_OUT
    _save(taskset, items, is_repeated=True)


def read_split(name: object) -> str:
    """The split of that name. Raises BadInputError."""
    if name not in Item.Split.values:
        raise BadInputError.at("split", f"wanted one of {', '.join(Item.Split.values)}, found {name!r:.80}")
    return str(name)


def refuse_rows(faults: Mapping[int, str]) -> BadInputError:
    """What is wrong with rows, by line."""
    error = TaskFileError(faults)
    return BadInputError(str(error), errors={"text": error.lines})


def _check_set(name: str, about: str) -> None:
    if not NAME_OF_VERSIONS.fullmatch(name):
        raise BadInputError.at("name", f"wanted lower-case letters, digits and inner hyphens, found {name[:80]!r}")
    if len(about) > MAX_ABOUT_CHARS:
        raise BadInputError.at("about", f"wanted at most {MAX_ABOUT_CHARS} characters, found {len(about)}")


def _read_row(row: ItemRow, world: World, project: Project, named: Find) -> Item:
    """Raises ValueError saying what was wanted and found."""
    read_split(row.split)
    messages = _read_messages(row.messages)
    world.check_prompt(row.prompt)
    world.check_reference(row.reference)
    if isinstance(row.weight, bool) or not isinstance(row.weight, int | float) or not 0 < row.weight <= MAX_WEIGHT:
        raise ValueError(f"weight: wanted a number above 0, at most {MAX_WEIGHT:g}, found {row.weight!r}")
    if row.seed is not None and not (type(row.seed) is int and 0 <= row.seed <= MAX_ITEM_SEED):
        raise ValueError(f"seed: wanted a whole number from 0 to {MAX_ITEM_SEED}, found {row.seed!r:.80}")
    if row.split == TRAIN and is_kept_by_world(world.name, row.prompt):
        raise ValueError(f"the environment {world.name} holds it out: wanted a task to train on")
    return Item(
        split=row.split,
        prompt=row.prompt,
        messages=messages,
        reference=row.reference,
        checks=None if row.checks is None else settle_checks(project, row.checks, find=named, facts=row.facts),
        seed=row.seed,
        weight=float(row.weight),
        source=row.source[:200],
        category=row.category[:64],
        answer=row.answer,
        content_hash=hash_item(row.prompt, messages),
        bands=list_bands(row.prompt),
    )


def hash_item(prompt: str, messages: Sequence[Any]) -> str:
    """Of an item's words: of the whole conversation, where it is one."""
    return hash_words("\n".join(list_texts(messages)) if messages else prompt)


def _read_messages(messages: Any) -> list[dict[str, Any]]:
    wanted = "messages: wanted a list of objects with role and content, the last of a person"
    if not isinstance(messages, list | tuple) or len(messages) > MOST_MESSAGES:
        raise ValueError(f"{wanted}, at most {MOST_MESSAGES}; found {messages!r:.80}")
    if messages and (
        not all(isinstance(one, Mapping) and {"role", "content"} <= one.keys() for one in messages)
        or find_last_said(messages) != len(messages) - 1
    ):
        raise ValueError(f"{wanted}; found {messages!r:.80}")
    return [dict(one) for one in messages]


def _find_wrong_sides(
    project: Project, environment: str, rows: Sequence[ItemRow], items: Sequence[Item]
) -> dict[int, str]:
    """Line -> what says nearly the same on the other side, in a taskset of the project or further up."""
    bands = sorted({band for item in items for band in item.bands})
    others = Item.objects.filter(taskset__in=find_newest(project), taskset__environment=environment)
    if others.count() > len(items):  # else to read them all is less than to ask for those that may say the same
        others = others.filter(bands__overlap=bands)
    others = others.select_related("taskset").order_by("pk")
    sides = {True: NearTexts(), False: NearTexts()}
    where: dict[tuple[bool, str], str] = {}
    for one in others:
        is_train = one.split == TRAIN
        sides[is_train].add(environment, one.prompt, one.bands)
        where.setdefault((is_train, one.prompt), f"item {one.pk} of {one.taskset} ({one.get_split_display()})")
    faults = {}
    for row, item in zip(rows, items, strict=True):
        is_train = item.split == TRAIN
        if (found := sides[not is_train].find(environment, item.prompt, item.bands)) is not None:
            faults[row.line] = f"{where[not is_train, found]} says nearly the same: wanted it on one side of a split"
            continue
        sides[is_train].add(environment, item.prompt, item.bands)
        where.setdefault((is_train, item.prompt), f"line {row.line} ({item.get_split_display()})")
    return faults


def _draw_side(words: str, shares: Mapping[str, int], seed: int) -> str:
    digest = hashlib.sha256(f"{seed}:{words}".encode()).digest()
    place, reached = int.from_bytes(digest[:8], "big") % 100, 0
    for split, share in shares.items():
        reached += share
        if place < reached:
            return split
    raise AssertionError(f"shares make 100, found {shares}")


def _lock_open(taskset: Taskset) -> None:
    found = Taskset.objects.select_for_update(no_key=True).get(pk=taskset.pk)
    if found.frozen_at is not None:
        raise ConflictError(f"{taskset} is frozen: wanted a version that still changes; adding an item makes the next")


def _find_last(project: Project, name: str) -> Taskset | None:
    return Taskset.objects.filter(project=project, name=name).order_by("-version").first()


def _open(
    project: Project, name: str, environment: str, *, origin: str, about: str = "", takes_over: bool = True
) -> Taskset:
    """The version of a taskset that takes items: the next where the last is frozen, with all that is in that where
    it takes it over."""
    with transaction.atomic():
        last = _find_last(project, name)
        if last is not None and last.frozen_at is None:
            last.project = project
            return last
        made, is_new = Taskset.objects.get_or_create(
            project=project,
            name=name,
            version=last.version + 1 if last else 1,
            defaults={
                "environment": last.environment if last else environment,
                "origin": last.origin if last else origin,
                "about": about or (last.about if last else ""),
            },
        )
        if is_new and last is not None and takes_over:
            _copy(last.items.all(), made)
    return made


def _copy(items: Iterable[Item], taskset: Taskset) -> None:
    copies = []
    for item in items:
        item.pk, item._state.adding, item.taskset = None, True, taskset
        copies.append(item)
    Item.objects.bulk_create(copies)


def _save(taskset: Taskset, items: Sequence[Item], *, is_repeated: bool = False) -> None:
    """Write items, in the running transaction."""
    for item in items:
        item.taskset = taskset
    Item.objects.bulk_create(items, ignore_conflicts=is_repeated)
    _note_held_out(taskset.project, items)


def _note_held_out(project: Project, items: Iterable[Item]) -> None:
    """Have the doors look from now on, where something is only measured on."""
    if not project.has_held_out and any(item.split in Item.MEASURED for item in items):
        Project.objects.filter(pk=project.pk, has_held_out=False).update(has_held_out=True)
        project.has_held_out = True
