"""How long 10,000 rows take to become a benchmark, and what memory: `python -m tests.bench.catalogue_register`.

A process of its own, with a database of its own; what it says is one line of JSON.
"""

import json
import resource
import sys
import time

from tests.bench.databases import own_database

ROWS = 10_000


def main() -> int:
    """Prints seconds of the clock and of the processor, and by how many MiB the process grew at most."""
    with own_database():
        found = register(ROWS)
    print(json.dumps(found))
    return 0


def register(count: int) -> dict[str, float]:
    """What it takes to install so many rows."""
    from apps.evals.benchmarks import install_benchmark
    from tests.factories import make_project, make_user

    project, alice = make_project(), make_user("alice")
    rows = [
        {
            "question": f"Keeper {n} of tower {n * 7 % 991} counts {n * 31 % 4001} ships and {n % 17} boats. How many?",
            "answer": f"Add them up.\n#### {n * 31 % 4001 + n % 17}",
        }
        for n in range(count)
    ]
    install_benchmark(
        project=project, name="own/warm", by=alice, rows=[{"prompt": "a", "reference": "b", "grader": "exact"}]
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    clock, work = time.perf_counter(), time.process_time()
    benchmark = install_benchmark(project=project, name="gsm8k", by=alice, rows=rows)
    found = {"seconds": time.perf_counter() - clock, "cpu_s": time.process_time() - work}
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {
        "items": benchmark.taskset.items.count(),
        "seconds": round(found["seconds"], 2),
        "cpu_s": round(found["cpu_s"], 2),
        "grown_mib": round(grown / 1024, 1),
        "peak_mib": round((before + grown) / 1024, 1),
    }


if __name__ == "__main__":
    sys.exit(main())
