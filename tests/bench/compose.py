"""`python -m tests.bench.compose`: docker/compose.yaml at work, without a container engine.

Every service starts as tests/platform/containers.py says: its user, read-only disk, networks, memory and the file's
environment, no other. Then the loop closes over the proxy: sign in, a project, tasks, steps, scores, rollouts, training
on the box, the gate, an answer of the new adapter. Then everything is stopped in the order of `docker compose down`
with work under way, started again, and that work must come to its end.

`--env docker/.env` tries your own values instead of ones made up for the names in docker/example.env.
"""

import argparse
import contextlib
import json
import os
import secrets
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import httpx
from rich.console import Console
from rich.table import Table

from tentalis.client.clients import Client
from tentalis.core.desk import make_tickets
from tests.platform.composed import Composed, read_compose, read_values
from tests.platform.containers import (
    NAMESPACES,
    PROJECT,
    TOOLS,
    Container,
    ContainerError,
    Host,
    drop_memory_groups,
    run,
)

Found = TypeVar("Found")

SLUG = "composed"
TASKS = 2
PATIENCE_S = 180.0
UP_S = 600.0
POLL_S = 0.3
HOLD_TASKS = 6
CADDY = PROJECT / ".venv" / "share" / "caddy"
QUESTION = "Ticket: 2 boxes of nails."
JOB = "#4711 Pack the folder mail for the courier."
GROUP = 4


class LoopOpenError(Exception):
    """The loop did not close; the message says where."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, default=PROJECT / "docker" / "compose.yaml")
    parser.add_argument("--env", type=Path, help="the values; without: made up")
    parser.add_argument("--keep-logs", type=Path, help="copy what the services wrote here")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return check(options)
    if why := why_not():
        print(f"compose: {why}", file=sys.stderr)
        return 1
    find_caddy()
    root = Path(tempfile.mkdtemp(prefix="tentalis-compose-"))
    root.chmod(0o755)
    try:
        words = [*NAMESPACES, sys.executable, "-m", "tests.bench.compose", *sys.argv[1:], "--inside", str(root)]
        return subprocess.run(words, cwd=PROJECT, check=False).returncode
    finally:
        drop_memory_groups(root)
        shutil.rmtree(root, ignore_errors=True)


def why_not() -> str:
    """Why this machine cannot; "" where it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "needs Linux and root, for namespaces with networks and users of their own"
    if missing := [tool for tool in TOOLS if not shutil.which(tool)]:
        return f"needs {', '.join(missing)} (Debian: apt install util-linux iproute2 bubblewrap git)"
    trial = subprocess.run(
        [*NAMESPACES, "ip", "link", "add", "br0", "type", "bridge"], capture_output=True, check=False
    )
    return "" if trial.returncode == 0 else f"the kernel refuses: {trial.stderr.decode().strip()[-200:]}"


def find_caddy() -> Path | None:
    """A Caddy of this machine's, or Debian's, unpacked and not installed: its package would start one on port 80."""
    if found := shutil.which("caddy"):
        return Path(found)
    binary = CADDY / "usr/bin/caddy"
    if not binary.exists() and shutil.which("apt-get"):
        with tempfile.TemporaryDirectory() as place, contextlib.suppress(ContainerError, StopIteration):
            got = subprocess.run(["apt-get", "download", "caddy"], cwd=place, capture_output=True, check=False)
            if got.returncode == 0:
                run("dpkg", "-x", str(next(Path(place).glob("caddy_*.deb"))), str(CADDY))
    return binary if binary.exists() else None


def read_file(options: argparse.Namespace) -> tuple[Composed, dict[str, str]]:
    if options.env:
        values = read_values(options.env.read_text(encoding="utf-8"))
    else:
        example = read_values((PROJECT / "docker" / "example.env").read_text(encoding="utf-8"))
        values = {name: value or secrets.token_hex(32) for name, value in example.items()}
    return read_compose(options.file, values), values


