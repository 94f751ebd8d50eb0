"""4: the same work on 1, 2, 4 and 8 queue processes: throughput, waiting, fairness, and whether all of it is right.

Each process does one task at a time, at a model server that thinks for a while, so that what is measured is how well
the queues keep processes busy and not how many cores there are. As many teams as the most processes have the same
number of tasks each, handed in one team after the other; each level has a stack of its own.
"""

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final, LiteralString

import psutil
import psycopg

from tentalis.client.clients import Client
from tentalis.platform.up import RunningStack
from tests.bench.experiments.ground import Bar, Findings, Ground, ModelServer, add_provider, find_percentile, make_table
from tests.bench.own_work import wait_for
from tests.bench.world_loop import STACK
from tests.chaos.stage import chaos_stack, read_admin_token
from tests.local_server import LocalHandler, LocalServer

TITLE: Final = "Scaling of queue processes"
PROCESSES: Final = (1, 2, 4, 8)
TEAMS: Final = 8
EACH, EACH_SMALL = 4, 2
"""Tasks of a team, for each process."""
THINK_S: Final = 0.6
PATIENCE_S: Final = 300.0
SPEEDUP: Final = 0.7
"""Of as many times the throughput as there are processes."""
FAIR: Final = 0.8
_ENDED: LiteralString = """
SELECT task.project_id, task.prompt, task.answer, task.state,
       extract(epoch FROM work.created_at)::float, extract(epoch FROM work.finished_at)::float,
       (SELECT count(*) FROM tasks_attempt attempt WHERE attempt.task_id = task.id)
FROM tasks_task task LEFT JOIN outbox_segment work ON work.kind = 'work' AND work.subject_id = task.id
"""


@dataclass(frozen=True)
class Level:
    """What so many processes did.

    Args:
        per_s: tasks, from the first that was handed in to the last that ended. ideal_per_s: that thinking alone allows.
        p50_s, p99_s: from handing in to the end.
        processes_fair: Jain's index of how many each process did. teams_fair: of how many tasks of each
            team were among the first half to end after the last one was handed in.
        lost: not at its end, or without an answer. wrong: another task's answer. doubled: asked or answered twice.
    """

    processes: int
    tasks: int
    per_s: float
    ideal_per_s: float
    p50_s: float
    p99_s: float
    processes_fair: float
    teams_fair: float
    lost: int
    wrong: int
    doubled: int


