"""A small draw of the big one (tests/bench/fuzz.py): nothing the schema allows or refuses breaks the API."""

import pytest
from pytest_django import Settings

from apps.accounts.models import Project
from tests.edges.fuzzing import Fuzzer, load_operations

CASES = 4
SEED = 20_261_121


def test_planted_faults_are_found(project: Project, settings: Settings) -> None:
    """One breaks on a body that passed every check, one answers with another type than it says."""
    fuzzer = Fuzzer(project)
    settings.ROOT_URLCONF = "tests.edges.planted_urls"
    planted = ("POST /api/v1/skills", "GET /api/v1/tasksets/{id}", "GET /api/v1/skills")
    for operation in load_operations("tests.edges.planted_urls"):
        if f"{operation.method.upper()} {operation.path}" in planted:
            fuzzer.run(operation, cases=40, number=SEED)
    assert {title for title in fuzzer.report.faults if "Undocumented" not in title} == {
        "POST /api/v1/skills: Server error",
        "GET /api/v1/tasksets/{id}: Response violates schema",
    }


@pytest.mark.slow
def test_nothing_drawn_from_the_schema_breaks_it(project: Project) -> None:
    fuzzer = Fuzzer(project)
    operations = load_operations()
    for place, operation in enumerate(operations):
        fuzzer.run(operation, cases=CASES, number=SEED + place)
    report = fuzzer.report
    if report.faults:
        pytest.fail("\n\n".join(f"{title}\n{words}" for title, words in report.examples.items()), pytrace=False)
    assert report.cases > 2 * len(operations)
    assert report.statuses.keys() >= {200, 201, 400, 404}
