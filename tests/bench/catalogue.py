"""Every benchmark of the catalogue probed: right answers, none, garbage, another item's, a refusal, and no judge.

`make bench BENCH=catalogue` (ARGS="--items 20 --only rg/"). A benchmark whose rows come from files is probed on rows
made up in their shape; a world by its own examination; programs run in a sandbox.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from tests.bench import catalogue_register as register

FILE_ENTRIES, OFFLINE_ENTRIES = 57, 150
REGISTER_S, REGISTER_MIB = 5.0, 300.0
TASKS: Final = 4
"""Of a world, that its examination tries."""
PROGRAMS: Final = 4
"""Items of benchmarks whose answers are programs: each takes a run."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=20, help="of each benchmark")
    parser.add_argument("--only", default="", help="benchmarks whose name begins so")
    options = parser.parse_args(argv)
    open_django()
    from apps.evals.catalogue import list_entries

    started, rows, faults = time.process_time(), [], {}
    entries = [entry for entry in list_entries() if entry.name.startswith(options.only)]
    with sandboxes():
        for entry in entries:
            row, found = probe_entry(entry, options.items)
            rows.append(row)
            if found:
                faults[entry.name] = found
    print_table(rows)
    for name, found in faults.items():
        print(f"{name}: {'; '.join(found)}")
    offline = sum(entry.is_offline for entry in entries)
    bars: dict[str, dict[str, Any]] = {
        "benchmarks that are as every one has to be": {
            "found": len(rows) - len(faults), "wanted": len(rows), "met": not faults,
        },
    }  # fmt: skip
    if not options.only:
        bars |= {
            "run without a network": _at_least(offline, OFFLINE_ENTRIES),
            "run from a file": _at_least(len(entries) - offline, FILE_ENTRIES),
        }
        done = subprocess.run([sys.executable, "-m", register.__name__], stdout=subprocess.PIPE, text=True, check=True)
        told = json.loads(done.stdout.splitlines()[-1])
        print(f"{told['items']:,} rows of a file become a benchmark: {told}")
        bars |= {
            "seconds to register 10,000 rows": _at_most(told["seconds"], REGISTER_S),
            "MiB that takes": _at_most(told["grown_mib"], REGISTER_MIB),
        }
    for name, bar in bars.items():
        print(f"{'met   ' if bar['met'] else 'MISSED'} {name}: {bar['found']} (wanted {bar['wanted']})")
    print(
        f"\n{sum(row['items'] for row in rows):,} items, {time.process_time() - started:.0f} s of this process's work."
    )
    print(json.dumps({"bench": "catalogue", "rows": rows, "ratios": {}, "bars": bars}))
    return 0 if all(bar["met"] for bar in bars.values()) else 1


def _at_least(found: int, wanted: int) -> dict[str, Any]:
    return {"found": found, "wanted": f">= {wanted}", "met": found >= wanted}


def _at_most(found: float, wanted: float) -> dict[str, Any]:
    return {"found": found, "wanted": f"<= {wanted:g}", "met": found <= wanted}


def open_django() -> None:
    """As the tests do; no database is asked."""
    import django

    warnings.simplefilter("ignore", SyntaxWarning)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tentalis.settings.test")
    django.setup()


@contextmanager
def sandboxes() -> Iterator[None]:
    """A host for programs, where this machine can have one."""
    from django.test import override_settings

    from tentalis.sandbox.client import start_host

    with (
        tempfile.TemporaryDirectory() as directory,
        start_host(Path(directory), warm=2),
        override_settings(SANDBOXES=Path(directory)),
    ):
        yield


def probe_entry(entry: Any, items: int) -> tuple[dict[str, Any], list[str]]:
    """A row of the table, and what is wrong."""
    from tests.bench.catalogue_probes import list_probed, probe

    if entry.environment == "bfcl" or entry.name.startswith("games/"):
        from apps.worlds.bfcl.world import find_row
        from tests.bench.catalogue_played import probe_conversations, probe_games

        prompts = [one.prompt for one in entry.list_items("held_out")]
        if entry.environment == "bfcl":
            probed = probe_conversations(entry.name, list(map(find_row, prompts)), shared=entry.shared)
        else:
            probed = probe_games(entry.name, prompts)
        of_all = {"benchmark": entry.name, "grader": "world", "items": probed.items, "cpu s": round(probed.cpu_s, 2)}
        return of_all | {name: round(value, 3) for name, value in probed.values.items()}, probed.find_faults()
    told: dict[str, Any] = {"benchmark": entry.name, "needs": ", ".join(sorted(entry.needs)), "grader": entry.grader}
    if not entry.grader:
        found, wrong = examine_world(entry.environment)
        return told | {"grader": "world"} | found, wrong
    runs_programs = entry.grader == "code"
    probed = probe(entry, list_probed(entry, PROGRAMS if runs_programs else items))
    told |= {"items": probed.items, "cpu s": round(probed.cpu_s, 2)}
    told |= {name: round(value, 3) for name, value in probed.values.items()}
    told |= {"expected": round(probed.expected + probed.shared, 3)} if "another item's" in probed.values else {}
    if probed.judgeless is not None:
        told["note"] = f"without a judge {probed.judgeless[0]} unscored, {probed.judgeless[1]} right"
    return told, probed.find_faults()


@cache
def examine_world(name: str) -> tuple[dict[str, Any], list[str]]:
    """What its examination found, once for all kinds of its tasks."""
    from apps.worlds.examining import examine
    from apps.worlds.registry import find_obstacles, get_world

    if why := find_obstacles().get(name):
        return {"items": 0, "note": why}, []
    print(f"examining {name}", file=sys.stderr, flush=True)
    found = examine(get_world(name), tasks=TASKS)
    wrong = [f"{one.name}: {one.words}" for one in found.checks if one.passed is False]
    return {"items": int(found.figures.get("episodes", 0)), "note": f"{len(found.checks)} checks of its world"}, wrong


COLUMNS: Final = (
    "benchmark", "grader", "items", "oracle", "empty", "garbage", "refusal", "another item's", "expected", "cpu s",
    "needs", "note",
)  # fmt: skip


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    table = Table(title="The catalogue, probed")
    for name in COLUMNS:
        table.add_column(name, justify="left" if name in {"benchmark", "grader", "needs", "note"} else "right")
    for row in rows:
        table.add_row(*(str(row.get(name, "")) for name in COLUMNS))
    Console(width=190).print(table)


if __name__ == "__main__":
    sys.exit(main())
