"""`python -m tests.bench.gateway_crash`: what is lost when the gateway is killed and Postgres crashes under load.

Agents hold conversations through a real gateway with a model server that answers what can be computed; meanwhile the
gateway is killed with `kill -9` and Postgres made to crash, spread evenly over the load. Afterwards every answer that
an agent got whole must be in Postgres once, with equal messages and equal token ids of prompt and answer.
"""

import argparse
import asyncio
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psutil
from rich.console import Console
from rich.table import Table

from tentalis.platform.up import RunningStack
from tests.apps.gateway.upstream import Plan, StubUpstream, make_choice, prompt_tokens_of
from tests.chaos.stage import chaos_stack, environment_of
from tests.local_server import find_free_port

Json = dict[str, Any]
SERVICES = ("postgres", "redis", "migrate", "gateway")
AGAIN_S = 0.2
POLL_S = 0.01
SETTLE_S = 120.0
CHECK_PAGE = 500
MOST_TURNS = 12


@dataclass(frozen=True)
class Load:
    """What is asked, and what goes wrong meanwhile.

    Args:
        exchanges: answers to be got whole. callers: so many at a time.
        workers: of the gateway; with more than one, every second kill is of a worker, the others of all at once.
    """

    exchanges: int
    kills: int
    crashes: int
    callers: int = 16
    seed: int = 7
    workers: int = 1


@dataclass
class Report:
    """What came of it. `faults`: broken promises, in words.

    Attributes:
        acknowledged: answers that agents got whole. stored: exchanges in Postgres, of other requests too.
        broken: requests that failed because something was down.
    """

    acknowledged: int = 0
    broken: int = 0
    kills: int = 0
    crashes: int = 0
    stored: int = 0
    lost: int = 0
    doubled: int = 0
    differing: int = 0
    wall_s: float = 0.0
    faults: list[str] = field(default_factory=list)


class Callers:
    """Agents, each in one conversation after the other."""

    def __init__(self, url: str, token: str, load: Load, acknowledged: Path) -> None:
        self._url = f"{url}/v1/chat/completions"
        self._headers = {"Authorization": f"Bearer {token}"}
        self._load = load
        self._file = acknowledged.open("w", encoding="utf-8")
        self.count = 0
        self.broken = 0
        self.reasons: Counter[str] = Counter()

    async def run(self) -> None:
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=60)) as session:
            await asyncio.gather(*(self._call(session, number) for number in range(self._load.callers)))
        self._file.close()

    async def _call(self, session: aiohttp.ClientSession, number: int) -> None:
        dice = random.Random(f"{self._load.seed} {number}")
        while self.count < self._load.exchanges:
            key = f"s-{number}-{uuid.uuid4().hex}"
            messages: list[Json] = [{"role": "system", "content": "Answer in numbered words."}]
            for _ in range(dice.randint(1, MOST_TURNS)):
                messages = await self._take_turn(session, key, messages, dice)

    async def _take_turn(
        self, session: aiohttp.ClientSession, key: str, messages: list[Json], dice: random.Random
    ) -> list[Json]:
        """Ask until there is a whole answer; every try is another question, so that no two requests are equal."""
        while True:
            asked = [*messages, {"role": "user", "content": f"question {uuid.uuid4().hex} please"}]
            body = {"model": "helper", "messages": asked, "n": dice.choice([1, 1, 1, 2]), "stream": dice.random() < 0.5}
            try:
                answer = await self._ask(session, key, body)
            except (aiohttp.ClientError, TimeoutError, ConnectionError, ValueError) as error:
                self.broken += 1
                self.reasons[f"{type(error).__name__}: {error}"[:100]] += 1
                await asyncio.sleep(AGAIN_S)
                continue
            self.count += 1
            self._file.write(json.dumps({"id": answer, "session": key, "messages": asked, "n": body["n"]}) + "\n")
            return [*asked, {"role": "assistant", "content": make_choice(Plan(), 0).text}]

    async def _ask(self, session: aiohttp.ClientSession, key: str, body: Json) -> str:
        """The id of the exchange. Raises ValueError where the answer is not whole."""
        headers = self._headers | {"X-Session-Id": key}
        async with session.post(self._url, json=body, headers=headers) as response:
            text = await response.text()
            if response.status != 200:
                raise ValueError(f"status {response.status}: {text[:60]}")
            if body["stream"] and not text.rstrip().endswith("data: [DONE]"):
                raise ValueError("a stream without its end")
            if '"error"' in text:
                raise ValueError("an error in the stream")
            return response.headers["X-Tentalis-Exchange"]


