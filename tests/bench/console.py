"""`python -m tests.bench.console`: the console over a million attempts, a hundred thousand open reviews, 500 sockets.

Pages are asked of the real web process over a kept connection, one at a time; their queries are counted over a small
and over the full history and must be the same. Beside each page stands what the statements alone take, and beside the
lists what a stock list view takes (COUNT, OFFSET, a query a row) on the same rows.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from tentalis.platform.up import RunningStack, running_stack
from tests.chaos.stage import make_environ, own_home

SMALL = (40_000, 3_000)
"""Attempts and open reviews that leave more than a page of tasks in each state: what fits on one is not counted."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempts", type=int, default=1_000_000)
    parser.add_argument("--reviews", type=int, default=100_000, help="open ones")
    parser.add_argument("--requests", type=int, default=200, help="of each page")
    parser.add_argument("--pages", default="", help="only those whose name begins so, comma between; empty: all")
    parser.add_argument("--sockets", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long events come, and how long the cut is")
    parser.add_argument("--only", choices=("pages", "sockets"), default=None)
    parser.add_argument("--keep", type=Path, default=None, help="a home that stays; what it holds is measured as it is")
    options = parser.parse_args()
    console = Console(width=170)
    with own_home(options.keep) as home, running_stack(home, make_environ(), is_throwaway=True, only=("web",)) as stack:
        owners = {"TENTALIS_DATABASE_URL": stack.state().addresses["admin_database_url"]}  # who may write a history
        os.environ.update(stack.environment(os.environ) | owners)
        import django

        django.setup()
        return measure(console, stack, options)


def measure(console: Console, stack: RunningStack, options: argparse.Namespace) -> int:
    """Everything, on a stack that runs; the exit code says whether the bars are met."""
    from apps.tasks.models import Task
    from tests.bench import console_pages, console_sockets
    from tests.bench.console_history import Size, empty_tables, write_history

    result: dict[str, object] = {"bench": "console", "attempts": options.attempts, "reviews": options.reviews}
    missed: list[str] = []
    only, small = tuple(options.pages.split(",")), None
    if not Task.objects.exists():
        if options.only != "sockets":
            write_history(Size(*SMALL))
            small = console_pages.count_pages(only)
            empty_tables()
        began = time.monotonic()
        rows = write_history(Size(options.attempts, options.reviews))
        written = ", ".join(f"{count:,} {table}" for table, count in list(rows.items())[:9])
        console.print(f"written in {time.monotonic() - began:.0f} s: {written}", highlight=False)
    if options.only != "sockets":
        pages = console_pages.measure_pages(stack, requests=options.requests, small=small, only=only)
        console_pages.print_pages(console, pages)
        missed += pages.missed
        result["pages"] = asdict(pages)
    if options.only != "pages":
        sockets = console_sockets.measure_sockets(stack, count=options.sockets, seconds=options.seconds)
        console_sockets.print_sockets(console, sockets)
        missed += sockets.missed
        result["sockets"] = asdict(sockets)
    for words in missed:
        console.print(f"missed: {words}", highlight=False)
    result["load"] = [round(value, 2) for value in os.getloadavg()]
    result["missed"] = missed
    console.print(json.dumps(result), soft_wrap=True, markup=False, highlight=False)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
