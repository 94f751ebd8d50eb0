"""`python -m tests.bench.talker --openclaw N`: the scripted user talks through a real OpenClaw.

Everything is the product: a stack started as `tentalis up` starts it, OpenClaw 2026.9 from npm pointed at its gateway
with the plugin, sessions cut into turns, turns heard, rollouts, a batch, the training box, the gate, the swap. Nobody
scores. Held-out tickets are asked through OpenClaw before and after; beside it the same number of tickets in the exact
shape of OpenClaw's requests, sent without it.

The desk's model has 256 tokens of context and was taught tickets alone. It is served here as a model of its own: the
desk's weights with a chat template that writes what people and the model said, without OpenClaw's system prompt, its
time stamp, its Runtime line and its internal context. A template is part of a model: the engine tokenises by it, the
gateway records those very tokens, and the trainer replays them.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import httpx

from gpu_workers.desk import base_directory
from tentalis.core.conversations.turns import find_last_said, read_words
from tentalis.core.desk import DeskVerdict, Family, Ticket, make_tickets, read_attempt, verify
from tentalis.platform.home import Home
from tentalis.platform.up import running_stack
from tests.bench.talker_user import User
from tests.integrations.openclaw_process import OpenClaw
from tests.local_server import find_free_port

if TYPE_CHECKING:
    from apps.accounts.models import User as Person
    from apps.workers.models import Worker

FAMILIES: tuple[Family, ...] = ("order", "return", "delay", "broken")
"""The fifth, stock, asks the desk's own tool in the middle of an answer, which OpenClaw does not have."""
MAX_TOKENS = 44
BATCH = 64
PANEL_SEED = 7
AT_ONCE = 4
PATIENCE_S = 240.0
TEMPLATE = """\
{%- for message in messages -%}
{%- set said = message['content'] or '' -%}
{%- if message['role'] == 'user' and not said.startswith('<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>') -%}
{%- set said = said.split('\\n\\nRuntime: ')[0] -%}
{%- if said.startswith('[') and '] ' in said -%}{%- set said = said.split('] ', 1)[1] -%}{%- endif -%}
<|user|>{{ said }}<|end|>
{%- elif message['role'] == 'assistant' -%}
<|assistant|>{{ said }}<|end|>
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}
"""


class Speaker(Protocol):
    """Somebody to talk to."""

    def say(self, words: str, session: str) -> str:
        """What is answered in a session."""


@dataclass
class Shape:
    """The gateway, asked in the shape of a request that OpenClaw made.

    Args:
        mould: the messages of a first turn: the person's words in it make room for others.
    """

    url: str
    key: str
    model: str
    mould: Sequence[Mapping[str, Any]]
    told: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def say(self, words: str, session: str) -> str:
        place = find_last_said(self.mould) or 0
        front, said, behind = self.mould[:place], self.mould[place], self.mould[place + 1 :]
        told = self.told.setdefault(session, [dict(message) for message in front])
        written = said["content"].replace(read_words(said), words, 1)
        told.append({"role": "user", "content": written if len(told) == len(front) else written.partition("\n\n")[0]})
        body = {
            "model": self.model, "messages": [*told, *behind], "stream": True, "max_tokens": MAX_TOKENS,
            "stream_options": {"include_usage": True}, "prompt_cache_key": f"{session}:0",
        }  # fmt: skip
        headers = {"Authorization": f"Bearer {self.key}"}
        response = httpx.post(f"{self.url}/v1/chat/completions", json=body, headers=headers, timeout=60)
        if response.status_code != 200:
            raise SystemExit(f"{response.status_code}: {response.text[:500]}")
        chunks = [json.loads(line[6:]) for line in response.text.split("\n") if line.startswith("data: {")]
        answer = "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
        told.append({"role": "assistant", "content": answer})
        return answer


@dataclass
class Row:
    """What came of one way of talking with one seed; shares of held-out tickets answered right, sampled."""

    way: str
    seed: int
    conversations: int
    base: float
    after: float
    heard: dict[str, int]
    rollouts: int
    runs: int
    adapter: str
    wall_s: float


