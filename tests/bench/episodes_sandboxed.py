"""What becomes of episodes in a sandbox when the queue and the sandbox host are killed by turns.

Nobody may be rewarded for what was not done, and nobody who did it may go without: half of the tasks are done rightly.
"""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import django

from tests.bench.episodes import SERVICES, STACK, ask, wait_for_end, wait_for_playing
from tests.bench.packages import put_package
from tests.bench.scripted_package import THINK_S, goes_right
from tests.chaos.clients import PatientClient, Tally
from tests.chaos.stage import chaos_stack, read_admin_token

PACKAGE = Path(__file__).with_name("scripted_package.py")
POINTS = "[tentalis.agents]\nscripted = scripted_package:AGENT\n"
WORLD, TASKS, GROUP, KILLS = "terminal", 48, 4, 10
TARGETS = ("queue-episodes", "sandboxes")
THINKS_S = 0.25
SETTLE_S = 3.0
"""Behind a kill: what is seen to be played then is played since, and few are killed three times."""


def run(directory: Path, *, kills: int = KILLS, keep_in: Path | None = None) -> Mapping[str, Any]:
    """How many episodes ended how: `earned` of those that were done, `unearned` of those that were not."""
    put_package(directory, "scripted_package", PACKAGE, POINTS)
    prompts = draw_prompts()
    os.environ |= {"PYTHONPATH": str(directory), THINK_S: str(THINKS_S)}
    with chaos_stack(settings=STACK, keep_in=keep_in, only=(*SERVICES, "sandboxes")) as stack:
        addresses = stack.state().addresses
        with PatientClient(addresses["console_url"], read_admin_token(stack), Tally()) as client:
            body = {"slug": WORLD, "name": WORLD, "review_policy": {"who": "none"}, "group_size": GROUP}
            client.create("projects", body, key="project")
            client.create("workers", {"project": WORLD, "name": "scripted", "kind": "scripted"}, key="worker")
            for number, prompt in enumerate(prompts):
                order = {"project": WORLD, "environment": WORLD, "prompt": prompt}
                client.create("tasks", order, key=f"sandboxed-{number}")
        url, hit = addresses["database_url"], 0
        for number in range(kills):
            hit += bool(wait_for_playing(url))
            stack.signal(TARGETS[number % len(TARGETS)], signal.SIGKILL)
            time.sleep(SETTLE_S)
        unfinished = wait_for_end(url, TASKS * GROUP)
        rows = ask(
            url,
            "SELECT task.prompt, attempt.state, attempt.outcome FROM tasks_attempt attempt "
            "JOIN tasks_task task ON task.id = attempt.task_id WHERE attempt.state <> 'lost'",
        )
        (lost,) = ask(url, "SELECT count(*) FROM tasks_attempt WHERE state = 'lost'")
    judged = [(goes_right(prompt), outcome) for prompt, state, outcome in rows if state == "answered"]
    return {
        "episodes": TASKS * GROUP,
        "kills": kills,
        "hit": hit,
        "unfinished": unfinished,
        "lost_and_played_anew": lost[0],
        "failed": sum(state == "failed" for _, state, _ in rows),
        "right": sum(is_right for is_right, _ in judged),
        "earned": sum(is_right and outcome == 1.0 for is_right, outcome in judged),
        "unearned": sum(not is_right and bool(outcome) for is_right, outcome in judged),
    }


def draw_prompts() -> list[str]:
    """Half of them are done rightly."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tentalis.settings.test")
    django.setup()
    from apps.worlds.registry import get_world

    world, rng = get_world(WORLD), Random(5)
    found: dict[bool, list[str]] = {True: [], False: []}
    while min(map(len, found.values())) < TASKS // 2:
        prompt = world.draw_prompt(rng)
        assert prompt is not None
        found[goes_right(prompt)].append(prompt)
    return [*found[True][: TASKS // 2], *found[False][: TASKS // 2]]
