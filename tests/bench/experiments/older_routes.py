"""6: agents at the older routes (`/bridge`), alone and beside one that floods: requests a second, waits, nothing lost.

Each agent assigns a task, hands in its result, waits for it to be scored and judges it; one in eight sends its result
and its judgement twice, as a client does whose connection broke. The one that floods asks as fast as it may until it
is told to wait. Counted are what was acknowledged and what is in the rows afterwards.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, LiteralString

import aiohttp
import psycopg

from tests.bench.experiments.ground import Bar, Findings, Ground, find_percentile, make_table
from tests.bench.own_work import LoopOpenError, wait_for

TITLE: Final = "The older routes under load"
AGENTS: Final = 16
EACH, EACH_SMALL = 12, 3
"""Tasks of an agent, and as many again beside the flood."""
TWICE_EVERY: Final = 8
FLOODERS: Final = 24
REFUSALS: Final = 200
"""So often the one that floods is told to wait before it stops."""
WAIT_S: Final = 25
SCOPES: Final = ("workers:read", "tasks:write", "tasks:read", "attempts:write", "feedback:write")
PATIENCE_S: Final = 300.0
_KEPT: LiteralString = """
SELECT task.id, task.state, array_agg(DISTINCT attempt.answer), count(DISTINCT attempt.id), count(DISTINCT said.id),
       min(said.score)