@dataclass
class Desk:
    """A project whose only worker talks, and learns from its sessions."""

    worker: "Worker"
    by: "Person"
    key: str

    def learn(self, sessions: int) -> None:
        """Wait until so many sessions were heard, close the batch, wait until its adapter was judged."""
        from apps.adapters.models import Adapter
        from apps.conversations.models import Turn
        from apps.outbox.models import Segment
        from apps.pipeline import flow
        from apps.tasks.models import Task
        from apps.training.models import TrainingRun

        project = self.worker.project
        first = Turn.objects.filter(project=project, number=0)
        wait_for(lambda: first.filter(state=Turn.State.SETTLED).count() >= sessions, f"{sessions} turns heard")
        tasks = Task.objects.filter(project=project)
        wait_for(lambda: not tasks.exclude(state__in=(Task.State.DONE, Task.State.FAILED)).exists(), "tasks learnt")
        run = flow.close_batch(worker=self.worker, by=self.by)

        def is_judged() -> bool:
            run.refresh_from_db()
            if run.state in {TrainingRun.State.FAILED, TrainingRun.State.CANCELLED}:
                raise SystemExit(f"run {run.pk} {run.state}: {run.failure}")
            adapter = Adapter.objects.filter(run_id=run.pk).first()
            if adapter is None or adapter.state == Adapter.State.CANDIDATE:
                return False
            return not Segment.objects.filter(kind="adopt", subject_id=adapter.pk, state=Segment.State.OPEN).exists()

        wait_for(is_judged, f"a verdict on what run {run.pk} trained")

    def count(self) -> tuple[dict[str, int], int, int, str]:
        """What was heard of first turns; usable rollouts; runs; the adapter that serves."""
        from apps.adapters.selectors import find_deployed
        from apps.conversations.models import Turn
        from apps.rollouts.models import Rollout
        from apps.training.models import TrainingRun

        turns = Turn.objects.filter(project=self.worker.project, number=0, state=Turn.State.SETTLED)
        heard = Counter(
            kind or "nothing" for kind in turns.filter(signals__step=None).values_list("signals__kind", flat=True)
        )
        rollouts = Rollout.objects.filter(project=self.worker.project, training_use__isnull=False).count()
        runs = TrainingRun.objects.filter(batch__worker=self.worker).count()
        adapter = find_deployed(self.worker)
        return dict(heard), rollouts, runs, adapter.name if adapter else "the base"


def measure(speaker: Speaker, tickets: Sequence[Ticket], name: str) -> float:
    """Share of tickets answered right, each asked once in a session of its own."""

    def ask(place: int) -> float:
        return judge(tickets[place], speaker.say(tickets[place].text, f"{name}-{place}")).outcome

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return sum(pool.map(ask, range(len(tickets)))) / len(tickets)


def judge(ticket: Ticket, answer: str) -> DeskVerdict:
    return verify(ticket, read_attempt(answer).parts, ended=True)


def talk(speaker: Speaker, tickets: Sequence[Ticket], name: str, seed: int) -> None:
    """A conversation a ticket: it is asked, and its answer is talked about."""

    def converse(place: int) -> None:
        ticket, session = tickets[place], f"{name}-{place}"
        answer = speaker.say(ticket.text, session)
        speaker.say(User(random.Random(f"{seed} {session}")).react(ticket, judge(ticket, answer)), session)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(converse, range(len(tickets))))


def learn(way: str, desk: Desk, speaker: Speaker, *, seed: int, conversations: int, panel: int) -> Row:
    """Ask held-out tickets, talk, learn, ask them again."""
    began = time.monotonic()
    held_out = make_tickets(PANEL_SEED, panel, held_out=True, families=FAMILIES)
    base = measure(speaker, held_out, f"{seed}-before")
    rng, done, update = random.Random(seed + 100), 0, 0
    while done < conversations:
        size = min(BATCH, conversations - done)
        talk(speaker, make_tickets(rng, size, held_out=False, families=FAMILIES), f"{seed}-{update}", seed)
        done, update = done + size, update + 1
        desk.learn(done)
        sys.stderr.write(
            f"  {way}, seed {seed}: {done} conversations, {desk.count()[3]}, {time.monotonic() - began:.0f} s\n"
        )
    after = measure(speaker, held_out, f"{seed}-after")
    heard, rollouts, runs, adapter = desk.count()
    return Row(way, seed, done, base, after, heard, rollouts, runs, adapter, round(time.monotonic() - began, 1))


def make_model(place: Path) -> Path:
    """The desk's weights and tokenizer with a template that reads OpenClaw's conversations."""
    shutil.copytree(base_directory(), place)
    (place / "chat_template.jinja").write_text(TEMPLATE)
    return place


@contextmanager
def serving(model: Path) -> Iterator[str]:
    """An engine that serves a model as `desk-claw`; its address."""
    port = find_free_port()
    argv = [sys.executable, "-m", "gpu_workers.engine", "--model", str(model), "--served-name", "desk-claw"]
    log = model.with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen([*argv, "--port", str(port)], stderr=output)
    try:
        wait_for(lambda: process.poll() is not None or "serving desk-claw" in log.read_text(), "the engine", 60.0)
        if process.poll() is not None:
            raise SystemExit(f"the engine did not start: {log.read_text()[-1000:]}")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(30)


