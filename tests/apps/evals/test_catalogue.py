"""The catalogue: what runs without a network, what wants a file, and that no grader takes what is not right."""

import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from apps.base.errors import BadInputError
from apps.evals import reasoning
from apps.evals.catalogue import find_entry, list_entries
from apps.evals.catalogue import reasoning as generators
from apps.evals.catalogue.programs import _list_tests
from apps.worlds.bfcl import rows
from tests.bench.catalogue_probes import GARBAGE, grade_answer, list_probed, probe

FEW = 3
ENTRIES = [entry for entry in list_entries() if entry.grader not in ("", "code")]
pytestmark = pytest.mark.filterwarnings("ignore::SyntaxWarning")


def test_a_benchmark_takes_what_is_right_and_nothing_else() -> None:
    wrong = {}
    for entry in ENTRIES:
        items = list_probed(entry, FEW)
        assert len(items) == FEW, entry.name
        wrong[entry.name] = probe(entry, items, garbage=GARBAGE[:2]).find_faults()
    assert {name: faults for name, faults in wrong.items() if faults} == {}


def test_enough_runs_without_a_network_and_enough_from_files() -> None:
    entries = list_entries()
    offline = [entry for entry in entries if entry.is_offline]
    assert len(offline) >= 150
    assert len(entries) - len(offline) >= 57
    assert {"humaneval", "desk", "workbench", "terminal", "swe", "gui"} <= {entry.name for entry in offline}
    for entry in entries:
        assert entry.is_offline or (entry.synthetic and (entry.origin or entry.name == "tau_calls")), entry.name


def test_rows_of_other_columns_and_rows_that_hold_nothing_are_refused_by_line() -> None:
    for entry in (entry for entry in list_entries() if entry.synthetic):
        assert entry.synthetic is not None
        rows = [dict(row) for row in entry.synthetic(FEW, 0)]
        column = next(iter(entry.columns))
        del rows[1][column]
        items, faults = entry.read_rows(rows)
        assert (len(items), list(faults)) == (FEW - 1, [2]), entry.name
        assert column in faults[2], entry.name
        if entry in ENTRIES:
            _, faults = entry.read_rows([dict.fromkeys(entry.columns), dict.fromkeys(entry.columns, "")])
            assert list(faults) == [1, 2], entry.name


@pytest.mark.parametrize(
    ("name", "changed", "words"),
    [
        ("livecodebench", {"private_test_cases": "bm90IHBhY2tlZA=="}, "wanted test cases as JSON, packed or not"),
        ("apps", {"solutions": "[" * 100_000}, "RecursionError"),
        ("math_vista", {"answer_type": "float", "precision": -400}, "OverflowError"),
        ("math_vision", {"answer": "BC"}, "answer: wanted the letter of a choice, found 'BC'"),
    ],
)
def test_a_row_that_no_reader_gets_through_is_refused_by_line(name: str, changed: dict[str, Any], words: str) -> None:
    entry = find_entry(name)
    assert entry.synthetic is not None
    first, second = entry.synthetic(2, 0)
    items, faults = entry.read_rows([first, {**second, **changed}])
    assert (len(items), list(faults)) == (1, [2])
    assert words in faults[2]


def test_a_generator_that_takes_anything_for_right_is_left_out() -> None:
    with pytest.raises(BadInputError, match="wanted a benchmark of the catalogue"):
        find_entry("rg/game_of_life_halting")


def grade_reasoning(name: str, answer: str, **metadata: Any) -> bool:
    entry = {"question": "", "answer": None, "metadata": metadata}
    return reasoning.score(name, answer, entry, {})


