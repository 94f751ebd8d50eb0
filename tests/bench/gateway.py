"""`python -m tests.bench.gateway`: gateways side by side, in front of one upstream of pre-rendered bytes.

Every server under test is pinned to core 0, with all its threads; the upstream, the callers and the databases are on
the other cores. One row a server and load; CPU is what the server's own processes used. Ours runs as in production:
tokens checked, sessions found, budgets looked at, every answer in the spool before it is acknowledged, and carried into
a real Postgres while the load runs. The peers come from PyPI into environments of their own under .cache/bench; one
that cannot be installed is left out and named.

Ends with a table, the ratios that matter, and one JSON object.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from tests.bench.gateway_load import PROFILES
from tests.local_server import find_free_port

CACHE = Path(".cache/bench")
RLLM = ("rllm-model-gateway==0.1.0", "uvloop", "httptools")
LITELLM = ("litellm[proxy]==1.106.2",)
START_S = 120.0
SETTLE_S = 1.0
STORED_S = 10.0
LAUNCH = (
    "import os,sys;os.sched_setaffinity(0,{int(c) for c in sys.argv[1].split(',')});os.execvp(sys.argv[2],sys.argv[2:])"
)
Json = dict[str, Any]


@dataclass(frozen=True)
class Load:
    """One kind of traffic.

    Args:
        model: of the upstream's. callers: at the same time. count: requests, or as many as fit the time.
    """

    model: str
    is_stream: bool
    callers: int
    count: int

    @property
    def name(self) -> str:
        return f"{self.model} {'stream' if self.is_stream else 'plain'} c={self.callers}"


LOADS = [
    *(Load("small", is_stream, callers, 6000) for is_stream in (False, True) for callers in (1, 16, 64)),
    Load("slow", False, 256, 1536),
    Load("large", False, 16, 2000),
    Load("large", True, 16, 1000),
]
SCALED = [load for load in LOADS if load.model == "small" and load.callers == 64]
BARS = {
    "plain_to_bare": 0.85,
    "stream_to_bare": 0.85,
    "large_plain_to_bare": 0.9,
    "large_stream_to_bare": 0.9,
    "plain_to_rllm": 8.0,
    "stream_to_rllm": 8.0,
    "workers_plain": 1.8,
    "workers_stream": 1.8,
    "failed": 0,
}
"""What a run must reach (`failed`: not pass)."""


@dataclass
class Subject:
    """A server that is measured.

    Args:
        prefix: what a model of the upstream is called behind it. loads: that it is measured with.
    """

    name: str
    port: int
    process: "subprocess.Popen[str] | None" = None
    path: str = "/v1/chat/completions"
    token: str = "none"
    prefix: str = ""
    loads: Sequence[Load] = field(default_factory=lambda: LOADS)

    def count_cpu_s(self) -> float:
        return sum(sum(each.cpu_times()[:2]) for each in self._processes())

    def count_rss_mb(self) -> float:
        return sum(float(each.memory_info().rss) for each in self._processes()) / 2**20

    def _processes(self) -> Iterator[psutil.Process]:
        if self.process is not None:
            top = psutil.Process(self.process.pid)
            yield from (top, *top.children(recursive=True))


def pin(argv: list[str], cores: str) -> list[str]:
    return [sys.executable, "-c", LAUNCH, cores, *argv]


def find_cores() -> tuple[str, str, str]:
    """The core of the servers under test, that and a second one of those with two workers, and those of all else.

    Where there are fewer than four, two workers share one core with each other, and what they cost is compared.
    """
    first, *others = sorted(os.sched_getaffinity(0))
    pair = [first, others.pop(0)] if len(others) >= 3 else [first]
    return str(first), ",".join(map(str, pair)), ",".join(map(str, others or [first]))


@contextmanager
def running(argv: list[str], cores: str, **options: Any) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(pin(argv, cores), text=True, **options)
    try:
        yield process
    finally:
        for child in psutil.Process(process.pid).children(recursive=True) if process.poll() is None else ():
            child.terminate()
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def read_port(process: "subprocess.Popen[str]") -> int:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"a server did not start: exit {process.wait()}")
    return int(line)


def wait_until_it_answers(subject: Subject) -> bool:
    """Whether one small request comes back in time."""
    body = {"model": f"{subject.prefix}small", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    headers = {"Authorization": f"Bearer {subject.token}", "Content-Type": "application/json"}
    until = time.monotonic() + START_S
    while time.monotonic() < until and (subject.process is None or subject.process.poll() is None):
        request = urllib.request.Request(
            f"http://127.0.0.1:{subject.port}{subject.path}", json.dumps(body).encode(), headers
        )
        try:
            with urllib.request.urlopen(request, timeout=10):
                return True
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    return False


def measure(subject: Subject, load: Load, cores: str, *, most_s: float) -> Json:
    argv = [sys.executable, "-m", "tests.bench.gateway_load", "callers", "--port", str(subject.port)]
    argv += ["--path", subject.path, "--token", subject.token, "--model", f"{subject.prefix}{load.model}"]
    argv += ["--callers", str(load.callers), "--count", str(load.count), "--most-s", str(most_s)]
    argv += ["--prompt-words", str(PROFILES[load.model].prompt_tokens)] + (["--stream"] if load.is_stream else [])
    before = subject.count_cpu_s()
    done = subprocess.run(pin(argv, cores), capture_output=True, text=True, check=True)
    time.sleep(SETTLE_S)  # what is carried to the database after the last answer is paid for too
    row: Json = {"server": subject.name, "load": load.name} | json.loads(done.stdout)
    row["cpu_ms"] = round(1000 * (subject.count_cpu_s() - before) / max(1, row["requests"]), 3)
    row["rss_mb"] = round(subject.count_rss_mb(), 1)
    return row


# --- the servers


@cache
def prepare_platform(upstream: str, home: Path) -> str:
    """Postgres and Redis of this run, migrated; an agent's token."""
    os.environ["TENTALIS_HOME"] = str(home)
    os.environ["DJANGO_SETTINGS_MODULE"] = "tentalis.settings.test"
    import django
    from django.core.management import call_command

    django.setup()
    call_command("prepare_database", verbosity=0)

    from tests.apps.gateway.running import make_agent_token, make_provider
    from tests.factories import make_project

    project = make_project("bench")
    make_provider(project, upstream)
    return make_agent_token(project)


