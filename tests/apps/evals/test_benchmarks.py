"""Benchmarks: installed once, from rows that come along or that somebody brings, and run as evaluations."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from apps.accounts.models import User
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.base.counting import forget_callers
from apps.evals import catalogue
from apps.evals.asking import measure_asked
from apps.evals.benchmarks import install_benchmark
from apps.evals.catalogue import CatalogueEntry, CatalogueItem, find_entry, list_entries, render
from apps.evals.models import Benchmark, Evaluation, Item
from apps.workers.models import Worker
from tests.edges.caller import Caller

pytestmark = pytest.mark.django_db(transaction=True)


def read_row(row: Mapping[str, Any]) -> CatalogueItem:
    return CatalogueItem(
        prompt=render("Say {number}", row),
        reference="AB"[int(row["number"]) % 2],
        options={"choices": ["0", "1"]},
        category="odd" if int(row["number"]) % 2 else "even",
    )


ENTRY = CatalogueEntry(
    name="try/numbers",
    version="1",
    about="Numbers that are said.",
    group="tests",
    licence="MIT",
    grader="choice",
    columns={"number": "to be said"},
    read=read_row,
    needs=frozenset({"file"}),
)


@pytest.fixture(autouse=True)
def entry(monkeypatch: pytest.MonkeyPatch) -> CatalogueEntry:
    known = dict(catalogue._list_own())
    monkeypatch.setattr(catalogue, "_list_own", lambda: known | {ENTRY.name: ENTRY})
    return ENTRY


@pytest.fixture
def as_alice(alice: User) -> Caller:
    forget_callers()
    _, text = create_token(user=alice, name="test", scopes=Right.values, project=None, by=alice)
    return Caller(text)


def install(caller: Caller, numbers: range, **changes: Any) -> Any:
    text = "\n".join(json.dumps({"number": n}) for n in numbers)
    return caller.send("POST", "benchmarks", {"project": "shop", "name": ENTRY.name, "text": text} | changes)


def test_a_benchmark_is_installed_from_rows_and_run_as_an_evaluation(as_alice: Caller, worker: Worker) -> None:
    made = install(as_alice, range(1, 7), origin="numbers.jsonl")
    assert made.status == 201, made
    assert (made.body["name"], made.body["version"], made.body["grader"]) == (ENTRY.name, 1, "choice@4")
    assert install(as_alice, range(1, 7)).body["id"] == made.body["id"]
    assert install(as_alice, range(1, 8)).body["version"] == 2

    benchmark = Benchmark.objects.get(pk=made.body["id"])
    assert benchmark.taskset.frozen_at is not None
    assert set(benchmark.taskset.items.values_list("category", flat=True)) == {"odd", "even"}
    body = {"project": "shop", "worker": "helper", "benchmark": benchmark.pk}
    asked = as_alice.send("POST", "evaluations", body)
    assert (asked.status, asked.body["benchmark"], asked.body["planned"]) == (201, benchmark.pk, 6)
    measure_asked(asked.body["id"], by="test")
    evaluation = Evaluation.objects.get(pk=asked.body["id"])
    assert evaluation.state == "done"
    outcomes = dict(evaluation.item_tries.values_list("place", "outcome"))
    assert outcomes == {0: 1.0, 1: 0.0, 2: 0.0, 3: 0.0, 4: 0.0, 5: 1.0}  # 1 is B; 3 and 6 are answered by 0, which is A


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"text": '{"count": 1}'}, "line 1: wanted columns number, found none of number"),
        ({"text": '{"number": "x"}'}, "line 1: ValueError"),
        ({"text": '{"number": NaN}'}, "line 1"),
        ({"text": "[1]"}, "line 1: wanted an object, found list"),
        ({"text": "number\n1\n", "form": "json"}, "wanted"),
        ({"text": "number,number\n1,2\n", "form": "csv"}, "line 1: wanted each column once, found twice: 'number'"),
        ({"text": "\n"}, "wanted 1 to 100,000 rows, found 0"),
        ({"name": "no-such"}, "wanted a benchmark of the catalogue"),
        ({"text": None}, "needs its rows from a file: wanted columns number"),
    ],
)
def test_what_is_no_benchmark_is_refused_whole(as_alice: Caller, changed: dict[str, Any], words: str) -> None:
    body = {"project": "shop", "name": ENTRY.name, "text": '{"number": 1}'} | changed
    refused = as_alice.send("POST", "benchmarks", {name: value for name, value in body.items() if value is not None})
    assert refused.status == 400
    assert words in json.dumps(refused.body)
    assert not Benchmark.objects.exists()
    assert not Item.objects.exists()


def test_a_world_is_a_benchmark_that_the_world_verifies(alice: User, project: Any) -> None:
    benchmark = install_benchmark(project=project, name="desk", by=alice)
    assert benchmark.grader == ""
    assert Benchmark.objects.get(project=project, name="desk", version=1) == benchmark
    splits = list(benchmark.taskset.items.values_list("split", flat=True))
    for split, size in find_entry("desk").sizes.items():  # what says the same as another is there once
        assert size * 0.9 <= splits.count(split) <= size


@pytest.mark.filterwarnings("ignore::SyntaxWarning")  # of a package that reasoning-gym imports
def test_what_is_drawn_to_train_on_and_says_what_is_held_out_is_left_out(alice: User, project: Any) -> None:
    benchmark = install_benchmark(project=project, name="rg/chain_sum:0", by=alice)
    splits = list(benchmark.taskset.items.values_list("split", flat=True))
    sizes = find_entry("rg/chain_sum:0").sizes
    assert splits.count("held_out") == sizes["held_out"]
    assert 0 < splits.count("train") < sizes["train"]


def test_every_entry_of_the_catalogue_says_what_it_wants() -> None:
    entries = list_entries()
    assert len({entry.name for entry in entries}) == len(entries)
    for entry in entries:
        assert entry.licence, entry.name
        assert entry.about, entry.name
        assert entry.needs <= set(catalogue.NEEDS), entry.name
        assert entry.columns, entry.name
