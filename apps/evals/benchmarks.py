"""Benchmarks of a project: installed from the catalogue, with rows that come along or that somebody brings."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from django.db import transaction
from django.db.models import ProtectedError, Q

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError, ConflictError
from apps.checks.graders import open_grader
from apps.evals.catalogue import CatalogueEntry, CatalogueItem, find_entry
from apps.evals.holding import NearTexts
from apps.evals.models import PASSED, Benchmark, Evaluation, Item, Taskset
from apps.evals.panels import key_of, read_item
from apps.evals.services import ItemRow, add_items, freeze_taskset, refuse_rows
from apps.inference.pictures import keep_pictures, point_to, read_picture
from tentalis.core.canon import content_hash
from tentalis.core.grading import UngradedError
from tentalis.core.near_duplicates import list_bands

MOST_ROWS: Final = 100_000
"""Rows that somebody brings for a benchmark."""
SPLIT: Final = "split"
"""Column of rows that are for more than measuring."""
SPLITS: Final[Mapping[str, str]] = {
    "held_out": Item.Split.HELD_OUT, "test": Item.Split.HELD_OUT, "validation": Item.Split.HELD_OUT,
    "train": Item.Split.TRAIN,
}  # fmt: skip
OUTCOMES: Final = ("all", "wrong", "right")
IDENTIFIERS: Final = ("id", "key", "task_id", "instance_id", "question_id", "unique_id", "prompt_id", "query_id", "pid")
"""Columns that name a row, where data sets have one."""


def install_benchmark(
    *, project: Project, name: str, by: User, rows: Sequence[Any] | None = None, source: str = "", seed: int = 0
) -> Benchmark:
    """A benchmark of the catalogue in a project: its items as a frozen taskset. The very same is there once; others
    are the next version, which holds them alone.

    Args:
        rows: objects with the columns that it wants; None: it has or makes its own.
        source: where these come from, in words.
        seed: of rows that it makes up.
    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: naming the field; of rows each that is wrong, by line.
        ConflictError: somebody fills a taskset of its name.
    """
    require_right(by, project, Right.EVALS_WRITE)
    entry = find_entry(name)
    items = _list_items(entry, seed=seed) if rows is None else _read_rows(entry, rows)
    source = source if rows is not None else f"{entry.name} {entry.version}, seed {seed}"
    graders = name_graders(entry, [item for of in items.values() for item in of])
    whole = content_hash([entry.name, entry.version, graders, [list(map(vars, of)) for of in items.values()]])
    last = Benchmark.objects.filter(project=project, name=name).order_by("-version").first()
    if last is not None and last.content_hash == whole:
        return last
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    with transaction.atomic():
        added = add_items(
            project=project,
            name=slug,
            environment=entry.environment,
            rows=list(_make_rows(entry, items)),
            by=by,
            about=entry.about,
            is_whole=True,
        )
        taskset = freeze_taskset(taskset=added.taskset, by=by)
        benchmark = Benchmark.objects.create(
            project=project,
            name=name,
            version=last.version + 1 if last else 1,
            entry=entry.name,
            entry_version=entry.version,
            taskset=taskset,
            split=Item.Split.HELD_OUT,
            grader=graders,
            template=entry.template,
            tries=entry.tries,
            licence=entry.licence,
            needs=sorted(entry.needs),
            source=source[:200],
            content_hash=whole,
        )
        payload = {"benchmark": str(benchmark), "items": added.added}
        record(Kind.BENCHMARK_INSTALLED, subject=benchmark, by=by.handle, payload=payload)
    return benchmark


def name_graders(entry: CatalogueEntry, items: Sequence[CatalogueItem]) -> str:
    """Who grades its answers, with the versions; "" where the world verifies. Raises BadInputError: there is none."""
    names = sorted({name for item in items if (name := item.grader or entry.grader)})
    try:
        return ", ".join(f"{name}@{open_grader(name).version}" for name in names)[:120]
    except UngradedError as error:
        raise BadInputError.at("grader", str(error)) from None


def _list_items(entry: CatalogueEntry, *, seed: int) -> dict[str, list[CatalogueItem]]:
    """Its own, by split. What is drawn to train on and says nearly what is held out is left out."""
    items = {split: entry.list_items(split, seed=seed) for split in entry.sizes}
    if not (drawn := items.get(Item.Split.TRAIN)):
        return items
    held_out = NearTexts((entry.name, one.prompt, list_bands(one.prompt)) for one in items.get(Item.Split.HELD_OUT, []))
    fit = [one for one in drawn if held_out.find(entry.name, one.prompt, list_bands(one.prompt)) is None]
    return items | {Item.Split.TRAIN: fit}


def _read_rows(entry: CatalogueEntry, rows: Sequence[Any]) -> dict[str, list[CatalogueItem]]:
    if not 1 <= len(rows) <= MOST_ROWS:
        raise BadInputError.at("rows", f"wanted 1 to {MOST_ROWS:,} rows, found {len(rows):,}")
    items, faults = entry.read_rows(rows)
    faults |= _find_repeated(rows)
    splits = []
    for line, row in enumerate(rows, start=1):
        told = str(row.get(SPLIT) or Item.Split.HELD_OUT) if isinstance(row, Mapping) else ""
        if told not in SPLITS:
            faults.setdefault(line, f"{SPLIT}: wanted one of {', '.join(SPLITS)}, found {told!r:.40}")
        splits.append(SPLITS.get(told, ""))
    if faults:
        raise refuse_rows(dict(sorted(faults.items())))
    items = _keep_pictures(rows, items)
    found: dict[str, list[CatalogueItem]] = {}
    for split, item in zip(splits, items, strict=True):
        found.setdefault(split, []).append(item)
    if Item.Split.HELD_OUT not in found:
        raise BadInputError.at("rows", "wanted rows to measure on, found rows to train on alone")
    return found


def _find_repeated(rows: Sequence[Any]) -> dict[int, str]:
    """Line -> the identifier that a line above has too."""
    faults: dict[int, str] = {}
    for name in IDENTIFIERS:
        seen: dict[str, int] = {}
        for line, row in enumerate(rows, start=1):
            found = row.get(name) if isinstance(row, Mapping) else None
            if isinstance(found, str | int) and str(found):
                first = seen.setdefault(f"{row.get(SPLIT)}/{found}", line)
                if first != line:
                    faults.setdefault(
                        line, f"{name}: wanted another in each row, found {found!r:.60} in line {first} too"
                    )
    return faults


def _keep_pictures(rows: Sequence[Any], items: list[CatalogueItem]) -> list[CatalogueItem]:
    """The items with messages that show their pictures, which are kept in one file."""
    found: list[bytes] = []
    shown: dict[int, list[int]] = {}
    faults: dict[int, str] = {}
    for place, (row, item) in enumerate(zip(rows, items, strict=True)):
        try:
            for column in item.pictures:
                held = row[column] if isinstance(row[column], list | tuple) else [row[column]]
                for one in held:
                    shown.setdefault(place, []).append(len(found))
                    found.append(read_picture(one))
        except ValueError as error:
            faults[place + 1] = f"{column}: {error}"
    if faults:
        raise refuse_rows(faults)
    if not found:
        return items
    name, told = keep_pictures(found), list(items)
    for place, numbers in shown.items():
        parts = [*(point_to(name, number) for number in numbers), {"type": "text", "text": items[place].prompt}]
        messages = [*items[place].messages[:-1], {"role": "user", "content": parts}]
        told[place] = replace(items[place], messages=messages)
    return told


def _make_rows(entry: CatalogueEntry, items: dict[str, list[CatalogueItem]]) -> Sequence[ItemRow]:
    rows: list[ItemRow] = []
    for split, of_split in items.items():
        for place, item in enumerate(of_split):
            rows.append(
                ItemRow(
                    line=len(rows) + 1,
                    prompt=item.prompt,
                    split=split,
                    reference=item.world_reference,
                    checks=entry.check(item),
                    messages=item.messages,
                    seed=item.seed,
                    source=f"{entry.name}, {split} {place + 1}",
                    category=item.category,
                    answer=_tell_answer(item) if split == Item.Split.TRAIN else "",
                )
            )
    return rows


def _tell_answer(item: CatalogueItem) -> str:
    return item.oracle if item.oracle and item.oracle.strip() and not item.messages else ""


def remove_taskset(*, taskset: Taskset, by: User) -> None:
    """Delete a version of a taskset with its items, and the benchmarks that ask them.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        ConflictError: something was measured on it, which it is kept for.
    """
    require_right(by, taskset.project, Right.EVALS_WRITE)
    with transaction.atomic():
        found = _lock_unmeasured(taskset)
        payload = {"name": found.name, "version": found.version, "removed": found.items.count()}
        record(Kind.TASKSET_CHANGED, subject=found, by=by.handle, payload=payload)
        try:
            found.benchmarks.all().delete()
            found.delete()
        except ProtectedError as error:
            kinds = sorted({str(one._meta.verbose_name_plural) for one in error.protected_objects})
            raise ConflictError(f"{found} is kept for {', '.join(kinds)}") from None


def remove_item(*, item: Item, by: User) -> None:
    """Delete an item of a version that still changes.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        ConflictError: the version is frozen, or something was measured on it.
    """
    require_right(by, item.taskset.project, Right.EVALS_WRITE)
    with transaction.atomic():
        found = _lock_unmeasured(item.taskset)
        if words := say_items_stay(found):
            raise ConflictError(words)
        item.delete()
        payload = {"name": found.name, "version": found.version, "removed": 1}
        record(Kind.TASKSET_CHANGED, subject=found, by=by.handle, payload=payload)


def _lock_unmeasured(taskset: Taskset) -> Taskset:
    """Its row, locked in the running transaction. Raises ConflictError: it is kept for what was measured on it."""
    found = Taskset.objects.select_for_update().get(pk=taskset.pk)
    if words := _say_measured(found):
        raise ConflictError(words)
    return found


def say_items_stay(taskset: Taskset) -> str:
    """Why no item of a version can be deleted; "" where one can."""
    if words := _say_measured(taskset):
        return words
    return f"{taskset} is frozen: wanted a version that still changes" if taskset.frozen_at is not None else ""


def _say_measured(taskset: Taskset) -> str:
    count = Evaluation.objects.filter(Q(taskset=taskset) | Q(benchmark__taskset=taskset)).count()
    return f"{taskset} is kept for what was measured on it: {count} evaluations" if count else ""


def list_tried_rows(evaluation: Evaluation, *, outcome: str) -> list[ItemRow]:
    """The items of an evaluation as rows to be measured on again.

    Args:
        outcome: `all`, or those that some try of it got `wrong`, or none did, which is `right`.
    Raises:
        BadInputError: its items are of no taskset, or none is so.
    """
    if outcome not in OUTCOMES:
        raise BadInputError.at("outcome", f"wanted one of {', '.join(OUTCOMES)}, found {outcome!r:.40}")
    if evaluation.taskset is None:
        raise BadInputError.at("evaluation", "wanted one on a taskset's items, found one on a world's own")
    items = {key_of(read_item(row)): row for row in evaluation.taskset.items.filter(split=evaluation.split)}
    tried = evaluation.item_tries.filter(outcome__isnull=False)
    wrong = set(tried.filter(outcome__lt=PASSED).values_list("key", flat=True))
    keys = set(tried.values_list("key", flat=True))
    wanted = {"all": keys, "wrong": wrong, "right": keys - wrong}[outcome]
    rows = [row for key, row in items.items() if key in wanted]
    if not rows:
        raise BadInputError.at("outcome", f"wanted items that are so, found none of {len(keys)}")
    return [
        ItemRow(
            line=place,
            prompt=row.prompt,
            split=row.split,
            reference=row.reference,
            checks=row.checks,
            messages=row.messages,
            seed=row.seed,
            weight=row.weight,
            source=row.source or f"evaluation {evaluation.pk}",  # who is forgotten is found by it
            category=row.category,
        )
        for place, row in enumerate(rows, start=1)
    ]
