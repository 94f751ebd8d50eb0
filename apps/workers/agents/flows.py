"""A worker that is an agent of another framework: it runs in a process of its own and thinks through our gateway.

Each try is a session of its own, `tentalis:<task>:<try>`, which the address that its agent asks at belongs to: so the
calls it consists of are found again, token for token, whatever its framework tells of them.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from multiprocessing.connection import wait
from pathlib import Path
from secrets import token_hex
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.db import IntegrityError, transaction

from apps.accounts.models import Member, Project, Role, User
from apps.accounts.rights import Right
from apps.accounts.services import create_user, name_within, save_member
from apps.accounts.tokens import create_token
from apps.base.errors import ConflictError
from apps.inference.models import MEASURED_TURN, Exchange
from apps.inference.selectors import read_conversations
from apps.workers.agents.flow_calls import read_episode
from tentalis.core.scoring.quoting import clean_text
from tentalis.core.worlds import AttemptDraft, FlowProgram, World
from tentalis.platform.probes import write_url
from tentalis.plugin_trials import end_process, start_process, write_line

if TYPE_CHECKING:
    from apps.workers.models import Worker

MOST_AT_ONCE: Final = 8
"""Tries that a process makes at one time."""
IDLE_S: Final = 60.0
"""After which a process that nobody needed ends: to import a framework takes seconds."""
KEY_DAYS: Final = 1
KEY_IS_NEW_S: Final = 12 * 3600.0
NOT_SEEN: Final = "the gateway saw no call of this try: does its agent ask at the address that it is given?"


class FlowAgent:
    """Does tasks with another framework's agent.

    Args:
        task_id: of the task at hand; None for none.
    """

    def __init__(self, program: FlowProgram, worker: "Worker", *, task_id: int | None) -> None:
        self._program, self._worker, self._task_id = program, worker, task_id or 0

    def work(
        self,
        *,
        prompts: Sequence[str],
        world: World,
        group_size: int,
        seeds: Sequence[int | None],
        model: str,
        greedy: bool = False,
    ) -> list[list[AttemptDraft]]:
        """Try each prompt `group_size` times; see `Agent.work`. Which adapter answers is the gateway's choice."""
        told = [
            (prompt, seed, place) for prompt, seed in zip(prompts, seeds, strict=True) for place in range(group_size)
        ]
        key = _find_key(self._worker)
        tries = [self._make_try(world, *one, key=key, greedy=greedy) for one in told]
        started = time.monotonic()
        came = _PROCESSES.make(self._program, tries, timeout_s=settings.TENTALIS["TASK_TIMEOUT_SECONDS"])
        elapsed_s = time.monotonic() - started
        drafts = [self._read(one, came.get(one["id"], {}), elapsed_s) for one in tries]
        return [drafts[start : start + group_size] for start in range(0, len(drafts), group_size)]

    def _make_try(
        self, world: World, prompt: str, seed: int | None, place: int, *, key: str, greedy: bool
    ) -> dict[str, Any]:
        session = f"tentalis:{self._task_id}:{token_hex(8)}"
        sampling = dict(self._worker.sampling) | ({"temperature": 0.0} if greedy else {})
        config = {
            **sampling,
            "stream": bool(sampling.get("stream")),
            "base_url": f"{find_gateway()}/sessions/{session}/v1",
            "api_key": key,
            "model": self._worker.name,
            "session": session,
            "seed": None if seed is None else seed + place,
            "timeout_s": settings.TENTALIS["TASK_TIMEOUT_SECONDS"],
        }
        system_prompt = self._worker.system_prompt
        task = {
            "prompt": prompt,
            "system_prompt": system_prompt,
            "messages": world.messages_for(prompt, system_prompt),
        }
        return {"id": session, "task": task, "config": config}

    def _read(self, one: Mapping[str, Any], came: Mapping[str, Any], elapsed_s: float) -> AttemptDraft:
        calls = list(
            Exchange.objects.filter(
                project_id=self._worker.project_id,
                session__key=one["id"],
                turn__in=("main", MEASURED_TURN),
                choice=0,
            ).order_by("id")
        )
        answered = [call for call in calls if call.status < HTTPStatus.BAD_REQUEST]
        conversations = read_conversations(answered)
        found = read_episode([call for call in answered if conversations[call.pk].is_whole], conversations)
        error = clean_text(came.get("error", "" if came else "its agent did not end in time"))
        messages = one["task"]["messages"]
        if found.last is None or (error and len(answered) < len(calls)):
            words = error or NOT_SEEN
            return AttemptDraft(messages=messages, error=words, is_lost=True, ended=False, elapsed_s=elapsed_s)
        last = found.last
        own = came.get("answer")
        said = last.text if own is None else clean_text(own)
        answer = next((step.text for step in reversed(found.steps) if step.kind == "answer"), "")
        return AttemptDraft(
            text=said or last.text,
            answer="" if error else said if own is not None else answer,
            steps=found.steps,
            messages=messages,
            exchange_ids=[call.pk for call in found.calls],
            served_by=last.adapter_name or last.model,
            finish_reason=last.finish_reason,
            ended=not error and last.finish_reason != "length",
            unfit="" if last.turn == MEASURED_TURN else found.unfit,  # what is measured is never learnt from
            elapsed_s=elapsed_s,
        )