def check(options: argparse.Namespace) -> int:
    """All of it, within namespaces of our own."""
    console = Console(width=120)
    composed, values = read_file(options)
    bars: dict[str, dict[str, Any]] = {}
    rows: dict[str, dict[str, Any]] = {}
    fault = ""
    with Host(composed, options.inside, caddy=find_caddy()) as host:
        try:
            host.make_networks()
            host.make_images()
            host.up(patience_s=UP_S)
            with reach(host, values) as house:
                learned = close_loop(house)
                bars["tries at a terminal task that a sandbox and a shipped model played"] = bar(play(house), GROUP)
                judge_doors(house, bars)
                held = submit(house, HOLD_TASKS, seed=3)
                note(rows, host.containers)
                ended = host.down()
                note(rows, ended)
                host.up(patience_s=UP_S)
                kept = keep_promises(house, held, learned)
            second = host.down()
            note(rows, second)
            bars |= judge_ends([*ended.values(), *second.values()])
            bars |= {
                "tasks accepted before `down` and not done after `up`": bar(len(held) - kept["done"], 0),
                "faults of the audit": bar(kept["audit_faults"], 0),
                "the loop closed and the new adapter answers": bar(int(kept["answers_as"] == learned["adapter"]), 1),
            }
        except (ContainerError, LoopOpenError, httpx.HTTPError) as error:
            fault = str(error)
        finally:
            if options.keep_logs:
                shutil.copytree(options.inside / "logs", options.keep_logs, dirs_exist_ok=True)
    bars["everything starts and the way is open"] = bar(int(not fault), 1)
    show(console, rows, bars, fault, has_proxy=host.caddy is not None)
    result = {"bench": "compose", "rows": list(rows.values()), "ratios": {}, "bars": bars}
    console.print(json.dumps(result), soft_wrap=True, markup=False, highlight=False)
    return 0 if all(one["met"] for one in bars.values()) else 1


def bar(found: float, wanted: float) -> dict[str, Any]:
    return {"found": found, "wanted": wanted, "met": found == wanted}


class House:
    """Where the platform is reached from outside, and by whom."""

    def __init__(self, host: Host, values: Mapping[str, str], authority: Path) -> None:
        self.host = host
        self.values = values
        self.address = f"https://{values['TENTALIS_SITE']}"
        self.trusted = ssl.create_default_context(cafile=authority)
        self.token = ""

    def client(self) -> Client:
        return Client(self.address, self.token, timeout_s=60, transport=httpx.HTTPTransport(verify=self.trusted))

    def sign_in(self) -> None:
        """By the form, as a person, then for a token as a command line does."""
        with httpx.Client(base_url=self.address, follow_redirects=True, timeout=60, verify=self.trusted) as browser:
            page = browser.get("/sign-in/")
            page.raise_for_status()
            form = {"username": "admin", "password": self.values["TENTALIS_ADMIN_PASSWORD"]}
            form["csrfmiddlewaretoken"] = browser.cookies["csrftoken"]
            done = browser.post("/sign-in/", data=form, headers={"Referer": f"{self.address}/sign-in/"})
            if done.status_code != 200 or "sign-in" in str(done.url):
                raise LoopOpenError(f"signing in: {done.status_code} at {done.url}")
        self.token = self.client().login(
            username="admin", password=self.values["TENTALIS_ADMIN_PASSWORD"], name="compose check"
        )["token"]


@contextlib.contextmanager
def reach(host: Host, values: Mapping[str, str]) -> Iterator[House]:
    """By the proxy and its certificate where there is a Caddy, else straight at web and gateway as the proxy does."""
    if host.caddy is None:
        host.reach_by_name({name: host.address_of(name, "inside") for name in ("web", "gateway")})
        raise LoopOpenError("there is no Caddy here: `apt-get download caddy` failed; services started, nothing asked")
    site = values["TENTALIS_SITE"]
    inner = {name: host.address_of(name, "inside") for name in ("web", "engine")}
    host.reach_by_name({site: host.address_of("proxy", "outside")} | inner)
    authority = host.root / "volumes" / "caddy" / "caddy/pki/authorities/local/root.crt"
    wait_for(lambda: authority.exists() or None, "the proxy made no certificate")
    house = House(host, values, authority)
    house.sign_in()
    yield house


