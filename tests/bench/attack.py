"""`python -m tests.bench.attack`: every attack that a script can make, on a running box with a second tenant in it.

The second tenant asks the web and the gateway twice a second all the while. An attack is held where the box does what
the table says it should; the box is whole where nobody else waited a second, no process was started anew and no byte
of the second tenant's reached the first. `--part edges` (or tenants, inside, faults) and `--only WORDS` make some of
them. `--without LIMIT` takes a limit of `tentalis.core.edge_limits` away in the box that is started and makes the
attacks it holds: they are to get through. `--prove` does so with each in turn, on one database.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tentalis.core.edge_limits import Row, list_rows
from tentalis.platform.home import Home
from tentalis.platform.up import RunningStack, running_stack
from tests.bench.attacks import edges, faults, inside, tenants
from tests.bench.attacks.findings import FINDINGS
from tests.bench.attacks.model_servers import serve_models
from tests.bench.attacks.neighbour import Answer, Neighbour
from tests.bench.attacks.scene import ATTACKS, CANARY, Attack, Scene, make_scene
from tests.chaos.stage import make_environ, own_home

PARTS = tuple(module.__name__.rpartition(".")[2] for module in (edges, tenants, inside, faults))
EDGES = ("web", "gateway")
SLOW_S = 1.0
WIDTH = 170
HELD: dict[object, str] = {True: "held", False: "FELL", None: "-"}
SMALL_DISK = "1200m"
AWAY = {"seconds": 10_000_000, "digits": 10_000}
"""Instead of a limit, by its unit; else as much as there can be."""
NO_ATTACK = {
    "answer_bytes": "the default for calls that name no limit of their own; each that there is names one",
    **{
        row.name: "of a file that a member imports, read apart: tests/apps/console/test_exports.py"
        for row in list_rows()
        if row.name.startswith("import_")
    },
    **dict.fromkeys(
        ("upload_bytes", "uploads_bytes"), "of files that a member sends in parts: tests/apps/worlds/test_handed_in.py"
    ),
}
"""Rows of the table that no attack here goes beyond, and why, or which tests do."""


@dataclass
class Report:
    """What came of some attacks on one box."""

    rows: list[dict[str, object]] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    restarts: list[str] = field(default_factory=list)
    foreign_bytes: int = 0

    def add(self, other: "Report") -> None:
        for name in ("rows", "answers", "slow", "failed", "restarts"):
            getattr(self, name).extend(getattr(other, name))
        self.foreign_bytes += other.foreign_bytes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--part", nargs="*", choices=PARTS, default=PARTS, help="of the attacks")
    parser.add_argument("--only", nargs="*", default=(), help="attacks (with --prove: limits) whose words hold one")
    parser.add_argument("--without", default="", help="a limit of the table that is taken away")
    parser.add_argument(
        "--prove", action="store_true", help="take each limit away in turn and see its attack get through"
    )
    options = parser.parse_args()
    console = Console(width=WIDTH)
    limits = {row.name: row for row in list_rows()}
    if options.without and options.without not in limits:
        parser.error(f"no limit {options.without!r} in the table; there are {', '.join(limits)}")
    if options.without:
        return prove(console, [limits[options.without]])
    if options.prove:
        return prove(console, [row for row in limits.values() if _is_named(row.name, options.only)])
    chosen = [one for one in ATTACKS if one.part in options.part and _is_named(one.name, options.only)]
    if not chosen:
        parser.error("no attack is named so")
    report = Report()
    for is_fault in (False, True):
        if names := [one.name for one in chosen if one.is_fault == is_fault]:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:  # Django knows one database
                report.add(pool.submit(run, names).result())
    return judge(console, report)


def _is_named(name: str, words: Sequence[str]) -> bool:
    return not words or any(word in name for word in words)


def run(names: Sequence[str]) -> Report:
    """Start a box, make the attacks beside the second tenant, stop it."""
    attacks = [one for one in ATTACKS if one.name in names]
    with small_home(attacks) as home, serve_models() as models:
        environ = make_environ() | {"TENTALIS_LOG_LEVEL": "WARNING"}
        with running_stack(home, environ, is_throwaway=True, only=_services(attacks)) as stack:
            return make_attacks(Console(width=WIDTH), enter(stack, environ, models), attacks)


def _services(attacks: Sequence[Attack]) -> list[str]:
    return [*EDGES, *sorted({name for one in attacks for name in one.needs})]


@contextmanager
def small_home(attacks: Sequence[Attack]) -> Iterator[Home]:
    """A home; for faults of the machine on a small file system of its own, where mounting one is allowed."""
    if not any(one.is_fault for one in attacks):
        with own_home() as home:
            yield home
        return
    with TemporaryDirectory(prefix="tentalis-attack-") as directory:
        command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK},mode=0700", "tmpfs", directory]
        is_mounted = not subprocess.run(command, capture_output=True, check=False).returncode
        try:
            with own_home(Path(directory)) as home:
                yield home
        finally:
            if is_mounted:
                subprocess.run(["umount", "--lazy", directory], check=True)


def enter(stack: RunningStack, environ: dict[str, str], models: str) -> Scene:
    """This process becomes one of the box's own, and makes the two tenants."""
    os.environ.update(stack.environment(environ))
    import django

    django.setup()
    return make_scene(stack, models)


