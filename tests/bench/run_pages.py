"""`python -m tests.bench.run_pages`: how long the pages of a run take that has 100,000 results.

In a database of its own, asked of Django without a server between. By the clock and of CPU, of this process alone:
a machine that others use misses the bar by the clock.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench.databases import own_database

RESULTS, ITEMS, MOST_MS, TIMES = 100_000, 5_000, 300.0, 9
FILL = """
    INSERT INTO evals_itemtry (evaluation_id, place, key, number, weight, outcome, step_score, cause, reason, traits,
                               category, grader, prompt_tokens, completion_tokens, turns, seconds, cost_usd)
    SELECT %(run)s, n %% %(items)s, n %% %(items)s, n / %(items)s, 1,
           CASE WHEN n %% 97 > 0 THEN (n * 31 %% 7 > 2)::int END, CASE WHEN n %% 97 > 0 THEN (n * 31 %% 7 > 2)::int END,
           CASE WHEN n %% 97 = 0 THEN 'infrastructure' ELSE '' END, CASE WHEN n %% 97 = 0 THEN 'away' ELSE '' END,
           '{}', 'part ' || n %% 7, 'exact@1', 20 + n %% 50, 5 + n %% 300, 1, (n %% 100) / 50.0, 0.0001
    FROM generate_series(0, %(results)s - 1) n;
    INSERT INTO evals_tryrecord (item_try_id, text, answer, steps, messages, prompt_hash, request, sampling, error,
                                 served_by, finish_reason, turn_tokens, cached_tokens, token_ids, logprobs)
    SELECT id, repeat('It is so. ', 20), 'so', '[]', '[{"role": "user", "content": "Is it so?"}]', md5(id::text), '{}',
           '{}', '', 'model', 'stop', '[]', 0, '', '' FROM evals_itemtry WHERE evaluation_id = %(run)s;
    ANALYZE;
"""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=int, default=RESULTS)
    options = parser.parse_args(argv)
    with own_database():
        rows = measure(options.results)
    table = Table("page", "first, ms", "then, ms", "of CPU", "queries", title=f"A run with {options.results:,} results")
    for row in rows:
        table.add_row(
            row["page"], f"{row['first_ms']:.0f}", f"{row['ms']:.0f}", f"{row['cpu_ms']:.0f}", str(row["queries"])
        )
    console = Console(width=110)
    console.print(table)
    misses = [row["page"] for row in rows if row["ms"] > MOST_MS]
    for miss in misses:
        console.print(f"missed: {miss} opens in {MOST_MS:.0f} ms", markup=False)
    told = {"bench": "run_pages", "results": options.results, "rows": rows, "load": os.getloadavg()[0]}
    console.print(json.dumps(told), soft_wrap=True, markup=False, highlight=False)
    return 1 if misses else 0


def measure(results: int) -> list[dict[str, Any]]:
    from django.db import connection
    from django.urls import reverse

    from apps.accounts.models import User
    from tests.bench.console_pages import count_page, sign_in_here

    evaluation = put_run(results)
    client = sign_in_here(User.objects.get(username="alice"))
    names = {"the run": "", "further tries of it": f"?start={results // 2}"}
    found = []
    for name, query in names.items():
        path = reverse("console:evaluation", args=(evaluation.project.slug, evaluation.pk)) + query
        began = time.perf_counter()
        client.get(path)
        first_ms = 1_000 * (time.perf_counter() - began)
        counted = count_page(client, [path])
        spent, cpu = [], []
        for _ in range(TIMES):
            began, worked = time.perf_counter(), time.process_time()
            assert client.get(path).status_code == 200
            spent.append(1_000 * (time.perf_counter() - began))
            cpu.append(1_000 * (time.process_time() - worked))
        told = {
            "first_ms": round(first_ms, 1),
            "ms": round(median(spent), 1),
            "cpu_ms": round(median(cpu), 1),
            "queries": len(counted.sqls),
        }
        found.append({"page": name, **told})
    connection.close()
    return found


def put_run(results: int) -> Any:
    from django.db import connection

    from apps.evals.asking import open_items
    from apps.evals.models import Evaluation, Item, Taskset
    from tests.factories import make_project, make_worker

    project = make_project("bench")
    worker = make_worker(project, "chat", "chat")
    taskset = Taskset.objects.create(project=project, name="questions", environment="chat")
    count = min(ITEMS, results)
    check = {"check": "grader", "name": "exact", "reference": "so"}
    Item.objects.bulk_create(
        Item(
            taskset=taskset, split="held_out", prompt=f"Is {n} so?", seed=n, bands=[], content_hash=f"{n:064x}",
            checks=[check],
        )
        for n in range(count)
    )  # fmt: skip
    item_set = open_items(taskset, "held_out", count=count)
    evaluation = Evaluation.objects.create(
        project=project, worker=worker, purpose="report", item_set=item_set.name, item_set_hash=item_set.hash,
        taskset=taskset, split="held_out", tries=results // count, planned=results, played=results, items=count,
        state="done", asked_by="user:alice", mean_outcome=0.57,
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(FILL, {"run": evaluation.pk, "items": count, "results": results})
    return evaluation


if __name__ == "__main__":
    sys.exit(main())