async def break_things(stack: RunningStack, callers: Callers, load: Load, report: Report) -> None:
    """Kills and crashes in turn, each when so many more answers were got."""
    faults = ["gateway"] * load.kills + ["postgres"] * load.crashes
    random.Random(load.seed).shuffle(faults)
    for place, name in enumerate(faults, start=1):
        while callers.count < place * load.exchanges // (len(faults) + 1):
            await asyncio.sleep(POLL_S)
        if name == "gateway" and load.workers > 1 and report.kills % 2 == 0:
            psutil.Process(stack.state().of("gateway").pid).children()[0].kill()
        else:
            number = signal.SIGKILL if name == "gateway" else signal.SIGQUIT
            await asyncio.to_thread(stack.signal, name, number)
        report.kills += name == "gateway"
        report.crashes += name == "postgres"


def run_load(load: Load, directory: Path) -> Report:
    """The whole of it, in a stack of its own."""
    report = Report()
    file = directory / "acknowledged.jsonl"
    settings = {"TENTALIS_GATEWAY_PORT": str(find_free_port()), "TENTALIS_GATEWAY_WORKERS": str(load.workers)}
    with StubUpstream() as upstream, chaos_stack(keep_in=directory / "home", settings=settings, only=SERVICES) as stack:
        token = run_beside(stack, "--prepare", upstream.url).strip()
        callers = Callers(stack.state().addresses["gateway_url"], token, load, file)
        began = time.monotonic()
        asyncio.run(_run_both(stack, callers, load, report))
        report.wall_s = time.monotonic() - began
        report.acknowledged, report.broken = callers.count, callers.broken
        stack.wait_until(lambda state: state.of("gateway").pid is not None)
        checked = json.loads(run_beside(stack, "--check", str(file)))
        for name, value in checked.items():
            setattr(report, name, value)
    if (report.kills, report.crashes) != (load.kills, load.crashes):
        report.faults.append(f"only {report.kills} kills and {report.crashes} crashes were caused")
    for reason, count in callers.reasons.most_common(5):
        sys.stderr.write(f"{count} broken: {reason}\n")
    return report


async def _run_both(stack: RunningStack, callers: Callers, load: Load, report: Report) -> None:
    breaking = asyncio.create_task(break_things(stack, callers, load, report))
    await callers.run()
    await breaking


def run_beside(stack: RunningStack, *arguments: str) -> str:
    """This module again, as a process that works on the stack's database."""
    argv = [sys.executable, "-m", "tests.bench.gateway_crash", *arguments]
    done = subprocess.run(
        argv, env=environment_of(stack), capture_output=True, text=True, timeout=SETTLE_S + 600, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr[-2000:]}")
    return done.stdout


def prepare(upstream_url: str) -> str:
    """A worker behind the upstream; a token that may ask it."""
    import django

    django.setup()
    from tests.apps.gateway.running import make_agent_token, make_chat_worker, make_provider
    from tests.factories import make_project

    project = make_project("crash", limits={})
    make_chat_worker(project, make_provider(project, upstream_url))
    return make_agent_token(project)


def check(acknowledged: Path) -> Json:
    """Compare what agents got with what is stored, once all of it is stored or nothing more comes."""
    import django

    django.setup()
    wanted = [json.loads(line) for line in acknowledged.read_text(encoding="utf-8").splitlines()]
    lost = wait_until_stored({one["id"] for one in wanted})
    stored = doubled = differing = 0
    faults = [f"lost: {len(lost)}, such as {sorted(lost)[:3]}"] if lost else []
    by_id = {uuid.UUID(_hex_of(one["id"])): one for one in wanted}
    seen: Counter[tuple[str, int]] = Counter()
    questions: Counter[tuple[str, int]] = Counter()
    for row in read_stored():
        stored += 1
        questions[row["messages"][-1]["content"], row["choice"]] += 1
        one = by_id.get(row["id"])
        if one is None:
            continue
        seen[str(row["id"]), row["choice"]] += 1
        choice = make_choice(Plan(), row["choice"])
        expected = (one["messages"], prompt_tokens_of(one["messages"]), choice.token_ids, choice.text, one["session"])
        if (row["messages"], row["prompt"], row["tokens"], row["text"], row["session"]) != expected:
            differing += 1
            faults.append(f"exchange {row['id']} differs from what the agent got")
    missing = [(name, place) for name, one in by_id.items() for place in range(one["n"]) if not seen[str(name), place]]
    doubled = sum(count > 1 for count in questions.values()) + sum(count > 1 for count in seen.values())
    if missing and not lost:
        faults.append(f"choices are missing: {missing[:3]}")
    if doubled:
        faults.append(f"{doubled} exchanges are there more than once")
    return {
        "stored": stored, "lost": len(lost) or len(missing), "doubled": doubled, "differing": differing,
        "faults": faults[:20],
    }  # fmt: skip