class ThinkingServer:
    """A model server that says which task it was asked, after a while.

    Attributes:
        asked: by task's prompt; by_process: by process id of who asked.
    """

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.by_process: Counter[int] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def run(self) -> Iterator[str]:
        """Its address, up to /v1."""
        server = self

        class Handler(LocalHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                super().setup()
                self.asker = find_process(self.client_address[1])

            def do_POST(self) -> None:
                asked = json.loads(self.read())
                prompt = str(asked["messages"][-1]["content"])
                with server._lock:
                    server.asked[prompt] += 1
                    server.by_process[self.asker] += 1
                time.sleep(THINK_S)
                self.answer_chat(answer_to(prompt), model=asked["model"])

        with LocalServer(Handler) as running:
            yield f"{running.url}/v1"


def find_process(port: int) -> int:
    """Of whom a connection from this port of this machine is; 0 where it is gone."""
    held = psutil.net_connections("tcp4")
    return next((one.pid or 0 for one in held if one.laddr and one.laddr.port == port), 0)


def answer_to(prompt: str) -> str:
    return f"That is number {re.sub('[^0-9]', '', prompt)}."


def run(ground: Ground) -> Findings:
    each = ground.choose(EACH, EACH_SMALL)
    levels = [measure(count, each * count) for count in PROCESSES[: ground.choose(4, 2)]]
    table = make_table(
        "processes", "tasks", "tasks/s", "of what thinking allows", "times one's", "p50 s", "p99 s",
        "fair among processes", "among teams", "lost", "wrong", "doubled",
        title=f"4. {TITLE}: one task at a time each, {THINK_S:g} s of thinking, {TEAMS} teams",
    )  # fmt: skip
    for level in levels:
        table.add_row(
            str(level.processes), str(level.tasks), f"{level.per_s:.2f}", f"{level.per_s / level.ideal_per_s:.0%}",
            f"{level.per_s / levels[0].per_s:.2f}", f"{level.p50_s:.2f}", f"{level.p99_s:.2f}",
            f"{level.processes_fair:.2f}", f"{level.teams_fair:.2f}", str(level.lost), str(level.wrong),
            str(level.doubled),
        )  # fmt: skip
    bad = sum(level.lost + level.wrong + level.doubled for level in levels)
    scale = levels[-1].per_s / levels[0].per_s / levels[-1].processes
    fair = min(min(level.processes_fair, level.teams_fair) for level in levels)
    bars = {
        "nothing lost, wrong or doubled": Bar(bad, "0", bad == 0),
        f"{levels[-1].processes} processes beside one, a process": Bar(
            round(scale, 2), f"at least {SPEEDUP}", scale >= SPEEDUP
        ),
        "fairness (Jain), the least": Bar(round(fair, 2), f"at least {FAIR}", fair >= FAIR),
    }
    words = ["p50 and p99 are from handing in to the end, with all tasks handed in at once: mostly waiting for a turn"]
    return Findings(table, {"rows": [asdict(level) for level in levels], "scale": round(scale, 3)}, bars, words)


def measure(processes: int, each: int) -> Level:
    """Args: each: tasks of a team."""
    groups = ["workers=solo"] * processes + ["scorers,hints,gates,control=threads:8"]
    names = ["queue-workers", *(f"queue-workers-{number}" for number in range(2, processes + 1)), "queue-scorers"]
    only = ("web", "bootstrap", "relay", *names)
    server = ThinkingServer()
    with (
        server.run() as url,
        chaos_stack(settings=STACK | {"TENTALIS_QUEUE_PROCESSES": ";".join(groups)}, only=only) as stack,
        Client(stack.state().addresses["console_url"], token=read_admin_token(stack)) as team,
    ):
        slugs = [f"team-{number}" for number in range(TEAMS)]
        for slug in slugs:
            set_up(team, slug, url)
        for place, slug in enumerate(slugs):
            lines = [json.dumps({"prompt": f"Say number {1_000 * (place + 1) + number}."}) for number in range(each)]
            team.import_tasks(project=slug, text="\n".join(lines), form="jsonl", environment="chat", worker="asker")
        wait_for(lambda: count_open(stack) == 0 or None, "tasks stay open", patience_s=PATIENCE_S)
        rows = read_rows(stack)
    return sum_up(processes, each * TEAMS, rows, server)


def set_up(team: Client, slug: str, url: str) -> None:
    """A team whose worker asks the thinking server."""
    policy = {"who": "none"}
    team.create_project(slug=slug, name=slug, group_size=1, batch_tasks=1_000, review_policy=policy)
    add_provider(team, slug, "thinker", ModelServer("custom", url, "thinker"))
    team.create_worker(project=slug, name="asker", kind="chat", provider="thinker", base_model="thinker")


def count_open(stack: RunningStack) -> int:
    with psycopg.connect(stack.state().addresses["admin_database_url"]) as connection:
        row = connection.execute("SELECT count(*) FROM outbox_segment WHERE state = 'open'").fetchone()
    return int(row[0]) if row else 0


def read_rows(stack: RunningStack) -> list[tuple[Any, ...]]:
    with psycopg.connect(stack.state().addresses["admin_database_url"]) as connection:
        return connection.execute(_ENDED).fetchall()


def sum_up(processes: int, tasks: int, rows: Sequence[tuple[Any, ...]], server: ThinkingServer) -> Level:
    done = sorted((row for row in rows if row[3] == "done" and row[5] is not None), key=lambda row: row[5])
    took = [row[5] - row[4] for row in done]
    span_s = done[-1][5] - min(row[4] for row in done)
    later = [row for row in done if row[5] > max(row[4] for row in rows)]
    early = Counter(row[0] for row in later[: len(later) // 2])
    teams = {row[0] for row in rows}
    asked_twice = sum(count - 1 for count in server.asked.values())
    return Level(
        processes=processes, tasks=tasks, per_s=len(done) / span_s, ideal_per_s=processes / THINK_S,
        p50_s=find_percentile(took, 0.5), p99_s=find_percentile(took, 0.99),
        processes_fair=measure_fairness([*server.by_process.values(), *[0] * (processes - len(server.by_process))]),
        teams_fair=measure_fairness([early[team] for team in teams]),
        lost=tasks - sum(bool(row[2]) for row in done),
        wrong=sum(row[2] != answer_to(row[1]) for row in done if row[2]),
        doubled=asked_twice + sum(row[6] > 1 for row in rows),
    )  # fmt: skip


def measure_fairness(shares: Sequence[int]) -> float:
    """Jain's index: 1 where all have as much, 1 / n where one has everything.

    Source:
        Jain, Chiu and Hawe 1984, DEC-TR-301.
    """
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 0.0
