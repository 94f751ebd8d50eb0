"""`python -m tests.bench.episodes`: what becomes of episodes when the queue is killed again and again, Redis is lost
and Postgres crashes.

A world that changes something outside, counted there by key; its agent is a script that takes a while for a turn. The
control plays the same without keeping turns and must do things twice, or the kills were too kind to prove anything.
Then, undisturbed: what keeping a turn costs in time and bytes, and what becomes of rewards when a fifth of the episodes
meet a fault that is not their model's. Last, episodes in the terminal's sandboxes, whose host is killed by turns with
the queue (`episodes_sandboxed`).
"""

import argparse
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console
from rich.table import Table

from tests.apps.worlds.tally_package import EFFECTS, THINK_S
from tests.bench.packages import put_package
from tests.chaos.clients import PatientClient, Tally
from tests.chaos.stage import chaos_stack, environment_of, read_admin_token

PACKAGE = Path(__file__).parents[1] / "apps" / "worlds" / "tally_package.py"
POINTS = "[tentalis.worlds]\ntally = tally_package:TallyWorld\n[tentalis.agents]\ntallying = tally_package:AGENT\n"
TURNS, GROUP = 12, 8
SERVICES = ("web", "relay", "queue-workers", "queue-episodes", "bootstrap")
STACK = {
    "TENTALIS_LEASE_SECONDS": "2",
    "TENTALIS_WATCHDOG_SECONDS": "6",
    "TENTALIS_MAX_ATTEMPTS": "60",
    "TENTALIS_RETRY_BASE_SECONDS": "0.1",
    "TENTALIS_QUEUE_PROCESSES": "workers,scorers,hints,gates,control=threads:8;episodes=threads:6",
}
THINKS_S = 0.25
MIDWAY_BAR, OVERHEAD_BAR_MS, BYTES_BAR, REWARD_BAR, NAIVE_BAR = 0.95, 8.0, 1.5, 0.01, 0.15


@dataclass(kw_only=True)
class Found:
    """What the run came to."""

    episodes: int
    kills: int = 0
    unfinished: int = 0
    done_twice: int = 0
    asked_again: int = 0
    killed: int = 0
    midway: float = 0.0
    control_wrong: int = 0
    wall_s: float = 0.0
    undisturbed: dict[str, float] = field(default_factory=dict)
    sandboxed: dict[str, int] = field(default_factory=dict)

    def list_misses(self) -> list[str]:
        one = self.undisturbed
        bars = {
            f"{self.unfinished} episodes reached no final state": self.unfinished == 0,
            f"{self.done_twice} episodes did something twice, or not at all": self.done_twice == 0,
            f"{self.killed} of {self.kills} kills hit nothing": self.killed >= self.kills,
            f"{self.midway:.1%} of the killed went on midway": self.midway >= MIDWAY_BAR,
            "the control did nothing twice": self.control_wrong > 0,
            f"a turn costs {one['overhead_ms']:.1f} ms": one["overhead_ms"] <= OVERHEAD_BAR_MS,
            f"{TURNS} turns take {one['bytes_ratio']:.2f} times the bytes of one": one["bytes_ratio"] <= BYTES_BAR,
            f"faults moved the mean reward by {one['moved']:.3f}": abs(one["moved"]) <= REWARD_BAR,
            f"the naive control moved it by {one['naive_moved']:.3f} only": abs(one["naive_moved"]) >= NAIVE_BAR,
        }
        if two := self.sandboxed:
            bars |= {
                f"{two['unfinished']} episodes in sandboxes reached no final state": not two["unfinished"],
                f"{two['earned']} of {two['right']} done in sandboxes were rewarded": two["earned"] == two["right"] > 0,
                f"{two['unearned']} not done in sandboxes were rewarded": not two["unearned"],
                f"{two['hit']} of {two['kills']} kills hit episodes in sandboxes": two["hit"] == two["kills"],
                "no episode in a sandbox was lost": two["lost_and_played_anew"] > 0,
            }
        return [words for words, is_kept in bars.items() if not is_kept]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--keep-in", type=Path, help="a home that stays, with its logs")
    options = parser.parse_args(argv)
    console, began = Console(width=110), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tentalis-episodes-") as name:
        directory = Path(name)
        found = run(directory, episodes=options.episodes, kills=options.kills, keep_in=options.keep_in)
        from tests.bench import episodes_sandboxed  # it asks this module

        found.sandboxed = dict(episodes_sandboxed.run(directory))
    found.wall_s = round(time.monotonic() - began, 1)
    print_table(console, found)
    misses = found.list_misses()
    for miss in misses:
        console.print(f"missed: {miss}", markup=False)
    console.print(json.dumps({"bench": "episodes", **asdict(found)}), soft_wrap=True, markup=False, highlight=False)
    return 1 if misses else 0


