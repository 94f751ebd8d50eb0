"""`python -m tests.bench.learning --table recipes|opd|lag|base|batch`: what teaches the desk how much.

The loop is the product's engine and trainer in one process (`tests.bench.desk_loop`). Every arm of a seed sees the same
tickets. Rows are kept in `.cache/bench/learning/rows.jsonl` by their settings and found again, so that an interrupted
run goes on where it stopped; `--anew` measures them again.
"""

import argparse
import hashlib
import json
import statistics
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from gpu_workers.desk.build import build_base
from gpu_workers.desk.warm_start import WarmStartRecipe
from tentalis.core.canon import canonical_json
from tests.bench.desk_loop import (
    GROUP,
    PANEL_TICKETS,
    TASKS,
    learn,
    list_panels,
    measure_base,
    measure_panel,
    record_rollouts,
    remember,
)
from tests.bench.learning_tables import SPARSE_HABITS, TABLES, Arm, check_bars, find_interval, find_pooled_interval

__all__ = ["GROUP", "TASKS", "learn", "measure_base", "measure_panel", "print_table", "record_rollouts"]

CACHE = Path(".cache/bench/learning")
Work = tuple[Arm, int]
Row = Mapping[str, Any]


def locate_base(base: str) -> str:
    """The engine's name for an arm's base; the sparse one is made once (minutes)."""
    if base == "desk":
        return base
    directory = (CACHE / "sparse-base").resolve()
    if not directory.exists():
        print("building the sparse base", file=sys.stderr, flush=True)
        build_base(directory, WarmStartRecipe(habits=SPARSE_HABITS))
    return str(directory)


def measure(work: Work) -> dict[str, Any]:
    """One arm with one seed."""
    arm, seed = work
    model = locate_base(arm.base)
    if arm.kind == "remember":
        return remember(seed=seed, marks=arm.updates, model=model, tasks=arm.tasks)
    with tempfile.TemporaryDirectory() as directory:
        return learn(
            arm.build_recipe(),
            seed=seed,
            marks=arm.updates,
            model=model,
            directory=Path(directory),
            tasks=arm.tasks,
            group=arm.group,
            lag=arm.lag,
            corrects=arm.corrects,
        )


class RowStore:
    """Measured rows by what decides them; appended to one file, so that nothing is measured twice."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: dict[str, Row] = {}
        if path.exists():
            for line in path.read_text("utf-8").splitlines():
                entry = json.loads(line)
                self._rows[entry["key"]] = entry["found"]

    def find(self, arm: Arm, seed: int) -> Row | None:
        return self._rows.get(_key(arm, seed))

    def keep(self, arm: Arm, seed: int, found: Row) -> None:
        key = _key(arm, seed)
        entry = {"key": key, "arm": arm.name, "settings": arm.settings(seed), "found": found}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        self._rows[key] = found


def _key(arm: Arm, seed: int) -> str:
    return hashlib.sha256(canonical_json(arm.settings(seed))).hexdigest()


def measure_table(
    arms: Sequence[Arm], seeds: Sequence[int], store: RowStore, *, processes: int, anew: bool
) -> dict[str, list[Row]]:
    """Every arm's rows, a seed each; measured where they are not known."""
    todo = [(arm, seed) for seed in seeds for arm in arms if anew or store.find(arm, seed) is None]
    for base in {arm.base for arm, _ in todo}:
        locate_base(base)
    if processes == 1:
        results: Iterable[dict[str, Any]] = map(measure, todo)
        _keep_all(todo, results, store)
    elif todo:
        with ProcessPoolExecutor(processes) as pool:
            _keep_all(todo, pool.map(measure, todo), store)
    rows: dict[str, list[Row]] = {}
    for arm in arms:
        rows[arm.name] = [row for seed in seeds if (row := store.find(arm, seed)) is not None]
    return rows


def _keep_all(todo: Sequence[Work], results: Iterable[dict[str, Any]], store: RowStore) -> None:
    for (arm, seed), found in zip(todo, results, strict=True):
        store.keep(arm, seed, found)
        print(f"  {arm.name}, seed {seed}: {found[f'sampled_{arm.updates[-1]}']:.3f}", file=sys.stderr, flush=True)


def print_table(rows: Iterable[Mapping[str, Any]], marks: Sequence[int]) -> None:
    """Means of named rows at each mark, for benches with a loop of their own."""
    columns = [f"{kind}_{mark}" for mark in marks for kind in ("sampled", "greedy")]
    print(f"{'variant':28}" + "".join(f"{column:>12}" for column in columns) + "   seeds at the last mark")
    for row in rows:
        cells = "".join(f"{row[column]:12.3f}" for column in columns)
        print(f"{row['variant']:28}{cells}   {row['seeds']}")


