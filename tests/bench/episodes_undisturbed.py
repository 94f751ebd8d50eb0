"""What keeping turns costs, and what faults do to rewards, on the database of the environment. For
`tests.bench.episodes`; its last line is JSON."""

import json
import os
import time
import uuid
from statistics import fmean
from typing import Any

import django

django.setup()

from django.db import connection  # noqa: E402

from apps.accounts.models import Project, User  # noqa: E402
from apps.inference.services import record_exchanges  # noqa: E402
from apps.scoring.services import score_tasks  # noqa: E402
from apps.tasks.drafts import rebuild_draft  # noqa: E402
from apps.tasks.models import Attempt, Task  # noqa: E402
from apps.tasks.playing import play_task  # noqa: E402
from apps.tasks.services import save_steps  # noqa: E402
from apps.workers.agents import get_agent  # noqa: E402
from apps.worlds.episodes import Episode  # noqa: E402
from apps.worlds.playing import play  # noqa: E402
from apps.worlds.registry import WORLDS, get_world  # noqa: E402
from tentalis.core.worlds import AttemptDraft, Observation, ToolCall, Verification  # noqa: E402
from tests.apps.worlds.tally_package import PAD_CHARS, Tally, TallyWorld  # noqa: E402

TURNS, GROUP, TASKS, FAULTS_EVERY = 12, 8, 12, 5
SAID_CHARS = 1_000


def main() -> None:
    project = Project.objects.create(slug="undisturbed", name="Undisturbed", review_policy={"who": "none"})
    worker = project.workers.create(name="tally", kind="tallying")
    by = User.objects.earliest("pk")

    def make(number: int, size: int) -> Task:
        prompt = f"{TURNS - 1} of {number}"
        return Task.objects.create(
            project=project, worker=worker, submitted_by=by, environment="tally", prompt=prompt, group_size=size
        )

    told: dict[str, float] = {}
    for name, size in (("alone_ms", 1), ("overhead_ms", GROUP)):
        spent = []
        for number in range(TASKS):
            task = make(number, size)
            began = time.perf_counter()
            play_task(task.pk, by="bench")
            kept = time.perf_counter() - began
            began = time.perf_counter()
            agent: Any = get_agent(worker)
            said = [{"role": "user", "content": task.prompt}]
            episodes = [Episode(key=uuid.uuid4().hex, prompt=task.prompt, opening=said) for _ in range(size)]
            play(episodes, world=get_world("tally"), agent=agent, model="tally")
            spent.append((kept - (time.perf_counter() - began)) / (TURNS * size) * 1_000)
        told[name] = sorted(spent)[len(spent) // 2]
    told["bytes_ratio"] = compare_bytes(make(0, 1))
    told |= compare_rewards([make(number, GROUP) for number in range(40)])
    print(json.dumps(told))


def compare_bytes(task: Task) -> float:
    """Of the rows of an episode, and of one answer that says the same."""
    os.environ[PAD_CHARS] = str(SAID_CHARS)
    play_task(task.pk, by="bench")
    os.environ[PAD_CHARS] = "0"
    (episode,) = task.attempts.all()
    calls = [turn.exchange for turn in episode.turns.all() if turn.exchange is not None]
    steps = list(episode.ordered_steps)
    tokens = [one for call in calls for one in call.unpack_token_ids()]
    said = "\n".join(f"{step.text}\n{step.tool_result}" for step in steps)
    draft = AttemptDraft(
        text=said,
        messages=calls[0].messages,
        prompt_token_ids=calls[0].unpack_prompt_token_ids(),
        token_ids=tokens,
        logprobs=[-0.5] * len(tokens),
        sampled=[True] * len(tokens),
        steps=rebuild_draft(episode, steps).steps,
        request=calls[0].request,
        sampling={"temperature": 1.0},
        finish_reason="stop",
    )
    (call,) = record_exchanges(project=task.project, drafts=[draft], worker_name="tally", model="tally")
    one = Attempt.objects.create(
        task=task, index=1, worker=task.worker, exchange=call, text=said, answer=episode.answer,
        verification=episode.verification,
    )  # fmt: skip
    save_steps([one], [draft])
    return measure_bytes(episode) / measure_bytes(one)


def measure_bytes(attempt: Attempt) -> int:
    """Of an attempt's rows in all tables."""
    calls = "SELECT exchange_id FROM tasks_attempt WHERE id = %(id)s"
    calls += " UNION SELECT exchange_id FROM tasks_episodeturn WHERE attempt_id = %(id)s"
    sums = [
        "SELECT sum(pg_column_size(row.*)) FROM tasks_attempt row WHERE id = %(id)s",
        "SELECT sum(pg_column_size(row.*)) FROM tasks_step row WHERE attempt_id = %(id)s",
        "SELECT sum(pg_column_size(row.*)) FROM tasks_episodeturn row WHERE attempt_id = %(id)s",
        "SELECT sum(pg_column_size(row.*)) FROM tasks_furtherexchange row WHERE attempt_id = %(id)s",
        f"SELECT sum(pg_column_size(row.*)) FROM inference_exchange row WHERE id IN ({calls})",
    ]
    total = 0
    with connection.cursor() as cursor:
        for sql in sums:
            cursor.execute(sql, {"id": attempt.pk})
            total += int(cursor.fetchone()[0] or 0)
    return total


class FaultyWorld(TallyWorld):
    """Right in four of five tasks; in a fifth of the episodes it breaks down."""

    def act(self, state: Tally, call: ToolCall, key: str) -> Observation:
        attempt, turn, _ = key.split("-")
        if turn == "3" and int(attempt) % FAULTS_EVERY == 0:
            raise OSError("the machine went away")
        return super().act(state, call, key)

    def verify_state(self, prompt: str, reference: Any, state: Tally, draft: AttemptDraft) -> Verification:
        return Verification(outcome=float(int(prompt.split(" ")[-1]) % 5 != 0))


def compare_rewards(tasks: list[Task]) -> dict[str, float]:
    vars(WORLDS)["_loaded"] = ({**WORLDS._things, "tally": FaultyWorld()}, ())
    for task in tasks:
        play_task(task.pk, by="bench")
        score_tasks([task.pk])
    rewards = {one.pk: one.score for one in Attempt.objects.filter(task__in=tasks) if one.score is not None}
    wanted = fmean(float(int(task.prompt.split(" ")[-1]) % 5 != 0) for task in tasks)
    lost = Attempt.every.filter(task__in=tasks, state=Attempt.State.LOST)
    met = lost.order_by().values("task", "index").distinct().count()
    naive = wanted * (1 - met / (len(tasks) * GROUP))
    found = fmean(rewards.values())
    return {"reward": found, "moved": found - wanted, "naive_moved": naive - wanted, "lost": float(lost.count())}


if __name__ == "__main__":
    main()