FROM tasks_task task JOIN accounts_project project ON project.id = task.project_id
LEFT JOIN tasks_attempt attempt ON attempt.task_id = task.id LEFT JOIN feedback_feedback said ON said.task_id = task.id
WHERE project.slug = %s GROUP BY task.id, task.state
"""


@dataclass
class Tally:
    """What the agents met.

    Attributes:
        took_s: by part and route. answers: task -> what was handed in and taken; scores: task -> what was said so.
        odd: answers that were not as they should be. accepted, refused: of the one that floods; told: of those refused,
            how many were told when to come again.
    """

    took_s: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    answers: dict[int, str] = field(default_factory=dict)
    scores: dict[int, float] = field(default_factory=dict)
    odd: list[str] = field(default_factory=list)
    accepted: int = 0
    refused: int = 0
    told: int = 0


@dataclass(frozen=True)
class RouteRow:
    """One route in one part of the run; milliseconds."""

    part: str
    route: str
    requests: int
    p50_ms: float
    p99_ms: float


def run(ground: Ground) -> Findings:
    team, slug = ground.team, f"bridge-{time.time_ns() // 10**6}"
    team.create_project(slug=slug, name="Bridge", group_size=1, batch_tasks=1_000, review_policy={"who": "none"})
    team.create_worker(project=slug, name="claw", kind="outside")
    tokens = []
    for number in range(AGENTS + 1):
        name = f"{slug}-{number}"
        team.add_member(project=slug, username=name, role="agent")
        made = team.create_token(name="bridge", scopes=SCOPES, project=slug, username=name)
        tokens.append(str(made["token"]))
    tally, url = Tally(), ground.stack.state().addresses["console_url"]
    spans = asyncio.run(Crowd(url, slug, tally, ground.choose(EACH, EACH_SMALL)).run(tokens))
    database = ground.stack.state().addresses["admin_database_url"]
    wait_for(lambda: count_under_way(database, slug) == 0 or None, "tasks stay open", patience_s=PATIENCE_S)
    lost, doubled, changed = compare(tally, read_kept(database, slug))
    rows = [
        RouteRow(part, route, len(took), *(1000 * find_percentile(took, share) for share in (0.5, 0.99)))
        for (part, route), took in tally.took_s.items()
    ]
    table = make_table(
        "route",
        "when",
        "requests",
        "p50 ms",
        "p99 ms",
        title=f"6. {TITLE}: {AGENTS} agents, {len(tally.answers)} tasks",
    )
    for row in rows:
        table.add_row(row.route, row.part, f"{row.requests:,}", f"{row.p50_ms:.0f}", f"{row.p99_ms:.0f}")
    per_s = {part: sum(row.requests for row in rows if row.part == part) / span_s for part, span_s in spans.items()}
    figures = {
        "rows": [asdict(row) for row in rows], "per_s": {part: round(one, 1) for part, one in per_s.items()},
        "acknowledged": len(tally.answers), "lost": lost, "doubled": doubled, "changed": changed,
        "flood": {"accepted": tally.accepted, "refused": tally.refused, "told_when": tally.told}, "odd": tally.odd[:5],
    }  # fmt: skip
    words = [
        ", ".join(f"{part}: {one:.0f} requests/s of the agents" for part, one in per_s.items()),
        f"the flood: {tally.accepted:,} requests answered, then {tally.refused:,} refused with 429, {tally.told:,} "
        "of them with when to come again",
        *(f"odd: {one}" for one in tally.odd[:5]),
    ]
    bars = {
        "lost, doubled or changed of what was acknowledged": Bar(
            lost + doubled + changed, "0", not lost + doubled + changed
        ),
        "agents refused or misanswered": Bar(len(tally.odd), "0", not tally.odd),
        "the flood is held back": Bar(tally.told, f"{REFUSALS} told to wait, and when", tally.told >= REFUSALS),
    }
    return Findings(table, figures, bars, words)


class Crowd:
    """The agents of a run."""

    def __init__(self, url: str, slug: str, tally: Tally, each: int) -> None:
        self._url, self._slug, self._tally, self._each = f"{url}/bridge/", slug, tally, each

    async def run(self, tokens: list[str]) -> dict[str, float]:
        """Seconds that each part took. The last token is that of the one that floods."""
        *agents, flooder = [
            aiohttp.ClientSession(
                base_url=self._url,
                headers={"Authorization": f"Bearer {token}"},
                connector=aiohttp.TCPConnector(limit=0),
            )
            for token in tokens
        ]
        spans: dict[str, float] = {}
        try:
            for part in ("alone", "beside a flood"):
                began = time.monotonic()
                flooding = [asyncio.create_task(self._flood(flooder)) for _ in range(FLOODERS if spans else 0)]
                await asyncio.gather(*(self._work(session, part, number) for number, session in enumerate(agents)))
                spans[part] = time.monotonic() - began
                await asyncio.gather(*flooding)
        finally:
            for session in (*agents, flooder):
                await session.close()
        return spans

    async def _work(self, session: aiohttp.ClientSession, part: str, agent: int) -> None:
        for number in range(self._each):
            await self._do_task(session, part, f"{agent}-{number}", is_twice=(agent + number) % TWICE_EVERY == 0)

    async def _do_task(self, session: aiohttp.ClientSession, part: str, name: str, *, is_twice: bool) -> None:
        tally, times = self._tally, 2 if is_twice else 1
        metadata = {"project": self._slug, "worker": "claw"}
        asked = {"task_type": "chat", "prompt": f"Say {name} {part}.", "metadata": metadata}
        told = await self._ask(session, part, "assign", "POST", "tasks/assign", asked, wanted=201)
        if told is None:
            return
        pk, answer, score = int(told["task_id"]), f"{name} {part}", round(len(name) / 10, 1)
        done = {"task_id": pk, "worker_id": "claw", "result": answer, "status": "success"}
        for _ in range(times):
            if await self._ask(session, part, "result", "POST", "tasks/result", done, wanted=200) is not None:
                tally.answers[pk] = answer
        told = await self._ask(session, part, "status, waiting", "GET", f"tasks/{pk}/status?wait={WAIT_S}", wanted=200)
        if told is not None and told["result"] != answer:
            tally.odd.append(f"task {pk}: wanted the result {answer!r}, found {told}"[:200])
        said = {"task_id": pk, "worker_id": "claw", "score": score}
        for _ in range(times):
            if await self._ask(session, part, "feedback", "POST", "feedback", said, wanted=201) is not None:
                tally.scores[pk] = score

    async def _ask(
        self,
        session: aiohttp.ClientSession,
        part: str,
        route: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        wanted: int,
    ) -> Mapping[str, Any] | None:
        began = time.monotonic()
        try:
            async with session.request(method, path, json=body) as response:
                text = await response.text()
                found = await response.json() if response.status == wanted else None
        except aiohttp.ClientError as error:
            self._tally.odd.append(f"{path}: {error!r}"[:200])
            return None
        if found is None:
            self._tally.odd.append(f"{path}: wanted {wanted}, found {response.status} {text}"[:200])
            return None
        self._tally.took_s[part, route].append(time.monotonic() - began)
        return dict(found)

    async def _flood(self, session: aiohttp.ClientSession) -> None:
        tally = self._tally
        while tally.refused < REFUSALS:
            async with session.get("training/status") as response:
                await response.read()
                if response.status == 429:
                    tally.refused += 1
                    tally.told += 0 < float(response.headers.get("Retry-After", "0")) <= 60
                elif response.status == 200:
                    tally.accepted += 1
                else:
                    raise LoopOpenError(f"the flood was answered {response.status}")


def count_under_way(database: str, slug: str) -> int:
    with psycopg.connect(database) as connection:
        rows = connection.execute(_KEPT, (slug,)).fetchall()
    return sum(row[1] not in {"done", "failed"} for row in rows)


def read_kept(database: str, slug: str) -> dict[int, tuple[Any, ...]]:
    """Task -> (state, answers, attempts, judgements, score)."""
    with psycopg.connect(database) as connection:
        return {row[0]: row[1:] for row in connection.execute(_KEPT, (slug,)).fetchall()}


def compare(tally: Tally, kept: Mapping[int, tuple[Any, ...]]) -> tuple[int, int, int]:
    """(lost, doubled, changed) of what was acknowledged."""
    lost = sum(pk not in kept or kept[pk][0] != "done" or not kept[pk][2] for pk in tally.answers)
    lost += sum(pk not in kept or not kept[pk][3] for pk in tally.scores)
    doubled = sum(row[2] > 1 or row[3] > 1 for row in kept.values())
    changed = sum(kept[pk][1] != [answer] for pk, answer in tally.answers.items() if pk in kept)
    changed += sum(abs((kept[pk][4] or -1.0) - score) > 1e-6 for pk, score in tally.scores.items() if pk in kept)
    return lost, doubled, changed
