"""`python -m tests.bench.sandbox`: do sandboxes hold, what do they cost, and what do they leave?

Probes that try to get out, each with the walls away that must stop it and then within them; times of a reset from the
warm pool, of a command in a live shell, of a snapshot and a fork of 5 MB; memory of 50 at once; what is left of many
episodes; a host that is killed while it works; and the same scripted episodes beside inspect_ai's unisolated local
sandbox and `verifiers`. Exit 1 when a bar is missed.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tentalis.platform.processes import process_identity, wait_until_gone
from tentalis.sandbox.backends import WARM
from tentalis.sandbox.client import SandboxClient, start_host
from tentalis.sandbox.errors import SandboxLostError
from tests.bench.sandbox_peers import EPISODES as COMPARED
from tests.bench.sandbox_peers import compare
from tests.sandbox.test_host import children_of, groups_of, wait_for_warm

EPISODES, AT_ONCE, RUNNING = 10_000, 50, 10
AT_LEAST_PROBES = 40
PARTS = ("probes", "times", "episodes", "kill", "peers")
FILES, FILE_BYTES = 50, 100_000  # 5 MB
RESET_MS, SHELL_MS, COPY_MS, MEMORY_MB = 30.0, 5.0, 20.0, 600.0
MB = 1e6


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=EPISODES)
    parser.add_argument("--rounds", type=int, default=200, help="of each thing that is timed")
    parser.add_argument("--compared", type=int, default=COMPARED, help="episodes of each side beside the peers'")
    parser.add_argument("--only", choices=PARTS, action="append", help="one part of it; may be said more than once")
    options = parser.parse_args(argv)
    parts = options.only or PARTS
    rows: list[dict[str, Any]] = []
    through: list[dict[str, Any]] = []
    bars: dict[str, dict[str, Any]] = {}

    def add(name: str, found: float, wanted: float, met: bool, **rest: Any) -> None:
        rows.append({"name": name, "found": found, "wanted": wanted, **rest})
        bars[name] = {"found": found, "wanted": wanted, "met": met}

    if "probes" in parts:
        through = run_probes()
        inside = sum(row["inside"] for row in through)
        add("probes that got through inside", inside, 0, not inside)
        controls = sum(row["control"] for row in through)
        found_all = controls == len(through) >= AT_LEAST_PROBES
        add("probes that got through in the control", controls, len(through), found_all)
    with tempfile.TemporaryDirectory(prefix="tentalis-bench-") as name:
        place = Path(name)
        image = make_image(place / "image")
        if "times" in parts:
            for label, milliseconds, wanted in time_all(place, image, options.rounds):
                p50 = statistics.median(milliseconds)
                p95 = statistics.quantiles(milliseconds, n=20)[-1]
                add(label, round(p50, 2), wanted, p50 <= wanted, p95=round(p95, 2))
            memory = measure_memory(place, image)
            add(f"MB of {AT_ONCE} at once", round(memory, 1), MEMORY_MB, memory <= MEMORY_MB)
        if "episodes" in parts:
            left, per_s = play_episodes(place, image, options.episodes)
            for kind, count in left.items():
                add(f"{kind} left of {options.episodes:,} episodes", count, 0, not count)
            rows.append({"name": "episodes a second", "found": round(per_s, 1), "wanted": None})
        if "kill" in parts:
            for kind, count in kill_host(place, image).items():
                add(f"host killed: {kind}", count, 0, not count)
        if "peers" in parts:
            compared, met = compare(place, episodes=options.compared)
            rows += compared
            bars |= met
    print_table(rows, bars)
    print(json.dumps({"bench": "sandbox", "rows": rows, "probes": through, "bars": bars}))
    return 0 if all(bar["met"] for bar in bars.values()) else 1


def run_probes() -> list[dict[str, Any]]:
    argv = [sys.executable, "-m", "tests.sandbox.escaping"]
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def make_image(directory: Path) -> Path:
    work = directory / "work"
    work.mkdir(parents=True)
    for number in range(20):
        (work / f"file{number}").write_text(f"{number}\n" * 100)
    return directory


@contextmanager
def asked_host(
    place: Path, image: Path, *, warm: int = WARM
) -> Iterator[tuple[SandboxClient, str, "subprocess.Popen[bytes]"]]:
    with start_host(place / "host", warm=warm) as process:
        client = SandboxClient(place / "host")
        yield client, client.add_image(image), process
        client.close()


def time_all(place: Path, image: Path, rounds: int) -> Iterator[tuple[str, list[float], float]]:
    with asked_host(place, image) as (client, kept, _):
        sandbox = client.create(kept)

        def reset() -> None:
            nonlocal sandbox
            client.destroy(sandbox)
            sandbox = client.create(kept)

        def prepare() -> None:
            client.ask_shell(sandbox, "echo 1 > changed")
            wait_for_warm(client, 1)  # an episode gives it longer

        yield "reset from the warm pool, ms p50", measure(reset, rounds, prepare), RESET_MS
        yield (
            "a command in a live shell, ms p50",
            measure(lambda: client.ask_shell(sandbox, "echo hi"), rounds),
            SHELL_MS,
        )
        for number in range(FILES):
            client.write(sandbox, f"big{number}", os.urandom(FILE_BYTES))
        images: list[str] = []

        def drop() -> None:
            while images:
                client.drop_image(images.pop())

        taken = measure(lambda: images.append(client.snapshot(sandbox)), rounds, drop)
        yield "snapshot of 5 MB, ms p50", taken, COPY_MS
        drop()
        forks: list[str] = []

        def destroy() -> None:
            while forks:
                client.destroy(forks.pop())

        yield "fork of 5 MB, ms p50", measure(lambda: forks.append(client.fork(sandbox)), rounds, destroy), COPY_MS


def measure(do: Callable[[], Any], rounds: int, between: Callable[[], Any] | None = None) -> list[float]:
    milliseconds = []
    for _ in range(rounds):
        if between:
            between()
        started = time.perf_counter()
        do()
        milliseconds.append((time.perf_counter() - started) * 1e3)
    return milliseconds


def measure_memory(place: Path, image: Path) -> float:
    """MB of the host, the zygote and all sandboxes, each with a live shell: what is shared is counted once."""
    with asked_host(place, image, warm=0) as (client, kept, process):
        sandboxes = [client.create(kept) for _ in range(AT_ONCE)]
        for sandbox in sandboxes:
            client.ask_shell(sandbox, "cd /tmp; echo 1 > changed")
        pids = [process.pid, *children_of(process.pid)]
        written = sum(client.stats(sandbox)["disk_bytes"] for sandbox in sandboxes)
        return float((sum(proportional_bytes(pid) for pid in pids) + written) / MB)


def proportional_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def play_episodes(place: Path, image: Path, episodes: int) -> tuple[dict[str, int], float]:
    """Short ones that leave jobs, files and sandboxes in every state. Returns what is left, and episodes a second."""
    mounts = count_mounts()
    with asked_host(place, image) as (client, kept, process):
        wait_for_warm(client, WARM)
        descriptors = count_descriptors(process.pid)
        numbers = iter(range(episodes))
        lock = threading.Lock()

        def play() -> None:
            mine = SandboxClient(place / "host")
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    break
                sandbox = mine.create(kept, sandbox=f"episode {number}")
                mine.ask_shell(sandbox, f"echo {number} > file0; mkdir d; sleep 1000 & (exit 3)")
                if number % 50 == 0:
                    mine.destroy(mine.fork(sandbox))
                if number % 50 == 1:
                    mine.drop_image(mine.snapshot(sandbox))
                if number % 50 == 2:
                    mine.run(sandbox, ["/bin/sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 &"])
                mine.destroy(sandbox)
            mine.close()

        threads = [threading.Thread(target=play) for _ in range(2)]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        per_s = episodes / (time.perf_counter() - started)
        client.drop_image(kept)
        wait_for_warm(client, WARM)
        roots = groups_of(place / "host")
        left = {
            "processes": len(children_of(process.pid)) - 1 - WARM,  # the zygote, and those that are ready
            "cgroups": sum(entry.is_dir() for root in roots for entry in root.iterdir()) - WARM * len(roots),
            "files": len(list((place / "host/store/layers").iterdir())),
            "descriptors": max(count_descriptors(process.pid) - descriptors, 0),  # our own connection
            "mounts": count_mounts() - mounts,
        }
    return left, per_s


def count_mounts() -> int:
    return len(Path("/proc/self/mountinfo").read_text().splitlines())


def count_descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def kill_host(place: Path, image: Path) -> dict[str, int]:
    """Kill it while commands run: who asked must hear that its sandbox was lost, and nothing may run on."""
    results: list[Any] = []
    with asked_host(place, image) as (client, kept, process):
        groups = groups_of(place / "host")
        sandboxes = [client.create(kept) for _ in range(RUNNING)]

        def ask(sandbox: str) -> None:
            mine = SandboxClient(place / "host")
            with suppress(SandboxLostError):
                results.append(mine.run(sandbox, ["/bin/sh", "-c", "sleep 1000 & setsid sleep 1000 & wait"]))
            mine.close()

        threads = [threading.Thread(target=ask, args=(sandbox,)) for sandbox in sandboxes]
        for thread in threads:
            thread.start()
        while len(children_of(process.pid)) < 1 + 4 * RUNNING:
            time.sleep(0.01)
        running = [process_identity(pid) for pid in children_of(process.pid)]
        process.send_signal(signal.SIGKILL)
        for thread in threads:
            thread.join()
        alive = sum(not wait_until_gone(identity, timeout_s=10) for identity in running if identity)
    with asked_host(place, image, warm=0) as (_, _, process):
        still = sum(entry.is_dir() for root in groups for entry in root.iterdir()) if groups else 0
        layers = len(list((place / "host/store/layers").iterdir())) - 1  # the image that was just added
        return {"results": len(results), "processes": alive, "cgroups after the next start": still,
                "layers after the next start": layers}  # fmt: skip


def print_table(rows: Sequence[dict[str, Any]], bars: dict[str, dict[str, Any]]) -> None:
    table = Table("", "found", "wanted", "p95", "")
    for row in rows:
        wanted = "" if row["wanted"] is None else f"{row['wanted']:g}"
        met = bars.get(row["name"], {}).get("met")
        sign = "" if met is None else "met" if met else "MISSED"
        table.add_row(row["name"], f"{row['found']:g}", wanted, f"{row.get('p95', '')}", sign)
    Console(width=110).print(table)


if __name__ == "__main__":
    sys.exit(main())