@contextmanager
def our_gateway(upstream: str, core: str, home: Path, *, workers: int = 1) -> Iterator[Subject]:
    token = prepare_platform(upstream, home)
    name, loads = ("tentalis", LOADS) if workers == 1 else (f"tentalis, {workers} workers", SCALED)
    argv = [sys.executable, "-m", "apps.gateway", "--port", "0", "--workers", str(workers)]
    with running(argv, core, stdout=subprocess.PIPE) as process:
        yield Subject(name, read_port(process), process, token=token, prefix="stub/", loads=loads)


def count_stored(*, wanted: int) -> int:
    """How many exchanges are in Postgres, as soon as it is `wanted` or after a few seconds."""
    from django.db import connection

    from apps.inference.models import Exchange

    until = time.monotonic() + STORED_S
    try:
        while (found := Exchange.objects.count()) < wanted and time.monotonic() < until:
            time.sleep(0.1)
        return found
    finally:
        connection.close()


@contextmanager
def bare_proxy(upstream: str, core: str, home: Path) -> Iterator[Subject]:
    argv = [
        sys.executable,
        "-m",
        "tests.bench.gateway_bare",
        "--upstream",
        upstream,
        "--database",
        str(home / "bare.db"),
    ]
    with running(argv, core, stdout=subprocess.PIPE) as process:
        yield Subject("bare aiohttp + SQLite", read_port(process), process)


@contextmanager
def rllm_gateway(upstream: str, core: str, home: Path, python: Path) -> Iterator[Subject]:
    port = find_free_port()
    argv = [str(python.parent / "rllm-model-gateway"), "--host", "127.0.0.1", "--port", str(port)]
    argv += [
        "--worker",
        f"{upstream}/v1",
        "--store",
        "sqlite",
        "--db-path",
        str(home / "rllm.db"),
        "--log-level",
        "warning",
    ]
    with running(argv, core, stdout=subprocess.DEVNULL, stderr=(home / "rllm.log").open("w")) as process:
        yield Subject("rllm-model-gateway", port, process, path="/sessions/bench/v1/chat/completions")


