"""Benchmarks of a project: installed from the catalogue, with rows that come along or that somebody brings."""

import re
from collections.abc import Sequence
from typing import Any, Final

from django.db import transaction

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError
from apps.checks.graders import open_grader
from apps.evals.catalogue import CatalogueEntry, CatalogueItem, find_entry
from apps.evals.models import Benchmark, Item
from apps.evals.services import ItemRow, add_items, freeze_taskset, refuse_rows
from tentalis.core.canon import content_hash

MOST_ROWS: Final = 100_000
"""Rows that somebody brings for a benchmark."""


def install_benchmark(
    *, project: Project, name: str, by: User, rows: Sequence[Any] | None = None, source: str = "", seed: int = 0
) -> Benchmark:
    """A benchmark of the catalogue in a project: its items as a frozen taskset. The very same is there once.

    Args:
        rows: objects with the columns that it wants; None: it has or makes its own.
        source: where these come from, in words.
        seed: of rows that it makes up.
    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: naming the field; of rows each that is wrong, by line.
    """
    require_right(by, project, Right.EVALS_WRITE)
    entry = find_entry(name)
    items = _list_items(entry, seed=seed) if rows is None else _read_rows(entry, rows)
    source = source if rows is not None else f"{entry.name} {entry.version}, seed {seed}"
    whole = content_hash(
        [entry.name, entry.version, name_grader(entry), [list(map(vars, of)) for of in items.values()]]
    )
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
        )
        taskset = added.taskset
        if taskset.frozen_at is None:
            taskset = freeze_taskset(taskset=taskset, by=by)
        benchmark = Benchmark.objects.create(
            project=project,
            name=name,
            version=last.version + 1 if last else 1,
            entry=entry.name,
            entry_version=entry.version,
            taskset=taskset,
            split=Item.Split.HELD_OUT,
            grader=name_grader(entry),
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


def name_grader(entry: CatalogueEntry) -> str:
    """Who grades its answers, with the version; "" where the world verifies."""
    return f"{entry.grader}@{open_grader(entry.grader).version}" if entry.grader else ""


def _list_items(entry: CatalogueEntry, *, seed: int) -> dict[str, list[CatalogueItem]]:
    return {split: entry.list_items(split, seed=seed) for split in entry.sizes}


def _read_rows(entry: CatalogueEntry, rows: Sequence[Any]) -> dict[str, list[CatalogueItem]]:
    if not 1 <= len(rows) <= MOST_ROWS:
        raise BadInputError.at("rows", f"wanted 1 to {MOST_ROWS:,} rows, found {len(rows):,}")
    items, faults = entry.read_rows(rows)
    if faults:
        raise refuse_rows(faults)
    return {Item.Split.HELD_OUT: items}


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
                )
            )
    return rows


def find_benchmark(project: Project, name: str) -> Benchmark | None:
    """The one of that name, `name@version` or the newest; None for none."""
    slug, _, version = name.partition("@")
    rows = Benchmark.objects.filter(project=project, name=slug).select_related("taskset").order_by("-version")
    if version:
        rows = rows.filter(version=int(version) if version.isdecimal() and len(version) <= 9 else 0)
    return rows.first()