def close_loop(house: House) -> dict[str, Any]:
    """Tasks in, reviewed by the rule book, trained on, gated, served. Raises LoopOpenError."""
    with house.client() as client:
        client.create_project(
            slug=SLUG,
            name="Composed",
            group_size=GROUP,
            batch_tasks=TASKS,
            review_policy={"who": "ai", "ai_manager": "rule-book", "rate": 1.0},
            recipe={"learning_rate": 0.00001},
        )
        client.create_worker(project=SLUG, name="desk", kind="desk")
        tasks = submit(house, TASKS, seed=1)
        run = wait_for(lambda: find_run(client), "no training began", house)
        adapter = wait_for(lambda: find_served(client), f"run {run['id']} brought no adapter that serves", house)
        attempts = [one for task in tasks for one in client.list_attempts(task)["results"]]
        steps = [step for one in attempts for step in client.list_steps(one["id"])["results"]]
        scores = sum(len(step.get("scores", [])) for step in steps)
        rollouts = client.list_rollouts(project=SLUG)["results"]
        verdicts = client.list_verdicts(adapter["id"])["results"]
        found = {"attempts": len(attempts), "steps": len(steps), "scores": scores, "rollouts": len(rollouts)}
        found |= {"verdicts": len(verdicts)}
        if missing := [name for name, count in found.items() if not count]:
            raise LoopOpenError(f"an adapter serves, and yet there are no {', '.join(missing)}: {found}")
    return found | {"adapter": answer(house)}


def play(house: House) -> int:
    """How many tries at a task in the terminal came to their end, turn by turn, with a model that is shipped.

    Raises:
        LoopOpenError: they came to no end.
    """
    with house.client() as client:
        client.create_project(slug="boxed", name="Boxed", group_size=GROUP, review_policy={"who": "none"})
        client.create_worker(
            project="boxed", name="hand", kind="chat", base_model="apprentice", sampling={"max_tokens": 64}
        )
        task = client.submit_task(project="boxed", prompt=JOB, environment="terminal", worker="hand")["id"]
        wait_for(
            lambda: client.get_task(task)["state"] in {"done", "failed"} or None, "the terminal task has no end", house
        )
        tries = client.list_attempts(task)["results"]
        told = [(one["state"], one["error"], len(client.list_steps(one["id"])["results"])) for one in tries]
    if fault := [one for one in told if one[0] == "failed" or not one[2]]:
        raise LoopOpenError(f"tries at a terminal task: {fault}")
    return len(told)


def submit(house: House, count: int, *, seed: int) -> list[int]:
    tickets = make_tickets(seed, count, held_out=False)
    with house.client() as client:
        return [
            client.submit_task(project=SLUG, prompt=one.text, environment="desk", worker="desk")["id"]
            for one in tickets
        ]


def find_run(client: Client) -> dict[str, Any] | None:
    runs = client.list_runs(project=SLUG)["results"]
    return dict(runs[0]) if runs else None


def find_served(client: Client) -> dict[str, Any] | None:
    for one in client.list_runs(project=SLUG)["results"]:
        if one["state"] in {"failed", "refused", "cancelled"}:
            raise LoopOpenError(f"run {one['id']} {one['state']}: {one.get('failure')}")
    found = [one for one in client.list_adapters(project=SLUG)["results"] if one["state"] == "deployed"]
    return dict(found[0]) if found else None


def answer(house: House) -> str:
    """Which adapter answers a question at the gateway."""
    done = httpx.post(
        f"{house.address}/v1/chat/completions",
        json={"model": "desk", "messages": [{"role": "user", "content": QUESTION}], "max_tokens": 8},
        headers={"Authorization": f"Bearer {house.token}", "X-Tentalis-Project": SLUG},
        timeout=60,
        verify=house.trusted,
    )
    if done.status_code != 200:
        raise LoopOpenError(f"the gateway answers {done.status_code}: {done.text[:300]}")
    return done.headers["X-Tentalis-Adapter"]