def print_arms(arms: Sequence[Arm], found: Mapping[str, Sequence[Row]]) -> list[dict[str, Any]]:
    """One line an arm: accuracy at each of its marks with its interval; what was printed, as rows."""
    marks = sorted({mark for arm in arms for mark in arm.updates})
    print(f"{'arm':44}" + "".join(f"{f'sampled @{mark}':>16}{f'greedy @{mark}':>12}" for mark in marks) + "  max ratio")
    rows: list[dict[str, Any]] = []
    for arm in arms:
        cells = ""
        row: dict[str, Any] = {"arm": arm.name, "seeds": len(found[arm.name])}
        for mark in marks:
            if mark not in arm.updates:
                cells += " " * 28
                continue
            sampled = [one[f"sampled_{mark}"] for one in found[arm.name]]
            greedy = statistics.fmean(one[f"greedy_{mark}"] for one in found[arm.name])
            cells += f"{find_interval(sampled)!s:>16}{greedy:12.3f}"
            row |= {f"sampled_{mark}": [round(value, 4) for value in sampled], f"greedy_{mark}": round(greedy, 4)}
        ratios = [one["max_ratio"] for one in found[arm.name] if "max_ratio" in one]
        print(f"{arm.name:44}{cells}" + (f"{statistics.median(ratios):11.3g}" if ratios else f"{'-':>11}"))
        rows.append(row)
    return rows


def print_rules(arms: Sequence[Arm], found: Mapping[str, Sequence[Row]]) -> list[dict[str, Any]]:
    """At each arm's last mark: both panels with the interval over seeds and tickets, and a row a house rule."""
    rules: dict[str, list[int]] = {}
    for place, ticket in enumerate(list_panels()):
        rules.setdefault(f"{ticket.family}, {ticket.context}", []).append(place)
    print(f"\n{'both panels, at the last mark':44}{'first':>8}{'second':>8}{'together, over seeds and tickets':>36}")
    shares: dict[str, dict[str, list[float]]] = {}
    rows: list[dict[str, Any]] = []
    for arm in arms:
        of_arm, mark = found[arm.name], arm.updates[-1]
        outcomes = [row[f"outcomes_{mark}"] for row in of_arm]
        pooled = find_pooled_interval(outcomes)
        first, second = (statistics.fmean(row[f"{name}_{mark}"] for row in of_arm) for name in ("sampled", "second"))
        print(f"{arm.name:44}{first:8.3f}{second:8.3f}{pooled!s:>36}")
        shares[arm.name] = {
            name: [round(statistics.fmean(one[place] for place in places), 3) for one in outcomes]
            for name, places in rules.items()
        }
        rows.append({"arm": arm.name, "pooled": [pooled.mean, pooled.half], "rules": shares[arm.name]})
    print(f"\n{'right by rule, mean of seeds (worst seed)':48}" + "".join(f"{arm.name[:20]:>22}" for arm in arms))
    for name in sorted(rules):
        seeds = [shares[arm.name][name] for arm in arms]
        print(f"{name:48}" + "".join(f"{f'{statistics.fmean(one):.2f} ({min(one):.2f})':>22}" for one in seeds))
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", nargs="+", default=["recipes", "opd", "lag"], choices=[*TABLES])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--arms", nargs="+", help="only arms whose name holds one of these")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--anew", action="store_true", help="measure rows again that are known")
    options = parser.parse_args(argv)
    store = RowStore(CACHE / "rows.jsonl")
    tables: dict[str, Any] = {}
    for name in options.table:
        table = TABLES[name]
        arms = [arm for arm in table.arms if not options.arms or any(part in arm.name for part in options.arms)]
        found = measure_table(arms, options.seeds, store, processes=options.processes, anew=options.anew)
        print(f"\n{table.title} (mean of {len(options.seeds)} seeds, 95 % interval, {PANEL_TICKETS} held-out tickets)")
        for base in sorted({arm.base for arm in arms}):
            sampled, greedy = measure_base(locate_base(base))
            print(f"{f'base {base!r}, untrained':44}{sampled:11.3f} sampled {greedy:.3f} greedy")
        rows = print_arms(arms, found)
        print(table.note)
        bars = check_bars(name, found)
        for words, holds in bars:
            print(f"{'holds' if holds else 'MISSED'}: {words}")
        tables[name] = {
            "rows": rows,
            "rules": print_rules(arms, found),
            "bars": [{"words": words, "holds": holds} for words, holds in bars],
        }
    print(json.dumps({"bench": "learning", "tables": tables}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