def find_gateway() -> str:
    """Where agents that run here find it."""
    if url := settings.TENTALIS["GATEWAY_URL"]:
        return str(url).rstrip("/")
    return write_url(settings.TENTALIS["GATEWAY_HOST"], settings.TENTALIS["GATEWAY_PORT"])


# --- whom the gateway knows the agent as ----------------------------------------------------------------------------

_keys: dict[tuple[int, str], tuple[float, str]] = {}
_keys_lock = Lock()


def _find_key(worker: "Worker") -> str:
    """A token of the worker's own agent, for this process alone: it may ask the gateway, and ends after a day."""
    place = (worker.project_id, worker.name)
    with _keys_lock:
        made_at, key = _keys.get(place, (0.0, ""))
        if not key or time.monotonic() - made_at > KEY_IS_NEW_S:
            agent = _find_user(worker)
            asked = {"name": "tries", "scopes": [Right.GATEWAY_USE], "project": worker.project}
            _, key = create_token(user=agent, by=agent, expires_in_days=KEY_DAYS, **asked)  # type: ignore[arg-type]
            _keys[place] = (time.monotonic(), key)
    return key


def _find_user(worker: "Worker") -> User:
    """The agent of a worker, a member of its project."""
    project: Project = worker.project
    name = name_within(project, f"flow.{worker.name}")
    user = User.objects.filter(username=name).first()
    if user is None:
        with contextlib.suppress(ConflictError, IntegrityError), transaction.atomic():
            create_user(username=name, is_agent=True, by=f"worker:{worker.name}")
        user = User.objects.get(username=name)
    if not user.is_agent or not user.is_active:
        raise ConflictError(f"{name} is no agent that may work: an admin of the installation says so")
    if not Member.objects.filter(project=project, user=user).exists():
        with contextlib.suppress(ConflictError):
            save_member(Member(project=project, user=user, role=Role.AGENT), by=user)
    return user


# --- the processes ---------------------------------------------------------------------------------------------------


class _Process:
    """One that has imported an agent, or is about to."""

    def __init__(self, program: FlowProgram) -> None:
        python = Path(program.python) if program.python else None
        self._process, self._reader = start_process(python, stdout=subprocess.DEVNULL)
        self._heard = b""
        self.used_at = time.monotonic()
        write_line(self._process, {"do": "flow", "value": program.value, "path": None if python else sys.path})

    def make(self, tries: Sequence[Mapping[str, Any]], *, timeout_s: float) -> tuple[dict[str, Any], bool]:
        """By id what came of each that ended in time, and whether all did."""
        until = time.monotonic() + timeout_s
        write_line(self._process, {"tries": tries, "at_once": min(MOST_AT_ONCE, len(tries))})
        came: dict[str, Any] = {}
        while (told := self._hear(until)) is not None:
            if told.get("done"):
                self.used_at = time.monotonic()
                return came, True
            if "fatal" in told:
                return {one["id"]: {"error": told["fatal"]} for one in tries}, False
            came[told["id"]] = told
        return came, False

    def _hear(self, until: float) -> dict[str, Any] | None:
        """The next line; None: it is gone, or its time is over."""
        while b"\n" not in self._heard:
            left = until - time.monotonic()
            if left <= 0 or not wait([self._reader], left):
                return None
            if not (data := os.read(self._reader, 1 << 20)):
                return None
            self._heard += data
        line, _, self._heard = self._heard.partition(b"\n")
        return dict(json.loads(line))  # it takes half a surrogate pair, which a framework may tell

    def end(self) -> None:
        end_process(self._process)
        os.close(self._reader)


class _Processes:
    """Those of this process, by their agents: each makes the tries of one task at a time, and is kept for the next."""

    def __init__(self) -> None:
        self._free: defaultdict[FlowProgram, list[_Process]] = defaultdict(list)
        self._lock = Lock()
        self._is_watched = False

    def make(
        self, program: FlowProgram, tries: Sequence[Mapping[str, Any]], *, timeout_s: float
    ) -> Mapping[str, Mapping[str, Any]]:
        with self._lock:
            process = self._free[program].pop() if self._free[program] else None
        process = process or _Process(program)
        is_whole = False
        try:
            came, is_whole = process.make(tries, timeout_s=timeout_s)
        finally:
            if is_whole:
                with self._lock:
                    self._free[program].append(process)
                    if not self._is_watched:
                        self._watch(IDLE_S + 1)
            else:
                process.end()
        return came

    def _watch(self, wait_s: float) -> None:
        """Look after so long whether some are idle; one thread waits for all, and none where none is free."""
        self._is_watched = True
        timer = Timer(wait_s, self._end_idle)
        timer.daemon = True
        timer.start()

    def _end_idle(self) -> None:
        with self._lock:
            idle = [
                (program, one)
                for program, free in self._free.items()
                for one in free
                if time.monotonic() - one.used_at > IDLE_S
            ]
            for program, one in idle:
                self._free[program].remove(one)
            left = [one.used_at for free in self._free.values() for one in free]
            self._is_watched = False
            if left:
                self._watch(min(left) + IDLE_S + 1 - time.monotonic())
        for _, one in idle:
            one.end()


_PROCESSES: Final = _Processes()
