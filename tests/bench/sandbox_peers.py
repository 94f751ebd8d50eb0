"""Scripted terminal episodes in our sandboxes and, by turns, in unisolated ones of two peers: `tests.bench.sandbox`.

Each writes a file, gives five commands, reads a file and ends. A turn's overhead is what it takes beyond the same
command in a bash of the same environment that nobody steers. The peers start a bash for each command; ours goes to a
shell that lasts.
"""

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tentalis.sandbox.agent import ENVIRONMENT
from tentalis.sandbox.client import SandboxClient, start_host
from tests.sandbox.test_host import wait_for_warm

PEERS: Final = {"inspect_ai": "inspect-ai==0.3.285", "verifiers": "verifiers==0.4.0"}
CACHE: Final = Path(".cache/bench")
EPISODES, ROUNDS, AT_ONCE = 200, 8, 4
TURN_SHARE: Final = 0.5
LINES: Final = 200
OURS: Final = "ours, a shell that lasts"
OURS_APART: Final = "ours, a process for each command"
SCRIPT: Final[dict[str, Any]] = {
    "file": "log.txt",
    "text": "".join(f"{number} {'error' if number % 7 == 0 else 'fine'} {number % 5}\n" for number in range(LINES)),
    "commands": [
        "wc -l < log.txt",
        "grep -c error log.txt",
        "mkdir out && grep error log.txt > out/errors && ls out",
        "cut -d' ' -f3 log.txt | sort | uniq -c | tr -s ' '",
        "n=0; while read -r _ kind _; do [ $kind = error ] && n=$((n+1)); done < log.txt; echo $n > result; cat result",
    ],
    "outputs": ["200\n", "29\n", "errors\n", "".join(f" 40 {number}\n" for number in range(5)), "29\n"],
    "result": "result",
    "content": "29\n",
}


@dataclass
class Played:
    """What a side took for all rounds.

    Args:
        apart: of episodes one after the other; the rest is of several at once.
        bare: of the same commands in a bash nobody steers.
    """

    environment: Mapping[str, str]
    seconds: float = 0.0
    cpu_s: float = 0.0
    episodes: int = 0
    apart: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)

    def add(self, ask: "Side", episodes: int) -> None:
        before = cpu_s()
        self.seconds += ask(episodes, AT_ONCE)["seconds"]
        self.cpu_s += cpu_s() - before
        self.episodes += episodes

    @property
    def per_minute(self) -> float:
        return 60 * self.episodes / self.seconds

    @property
    def overhead_ms(self) -> float:
        return per_turn(self.apart) - per_turn(self.bare)


Side = Callable[[int, int], dict[str, Any]]


def prepare(peer: str) -> Path:
    """The Python of a virtual environment that holds it."""
    place = CACHE / peer
    python = place.resolve() / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    if subprocess.run([python, "-c", f"import {peer}"], capture_output=True, check=False).returncode:
        subprocess.run([python, "-m", "pip", "install", "--quiet", PEERS[peer]], check=True)
    return python


@contextmanager
def open_peer(peer: str, place: Path) -> Iterator[Side]:
    script = place / "script.json"
    script.write_text(json.dumps(SCRIPT))
    argv = [str(prepare(peer)), "-P", str(Path(__file__).with_name("sandbox_peer.py")), peer, str(script)]
    environment = {**os.environ, "HOME": str(place)}
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin
        assert stdout
        assert json.loads(stdout.readline())["ready"]

        def ask(episodes: int, at_once: int) -> dict[str, Any]:
            stdin.write(json.dumps({"episodes": episodes, "at_once": at_once}) + "\n")
            stdin.flush()
            told: dict[str, Any] = json.loads(stdout.readline())
            return told

        yield ask
        stdin.close()


