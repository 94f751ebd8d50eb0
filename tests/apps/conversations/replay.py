"""Recorded traffic sent through a real gateway, at the pace it was recorded at, and learnt from as it comes.

The clock is the records': between a gateway's hand-over and its spool each request gets the time it was sent at, so
that an hour's talk takes no hour. All else is the product: dialects, sessions, spool, writer, cutting, hearing,
settling, rollouts.
"""

import random
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import connection
from psycopg.conninfo import make_conninfo

from apps.accounts.models import Project
from apps.conversations.models import Turn
from apps.conversations.policy import read_policy
from apps.conversations.segmentation import close_idle_sessions, cut_session, find_due_sessions
from apps.conversations.signal_extraction import hear_turn
from apps.conversations.task_building import settle_turn
from apps.feedback.hints import extract_hints
from apps.gateway.record import Record
from apps.gateway.spool import FileSpool
from apps.gateway.writer import Writer
from apps.pipeline.conversing import REMEMBERED_S
from apps.rollouts.models import Rollout
from apps.rollouts.services import build_rollouts
from tests.apps.conversations.traffic import Answer, Case, Json, Send
from tests.apps.gateway.running import GatewayThread, make_agent_token, make_chat_worker, make_provider
from tests.apps.gateway.upstream import StubUpstream

AGO_S = 20_000.0
"""Conversations began so long ago that all are idle by now."""
ANSWER_MS = 1_000.0
PATIENCE_S = 120.0


@dataclass
class Talk:
    """A conversation that was replayed. `exchanges`, `corrected`: public ids."""

    kind: str
    records: list[Record] = field(default_factory=list)
    exchanges: list[str] = field(default_factory=list)
    corrected: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Found:
    """What was learnt of talks.

    Attributes:
        kept: corrections that became a usable rollout of reward 0, of so many `planted`.
        false: usable rollouts of what nobody corrected or judged, by kind. signals: scores that were heard there.
    """

    planted: int
    kept: int
    false: Mapping[str, int]
    signals: Mapping[str, int]
    lost: Sequence[str]


