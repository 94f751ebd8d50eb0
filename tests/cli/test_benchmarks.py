"""Benchmarks and data sets from the command line, on a real platform."""

from apps.accounts.models import Project, User
from apps.evals.benchmarks import install_benchmark
from apps.evals.models import Benchmark, Evaluation, Taskset
from tests.cli.conftest import Run
from tests.factories import make_worker


def test_a_version_that_is_not_there_is_neither_installed_nor_run(signed_in: Run) -> None:
    rows = [{"prompt": "Say 1", "reference": "1", "grader": "exact"}]
    project, alice = Project.objects.get(), User.objects.get(username="alice")
    install_benchmark(project=project, name="own/said", by=alice, rows=rows)
    for verb, whose in (("eval", "--worker"), ("train", "--agent")):
        refused = signed_in(verb, "own/said@9", whose, "echo")
        assert (refused.code, "shop has no benchmark own/said@9" in refused.err) == (2, True)
    assert Benchmark.objects.count() == 1
    assert not Evaluation.objects.exists()


def test_an_evaluation_of_no_taskset_makes_none(signed_in: Run) -> None:
    make_worker(Project.objects.get(), name="desk", kind="desk")
    asked = signed_in("eval", "run", "desk", "--environment", "desk", "--size", "3", "--json")
    refused = signed_in("dataset", "from-eval", str(asked.json["id"]), "wrong")
    assert (refused.code, "wanted an evaluation on a taskset's items" in refused.err) == (2, True)
    assert not Taskset.objects.exists()
