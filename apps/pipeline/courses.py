"""Courses go on: a round of tasks, a training of them, the gate; then the next. All that is known is in rows."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.audit.services import move
from apps.base.errors import ConflictError, TentalisError, log_and_continue
from apps.evals.models import Benchmark
from apps.pipeline.flow import close_batch, submit_rows
from apps.pipeline.importing import import_at_once
from apps.training import courses
from apps.training.models import Course, CourseRound
from apps.workers.bases import say_missing
from apps.workers.models import Worker
from tentalis.core.judged_files import write_shown

BY = "course"


def start_course(*, worker: Worker, benchmark: Benchmark, by: User, **asked: Any) -> Course:
    """Have a worker learn a benchmark, and begin the first round; see `courses.start_course`."""
    with transaction.atomic():
        course = courses.start_course(worker=worker, benchmark=benchmark, by=by, **asked)
        begin_round(course)
    return course


def go_on_with_courses() -> int:
    """Take each course as far as it can go now. Returns how many are under way."""
    running = courses.find_running()
    for course_id in running:
        with log_and_continue(f"course {course_id} cannot go on", TentalisError):
            go_on_with(course_id)
    return len(running)


def go_on_with(course_id: int) -> None:
    """Do what a course's rows ask for next; nothing where it waits. What cannot be done ends it as failed."""
    try:
        with transaction.atomic():
            if (course := courses.lock_course(course_id)) is not None:
                _step(course)
    except TentalisError as error:
        with transaction.atomic():
            course = Course.objects.get(pk=course_id)
            if course.state in (Course.State.RUNNING, Course.State.PAUSED):
                move(course, Course.State.FAILED, by=BY, reason=str(error)[:500])


def _step(course: Course) -> None:
    last = courses.find_last_round(course)
    if last is not None and last.finished_at is None:
        _go_on_with_round(course, last)
    elif course.state == Course.State.RUNNING:
        if why := courses.find_end(course):
            move(course, Course.State.DONE, by=BY, reason=why, finished_at=timezone.now())
        else:
            begin_round(course)


def begin_round(course: Course) -> None:
    """Submit the tasks of the next round, in the running transaction; where answers are to be shown, those first."""
    if course.shown and not course.rounds.exists():
        _show_answers(course)
        return
    choice, rows = courses.choose_round(course)
    if not choice.fresh and not choice.mixed and not choice.unsolved:
        move(course, Course.State.DONE, by=BY, reason="every item is solved", finished_at=timezone.now())
        return
    made = submit_rows(
        rows=rows,
        project=course.project,
        environment=course.benchmark.taskset.environment,
        by=course.started_by,
        worker=course.worker,
        group_size=course.group_size,
    )
    told = choice._asdict()
    courses.open_round(course, told, told.pop("items"), made)


def _show_answers(course: Course) -> None:
    items = courses.choose_shown(course)
    tasks = import_at_once(
        project=course.project,
        by=course.started_by,
        kind="sft",
        text="\n".join(write_shown(item.prompt, item.answer) for item in items),
        file=str(course.benchmark),
        environment=course.benchmark.taskset.environment,
        worker=course.worker,
    )
    courses.open_round(course, {"shown": len(items)}, [item.pk for item in items], tasks)


def _go_on_with_round(course: Course, current: CourseRound) -> None:
    if current.run is None:
        if not courses.is_worked(current):
            return
        courses.note_results(current)
        current.run = courses.find_run(current)  # its project's batches may have been full before its tasks were done
        if current.run is None:
            _train(course, current)
            return
        current.save(update_fields=["run"])
    if (verdict := courses.find_verdict(current.run)) is not None:
        is_better, words = verdict
        courses.end_round(current, is_better=is_better, reason=words, by=BY)


def _train(course: Course, current: CourseRound) -> None:
    changes: Mapping[str, Any] | None = course.recipe or None
    if current.is_shown:
        changes = courses.recipe_of_shown(course.shown, {**course.recipe, **course.shown_recipe})
    if missing := say_missing(course.worker.line):
        raise ConflictError(missing)
    try:
        with transaction.atomic():
            current.run = close_batch(
                worker=course.worker, by=course.started_by, backend=course.backend or None, recipe=changes,
                name=f"course {course.pk}, round {current.number}",
            )  # fmt: skip
    except ConflictError as error:
        courses.end_round(current, is_better=False, reason=str(error), by=BY)
        return
    current.save(update_fields=["run"])
