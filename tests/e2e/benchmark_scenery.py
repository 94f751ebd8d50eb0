"""A benchmark that the project has, two runs of it, and a worker that learns it."""

from apps.accounts.models import User
from apps.evals.models import Benchmark, Item, Taskset
from apps.training.models import Course, CourseRound, TrainingRun
from apps.workers.models import Worker
from tentalis.core.learning.curriculum import CurriculumRule

TRAIN = 24


def learn_a_benchmark(worker: Worker, by: User) -> Course:
    """A course of which each training of the worker so far ended a round; the last one is under way."""
    project = worker.project
    taskset = Taskset.objects.create(
        project=project, name="desk-rates", environment="desk", about="Desk: tickets of the kind rate."
    )
    Item.objects.bulk_create(
        Item(taskset=taskset, split=split, prompt=f"Ticket {n}: a parcel.", content_hash=f"{n:064x}", bands=[n])
        for n, split in enumerate(["train"] * TRAIN + ["held_out"] * 12)
    )
    benchmark = Benchmark.objects.create(
        project=project, name="desk/rate", entry="desk/rate", entry_version="1", taskset=taskset, licence="MIT",
        source="desk/rate 1, seed 0", content_hash="5f1d",
    )  # fmt: skip
    project.evaluations.exclude(asked_by="").update(benchmark=benchmark)
    course = Course.objects.create(
        project=project, worker=worker, benchmark=benchmark, started_by=by, rounds_wanted=20, tasks_a_round=24,
        group_size=8, patience=5, rule=CurriculumRule().to_json(),
    )  # fmt: skip
    Course.objects.filter(pk=course.pk).update(created_at=worker.created_at)
    runs = [*TrainingRun.objects.filter(worker=worker, state="succeeded").order_by("pk"), None]
    for number, run in enumerate(runs, start=1):
        choice = {"fresh": max(0, 24 - 6 * number), "mixed": 5 * number, "brought_back": number, "solved": 3 * number}
        CourseRound.objects.create(
            course=course,
            number=number,
            items=[[item, item] for item in range(24)],
            choice=choice | {"unsolved": 2},
            results={"1": [8, min(8, 2 + number)], "2": [8, 3]} if run else {},
            run=run,
            is_better=number % 3 != 0 if run else None,
            words=f"desk@v{number} retired" if run else "",
        )
    return course
