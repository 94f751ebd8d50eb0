"""Benchmarks, for their pages: what comes along, what a project has of it, and what it came to."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import QuerySet
from django.db.models.functions import Coalesce

from apps.accounts.models import Project
from apps.base.pages import take_page
from apps.console.selectors.tasksets import count_items
from apps.evals.catalogue import CatalogueEntry, list_entries
from apps.evals.models import Benchmark, Evaluation
from apps.training.models import Course
from apps.workers.models import Worker

PAGE = 16
SHOWN_RUNS = 25
SHOWN_COURSES = 10


@dataclass(frozen=True)
class FoundEntry:
    """A benchmark of the catalogue, and the newest of it that the project has; None for none."""

    entry: CatalogueEntry
    installed: Benchmark | None


@dataclass(frozen=True)
class BenchmarkView:
    """A benchmark as its page shows it; `counts` says how many items each split has."""

    benchmark: Benchmark
    counts: dict[str, int]
    runs: Sequence[Evaluation]
    courses: Sequence[Course]


def list_groups() -> list[str]:
    """What the catalogue's benchmarks are about."""
    return sorted({entry.group for entry in list_entries()})


def search_catalogue(
    project: Project, *, text: str = "", group: str = "", start: int = 0
) -> tuple[list[FoundEntry], int | None]:
    """A page of the catalogue, what runs offline first, and where the next page starts; None at the end.

    Args:
        text: every word of it stands in the name or in what it is about.
    """
    words = text.lower().split()
    found = [
        entry
        for entry in list_entries()
        if group in ("", entry.group) and all(word in f"{entry.name} {entry.about}".lower() for word in words)
    ]
    found.sort(key=lambda entry: not entry.is_offline)  # stable: by name on either side
    page = found[start : start + PAGE]
    rows = Benchmark.objects.filter(project=project, entry__in=[entry.name for entry in page]).order_by("version")
    installed = {row.entry: row for row in rows}
    following = start + PAGE if len(found) > start + PAGE else None
    return [FoundEntry(entry, installed.get(entry.name)) for entry in page], following


def find_benchmarks(project: Project, *, before: int | None = None) -> tuple[list[Benchmark], int | None]:
    """A page of what the project has, newest first, and the id to go on below."""
    rows: QuerySet[Benchmark] = project.benchmarks.select_related("taskset")
    return take_page(rows, before=before, size=PAGE)


def view_benchmark(benchmark: Benchmark) -> BenchmarkView:
    runs = Evaluation.objects.filter(project=benchmark.project_id, benchmark=benchmark).select_related(
        "worker", "adapter"
    )
    courses = benchmark.courses.select_related("worker")
    return BenchmarkView(
        benchmark,
        count_items(benchmark.taskset),
        list(runs.order_by("-id")[:SHOWN_RUNS]),
        list(courses.order_by("-id")[:SHOWN_COURSES]),
    )


def list_measured_lines(benchmark: Benchmark) -> list[Worker]:
    """The lines of which anybody ran it, by name."""
    runs = Evaluation.objects.filter(project=benchmark.project_id, benchmark=benchmark)
    lines = runs.annotate(line=Coalesce("worker__learns_with", "worker")).order_by().values("line")
    return list(Worker.objects.filter(pk__in=lines).order_by("name"))


def find_courses(project: Project, *, before: int | None = None) -> tuple[list[Course], int | None]:
    """A page of courses, newest first, and the id to go on below."""
    rows: QuerySet[Course] = project.courses.select_related("worker", "benchmark")
    return take_page(rows, before=before, size=PAGE)