def run(directory: Path, *, episodes: int, kills: int, keep_in: Path | None) -> Found:
    found = Found(episodes=episodes // GROUP * GROUP)
    put_package(directory, "tally_package", PACKAGE, POINTS)
    os.environ |= {"PYTHONPATH": str(directory), EFFECTS: str(directory / "effects.sqlite"), THINK_S: str(THINKS_S)}
    found.control_wrong = run_control(directory, kills=max(kills // 4, 2))
    with chaos_stack(settings=STACK, keep_in=keep_in, only=SERVICES) as stack:
        addresses = stack.state().addresses
        with PatientClient(addresses["console_url"], read_admin_token(stack), Tally()) as client:
            body = {"slug": "tally", "name": "Tally", "review_policy": {"who": "none"}, "group_size": GROUP}
            client.create("projects", body, key="project")
            client.create("workers", {"project": "tally", "name": "tally", "kind": "tallying"}, key="worker")
            for number in range(found.episodes // GROUP):
                order = {"project": "tally", "environment": "tally", "prompt": f"{TURNS - 1} of {number}"}
                client.create("tasks", order, key=f"task-{number}")
        killed: Counter[int] = Counter()
        url = addresses["database_url"]
        for number in range(kills):
            hit = wait_for_playing(url)
            if number == kills // 3:
                stack.signal("redis", signal.SIGKILL)
            if number == 2 * kills // 3:
                stack.signal("postgres", signal.SIGQUIT)
                time.sleep(2.0)
            stack.signal("queue-episodes", signal.SIGKILL)
            killed.update(hit)
            found.kills += 1
        found.unfinished = wait_for_end(url, found.episodes)
        check_effects(url, Path(os.environ[EFFECTS]), found, killed)
        environ = environment_of(stack) | {
            **{name: os.environ[name] for name in ("PYTHONPATH", EFFECTS)},
            THINK_S: "0",
        }
        told = subprocess.run(
            [sys.executable, "-m", "tests.bench.episodes_undisturbed"],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        if told.returncode:
            raise RuntimeError(told.stderr[-2000:])
        found.undisturbed = json.loads(told.stdout.splitlines()[-1])
    return found


def ask(url: str, sql: Any, *values: Any) -> list[tuple[Any, ...]]:
    """Rows; of a server that is just coming back they are waited for."""
    for _ in range(100):
        try:
            with psycopg.connect(url, connect_timeout=5) as connection:
                return connection.execute(sql, values).fetchall()
        except psycopg.OperationalError:
            time.sleep(0.2)
    raise RuntimeError("the database does not come back")


def wait_for_playing(url: str) -> list[int]:
    """Attempts that are in the middle of being played, when some are, each with more turns than at first."""
    playing = (
        "SELECT attempt.id FROM tasks_attempt attempt JOIN tasks_task task ON task.id = attempt.task_id "
        "JOIN outbox_segment segment ON segment.subject_id = task.id AND segment.kind = 'episode' "
        "WHERE attempt.state = 'running' AND segment.fence IS NOT NULL AND segment.lease_until > now() AND EXISTS ("
        "SELECT FROM tasks_episodeturn turn WHERE turn.attempt_id = attempt.id "
        "AND turn.started_at > now() - interval '1 second')"
    )
    for _ in range(600):
        if rows := ask(url, playing):
            return [pk for (pk,) in rows]
        time.sleep(0.1)
    return []


def wait_for_end(url: str, episodes: int) -> int:
    """How many have no final state after a while in which nothing more happens."""
    left, quiet = episodes, 0
    while left and quiet < 300:
        (row,) = ask(url, "SELECT count(*) FROM tasks_attempt WHERE state IN ('answered', 'failed')")
        (open_ones,) = ask(url, "SELECT count(*) FROM tasks_task WHERE state IN ('queued', 'working', 'scoring')")
        quiet = quiet + 1 if episodes - int(row[0]) == left else 0
        left = episodes - int(row[0])
        if not left and not open_ones[0]:
            break
        time.sleep(0.2)
    return left


def check_effects(url: str, effects: Path, found: Found, killed: Counter[int]) -> None:
    """Hold what was changed outside against what the attempts say."""
    rows = ask(url, "SELECT id, state, outcome FROM tasks_attempt")
    with closing(sqlite3.connect(effects)) as outside:
        told = outside.execute("SELECT key, asked FROM effect").fetchall()
    made = Counter(int(key.split("-")[0]) for key, _ in told)
    found.asked_again = sum(asked - 1 for _, asked in told)
    ended = {pk for pk, state, _ in rows if state != "lost"}
    found.done_twice = sum(made[pk] != TURNS - 1 for pk in ended)
    found.killed = len(killed)
    gone_on = sum(pk in ended for pk in killed)
    found.midway = gone_on / max(len(killed), 1)


def run_control(directory: Path, *, kills: int) -> int:
    """Play episodes without keeping their turns, in a process that is killed and begins anew what had not ended.
    Returns how many of those changed the world more, or less, than they should have."""
    effects = directory / "control.sqlite"
    environ = os.environ | {EFFECTS: str(effects), "DJANGO_SETTINGS_MODULE": "tentalis.settings.test"}
    argv = [sys.executable, "-m", "tests.bench.episodes_control", str(directory / "done"), str(GROUP)]
    for number in range(kills + 1):
        process = subprocess.Popen(argv, env=environ)
        try:
            process.wait(None if number == kills else 3.0 + 0.7 * number)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    with closing(sqlite3.connect(effects)) as outside:
        made = Counter(key.split(":")[0] for (key,) in outside.execute("SELECT key FROM effect"))
    return sum(count != TURNS - 1 for count in made.values())


def print_table(console: Console, found: Found) -> None:
    one = found.undisturbed
    table = Table(
        title=f"{found.episodes} episodes of {TURNS} turns, {found.kills} kills, Redis lost, Postgres crashed"
    )
    for name in ("", "found", "wanted"):
        table.add_column(name, justify="left" if not name else "right")
    table.add_row("without a final state", f"{found.unfinished}", "0")
    table.add_row("did something twice, or not at all", f"{found.done_twice}", "0")
    table.add_row("calls asked again under their key", f"{found.asked_again}", "")
    table.add_row("killed while they played", f"{found.killed}", f">= {found.kills}")
    table.add_row("of those went on midway", f"{found.midway:.1%}", f">= {MIDWAY_BAR:.0%}")
    table.add_row("control without turns kept: wrong", f"{found.control_wrong} of {GROUP}", "> 0")
    table.add_row(
        "keeping a turn, alone and in a group", f"{one['alone_ms']:.1f}, {one['overhead_ms']:.1f} ms", "<= 8 ms"
    )
    table.add_row("bytes, against one turn of equal text", f"{one['bytes_ratio']:.2f}", "<= 1.5")
    table.add_row("mean reward with faults in a fifth", f"{one['reward']:.3f}, moved {one['moved']:+.3f}", "<= .01")
    table.add_row("the same where a fault is a 0", f"moved {one['naive_moved']:+.3f}", ">= .15")
    if two := found.sandboxed:
        table.add_section()
        table.add_row("in sandboxes, the host killed too: episodes, kills", f"{two['episodes']}, {two['kills']}", "")
        table.add_row("without a final state", f"{two['unfinished']}", "0")
        table.add_row("done, and rewarded", f"{two['earned']} of {two['right']}", "all")
        table.add_row("not done, and rewarded", f"{two['unearned']}", "0")
        table.add_row("lost and played anew; failed", f"{two['lost_and_played_anew']}; {two['failed']}", "> 0")
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