@contextmanager
def litellm_proxy(upstream: str, core: str, home: Path, python: Path) -> Iterator[Subject]:
    port = find_free_port()
    models = [
        {
            "model_name": name,
            "litellm_params": {"model": f"openai/{name}", "api_base": f"{upstream}/v1", "api_key": "none"},
        }
        for name in PROFILES
    ]
    config = home / "litellm.yaml"
    config.write_text(json.dumps({"model_list": models}))
    argv = [str(python.parent / "litellm"), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    argv += ["--num_workers", "1"]
    environment = os.environ | {
        "LITELLM_LOG": "ERROR",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",  # on loopback; it wants one since 1.106
    }
    environment.pop("DATABASE_URL", None)
    output = (home / "litellm.log").open("w")
    with running(argv, core, stdout=output, stderr=output, env=environment) as process:
        yield Subject("litellm", port, process)


def install(name: str, requirements: tuple[str, ...]) -> Path | None:
    """The Python of an environment that holds a peer; None where it cannot be had."""
    place = CACHE.resolve() / f"gateway-{name}"
    python, mark = place / "bin" / "python", place / "installed"
    if mark.exists() and mark.read_text() == "\n".join(requirements):
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
    command = [str(python), "-m", "pip", "install", "--quiet", *requirements]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{name} is left out, for it cannot be installed: {done.stderr.strip()[-300:]}", flush=True)
        return None
    mark.write_text("\n".join(requirements))
    return python


# --- the whole


def compare(rows: list[Json], *, cores: int) -> Json:
    """The ratios and differences that the gateway is judged by; those of what was not measured are left out.

    Args:
        cores: that two workers had.
    """
    table = {(row["server"], row["load"]): row for row in rows}
    ratios: Json = {}
    for label, load in (("plain", "small plain c=16"), ("stream", "small stream c=16")):
        ours = table["tentalis", load]["per_s"]
        ratios[f"{label}_per_s"] = ours
        for peer, short in (("rllm-model-gateway", "rllm"), ("litellm", "litellm"), ("bare aiohttp + SQLite", "bare")):
            if theirs := table.get((peer, load), {}).get("per_s"):
                ratios[f"{label}_to_{short}"] = round(ours / theirs, 2)
        if others := table.get(("tentalis, 2 workers", f"small {label} c=64")):
            one = table["tentalis", others["load"]]
            shares_core = cores == 1
            scale = 2 * one["cpu_ms"] / others["cpu_ms"] if shares_core else others["per_s"] / one["per_s"]
            ratios[f"workers_{label}"] = round(scale, 2)
    alone = "small plain c=1"
    ratios["added_median_ms"] = round(table["tentalis", alone]["p50_ms"] - table["direct", alone]["p50_ms"], 3)
    ratios["slow_256_p99_ms"] = table["tentalis", "slow plain c=256"]["p99_ms"]
    for kind in ("plain", "stream"):
        found = table["tentalis", f"large {kind} c=16"]["per_s"]
        ratios[f"large_{kind}_per_s"] = found
        if bare := table.get(("bare aiohttp + SQLite", f"large {kind} c=16")):
            ratios[f"large_{kind}_to_bare"] = round(found / bare["per_s"], 2)
    ratios["failed"] = sum(row["failed"] for row in rows if row["server"].startswith("tentalis"))
    return ratios


def show(row: Json) -> None:
    numbers = f"{row['per_s']:>9} {row['p50_ms']:>10} {row['p99_ms']:>10} {row['cpu_ms']:>8} {row['rss_mb']:>8}"
    note = f"  {row['failed']} failed: {row['first_failure'][:120]!r}" if row["failed"] else ""
    print(f"{row['server']:<24} {row['load']:<20} {numbers}{note}", flush=True)


def watch_memory(subject: Subject, cores: str, exchanges: int) -> Json:
    """Resident memory after the first tenth of many exchanges, and after all of them."""
    sizes = []
    for _ in range(10):
        load = Load("small", False, 64, exchanges // 10)
        sizes.append(measure(subject, load, cores, most_s=600)["rss_mb"])
    print(f"resident MB after each tenth of {exchanges} exchanges: {sizes}", flush=True)
    return {"exchanges": exchanges, "rss_mb": sizes, "growth_mb": round(sizes[-1] - sizes[0], 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most-s", type=float, default=5.0, help="seconds a row")
    parser.add_argument(
        "--only", default="", help="servers, with commas between: direct,bare,rllm,litellm,tentalis,workers"
    )
    parser.add_argument("--exchanges", type=int, default=20_000, help="for the memory; 0: not looked at")
    options = parser.parse_args()
    only = set(filter(None, options.only.split(",")))
    core, pair, others = find_cores()
    if core == others:
        print("one core only: servers and callers share it", flush=True)
    os.sched_setaffinity(0, {int(each) for each in others.split(",")})
    from tests import embedded_servers  # noqa: F401 - Postgres and Redis of this run, away from core 0, gone with it

    rows: list[Json] = []
    stored: Json = {}
    memory: Json = {}
    home = Path(tempfile.mkdtemp(prefix="tentalis-bench-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        argv = [sys.executable, "-m", "tests.bench.gateway_load", "upstream"]
        upstream_port = read_port(stack.enter_context(running(argv, others, stdout=subprocess.PIPE)))
        upstream = f"http://127.0.0.1:{upstream_port}"
        servers: dict[str, Any] = {
            "direct": lambda: _nothing(upstream_port),
            "bare": lambda: bare_proxy(upstream, core, home),
            "rllm": lambda: _with_peer(rllm_gateway, "rllm", RLLM, upstream, core, home),
            "litellm": lambda: _with_peer(litellm_proxy, "litellm", LITELLM, upstream, core, home),
            "tentalis": lambda: our_gateway(upstream, core, home),
            "workers": lambda: our_gateway(upstream, pair, home, workers=2),
        }
        print(f"{'server':<24} {'load':<20} {'req/s':>9} {'p50 ms':>10} {'p99 ms':>10} {'CPU ms':>8} {'RSS MB':>8}")
        for name, start in servers.items():
            if only and name not in only:
                continue
            with start() as subject:
                if subject is None:
                    continue
                if not wait_until_it_answers(subject):
                    print(f"{subject.name} is left out: it did not answer{_read_end(home / f'{name}.log')}", flush=True)
                    continue
                measure(subject, Load("small", False, 16, 200), others, most_s=3)  # warm
                for load in subject.loads:
                    rows.append(measure(subject, load, others, most_s=options.most_s))
                    show(rows[-1])
                if name == "tentalis":
                    answered = sum(row["requests"] for row in rows if row["server"] == "tentalis") + 201
                    stored = {"answered": answered, "stored": count_stored(wanted=answered)}
                    print(f"stored in Postgres: {stored['stored']} of {answered} answered", flush=True)
                    if options.exchanges:
                        memory = watch_memory(subject, others, options.exchanges)
    ratios = compare(rows, cores=pair.count(",") + 1) | stored if not only or {"direct", "tentalis"} <= only else {}
    print(json.dumps({"bench": "gateway", "rows": rows, "ratios": ratios | ({"memory": memory} if memory else {})}))
    missed = [
        f"{name}: wanted {bar}, found {ratios[name]}"
        for name, bar in BARS.items()
        if name in ratios and (ratios[name] > bar if name == "failed" else ratios[name] < bar)
    ]
    if missed:
        raise SystemExit("\n".join(missed))


def _read_end(log: Path) -> str:
    return f": {log.read_text()[-500:]!r}" if log.exists() else ""


@contextmanager
def _nothing(port: int) -> Iterator[Subject]:
    yield Subject("direct", port)


@contextmanager
def _with_peer(
    start: Any, name: str, requirements: tuple[str, ...], upstream: str, core: str, home: Path
) -> Iterator[Subject | None]:
    python = install(name, requirements)
    if python is None:
        yield None
        return
    with start(upstream, core, home, python) as subject:
        yield subject


if __name__ == "__main__":
    main()
