"""Courses: workers that learn benchmarks, round by round."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.models import User
from apps.accounts.rights import Right
from apps.console.forms_benchmarks import CourseForm
from apps.console.selectors import benchmarks
from apps.console.views.benchmarks import find_benchmark_or_404
from apps.console.views.frame import Scene, act, fill_in, leave, posted, project_view, read_number, show
from apps.pipeline.courses import start_course
from apps.training import courses
from apps.training.models import Course

State = Course.State


@require_GET
@project_view(Right.RUNS_READ)
def list_courses(request: HttpRequest, scene: Scene) -> HttpResponse:
    rows, older = benchmarks.find_courses(scene.project, before=read_number(request, "before"))
    return show(request, scene, "courses", {"rows": rows, "older": older})


@require_http_methods(["GET", "POST"])
@project_view(Right.RUNS_WRITE)
def start(request: HttpRequest, scene: Scene, benchmark_id: int) -> HttpResponse:
    benchmark = find_benchmark_or_404(scene, benchmark_id)
    form = CourseForm(scene.project, posted(request), initial={"group_size": max(2, scene.project.group_size)})
    begun, status = fill_in(
        request, form, lambda: start_course(benchmark=benchmark, by=scene.user, **form.cleaned_data)
    )
    if begun is not None:
        return leave(scene, "course", begun.pk)
    about = _("Rounds of tasks from its train split, each followed by a training and the gate.")
    context = {
        "form": form,
        "benchmark": benchmark,
        "title": _("Learn %(name)s") % {"name": benchmark},
        "about": about,
        "button": _("Begin"),
    }
    return show(request, scene, "benchmark_form", context, status=status or 200)


@require_GET
@project_view(Right.RUNS_READ)
def show_course(request: HttpRequest, scene: Scene, course_id: int) -> HttpResponse:
    course = _find(scene, course_id)
    curve = courses.list_curve(course)
    last = read_number(request, "before") or len(curve)
    rounds = [point for point in reversed(curve) if 0 < point.round < last]
    context = {
        "course": course,
        "subject": f"course:{course.pk}",
        "curve": [point for point in curve if point.interval is not None],
        "begun": len(curve) - 1,
        "rounds": rounds[: benchmarks.PAGE],
        "older": rounds[benchmarks.PAGE - 1].round if len(rounds) > benchmarks.PAGE else None,
        "may_pause": course.state == State.RUNNING,
        "may_resume": course.state in {State.PAUSED, State.FAILED},
        "may_cancel": course.state in {State.RUNNING, State.PAUSED},
        "fragments": {"course"},
    }
    return show(request, scene, "course", context)


@require_POST
@project_view(Right.RUNS_WRITE)
def pause(request: HttpRequest, scene: Scene, course_id: int) -> HttpResponse:
    return _change(request, scene, course_id, _("The round under way goes on to its end."), courses.pause_course)


@require_POST
@project_view(Right.RUNS_WRITE)
def resume(request: HttpRequest, scene: Scene, course_id: int) -> HttpResponse:
    return _change(request, scene, course_id, _("It goes on."), courses.resume_course)


@require_POST
@project_view(Right.RUNS_WRITE)
def cancel(request: HttpRequest, scene: Scene, course_id: int) -> HttpResponse:
    return _change(request, scene, course_id, _("It is cancelled."), courses.cancel_course)


def _change(request: HttpRequest, scene: Scene, course_id: int, words: str, do: Callable[..., Course]) -> HttpResponse:
    course = _find(scene, course_id)
    user: User = scene.user
    act(request, words, lambda: do(course=course, by=user))
    return leave(scene, "course", course.pk)


def _find(scene: Scene, course_id: int) -> Course:
    rows = Course.objects.select_related("project", "worker", "benchmark", "started_by")
    return get_object_or_404(rows, project=scene.project, pk=course_id)