class Replay:
    """A gateway before a server that says what it is told to, and a worker of a project that learns.

    Args:
        policy: fields of the project's session policy.
    """

    def __init__(self, project: Project, **policy: Any) -> None:
        self.project = project
        project.session_policy = {"learn": True, "judge": False, "redaction": "off", **policy}
        project.save()
        self.talks: list[Talk] = []

    def __enter__(self) -> "Replay":
        self._upstream = StubUpstream().__enter__()
        make_chat_worker(self.project, make_provider(self.project, self._upstream.url))
        self._token = make_agent_token(self.project)
        self._gateway = GatewayThread().__enter__()
        self._began_at = time.time() - AGO_S
        return self

    def __exit__(self, *error: Any) -> None:
        self._gateway.__exit__(None, None, None)
        self._upstream.__exit__(None, None, None)

    def send(self, kind: str, case: Callable[[random.Random], Case], dice: random.Random) -> Talk:
        """Send a case's requests one after the other and keep their records."""
        talk = Talk(kind)
        self.talks.append(talk)
        requests = case(dice)
        began_at = self._began_at + dice.random() * 600
        try:
            wanted = next(requests)
            while True:
                answer = self._ask(wanted)
                record = self._gateway.records.pop()
                header = {**record.header, "at": began_at + wanted.at_s, "latency_ms": ANSWER_MS}
                talk.records.append(record._replace(header=header))  # type: ignore[arg-type]
                talk.exchanges.append(answer.exchange)
                wanted = requests.send(answer)
        except StopIteration as end:
            talk.corrected = list(end.value)
        return talk

    def _ask(self, send: Send) -> Answer:
        self._upstream.plan(reply=send.reply, tool_calls=[list(call) for call in send.calls], status=send.status)
        headers = {"Authorization": f"Bearer {self._token}", **send.headers}
        response = self._gateway.client.post(send.path, json={"model": "helper", **send.body}, headers=headers)
        assert response.status_code == send.status, response.text
        exchange = response.headers.get("X-Tentalis-Exchange", "")
        return Answer(exchange, _read_message(response.json()) if send.status == 200 else {})

    def learn(self, dice: random.Random) -> None:
        """Store and learn from everything in two parts, each conversation cut where the dice say."""
        parts: tuple[list[Record], list[Record]] = [], []
        for talk in self.talks:
            place = dice.randrange(len(talk.records) + 1)
            parts[0].extend(talk.records[:place])
            parts[1].extend(talk.records[place:])
        for part in parts:
            self._store(sorted(part, key=lambda record: record.header["at"]))
            self._read()
        close_idle_sessions_of(self.project)
        self._read()
        for turn in Turn.objects.filter(project=self.project, task__isnull=False).order_by("pk"):
            assert turn.task_id is not None
            extract_hints([turn.task_id])
            build_rollouts([turn.task_id], by="replay")

    def _store(self, records: Iterable[Record]) -> None:
        with tempfile.TemporaryDirectory(prefix="tentalis-replay-") as directory:
            spool = FileSpool(Path(directory))
            count = 0
            for record in records:
                spool.append(*record)
                count += 1
            spool.close()
            writer = Writer(spool, _read_conninfo())
            writer.start()
            writer.stop(timeout_s=PATIENCE_S)
            assert writer.stored_count == count, f"wanted {count} records stored, found {writer.stored_count}"

    def _read(self) -> None:
        while due := find_due_sessions([self.project.pk], remembered_s=REMEMBERED_S):
            for session_id, _ in due:
                cut_session(session_id, by="replay")
        for turn in Turn.objects.unread().filter(project=self.project).order_by("pk").values_list("pk", flat=True):
            hear_turn(turn)
            settle_turn(turn)

    def find(self) -> Found:
        """What was learnt, beside what people said."""
        usable = {
            rollout.task_id: rollout
            for rollout in Rollout.objects.filter(project=self.project, is_usable=True).order_by("pk")
        }
        of_exchange: dict[str, Turn] = {}
        for turn in Turn.objects.filter(project=self.project).prefetch_related("places__exchange", "signals"):
            for place in turn.places.all():
                if place.is_part:
                    of_exchange[place.exchange.public_id.hex] = turn
        kept, lost = 0, []
        false: dict[str, int] = {talk.kind: 0 for talk in self.talks}
        signals = dict(false)
        for talk in self.talks:
            said_of = set()
            for exchange in talk.corrected:
                taught = of_exchange.get(exchange)
                rollout = usable.get(taught.task_id or 0) if taught is not None else None
                if taught is not None and rollout is not None and rollout.reward == 0.0:
                    kept += 1
                    said_of.add(taught.pk)
                else:
                    why = "in no turn" if taught is None else taught.reason or f"{rollout}"
                    lost.append(f"{talk.kind}: {why}")
            own = {mine.pk: mine for one in talk.exchanges if (mine := of_exchange.get(one)) is not None}
            for pk, turn in own.items():
                if pk not in said_of:
                    false[talk.kind] += (turn.task_id or 0) in usable
                    signals[talk.kind] += any(signal.score is not None for signal in turn.signals.all())
        return Found(sum(len(talk.corrected) for talk in self.talks), kept, false, signals, lost)


def close_idle_sessions_of(project: Project) -> None:
    """As the beat does."""
    while close_idle_sessions(project.pk, idle_s=read_policy(project).idle_s):
        pass


def _read_message(body: Json) -> Json:
    """The answer as its client repeats it."""
    if "choices" in body:
        message = dict(body["choices"][0]["message"])
        return {name: value for name, value in message.items() if name in {"role", "content", "tool_calls"} and value}
    blocks = [block for block in body["content"] if block["type"] in {"text", "tool_use"}]
    return {"role": "assistant", "content": blocks}


def _read_conninfo() -> str:
    wanted = connection.get_connection_params()
    return make_conninfo("", **{name: wanted[name] for name in ("host", "port", "dbname", "user", "password")})
