"""`python -m tests.bench.fuzz`: the whole OpenAPI schema, at least 20,000 requests drawn from it, with auth.

Each goes to the application on a Postgres and Redis of its own, as one of several callers, and is taken back after it.
The last line is the JSON of the house's benches; exit 1 where anything was found.
"""

import argparse
import json
import logging
import sys
import time

from rich.console import Console
from rich.table import Table

from tests.bench.databases import own_database

CASES = 20_000
EACH = 16
"""Cases of each operation in a round."""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--seed", type=int, default=20_261_121)
    parser.add_argument("--only", default="", help="operations whose path holds this")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    with own_database():
        from django.db import transaction
        from django.test.utils import setup_test_environment

        setup_test_environment()
        with transaction.atomic():
            return run(options.cases, options.seed, options.only)


def run(cases: int, seed: int, only: str) -> int:
    """Rounds over every operation until there were enough cases."""
    from tests.edges.fuzzing import Fuzzer, load_operations
    from tests.factories import make_project

    console = Console(width=120)
    fuzzer = Fuzzer(make_project())
    report = fuzzer.report
    operations = [one for one in load_operations() if only in one.path]
    began, number = time.monotonic(), seed
    told: set[str] = set()
    while report.cases < cases:
        for operation in operations:
            fuzzer.run(operation, cases=EACH, number=number)
            number += 1
        console.print(f"{report.cases} cases, {len(report.faults)} findings, {time.monotonic() - began:.0f} s")
        for title in sorted(set(report.faults) - told):
            console.print(f"{title}\n{report.examples[title][:1500]}\n", markup=False, highlight=False)
        told = set(report.faults)
    table = Table(title=f"{report.cases} cases over {len(operations)} operations")
    for name in ("status", "answers"):
        table.add_column(name, justify="right")
    for status, count in sorted(report.statuses.items()):
        table.add_row(str(status), str(count))
    console.print(table)
    for title, count in report.faults.most_common():
        console.print(f"{count} x {title}", markup=False, highlight=False)
    took_s = time.monotonic() - began
    row = {
        "cases": report.cases,
        "operations": len(operations),
        "seconds": round(took_s, 1),
        "statuses": {str(status): count for status, count in sorted(report.statuses.items())},
        "server_errors": sum(count for status, count in report.statuses.items() if status >= 500),
        "findings": len(report.faults),
    }
    sys.stdout.write(json.dumps({"bench": "fuzz", "rows": [row], "ratios": {}}) + "\n")
    return 1 if report.faults or row["server_errors"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
