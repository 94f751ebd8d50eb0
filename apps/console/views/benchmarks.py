"""Benchmarks: what comes along, what a project has of it, and their runs."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from apps.accounts.rights import Right
from apps.base.errors import BadInputError
from apps.console.forms_benchmarks import BenchmarkRunForm, InstallForm
from apps.console.selectors import benchmarks
from apps.console.views.frame import (
    Scene,
    fill_in,
    found_or_404,
    leave,
    posted,
    project_view,
    read_number,
    show,
    tidy,
)
from apps.evals.benchmarks import install_benchmark
from apps.evals.catalogue import CatalogueEntry, find_entry
from apps.evals.leaderboards import find_leaderboard
from apps.evals.models import Benchmark
from apps.pipeline import flow


@require_GET
@project_view(Right.EVALS_READ)
def list_benchmarks(request: HttpRequest, scene: Scene) -> HttpResponse:
    rows, older = benchmarks.find_benchmarks(scene.project, before=read_number(request, "before"))
    return show(request, scene, "benchmarks", {"rows": rows, "older": older})


@require_GET
@project_view(Right.EVALS_READ)
def list_catalogue(request: HttpRequest, scene: Scene) -> HttpResponse:
    if (shorter := tidy(request)) is not None:
        return shorter
    text, group = request.GET.get("q", "")[:100], request.GET.get("group", "")
    start = read_number(request, "start") or 0
    found, following = benchmarks.search_catalogue(scene.project, text=text, group=group, start=start)
    context = {"found": found, "following": following, "q": text, "group": group, "groups": benchmarks.list_groups()}
    return show(request, scene, "catalogue", context)


@require_http_methods(["GET", "POST"])
@project_view(Right.EVALS_WRITE)
def install(request: HttpRequest, scene: Scene) -> HttpResponse:
    """One of the catalogue, by `?name=`; without one, the catalogue to choose from."""
    if not (name := request.GET.get("name", "")):
        return leave(scene, "catalogue")
    entry = _find_entry(name)
    form = InstallForm(entry, posted(request), request.FILES or None)
    made, status = fill_in(
        request, form, lambda: install_benchmark(project=scene.project, name=entry.name, by=scene.user, **form.asked)
    )
    if made is not None:
        return leave(scene, "benchmark", made.pk)
    return show(request, scene, "benchmark_install", {"form": form, "entry": entry}, status=status or 200)


@require_GET
@project_view(Right.EVALS_READ)
def show_benchmark(request: HttpRequest, scene: Scene, benchmark_id: int) -> HttpResponse:
    view = benchmarks.view_benchmark(find_benchmark_or_404(scene, benchmark_id))
    return show(request, scene, "benchmark", {"view": view, "benchmark": view.benchmark})


@require_GET
@project_view(Right.EVALS_READ)
def show_leaderboard(request: HttpRequest, scene: Scene, benchmark_id: int) -> HttpResponse:
    """Its models, ranked as far as they are told apart; with `worker`, only those of its line."""
    if (shorter := tidy(request)) is not None:
        return shorter
    benchmark = find_benchmark_or_404(scene, benchmark_id)
    lines = benchmarks.list_measured_lines(benchmark)
    name = request.GET.get("worker", "")
    line = found_or_404(next((one for one in lines if one.name == name), None), "no such line") if name else None
    found = find_leaderboard(benchmark, line=line)
    return show(request, scene, "leaderboard", {"benchmark": benchmark, "found": found, "lines": lines, "line": line})


@require_http_methods(["GET", "POST"])
@project_view(Right.EVALS_WRITE)
def run(request: HttpRequest, scene: Scene, benchmark_id: int) -> HttpResponse:
    benchmark = find_benchmark_or_404(scene, benchmark_id)
    form = BenchmarkRunForm(benchmark, posted(request), initial={"tries": benchmark.tries})
    asked, status = fill_in(
        request,
        form,
        lambda: flow.ask_evaluation(worker=form.cleaned_data["worker"], by=scene.user, **form.asked),
    )
    if asked is not None:
        return leave(scene, "evaluation", asked.pk)
    context = {
        "form": form,
        "benchmark": benchmark,
        "title": _("Run %(name)s") % {"name": benchmark},
        "button": _("Run"),
    }
    return show(request, scene, "benchmark_form", context, status=status or 200)


def find_benchmark_or_404(scene: Scene, benchmark_id: int) -> Benchmark:
    rows = Benchmark.objects.select_related("project", "taskset")
    return get_object_or_404(rows, project=scene.project, pk=benchmark_id)


def _find_entry(name: str) -> CatalogueEntry:
    try:
        return find_entry(name)
    except BadInputError as error:
        raise Http404(str(error)) from None