def make_attacks(console: Console, scene: Scene, attacks: Sequence[Attack]) -> Report:
    report, before = Report(), scene.restarts()
    times: list[tuple[float, float, Attack]] = []
    urls = {"web": str(scene.web.base_url), "gateway": str(scene.gateway.base_url)}
    for _ in range(8):  # the first requests of each process load what the others use
        scene.call_neighbour("GET", "tasks?limit=5")
        scene.chat("plain-helper")
    with Neighbour({**urls, "person": scene.person, "agent": scene.agent, "words": CANARY}) as neighbour:
        time.sleep(4)
        for one in attacks:
            began = time.monotonic()
            report.rows.append(make_one(console, scene, one))
            times.append((began, time.monotonic() + 1, one))
            time.sleep(1)
        time.sleep(2)
    report.answers, report.foreign_bytes = neighbour.answers, scene.tap.foreign_bytes
    after, killed = scene.restarts(), {name for one in attacks for name in one.kills}
    report.restarts = sorted(name for name, count in after.items() if count > before[name] and name not in killed)
    for answer in report.answers:
        ended_at = answer.began + answer.took_s
        during = [one for began, ended, one in times if began <= ended_at and answer.began < ended + _aftermath_s(one)]
        _note_answer(report, answer, during)
    return report


def _aftermath_s(one: Attack) -> float:
    """Connections are opened anew after the machine was in trouble."""
    return 5.0 if one.is_fault else 0.0


def _note_answer(report: Report, answer: Answer, during: Sequence[Attack]) -> None:
    """Trouble of the machine is everybody's, and is to be said as such: 503."""
    names = ", ".join(one.name for one in during) or "no attack under way"
    may_wait = any(one.is_fault for one in during)
    if answer.took_s > SLOW_S and not may_wait:
        report.slow.append(f"{answer.door}, {answer.took_s:.2f} s: {names}")
    if answer.status != 200 and not (may_wait and answer.status == 503):
        report.failed.append(f"{answer.door}, {answer.status}: {names}")


def make_one(console: Console, scene: Scene, one: Attack) -> dict[str, object]:
    from django.db import connections

    connections.close_all()
    began = time.monotonic()
    held: bool | None
    try:
        words, held = one.run(scene)
    except Exception as error:  # whatever goes wrong is a row of the table
        words, held = f"{type(error).__name__}: {error}"[:150], False
    took_s = round(time.monotonic() - began, 1)
    console.print(f"  {HELD[held]:4}  {one.name}: {words}", highlight=False, markup=False, soft_wrap=True)
    row = {"attack": one.name, "finding": one.finding, "limit": one.limit, "wanted": one.wanted}
    return row | {"found": words, "held": held, "seconds": took_s}


def judge(console: Console, report: Report) -> int:
    """Print it, and the exit code."""
    table = Table("attack", "found", "wanted", "held", "s")
    for row in report.rows:
        cells = [str(row[name]) for name in ("attack", "found", "wanted")]
        table.add_row(*map(escape, cells), HELD[row["held"]], str(row["seconds"]))
    console.print(table)
    print_findings(console, report.rows)
    took_s = [answer.took_s for answer in report.answers]
    p50, most = statistics.median(took_s), max(took_s)
    words = f"neighbour: {len(took_s)} answers, p50 {1000 * p50:.0f} ms, slowest {most:.2f} s"
    console.print(words, highlight=False)
    for words in [*report.slow[:30], *report.failed[:30], *(f"started anew: {name}" for name in report.restarts)]:
        console.print(f"  neighbour: {words}", highlight=False, markup=False)
    bars = {
        "attacks that got through": _bar(sum(row["held"] is False for row in report.rows)),
        "neighbour's answers over 1 s": _bar(len(report.slow)),
        "neighbour's answers that failed": _bar(len(report.failed)),
        "restarts": _bar(len(report.restarts)),
        "foreign bytes": _bar(report.foreign_bytes),
    }
    ratios = {"neighbour_p50_ms": round(1000 * p50, 1), "neighbour_max_s": round(most, 2)}
    return finish(console, report.rows, bars, ratios)


def print_findings(console: Console, rows: Sequence[dict[str, object]]) -> None:
    table = Table("what a review once found", "attacks here", "held")
    for words, elsewhere in FINDINGS.items():
        made = [row for row in rows if row["finding"] == words]
        names = "\n".join(str(row["attack"]) for row in made) or elsewhere or "not made in this run"
        table.add_row(words, escape(names), "\n".join(HELD[row["held"]] for row in made))
    console.print(table)


def prove(console: Console, limits: Sequence[Row]) -> int:
    """Each limit taken away in a box of its own, all on one database: what it held is to get through."""
    rows: list[dict[str, object]] = []
    environ = make_environ() | {"TENTALIS_LOG_LEVEL": "WARNING"}
    scene: Scene | None = None
    with own_home() as home, serve_models() as models:
        for limit in limits:
            attacks = [one for one in ATTACKS if one.limit == limit.name]
            if not attacks:
                rows.append({"limit": limit.name, "attack": "", "found": NO_ATTACK.get(limit.name, ""), "held": None})
                continue
            console.print(f"without {limit.name}", highlight=False)
            away = {"TENTALIS_LIMITS": json.dumps({limit.name: AWAY.get(limit.unit, 2**52)})}
            with running_stack(home, environ | away, is_throwaway=True, only=_services(attacks)) as stack:
                if scene is None:
                    scene = enter(stack, environ, models)
                scene.stack = stack
                rows += [make_one(console, scene, one) for one in attacks]
    table = Table("without", "attack that fell", "found", "its hole is found")
    for row in rows:
        is_found = {None: "-", True: "NO", False: "yes"}[row["held"]]  # type: ignore[index]
        table.add_row(str(row["limit"]), escape(str(row["attack"])), escape(str(row["found"])), is_found)
    console.print(table)
    found = {row["limit"] for row in rows if row["held"] is False} | NO_ATTACK.keys()
    bars = {"limits whose hole is not found": _bar(sum(limit.name not in found for limit in limits))}
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
