"""`python -m tests.bench.attack`: every attack that a script can make, on a running box with a second tenant in it.

The second tenant asks the web and the gateway twice a second all the while. An attack is held where the box does what
the table says it should; the box is whole where nobody else waited a second, no process was started anew and no byte
of the second tenant's reached the first. `--without LIMIT` takes a limit of `tentalis.core.edge_limits` away in the box
that is started and makes the attacks it holds: they are to get through. `--prove` does so with each in turn.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from tentalis.core.edge_limits import list_rows
from tentalis.platform.up import RunningStack, running_stack
from tests.bench.attacks import edges, inside, tenants
from tests.bench.attacks.scene import ATTACKS, Attack, Neighbour, Scene, make_scene, serve_models
from tests.chaos.stage import make_environ, own_home

MODULES = edges, tenants, inside
UNLIMITED = 2**52
EDGES = ("web", "gateway")


@dataclass
class Report:
    """What came of some attacks on one box."""

    rows: list[dict[str, object]] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    restarts: list[str] = field(default_factory=list)
    foreign_bytes: int = 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", nargs="*", default=(), help="attacks whose words hold one of these")
    parser.add_argument("--without", default="", help="a limit of the table that is taken away")
    parser.add_argument(
        "--prove", action="store_true", help="take each limit away in turn and see its attack get through"
    )
    parser.add_argument("--edges", action="store_true", help="web and gateway alone, and what needs no more")
    options = parser.parse_args()
    console = Console(width=150)
    limited = sorted({one.limit for one in ATTACKS if one.limit})
    if options.without and options.without not in {row.name for row in list_rows()}:
        parser.error(f"no limit {options.without!r} in the table; attacks try {', '.join(limited)}")
    if options.prove or options.without:
        return prove(console, [options.without] if options.without else limited)
    chosen = [one for one in ATTACKS if not (options.edges and one.needs_all)]
    chosen = [one for one in chosen if not options.only or any(words in one.name for words in options.only)]
    report = run(console, chosen, only=EDGES if options.edges else ())
    return judge(console, report)


def run(console: Console, attacks: Sequence[Attack], *, without: str = "", only: Sequence[str] = ()) -> Report:
    """Start a box, make the attacks, stop it."""
    environ = make_environ() | {"TENTALIS_LOG_LEVEL": "WARNING"}
    if without:
        environ["TENTALIS_LIMITS"] = json.dumps({without: UNLIMITED})
    with (
        own_home() as home,
        running_stack(home, environ, is_throwaway=True, only=only) as stack,
        serve_models() as models,
    ):
        os.environ.update(stack.environment(environ))
        import django

        django.setup()
        return make_attacks(console, stack, models, attacks)


def make_attacks(console: Console, stack: RunningStack, models: str, attacks: Sequence[Attack]) -> Report:
    scene, report = make_scene(stack, models), Report()
    before, neighbour = scene.pids(), Neighbour(scene)
    neighbour.during = "before"
    neighbour.start()
    time.sleep(3)
    for one in attacks:
        neighbour.during = one.name
        report.rows.append(make_one(scene, one))
        console.print(f"  {'held' if report.rows[-1]['held'] else 'FELL'}  {one.name}", highlight=False)
        time.sleep(1)
    neighbour.during = "after"
    time.sleep(2)
    neighbour.stop()
    after = scene.pids()
    report.restarts = [name for name, row in before.items() if after.get(name, row)[1] != row[1]]
    report.took_s, report.slow, report.failed = neighbour.took_s, neighbour.slow, neighbour.failed
    report.foreign_bytes = scene.tap.foreign_bytes
    return report


def make_one(scene: Scene, one: Attack) -> dict[str, object]:
    began = time.monotonic()
    try:
        words, held = one.run(scene)
    except Exception as error:
        words, held = f"{type(error).__name__}: {error}"[:150], False
    row = {"attack": one.name, "found": words, "wanted": one.wanted, "held": held, "limit": one.limit}
    return row | {"seconds": round(time.monotonic() - began, 1)}


def judge(console: Console, report: Report) -> int:
    """Print it, and the exit code."""
    table = Table("attack", "found", "wanted", "held", "s")
    for row in report.rows:
        table.add_row(
            *(str(row[name]) for name in ("attack", "found", "wanted")),
            "yes" if row["held"] else "NO",
            str(row["seconds"]),
        )
    console.print(table)
    p50, most = statistics.median(report.took_s), max(report.took_s)
    console.print(
        f"neighbour: {len(report.took_s)} answers, p50 {1000 * p50:.0f} ms, slowest {most:.2f} s", highlight=False
    )
    for words in [*report.slow[:20], *report.failed[:20]]:
        console.print(f"  neighbour: {words}", highlight=False)
    bars = {
        "attacks that got through": _bar(sum(not row["held"] for row in report.rows)),
        "neighbour's answers over 1 s": _bar(len(report.slow)),
        "neighbour's answers that failed": _bar(len(report.failed)),
        "restarts": _bar(len(report.restarts)),
        "foreign bytes": _bar(report.foreign_bytes),
    }
    return finish(
        console, report.rows, bars, {"neighbour_p50_ms": round(1000 * p50, 1), "neighbour_max_s": round(most, 2)}
    )


def prove(console: Console, limits: Sequence[str]) -> int:
    """Each limit taken away in a box of its own: what it held is to get through."""
    rows: list[dict[str, object]] = []
    for limit in limits:
        console.print(f"without {limit}", highlight=False)
        attacks = [one for one in ATTACKS if one.limit == limit]
        rows += [row | {"without": limit} for row in run(console, attacks, without=limit, only=EDGES).rows]
    table = Table("without", "attack", "found", "its hole is found")
    for row in rows:
        table.add_row(str(row["without"]), str(row["attack"]), str(row["found"]), "NO" if row["held"] else "yes")
    console.print(table)
    tried = {str(row["without"]) for row in rows}
    bars = {
        "holes not found": _bar(sum(bool(row["held"]) for row in rows)),
        "limits that no attack tries": _bar(len(set(limits) - tried)),
    }
    return finish(console, rows, bars, {})


def _bar(found: int) -> dict[str, object]:
    return {"found": found, "wanted": 0, "met": found == 0}


def finish(
    console: Console, rows: list[dict[str, object]], bars: dict[str, dict[str, object]], ratios: dict[str, float]
) -> int:
    for name, bar in bars.items():
        console.print(f"{'met   ' if bar['met'] else 'MISSED'} {name}: {bar['found']}", highlight=False)
    result = {"bench": "attack", "rows": rows, "ratios": ratios, "bars": bars}
    console.print(json.dumps(result), soft_wrap=True, markup=False, highlight=False)
    return 0 if all(bar["met"] for bar in bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
