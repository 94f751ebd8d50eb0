"""5: adapters change while streams run, at the engine alone and on the whole stack.

At the engine every answer's log-probs are computed again by PEFT under the adapter that it names
(`tests.bench.engine`). On the stack a worker's deployment goes back and forth between two adapters that it learnt,
while agents stream from it through the gateway; afterwards each answer has to be in the rows, under the adapter that
it named.
"""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString

import aiohttp
import psycopg

from tentalis.core.desk import make_tickets
from tests.bench.engine import TOLERANCE, bench_swaps, encode_prompts
from tests.bench.experiments.ground import Bar, Findings, Ground, find_percentile, make_table
from tests.bench.own_work import LoopOpenError

TITLE: Final = "Hot swaps under load"
SWAPS, SWAPS_SMALL = 8, 3
STREAMS: Final = 16
EVERY_S: Final = 0.5
KEPT_S: Final = 30.0
_KEPT: LiteralString = """
SELECT adapter_name, count(*) FROM inference_exchange WHERE agent = %s AND status = 200 GROUP BY adapter_name
"""


@dataclass
class Streams:
    """Agents that stream from a worker until told to stop.

    Attributes:
        answers: (began, took_s, adapter) of each that came whole; time by `time.monotonic()`.
        failures: what else came. misnamed: those whose events named another model than their head.
    """

    url: str
    token: str
    prompts: Sequence[str]
    answers: list[tuple[float, float, str]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    misnamed: int = 0
    is_over: bool = False

    async def run(self) -> None:
        headers = {"Authorization": f"Bearer {self.token}"}
        async with aiohttp.ClientSession(self.url, headers=headers, connector=aiohttp.TCPConnector(limit=0)) as session:
            await asyncio.gather(*(self._keep_asking(session, agent) for agent in range(STREAMS)))

    async def _keep_asking(self, session: aiohttp.ClientSession, agent: int) -> None:
        turn = 0
        while not self.is_over:
            prompt = self.prompts[(agent + turn) % len(self.prompts)]
            await self._ask(session, prompt, seed=1_000 * agent + turn)
            turn += 1

    async def _ask(self, session: aiohttp.ClientSession, prompt: str, *, seed: int) -> None:
        body = {"model": "desk", "messages": [{"role": "user", "content": prompt}], "max_tokens": 44, "seed": seed}
        began = time.monotonic()
        try:
            async with session.post("/v1/chat/completions", json=body | {"stream": True}) as response:
                text, adapter = await response.text(), response.headers.get("X-Tentalis-Adapter", "")
        except aiohttp.ClientError as error:
            self.failures.append(repr(error)[:200])
            return
        if response.status != 200 or "[DONE]" not in text:
            self.failures.append(f"{response.status}: {text[-200:]}")
            return
        models = {json.loads(line[6:])["model"] for line in text.split("\n") if line.startswith("data: {")}
        self.misnamed += models != {adapter}
        self.answers.append((began, time.monotonic() - began, adapter))


def run(ground: Ground) -> Findings:
    swaps = ground.choose(SWAPS, SWAPS_SMALL)
    engine = asyncio.run(bench_swaps(swaps, STREAMS, encode_prompts()))
    served = swap_on_stack(ground, swaps)
    table = make_table(
        "", "at the engine", "through the gateway", title=f"5. {TITLE}: {swaps} swaps under {STREAMS} streams"
    )
    for words, name in (
        ("answers", "answers"), ("failed or broken off", "failed"),
        ("named another adapter than served them", "misnamed"),
        ("versions that answered", "versions_seen"), ("p50 ms", "p50_ms"), ("p99 ms", "p99_ms"),
    ):  # fmt: skip
        table.add_row(words, str(engine[name]), str(served[name]))
    gap, control = engine["max_logprob_difference"], engine["control_min_difference_under_next_version"]
    table.add_row("log-probs by PEFT differ by at most", f"{gap:.1e}", "-")
    table.add_row("under another version by at least", f"{control:.1e}", "-")
    table.add_row("old version still begun after a swap, s at most", "-", f"{served['late_s']:.3f}")
    table.add_row("answers that are not in the rows", "-", str(served["lost"]))
    failed = engine["failed"] + served["failed"]
    misnamed = engine["misnamed"] + served["misnamed"]
    bars = {
        "failed": Bar(failed, "0", failed == 0),
        "misnamed": Bar(misnamed, "0", misnamed == 0),
        "log-probs are those of the version named": Bar(gap, f"at most {TOLERANCE}", gap <= TOLERANCE),
        "every version answered": Bar(engine["versions_seen"], str(swaps + 1), engine["versions_seen"] == swaps + 1),
        "answers that are not in the rows": Bar(served["lost"], "0", served["lost"] == 0),
    }
    return Findings(table, {"engine": engine, "stack": served}, bars, [f"odd: {one}" for one in served["failures"]])


def swap_on_stack(ground: Ground, swaps: int) -> Mapping[str, Any]:
    """Promote two adapters in turns while agents stream."""
    team, slug = ground.team, ground.learned_project
    adapters = [
        one for one in team.iterate(team.list_adapters, project=slug) if one["state"] in {"deployed", "retired"}
    ]
    if len(adapters) < 2:
        raise LoopOpenError(f"{slug}: wanted two adapters that served, found {len(adapters)}")
    now = next(one for one in adapters if one["state"] == "deployed")
    other = next(one for one in adapters if one["state"] == "retired")
    name = f"{slug}-{time.time_ns() // 10**6}"
    team.add_member(project=slug, username=name, role="agent")
    token = str(team.create_token(name="gateway", scopes=["gateway:use"], project=slug, username=name)["token"])
    prompts = [ticket.text for ticket in make_tickets(9, 24, held_out=False)]
    streams = Streams(ground.stack.state().addresses["gateway_url"], token, prompts)
    late_s = asyncio.run(swap_under(streams, ground, [(other, now)[turn % 2] for turn in range(swaps)]))
    took = [one for _, one, _ in streams.answers]
    named: dict[str, int] = {}
    for _, _, adapter in streams.answers:
        named[adapter] = named.get(adapter, 0) + 1
    database = ground.stack.state().addresses["admin_database_url"]

    def count_lost() -> int:
        with psycopg.connect(database) as connection:
            kept: dict[str, int] = dict(connection.execute(_KEPT, (f"agent:{name}",)).fetchall())
        return sum(max(0, count - kept.get(adapter, 0)) for adapter, count in named.items())

    deadline = time.monotonic() + KEPT_S
    while (lost := count_lost()) and time.monotonic() < deadline:
        time.sleep(0.5)
    return {
        "swaps": swaps, "answers": len(streams.answers), "failed": len(streams.failures), "misnamed": streams.misnamed,
        "failures": streams.failures[:3], "versions_seen": len(named), "lost": lost, "late_s": round(late_s, 4),
        "p50_ms": round(1000 * find_percentile(took, 0.5), 1), "p99_ms": round(1000 * find_percentile(took, 0.99), 1),
    }  # fmt: skip


async def swap_under(streams: Streams, ground: Ground, turns: Sequence[Mapping[str, Any]]) -> float:
    """How long after a promotion was answered somebody was still begun to be served by what served before, at most."""
    running = asyncio.create_task(streams.run())
    late_s, swapped = 0.0, list[tuple[float, str]]()
    for adapter in turns:
        await asyncio.sleep(EVERY_S)
        await asyncio.to_thread(ground.team.promote_adapter, adapter["id"])
        swapped.append((time.monotonic(), adapter["name"]))
    await asyncio.sleep(2 * EVERY_S)
    streams.is_over = True
    await running
    for place, (at, name) in enumerate(swapped):
        until = swapped[place + 1][0] if place + 1 < len(swapped) else float("inf")
        late_s = max(
            [late_s, *(began - at for began, _, served in streams.answers if at < began < until and served != name)]
        )
    return late_s
