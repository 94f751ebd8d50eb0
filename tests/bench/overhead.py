"""`make bench BENCH=overhead`: what a run costs beside the model: 500 items here, and in the tools people measure with.

All ask one model that stands in a process of its own, answers each request 20 ms after it came, and notes when that
was. Each run is a process of its own, begun when all it uses is loaded, and ended when its results are kept: ours in
Postgres, whose writes are durable, each try when it ends; theirs in files. lm-eval grades and writes when all is
answered, so that it asks faster than it comes to results: both stand there. Overhead is what passes from an answer to
the next request in its place, as the model sees it. All must come to the same accuracy.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
from rich.console import Console
from rich.table import Table

from tests.bench.graders import install
from tests.chaos.stage import make_environ, own_home

CACHE = Path(".cache/bench/overhead")
HERE = Path(__file__).parent
PEERS = {
    "inspect_ai": ("inspect-ai==0.3.285", "openai"),
    "verifiers": ("verifiers==0.1.14",),
    "lm-eval": ("lm-eval[api]==0.4.13",),
}
OURS = "tentalis"
ITEMS, THINK_S = 500, 0.02
AT_ONCE = (1, 32, 256)
COMPARED = 32
MOST_MS = 6.0


@dataclass(kw_only=True)
class Row:
    """A run.

    Args:
        cpu_ms: of an item, in the process that runs; of ours, in Postgres and Redis too.
        memory_mb: the most that the process had; servers_mb: what Postgres and Redis had afterwards, shared once.
        items_s: of the whole run; asked_s: from the first request to the last answer.
        peak: requests that the model had at one time.
        added_ms: by which an item makes the run longer, beside its share of the model's time.
        load: of the machine, over the last minute.
    """

    tool: str
    at_once: int
    share: float
    seconds: float
    items_s: float
    asked_s: float
    overhead_p95_ms: float
    added_ms: float
    cpu_ms: float
    memory_mb: float
    servers_mb: float = 0.0
    peak: int
    load: float


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--at-once", type=int, nargs="+", default=list(AT_ONCE))
    parser.add_argument("--tools", nargs="+", choices=[OURS, *PEERS], default=[OURS, *PEERS])
    options = parser.parse_args(argv)
    pythons = {tool: install(CACHE.resolve() / tool, PEERS[tool]) for tool in options.tools if tool != OURS}
    rows = []
    with serving_model() as url, stores() as environment, tempfile.TemporaryDirectory() as name:
        for at_once in options.at_once:
            for tool in options.tools:
                plan = {"items": make_items(options.items), "at_once": at_once, "url": f"{url}/v1"}
                place = Path(name) / f"{tool}-{at_once}"
                place.mkdir()
                argv = [str(pythons[tool]), "-P", str(HERE / "overhead_peer.py"), tool] if tool != OURS else []
                argv = argv or [sys.executable, "-m", "tests.bench.overhead_ours"]
                rows.append(run(tool, argv, plan, place, environment))
    print_table(rows)
    bars = find_bars(rows)
    for name, is_met in bars.items():
        if not is_met:
            Console(width=130).print(f"missed: {name}", markup=False)
    print(json.dumps({"bench": "overhead", "think_s": THINK_S, "rows": [asdict(row) for row in rows], "bars": bars}))
    return 0 if all(bars.values()) else 1


def make_items(count: int) -> list[dict[str, str]]:
    sums = [(100 + place, 7 * place) for place in range(count)]
    return [{"prompt": f"How much is {one} + {other}?", "answer": str(one + other)} for one, other in sums]


@contextmanager
def serving_model() -> Iterator[str]:
    argv = [sys.executable, str(HERE / "overhead_model.py"), str(THINK_S)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@contextmanager
def stores() -> Iterator[dict[str, str]]:
    """What a process needs to work on a Postgres and a Redis as they are used; both stand here for the block."""
    from tentalis.platform.up import running_stack

    with own_home() as home, running_stack(home, make_environ(), only=("migrate", "redis")) as stack:
        told = {"DJANGO_SETTINGS_MODULE": "tentalis.settings.dev"}
        pids = ",".join(str(stack.pid_of(name)) for name in ("postgres", "redis"))
        yield stack.environment({**os.environ, **told}) | {"BENCH_STORES": pids}


def run(tool: str, argv: Sequence[str], plan: dict[str, Any], place: Path, environment: dict[str, str]) -> Row:
    source, out = place / "plan.json", place / "out.json"
    source.write_text(json.dumps(plan))
    root = plan["url"].removesuffix("/v1")
    httpx.get(f"{root}/told")
    log = place / "log"
    with log.open("w") as said:
        environ = environment if tool == OURS else {**os.environ, "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": ""}
        done = subprocess.run([*argv, str(source), str(out)], stdout=said, stderr=said, env=environ, check=False)
    if done.returncode:
        raise RuntimeError(f"{tool} with {plan['at_once']} at once:\n{log.read_text()[-3_000:]}")
    seen, told = httpx.get(f"{root}/told").json(), json.loads(out.read_text())
    count, at_once = len(plan["items"]), plan["at_once"]
    if len(seen["asked"]) != count:
        raise RuntimeError(f"{tool}: wanted {count} requests, found {len(seen['asked'])}")
    return Row(
        tool=tool,
        at_once=at_once,
        share=round(told["share"], 4),
        seconds=round(told["seconds"], 3),
        items_s=round(count / told["seconds"], 1),
        asked_s=round(count / (max(seen["answered"]) - min(seen["asked"])), 1),
        overhead_p95_ms=round(1_000 * find_p95(find_gaps(seen, at_once)), 1),
        added_ms=round(1_000 * (told["seconds"] / count - THINK_S / at_once), 2),
        cpu_ms=round(1_000 * told["cpu_s"] / count, 2),
        memory_mb=round(told["memory_mb"]),
        servers_mb=round(told.get("servers_mb", 0.0)),
        peak=find_peak(seen),
        load=psutil.getloadavg()[0],
    )


def find_gaps(seen: dict[str, list[float]], at_once: int) -> list[float]:
    """Seconds from each answer to the request that took its place: the next one after those that came first."""
    asked, answered = sorted(seen["asked"])[at_once:], sorted(seen["answered"])
    return [max(0.0, came - went) for came, went in zip(asked, answered, strict=False)]


def find_peak(seen: dict[str, list[float]]) -> int:
    events = sorted([(at, 1) for at in seen["asked"]] + [(at, -1) for at in seen["answered"]])
    now = most = 0
    for _, step in events:
        now += step
        most = max(most, now)
    return most


def find_p95(values: Sequence[float]) -> float:
    return sorted(values)[int(0.95 * (len(values) - 1))]


def find_bars(rows: Sequence[Row]) -> dict[str, bool]:
    compared = {row.tool: row for row in rows if row.at_once == COMPARED}
    bars = {"all come to the same accuracy": len({row.share for row in rows}) == 1}
    ours = compared.pop(OURS, None)
    if ours is not None:
        bars[f"an item adds at most {MOST_MS:g} ms with {COMPARED} at once"] = ours.added_ms <= MOST_MS
    if ours is not None and compared:
        best = max(row.items_s for row in compared.values())
        bars[f"items a second with {COMPARED} at once, not below the best of the others"] = ours.items_s >= best
    return bars


def print_table(rows: Sequence[Row]) -> None:
    names = ("at once", "tool", "items/s", "while asked", "p95 of overhead", "an item adds", "CPU an item", "memory")
    title = f"A run beside its model, which takes {1_000 * THINK_S:.0f} ms"
    table = Table(*names, "at the model", title=title)
    for row in rows:
        memory = f"{row.memory_mb:.0f}" + (f" + {row.servers_mb:.0f}" if row.servers_mb else "") + " MB"
        told = (f"{row.overhead_p95_ms:.1f} ms", f"{row.added_ms:.2f} ms", f"{row.cpu_ms:.2f} ms", memory)
        table.add_row(str(row.at_once), row.tool, f"{row.items_s:,.1f}", f"{row.asked_s:,.1f}", *told, str(row.peak))
    Console(width=130).print(table)


if __name__ == "__main__":
    sys.exit(main())
