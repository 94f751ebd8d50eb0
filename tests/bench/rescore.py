"""`make bench BENCH=rescore`: 20,000 attempts that are kept, graded anew under another rubric of their world.

In a database of its own. The grades that were there must be the same bytes afterwards, and the diff what a statement
written by hand counts; a pure grader goes over the tries of a run of as many. Seconds are by the clock, so that a
machine that others use misses the bars; of CPU are those of the process that grades, without Postgres.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench.databases import own_database

ATTEMPTS, LONGEST_S, LEAST_RATE = 20_000, 60.0, 2_000.0
BY_HAND = """
    SELECT
        (SELECT count(*) FROM tasks_attempt a JOIN regrading_regrade g ON g.subject_id = a.id
            WHERE g.regrading_id = %(row)s AND a.outcome >= 0.5 AND g.new < 0.5),
        (SELECT count(*) FROM tasks_attempt a JOIN regrading_regrade g ON g.subject_id = a.id
            WHERE g.regrading_id = %(row)s AND a.outcome < 0.5 AND g.new >= 0.5)
"""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempts", type=int, default=ATTEMPTS)
    options = parser.parse_args(argv)
    os.environ["TENTALIS_TASK_TIMEOUT_SECONDS"] = "3600"
    with own_database():
        found = measure(options.attempts)
    bars = {
        "seconds": found["seconds"] <= LONGEST_S * options.attempts / ATTEMPTS,
        "old grades are the same bytes": found["is_same"],
        "the diff is what a statement by hand counts": found["lost"] == found["lost_by_hand"]
        and found["gained"] == found["gained_by_hand"]
        and found["lost"] + found["gained"] > 0,
        "items a second of a pure grader": found["pure_rate"] >= LEAST_RATE,
    }
    table = Table("", "found", "bar", title=f"{options.attempts:,} answers graded anew")
    table.add_row("seconds, wall (CPU)", f"{found['seconds']:.1f} ({found['cpu_s']:.1f})", f"<= {LONGEST_S:.0f}")
    table.add_row("changed sides: lost, gained", f"{found['lost']}, {found['gained']}", "as by hand")
    rates = f"{found['pure_rate']:,.0f} ({found['pure_cpu_rate']:,.0f})"
    table.add_row("pure grader, items a second (of CPU)", rates, f">= {LEAST_RATE:,.0f}")
    console = Console(width=110)
    console.print(table)
    misses = [name for name, is_kept in bars.items() if not is_kept]
    for miss in misses:
        console.print(f"missed: {miss}", markup=False)
    console.print(json.dumps({"bench": "rescore", **found}), soft_wrap=True, markup=False, highlight=False)
    return 1 if misses else 0


def measure(count: int) -> dict[str, Any]:
    from django.db import connection

    row, run = put_history(count)
    before = spell_grades()
    began, cpu = time.monotonic(), time.process_time()
    from apps.regrading.services import regrade

    regrade(row.pk, by="bench")
    seconds, cpu_s = time.monotonic() - began, time.process_time() - cpu
    row.refresh_from_db()
    assert row.state == "done", row.failure
    with connection.cursor() as cursor:
        cursor.execute(BY_HAND, {"row": row.pk})
        [(lost, gained)] = cursor.fetchall()
    began, cpu = time.monotonic(), time.process_time()
    regrade(run.pk, by="bench")
    pure_s, pure_cpu_s = time.monotonic() - began, time.process_time() - cpu
    run.refresh_from_db()
    assert (run.state, run.graded, run.unscored) == ("done", count, 0), run.failure
    return {
        "attempts": count,
        "seconds": round(seconds, 2),
        "cpu_s": round(cpu_s, 2),
        "is_same": spell_grades() == before,
        "lost": row.counts["lost"],
        "gained": row.counts["gained"],
        "lost_by_hand": lost,
        "gained_by_hand": gained,
        "pure_rate": round(count / pure_s, 1),
        "pure_cpu_rate": round(count / pure_cpu_s, 1),
        "load": os.getloadavg()[0],
    }


def put_history(count: int) -> tuple[Any, Any]:
    """Answers of the desk, right and wrong, and a run of a benchmark by letters; and both to be graded anew."""
    from random import Random

    from apps.base.inserting import insert
    from apps.evals.asking import open_items
    from apps.evals.models import Evaluation, Item, ItemTry, Taskset, TryRecord
    from apps.regrading.rules import GradingRule
    from apps.regrading.services import ask_regrading
    from apps.tasks.models import Attempt, Step, Task
    from apps.worlds.registry import get_world
    from tentalis.core.desk import HOUSE_RULES, OPTIONS
    from tentalis.core.desk_rubric import name_item
    from tests.factories import make_project, make_user, make_worker

    project = make_project("bench")
    alice = make_user("alice")
    worker, world, rng = make_worker(project, "desk", "desk"), get_world("desk"), Random(0)
    prompts = [str(world.draw_prompt(rng)) for _ in range(min(count, 2_000))]
    tasks = insert(
        Task(
            project=project, worker=worker, submitted_by=alice, environment="desk", group_size=1, state="done",
            prompt=prompts[place % len(prompts)],
        )
        for place in range(count)
    )  # fmt: skip
    solved = {prompt: solution.draft for prompt in prompts if (solution := world.solve(prompt, 0)) is not None}
    attempts, steps = [], []
    for task in tasks:
        draft = solved[task.prompt]
        is_right = rng.random() < 0.5
        attempts.append(
            Attempt(
                task=task, index=0, worker=worker, text=draft.text, answer=draft.answer,
                outcome=float(is_right), score=float(is_right),
            )
        )  # fmt: skip
    insert(attempts)
    for attempt in attempts:
        draft = solved[attempt.task.prompt]
        kept = draft.steps if attempt.outcome else draft.steps[: max(1, len(draft.steps) // 2)]
        steps += [Step(attempt=attempt, index=at, kind=one.kind, text=one.text) for at, one in enumerate(kept)]
    insert(steps)
    rules = (name_item(family, context, sorted(OPTIONS[family])[0]) for family, context in HOUSE_RULES)
    row = ask_regrading(project=project, rule=GradingRule(rubric="\n".join(rules)), by=alice)

    taskset = Taskset.objects.create(project=project, name="letters", environment="chat")
    check = {"check": "grader", "name": "choice", "reference": "B"}
    Item.objects.bulk_create(
        Item(
            taskset=taskset, split="held_out", prompt=f"Say {n}", seed=n, bands=[], content_hash=f"{n:064x}",
            checks=[check],
        )
        for n in range(min(count, 5_000))
    )  # fmt: skip
    item_set = open_items(taskset, "held_out", count=5_000)
    evaluation = Evaluation.objects.create(
        project=project, worker=worker, purpose="report", item_set=item_set.name, item_set_hash=item_set.hash,
        taskset=taskset, split="held_out", tries=max(1, count // len(item_set.items)), planned=count, state="done",
    )  # fmt: skip
    places = range(len(item_set.items))
    tries = insert(
        ItemTry(evaluation=evaluation, place=place, number=number, key=place, outcome=float(place % 2))
        for number in range(evaluation.tries)
        for place in places
    )
    insert(TryRecord(item_try_id=one.pk, text="B", answer="BC"[one.place % 2], prompt_hash="") for one in tries)
    run = ask_regrading(
        project=project, rule=GradingRule(grader="choice"), by=alice, source="run", evaluation=evaluation
    )
    return row, run


def spell_grades() -> list[tuple[str, str]]:
    """Every row that holds an old grade, hashed by the database."""
    from django.db import connection

    found = []
    with connection.cursor() as cursor:
        for table in ("tasks_attempt", "tasks_step", "evals_itemtry", "evals_tryrecord"):
            key = "item_try_id" if table == "evals_tryrecord" else "id"
            cursor.execute(f"SELECT md5(string_agg(md5(t::text), '' ORDER BY {key})) FROM {table} t")
            found.append((table, str(cursor.fetchone()[0])))
    return found


if __name__ == "__main__":
    sys.exit(main())