def make_desk(name: str, model: Path, engine: str) -> Desk:
    """A project that learns from talk, its worker, and the token of its agent."""
    from apps.accounts.models import Member, Role, User
    from apps.accounts.rights import ROLE_RIGHTS
    from apps.accounts.services import create_project
    from apps.accounts.tokens import create_token
    from apps.inference.providers import create_provider
    from apps.workers.services import create_worker

    by = User.objects.filter(is_superuser=True).order_by("pk")[0]
    policy = {"learn": True, "judge": False, "fastest_s": 0}
    project = create_project(slug=name, name=name, by=by, session_policy=policy, batch_tasks=100_000)
    provider = create_provider(
        project=project, name="claw", kind="engine", by=by, base_url=engine, default_model="desk-claw",
        allow_private=True,
    )  # fmt: skip
    worker = create_worker(
        project=project, name="claw", kind="desk", by=by, provider=provider, base_model="desk-claw",
        base_directory=str(model),
    )  # fmt: skip
    agent = User.objects.create_user(username=f"lobster-{name}", is_agent=True)
    Member.objects.create(project=project, user=agent, role=Role.AGENT)
    _, key = create_token(user=agent, name="t", scopes=ROLE_RIGHTS[Role.AGENT], by=agent, project=project)
    return Desk(worker, by, key)


def find_mould(desk: Desk) -> Sequence[Mapping[str, Any]]:
    """The messages of the first request that OpenClaw made."""
    from apps.inference.models import Exchange
    from apps.inference.selectors import read_conversations

    exchange = Exchange.objects.filter(project=desk.worker.project).order_by("id")[0]
    return read_conversations([exchange])[exchange.pk].messages


def wait_for(look: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> None:
    until = time.monotonic() + patience_s
    while not look():
        if time.monotonic() > until:
            raise SystemExit(f"wanted {what} within {patience_s:g} s")
        time.sleep(0.1)


def run(*, conversations: int, seeds: Sequence[int], panel: int) -> list[Row]:
    """Both ways with each seed, on one stack."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="tentalis-bench-") as place:
        root = Path(place)
        model = make_model(root / "model")
        with running_stack(Home(root / "home"), os.environ, is_throwaway=True) as stack, serving(model) as engine:
            os.environ.update(stack.environment(os.environ))
            import django

            django.setup()
            urls = stack.state().addresses
            for seed in seeds:
                desk = make_desk(f"claw-{seed}", model, engine)
                with OpenClaw(
                    root / f"openclaw-{seed}", gateway=urls["gateway_url"], url=urls["console_url"], key=desk.key,
                    workers=["claw"], max_tokens=MAX_TOKENS, is_plain=True,
                ) as claw:  # fmt: skip
                    row = learn(
                        "through OpenClaw", desk, Talking(claw), seed=seed, conversations=conversations, panel=panel
                    )
                rows.append(row)
                other = make_desk(f"shape-{seed}", model, engine)
                shape = Shape(urls["gateway_url"], other.key, "claw", find_mould(desk))
                rows.append(
                    learn("its request shape", other, shape, seed=seed, conversations=conversations, panel=panel)
                )
    return rows


@dataclass(frozen=True)
class Talking:
    """A person at an OpenClaw."""

    claw: OpenClaw

    def say(self, words: str, session: str) -> str:
        return self.claw.say(words, session_key=session)


def report(rows: Sequence[Row], panel: int) -> int:
    """Print the table and the line of JSON; 0 where every way learnt."""
    print(
        f"{'way':20}{'seed':>5}{'talks':>7}{'base':>8}{'after':>8}{'rollouts':>10}{'runs':>6}{'s':>8}  adapter, heard"
    )
    for row in rows:
        heard = ", ".join(f"{kind} {count}" for kind, count in sorted(row.heard.items()))
        print(
            f"{row.way:20}{row.seed:>5}{row.conversations:>7}{row.base:>8.3f}{row.after:>8.3f}{row.rollouts:>10}"
            f"{row.runs:>6}{row.wall_s:>8.0f}  {row.adapter}; {heard}"
        )
    print(f"\n{panel} held-out tickets asked through the same way before and after, sampled at temperature 1.")
    print(json.dumps({"bench": "talker-openclaw", "rows": [row.__dict__ for row in rows]}))
    return 0 if all(row.after > row.base + 0.1 for row in rows) else 1