def test_no_answer_is_evaluated_as_a_program(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    program = f"__import__('pathlib').Path({str(trace)!r}).touch()"
    for name in sorted(reasoning._DATA | reasoning._CALCULATED | reasoning._ALGEBRA):
        item = find_entry(f"rg/{name}").list_items("held_out", count=1)[0]
        for answer in (program, f"[{program}]", f"x + {program}", f"sin({program})", f"(lambda: {program})()"):
            assert not reasoning.score(name, answer, {**item.reference, "question": item.prompt}, {}), (name, answer)
            assert not trace.exists(), (name, answer)


@pytest.mark.parametrize("answer", ["9**9**9**9", "x**9999999", "9" * 5000, "+".join(["1"] * 3000), "(" * 500])
def test_an_answer_that_takes_for_ever_is_wrong_at_once(answer: str) -> None:
    item = find_entry("rg/polynomial_multiplication").list_items("held_out", count=1)[0]
    assert not reasoning.score("polynomial_multiplication", answer, {**item.reference, "question": ""}, {})


@pytest.mark.parametrize(
    ("answer", "right"),
    [("1*(7*4 - 4)", True), ("6*4*1*1", False), ("4*(7-1)", False), ("24", False), ("4*7-4/1", True)],
)
def test_a_puzzle_takes_its_own_numbers_alone(answer: str, right: bool) -> None:
    assert grade_reasoning("puzzle24", answer, numbers=[1, 7, 4, 4]) is right


@pytest.mark.parametrize(
    ("answer", "right"),
    [("2 × 2 × 3", True), ("3 × 2 × 2", True), ("4 × 3", False), ("1 × 12", False), ("12", False), ("2 × 6", False)],
)
def test_factors_are_prime(answer: str, right: bool) -> None:
    entry = {"question": "", "answer": "2 × 2 × 3", "metadata": {"number": 12, "factors": [2, 2, 3]}}
    assert reasoning.score("prime_factorization", answer, entry, {}) is right


def test_what_is_partly_right_earns_nothing() -> None:
    item = find_entry("rg/spell_backward").list_items("held_out", count=1)[0]
    word = item.reference["answer"]
    assert reasoning.score("spell_backward", word, {**item.reference, "question": ""}, {})
    assert not reasoning.score("spell_backward", word[:-1] + "_", {**item.reference, "question": ""}, {})


def test_a_level_is_a_benchmark_of_its_own_and_is_harder() -> None:
    easy, hard = (find_entry(f"rg/chain_sum:{level}").list_items("held_out", count=2) for level in (0, 3))
    assert len(hard[0].prompt) > len(easy[0].prompt)
    with pytest.raises(BadInputError, match="one of 11 levels, from 0, found '11'"):
        find_entry("rg/chain_sum:11")
    with pytest.raises(BadInputError, match="wanted no level"):
        find_entry("humaneval:1")


def test_splits_of_a_generator_share_no_question_and_are_the_same_each_time() -> None:
    entry = find_entry("rg/gcd")
    held_out = [item.prompt for item in entry.list_items("held_out", count=50)]
    train = [item.prompt for item in entry.list_items("train", count=50)]
    assert not set(held_out) & set(train)
    assert held_out == [item.prompt for item in entry.list_items("held_out", count=50)]
    assert held_out != [item.prompt for item in entry.list_items("held_out", count=50, seed=1)]


def test_slow_generators_bring_their_rows_along() -> None:
    for name in sorted(generators.SLOW):
        for split, size in generators.MADE_SIZES.items():
            assert len(list(generators.list_made(name, split))) == size, name


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def miss(name: str) -> Any:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(rows, "distribution", miss)
    with pytest.raises(BadInputError, match="bfcl/multiple wants the package bfcl-eval"):
        find_entry("bfcl/multiple").list_items("held_out")


def test_packed_tests_are_read_and_nothing_of_them_is_run(tmp_path: Path) -> None:
    import base64
    import pickle
    import zlib

    class Trap:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "trace",)

    cases = [{"input": "[" * 91, "output": "2", "testtype": "stdin"}]
    packed = base64.b64encode(zlib.compress(pickle.dumps(json.dumps(cases)))).decode()
    assert _list_tests(packed) == cases
    with pytest.raises(ValueError, match="wanted test cases as JSON"):
        _list_tests(base64.b64encode(zlib.compress(pickle.dumps(Trap()))).decode())
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("name", [entry.name for entry in list_entries() if entry.grader == "code"])
def test_programs_are_read_with_the_checks_that_they_must_pass(name: str) -> None:
    entry = find_entry(name)
    items = list_probed(entry, FEW)
    assert all(item.oracle or name == "livecodebench" for item in items)
    empty = grade_answer(entry, items[0], "")
    assert (empty.value, empty.is_correct) == (0.0, False)
