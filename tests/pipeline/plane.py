"""A whole learning platform in small: engine, training box, queue processes, Postgres and Redis, spoken to by REST."""

import itertools
import os
import random
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg.rows import dict_row

from gpu_workers.runner import PAUSE_FILE, RESULT_FILE, SPEC_FILE
from tentalis.core.desk import HOUSE_RULES, OPTIONS, make_tickets
from tentalis.core.desk_rubric import write_rubric
from tentalis.core.scoring.step_labels import choose_split
from tentalis.platform.processes import signal_group
from tentalis.platform.up import RunningStack
from tests.chaos.clients import PatientClient, Tally
from tests.chaos.stage import chaos_stack, read_admin_token
from tests.pipeline.line import wait_until

SERVICES = ("web", "engine", "gpu", "relay", "queues", "bootstrap")
SETTINGS = {
    "TENTALIS_QUEUE_PROCESSES": "workers,scorers,hints,gates,control=threads:16",
    "TENTALIS_RUN_SILENCE_SECONDS": "8",
    "TENTALIS_WEB_PROCESSES": "1",
    "TENTALIS_PRM_TRAIN_AFTER": "840",
    "TENTALIS_PRM_COMPLETIONS": "4",
    "TENTALIS_META_RL_ENABLED": "true",
    "TENTALIS_META_RL_WINDOW_SIZE": "1000",
    "TENTALIS_LLM_MODEL": "",
}
OUTDATED = {
    (family, context): next(option for option in OPTIONS[family] if option != right)
    for (family, context), right in HOUSE_RULES.items()
}
PROJECT: Mapping[str, Any] = {
    "slug": "plane",
    "name": "Plane",
    # what a few attempts teach is noise: the gate asks little, so that adapters come into service and go on trial
    "gate_policy": {
        "panel_size": 40,
        "margin": 0.9,
        "second_margin": 0.9,
        "fresh_size": 0,
        "sweep_size": 0,
        "skills_size": 0,
    },
    "review_policy": {"who": "ai", "ai_manager": "rubric"},
    "rubric": write_rubric(OUTDATED),
    "weight_profiles": {"desk": {"prm": 0.5, "outcome": 0.5}},
    "recipe": {"learning_rate": 1e-5},
    "batch_tasks": 8,
}


@dataclass
class Plane:
    """The platform, and how a test speaks with it."""

    stack: RunningStack
    client: PatientClient
    connection: psycopg.Connection[dict[str, Any]]
    _keys: Iterator[int]
    _tickets: Iterator[str]

    def submit(self, count: int, *, group_size: int, **body: Any) -> list[int]:
        """Tasks of new tickets."""
        return [
            int(
                self.client.create(
                    "tasks",
                    {
                        "project": PROJECT["slug"],
                        "environment": "desk",
                        "prompt": next(self._tickets),
                        "group_size": group_size,
                        **body,
                    },
                    key=f"task-{next(self._keys)}",
                )["id"]
            )
            for _ in range(count)
        ]

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        answer = self.client.send(method, path, body, key=f"call-{next(self._keys)}" if method != "GET" else "")
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return dict(answer.json())

    def ask(self, query: LiteralString, *values: object) -> list[dict[str, Any]]:
        return self.connection.execute(query, values).fetchall()

    def wait_for(self, what: str, query: LiteralString, *values: object) -> list[dict[str, Any]]:
        """The rows of a query as soon as there are any."""
        return wait_until(lambda: self.ask(query, *values) or None, what)

    def wait_for_deployed(self, version: int) -> dict[str, Any]:
        [row] = self.wait_for(
            f"version {version} serves",
            "SELECT id, name, state FROM adapters_adapter WHERE version = %s AND state = 'deployed'",
            version,
        )
        return row

    def wait_for_scorer(self) -> dict[str, Any]:
        """The step scorer in use; a refused one fails the test with the gate's words."""
        found = self.wait_for(
            "a step scorer was judged",
            "SELECT * FROM scoring_rewardmodel WHERE state <> 'candidate' AND barred = '' ORDER BY version DESC",
        )
        assert found[0]["state"] == "live", found[0]["words"]
        return found[0]

    def output_of(self, run: int, attempt: int) -> Path:
        """Where the box writes of an attempt at a run."""
        return self.stack.home.root / "artifacts" / "runs" / str(run) / str(attempt)

    def freeze_box(self) -> None:
        """Until `kill_box_while_it_trains` the training box begins nothing."""
        signal_group(self.stack.pid_of("gpu"), signal.SIGSTOP)

    def kill_box_while_it_trains(self, run: int) -> None:
        """kill -9 of the training box in the middle of the run's first attempt.

        The attempt is asked to pause, and why is a pipe that nobody writes to: however short it is, it cannot end.
        """
        output, box = self.output_of(run, 1), self.stack.pid_of("gpu")
        output.mkdir(parents=True, exist_ok=True)
        os.mkfifo(output / PAUSE_FILE)
        signal_group(box, signal.SIGCONT)
        wait_until(lambda: (output / SPEC_FILE).exists() or None, f"run {run} begins")
        signal_group(box, signal.SIGKILL)
        assert not (output / RESULT_FILE).exists(), "it was killed too late"


@contextmanager
def running_plane(home: Path) -> Iterator[Plane]:
    with chaos_stack(settings=SETTINGS, keep_in=home, only=SERVICES) as stack:
        addresses = stack.state().addresses
        with (
            PatientClient(addresses["console_url"], read_admin_token(stack), Tally()) as client,
            psycopg.connect(addresses["database_url"], autocommit=True, row_factory=dict_row) as connection,
        ):
            client.create("projects", PROJECT, key="project")
            client.create("workers", {"project": PROJECT["slug"], "name": "ada", "kind": "desk"}, key="worker")
            yield Plane(stack, client, connection, itertools.count(), draw_prompts())


def draw_prompts() -> Iterator[str]:
    """Tickets: the first train a step scorer, and of the rest every second one tests it, for its gate wants many."""
    rng = random.Random(11)
    for number in itertools.count():
        wants_test = number >= 16 and number % 2 == 0
        yield next(text for text in _draw_texts(rng) if (choose_split(text, is_held_out=False) == "test") == wants_test)


def _draw_texts(rng: random.Random) -> Iterator[str]:
    while True:
        yield make_tickets(rng, 1, held_out=False)[0].text


def only(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    [row] = rows
    return row
