"""`overhead_ours.py PLAN OUT`: the items that stand in the plan, measured as a link of a queue
process measures them, in Postgres and Redis that run."""

import json
import os
import resource
import sys
import time
from pathlib import Path

import psutil


def main(plan: str, out: str) -> None:
    from tentalis.garbage import settle_garbage, spare_imports

    spare_imports()
    import django

    django.setup()
    import tentalis.celery
    from apps.evals.asking import ask_evaluation, measure_asked
    from apps.evals.limits import RunLimits
    from apps.evals.models import Item, Taskset
    from apps.inference.models import Provider
    from tests.factories import make_project, make_user, make_worker

    tentalis.celery.app.loader.import_default_modules()
    told = json.loads(Path(plan).read_text())
    project = make_project(f"at-{told['at_once']}-{time.time_ns()}")
    alice = make_user("alice")
    provider = Provider.objects.create(
        project=project, name="adder", kind="custom", base_url=told["url"].removesuffix("/v1"), allow_private=True
    )
    worker = make_worker(project, "chat", "chat", provider=provider, base_model="adder")
    taskset = Taskset.objects.create(project=project, name="sums", environment="chat")
    Item.objects.bulk_create(
        Item(
            taskset=taskset, split="held_out", prompt=one["prompt"], seed=place, bands=[], content_hash=f"{place:064x}",
            checks=[{"check": "grader", "name": "exact", "reference": one["answer"]}],
        )
        for place, one in enumerate(told["items"])
    )  # fmt: skip
    evaluation = ask_evaluation(worker=worker, by=alice, taskset=taskset, limits=RunLimits(concurrency=told["at_once"]))
    settle_garbage()
    stores = [psutil.Process(int(pid)) for pid in os.environ["BENCH_STORES"].split(",")]
    before = count_cpu_s(stores)
    began, cpu = time.monotonic(), time.process_time()
    while evaluation.state in ("queued", "running"):  # a link after the other, where one's time is over
        measure_asked(evaluation.pk, by="bench")
        evaluation.refresh_from_db()
    seconds, cpu_s = time.monotonic() - began, time.process_time() - cpu
    assert (evaluation.state, evaluation.played, evaluation.unscored) == ("done", len(told["items"]), 0), evaluation
    found = {
        "share": evaluation.mean_outcome,
        "seconds": seconds,
        "cpu_s": cpu_s + count_cpu_s(stores) - before,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "servers_mb": sum(one.memory_full_info().pss for one in list_all(stores)) / 2**20,
    }
    Path(out).write_text(json.dumps(found))


def list_all(stores: list[psutil.Process]) -> list[psutil.Process]:
    return [each for store in stores for each in (store, *store.children(recursive=True))]


def count_cpu_s(stores: list[psutil.Process]) -> float:
    """Of theirs, and of those of their children that ended."""
    own = sum(sum(each.cpu_times()[:2]) for each in list_all(stores))
    return own + sum(sum(store.cpu_times()[2:4]) for store in stores)


if __name__ == "__main__":
    main(*sys.argv[1:])