def judge_doors(house: House, bars: dict[str, dict[str, Any]]) -> None:
    """Who reaches the figures, the routes of sessions, and whose address a caller has."""
    outside = httpx.get(f"{house.address}/metrics", timeout=30, verify=house.trusted).status_code
    bars["the proxy's answer to /metrics"] = bar(outside, 404)
    web = "http://web:8000/metrics"
    key = {"Authorization": f"Bearer {house.values['TENTALIS_METRICS_TOKEN']}"}
    bars["/metrics inside, without the token"] = bar(httpx.get(web, timeout=30).status_code, 403)
    bars["/metrics inside, with it"] = bar(httpx.get(web, headers=key, timeout=30).status_code, 200)
    bars["the engine without its key"] = bar(httpx.get("http://engine:8300/v1/models", timeout=30).status_code, 401)
    path = f"{house.address}/sessions/one/v1/chat/completions"
    bars["a session's own route, without a token"] = bar(
        httpx.post(path, json={}, timeout=30, verify=house.trusted).status_code, 401
    )


def keep_promises(house: House, held: list[int], learned: Mapping[str, Any]) -> dict[str, Any]:
    """What was accepted before the stop comes to its end after it."""
    with house.client() as client:

        def count_done() -> int:
            return sum(client.get_task(task)["state"] == "done" for task in held)

        with contextlib.suppress(LoopOpenError):
            wait_for(lambda: count_done() == len(held) or None, "work of before the stop is not done", house)
        audit = client.verify_audit()
        return {"done": count_done(), "audit_faults": len(audit.get("faults", [])), "answers_as": answer(house)}


def wait_for(find: Callable[[], Found | None], words: str, house: House | None = None) -> Found:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if house is not None:
            for container in house.host.containers.values():
                house.host.look(container)
        if (found := find()) is not None:
            return found
        time.sleep(POLL_S)
    raise LoopOpenError(f"{words} within {PATIENCE_S:g} s")


def note(rows: dict[str, dict[str, Any]], containers: Mapping[str, Container]) -> None:
    for name, one in containers.items():
        row = rows.setdefault(name, {"service": name, "memory_mib": 0})
        row["memory_mib"] = max(row["memory_mib"], one.memory_bytes >> 20)
        row |= {
            "limit_mib": one.service.memory_bytes >> 20,
            "healthy_s": round(one.healthy_s, 1),
            "stopped_s": round(one.stopped_s, 1),
            "exit_code": one.process.poll(),
            "was_killed": row.get("was_killed", False) or one.was_killed,
        }


def judge_ends(ended: list[Container]) -> dict[str, dict[str, Any]]:
    return {
        "exit codes that are not 0": bar(sum(one.process.returncode != 0 for one in ended), 0),
        "killed after their grace": bar(sum(one.was_killed for one in ended), 0),
        "ended for their memory": bar(sum(one.denied for one in ended), 0),
    }


def show(
    console: Console, rows: Mapping[str, Mapping[str, Any]], bars: Mapping[str, Any], fault: str, *, has_proxy: bool
) -> None:
    table = Table(title="docker/compose.yaml, each service with exactly its environment")
    for name in ("service", "well after", "memory", "limit", "stopped in", "exit code"):
        table.add_column(name, justify="left" if name == "service" else "right")
    for row in rows.values():
        table.add_row(
            *(row["service"], f"{row['healthy_s']} s", f"{row['memory_mib']} MiB", f"{row['limit_mib']} MiB"),
            *(f"{row['stopped_s']} s", str(row["exit_code"])),
        )
    console.print(table)
    if not has_proxy:
        console.print("without its proxy: there is no Caddy here")
    for name, one in bars.items():
        if not one["met"]:
            console.print(f"missed: {name}: wanted {one['wanted']}, found {one['found']}", markup=False)
    if fault:
        console.print(f"stopped: {fault}", markup=False)


if __name__ == "__main__":
    sys.exit(main())