@contextmanager
def open_ours(place: Path, *, lasts: bool) -> Iterator[Side]:
    with start_host(place):
        client = SandboxClient(place)
        image_directory = place / "image"
        (image_directory / "work").mkdir(parents=True)
        image = client.add_image(image_directory)

        def play(turns: list[float]) -> None:
            sandbox = client.create(image, opens_shell=lasts)
            client.write(sandbox, SCRIPT["file"], SCRIPT["text"].encode())
            for command, expected in zip(SCRIPT["commands"], SCRIPT["outputs"], strict=True):
                started = time.perf_counter()
                if lasts:
                    said = client.ask_shell(sandbox, command).out
                else:
                    said = client.run(sandbox, ["/bin/bash", "-c", command]).out
                turns.append((time.perf_counter() - started) * 1e3)
                assert said.decode() == expected, f"{command}: wanted {expected!r}, found {said!r}"
            assert client.read(sandbox, SCRIPT["result"]).decode() == SCRIPT["content"]
            client.destroy(sandbox)

        def ask(episodes: int, at_once: int) -> dict[str, Any]:
            wait_for_warm(client, 1)
            turns: list[float] = []
            numbers = iter(range(episodes))
            failed: list[BaseException] = []

            def go_on() -> None:
                try:
                    for _ in numbers:
                        play(turns)
                except BaseException as error:  # raised again by whoever asked
                    failed.append(error)

            started = time.perf_counter()
            threads = [threading.Thread(target=go_on) for _ in range(at_once)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if failed:
                raise failed[0]
            return {"seconds": time.perf_counter() - started, "turns": turns}

        yield ask
        client.close()


def cpu_s() -> float:
    """Of the whole machine, on which nothing else runs: what a sandbox's first process leaves behind when it is killed
    is counted for nobody (kernel/pid_namespace.c, `zap_pid_ns_processes`), and the kernel clears up in threads of its
    own."""
    user, nice, system, _idle, _iowait, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def time_bare(place: Path, rounds: int, environment: Mapping[str, str]) -> list[float]:
    """Milliseconds of each command in a bash that nobody steers, one after the other, by that bash's own clock."""
    (place / SCRIPT["file"]).write_text(SCRIPT["text"])
    timed = [
        f"a=$EPOCHREALTIME; {{ {command}; }} > /dev/null; b=$EPOCHREALTIME; echo $((${{b/./}} - ${{a/./}}))"
        for command in SCRIPT["commands"]
    ]
    script = "\n".join([f"for i in $(seq {rounds}); do rm -rf out", *timed, "done"])
    argv = ["/bin/bash", "-c", script]
    done = subprocess.run(argv, cwd=place, env=environment, check=True, capture_output=True, text=True)
    return [int(microseconds) / 1e3 for microseconds in done.stdout.split()]


def per_turn(turns: list[float]) -> float:
    """The mean of each command's median."""
    count = len(SCRIPT["commands"])
    return statistics.mean(statistics.median(turns[place::count]) for place in range(count))


def compare(place: Path, *, episodes: int = EPISODES) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """Rows and bars. All sides play by turns, so that whatever else the machine does falls on each."""
    played = {name: Played(ENVIRONMENT) for name in (OURS, OURS_APART)} | {name: Played(os.environ) for name in PEERS}
    with ExitStack() as stack:
        sides: dict[str, Side] = {
            OURS: stack.enter_context(open_ours(place / "ours", lasts=True)),
            OURS_APART: stack.enter_context(open_ours(place / "apart", lasts=False)),
        }
        for peer in PEERS:
            (place / peer).mkdir()
            sides[peer] = stack.enter_context(open_peer(peer, place / peer))
        (place / "bare").mkdir()
        for _ in range(ROUNDS):
            for name, ask in sides.items():
                played[name].add(ask, episodes // ROUNDS)
                played[name].apart += ask(episodes // ROUNDS, 1)["turns"]
                played[name].bare += time_bare(place / "bare", episodes // ROUNDS, played[name].environment)
    rows: list[dict[str, Any]] = []
    for name, one in played.items():
        cpu_ms = 1e3 * one.cpu_s / one.episodes
        rows += [
            {"name": f"{name}: episodes a minute", "found": round(one.per_minute), "wanted": None},
            {"name": f"{name}: overhead a turn, ms", "found": round(one.overhead_ms, 2), "wanted": None},
            {"name": f"{name}: a bash nobody steers, ms", "found": round(per_turn(one.bare), 2), "wanted": None},
            {"name": f"{name}: CPU an episode, ms", "found": round(cpu_ms, 1), "wanted": None},
        ]
    bars: dict[str, dict[str, Any]] = {}
    for peer in PEERS:
        rate = played[OURS].per_minute / played[peer].per_minute
        share = played[OURS].overhead_ms / played[peer].overhead_ms
        bars[f"episodes a minute, x {peer}'s"] = {"found": round(rate, 2), "wanted": 1.0, "met": rate >= 1}
        bars[f"overhead a turn, x {peer}'s"] = {
            "found": round(share, 3),
            "wanted": TURN_SHARE,
            "met": share <= TURN_SHARE,
        }
    return rows + [{"name": name, **bar} for name, bar in bars.items()], bars