def wait_until_stored(ids: Iterable[str]) -> set[uuid.UUID]:
    """Which of them are not there when all are, or when nothing came for long."""
    from apps.inference.models import Exchange

    missing = {uuid.UUID(_hex_of(one)) for one in ids}
    give_up_at = time.monotonic() + SETTLE_S
    while missing and time.monotonic() < give_up_at:
        before = len(missing)
        for page in _pages(sorted(missing)):
            missing -= set(Exchange.objects.filter(public_id__in=page).values_list("public_id", flat=True))
        if missing and len(missing) == before:
            time.sleep(0.5)
    return missing


def read_stored() -> Iterator[Json]:
    """Everything that was answered, as it reads."""
    from apps.inference.models import Exchange
    from apps.inference.selectors import read_conversations
    from tentalis.core.packing import unpack_int32

    last = 0
    rows = Exchange.objects.filter(status=200, is_truncated=False).select_related("session").order_by("pk")
    while page := list(rows.filter(pk__gt=last)[:CHECK_PAGE]):
        conversations = read_conversations(page)
        for exchange in page:
            conversation = conversations[exchange.pk]
            yield {
                "id": exchange.public_id,
                "choice": exchange.choice,
                "session": exchange.session.key if exchange.session else "",
                "messages": conversation.messages,
                "prompt": unpack_int32(conversation.prompt_token_ids),
                "tokens": exchange.unpack_token_ids(),
                "text": exchange.text,
            }
        last = page[-1].pk


def _pages(values: list[uuid.UUID]) -> Iterator[list[uuid.UUID]]:
    for start in range(0, len(values), CHECK_PAGE):
        yield values[start : start + CHECK_PAGE]


def _hex_of(exchange: str) -> str:
    """An exchange's id without what an API puts before it."""
    return exchange.rsplit("-", 1)[-1].rsplit("_", 1)[-1] if len(exchange) > 36 else exchange


def print_report(console: Console, load: Load, report: Report) -> None:
    table = Table(title="Killing the gateway under load")
    columns: Mapping[str, Any] = {
        "acknowledged": report.acknowledged, "broken": report.broken, "kills": report.kills,
        "crashes of Postgres": report.crashes, "stored": report.stored, "lost": report.lost,
        "doubled": report.doubled, "differing": report.differing, "seconds": f"{report.wall_s:.0f}",
    }  # fmt: skip
    for name in columns:
        table.add_column(name, justify="right")
    table.add_row(*map(str, columns.values()))
    console.print(table)
    for fault in report.faults:
        console.print(f"seed {load.seed}: {fault}", markup=False)
    line = json.dumps({"bench": "gateway_crash", "rows": [asdict(report)], "ratios": {}})
    console.print(line, soft_wrap=True, markup=False, highlight=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exchanges", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=10, help="of the gateway, with SIGKILL")
    parser.add_argument("--crashes", type=int, default=2, help="of Postgres, with SIGQUIT")
    parser.add_argument("--callers", type=int, default=16)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--workers", type=int, default=1, help="of the gateway")
    parser.add_argument("--keep", type=Path, help="keep the home, its logs and what was acknowledged here")
    parser.add_argument("--prepare", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--check", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.prepare:
        sys.stdout.write(prepare(options.prepare))
        return 0
    if options.check:
        sys.stdout.write(json.dumps(check(options.check)))
        return 0
    load = Load(options.exchanges, options.kills, options.crashes, options.callers, options.seed, options.workers)
    directory = options.keep or Path(tempfile.mkdtemp(prefix="tentalis-crash-"))
    directory.mkdir(parents=True, exist_ok=True)
    try:
        report = run_load(load, directory)
    finally:
        if options.keep is None:
            shutil.rmtree(directory, ignore_errors=True)
    print_report(Console(width=110), load, report)
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
