"""Data sets: rows of files become benchmarks, all of them or none; leaks and what is no row are refused by name."""

import base64
import io
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.base.counting import forget_callers
from apps.base.errors import BadInputError, ConflictError
from apps.evals.asking import measure_asked
from apps.evals.benchmarks import install_benchmark, list_tried_rows, remove_taskset
from apps.evals.catalogue import find_entry
from apps.evals.models import Benchmark, Evaluation, Item, Taskset
from apps.evals.pieces import keep_piece, read_pieces
from apps.evals.row_files import read_rows
from apps.evals.services import ItemRow, add_items
from apps.inference.pictures import read_kept, show_pictures
from apps.workers.models import Worker
from tests.edges.caller import Caller

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def as_alice(alice: User) -> Caller:
    forget_callers()
    _, text = create_token(user=alice, name="test", scopes=Right.values, project=None, by=alice)
    return Caller(text)


@pytest.fixture
def store(settings: Any, tmp_path: Path) -> Path:
    settings.ARTIFACTS = tmp_path
    return tmp_path


def make_sums(count: int, *, first: int = 0, split: str = "") -> list[dict[str, Any]]:
    rows = []
    for n in range(first, first + count):
        row = {"id": n, "question": f"What is {n} plus {n * 7 + 3}?", "answer": f"Add them.\n#### {n * 8 + 3}"}
        rows.append(row | ({"split": split} if split else {}))
    return rows


def pack(rows: Sequence[Any]) -> str:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    return base64.b64encode(held.getvalue()).decode()


def test_rows_in_pieces_become_one_benchmark_and_the_pieces_are_gone(as_alice: Caller, store: Path) -> None:
    rows = make_sums(30)
    pieces = []
    for start in range(0, 30, 10):
        sent = as_alice.send("POST", "benchmarks/pieces", {"project": "shop", "packed": pack(rows[start : start + 10])})
        assert sent.status == 201, sent
        pieces.append(sent.body["sha256"])
    made = as_alice.send("POST", "benchmarks", {"project": "shop", "name": "gsm8k", "pieces": pieces, "origin": "x"})
    assert (made.status, made.body["grader"], made.body["source"]) == (201, "number@2", "x")
    assert Item.objects.count() == 30
    assert list((store / "pieces").iterdir()) == []
    again = as_alice.send("POST", "benchmarks", {"project": "shop", "name": "gsm8k", "pieces": pieces})
    assert again.status == 400
    assert "wanted pieces that were sent" in json.dumps(again.body)
    assert as_alice.send("POST", "benchmarks/pieces", {"project": "shop", "packed": "bm90IGEgemlw"}).status == 400


def test_signs_that_end_a_line_elsewhere_are_letters_of_a_row(project: Project, alice: User, store: Path) -> None:
    rows = [{"question": f"one{sign}two", "answer": "1"} for sign in "\u2028\u2029\x85"]
    lines = "\r\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    assert read_rows(lines, form="jsonl") == rows
    table = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), table)
    piece = keep_piece(project=project, data=table.getvalue(), by=alice)
    assert read_pieces(project, [piece]) == rows


def test_pieces_are_read_no_further_than_a_benchmark_takes(
    project: Project, alice: User, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    piece = keep_piece(project=project, data=base64.b64decode(pack(make_sums(10))), by=alice)
    monkeypatch.setattr("apps.evals.pieces.MOST_ROWS", 10)
    assert len(read_pieces(project, [piece])) == 10
    with pytest.raises(BadInputError, match="wanted 1 to 10 rows, found more"):
        read_pieces(project, [piece, piece, "never-sent"])


def test_held_out_rows_that_stand_in_train_too_are_refused_whole(project: Project, alice: User) -> None:
    held_out = make_sums(30, split="test")
    leaked = [row | {"id": 100 + n, "split": "train"} for n, row in enumerate(held_out[:9])]  # 30 %
    rows = [*held_out, *make_sums(20, first=200, split="train"), *leaked]
    with pytest.raises(BadInputError) as refused:
        install_benchmark(project=project, name="gsm8k", by=alice, rows=rows)
    assert "says nearly the same: wanted it on one side of a split" in str(refused.value)
    assert not Benchmark.objects.exists()
    assert not Item.objects.exists()
    benchmark = install_benchmark(project=project, name="gsm8k", by=alice, rows=rows[:-9])
    splits = list(benchmark.taskset.items.values_list("split", flat=True))
    assert (splits.count("held_out"), splits.count("train")) == (30, 20)


def test_what_is_learnt_elsewhere_in_the_project_is_not_measured_on(project: Project, alice: User) -> None:
    install_benchmark(
        project=project, name="gsm8k", by=alice, rows=[*make_sums(5), *make_sums(5, first=50, split="train")]
    )
    with pytest.raises(BadInputError, match="says nearly the same"):
        install_benchmark(project=project, name="gsm8k", by=alice, rows=make_sums(3, first=50))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"question": "What?"}], "line 1: wanted columns question, answer, found none of answer"),
        ([{"question": "What?", "answer": "none"}], "wanted a solution that ends with ####"),
        ([{"question": "What?", "answer": "#### nan"}], "wanted a number as the answer"),
        ([*make_sums(2), make_sums(2)[1]], "line 3: id: wanted another in each row, found 1 in line 2 too"),
        ([{**make_sums(1)[0], "split": "dev"}], "split: wanted one of held_out, test, validation, train, found 'dev'"),
        (make_sums(2, split="train"), "wanted rows to measure on"),
        (["What?"], "line 1"),
        ([{"question": "x" * 100_001, "answer": "#### 1"}], "line 1"),
        ([], "wanted 1 to 100,000 rows, found 0"),
    ],
)
def test_rows_that_are_none_are_refused_and_nothing_is_left(
    project: Project, alice: User, rows: Sequence[Any], words: str
) -> None:
    with pytest.raises(BadInputError) as refused:
        install_benchmark(project=project, name="gsm8k", by=alice, rows=rows)
    assert words in str(refused.value)
    assert not Taskset.objects.exists()
    assert not Benchmark.objects.exists()


def test_pictures_stay_in_an_arrow_file_and_are_shown_to_models_alone(
    project: Project, alice: User, store: Path
) -> None:
    entry = find_entry("ai2d")
    assert entry.synthetic is not None
    rows = list(entry.synthetic(4, 0))
    benchmark = install_benchmark(project=project, name="ai2d", by=alice, rows=rows)
    items = list(benchmark.taskset.items.order_by("pk"))
    (path,) = (store / "pictures").iterdir()
    address = items[2].messages[0]["content"][0]["image_url"]["url"]
    assert address == f"tentalis-picture:{path.stem}/2"
    assert items[2].messages[0]["content"][1] == {"type": "text", "text": items[2].prompt}
    assert read_kept(path.stem, "2") == rows[2]["image"]["bytes"]
    shown = show_pictures(items[2].messages)[0]["content"][0]["image_url"]["url"]
    assert base64.b64decode(shown.removeprefix("data:image/png;base64,")) == rows[2]["image"]["bytes"]
    assert install_benchmark(project=project, name="ai2d", by=alice, rows=rows) == benchmark


@pytest.mark.parametrize(
    "picture", [None, "a.png", b"no picture", {"path": "a.png"}, b"\x89PNG\r\n\x1a\n" + b"0" * 2**24]
)
def test_what_is_no_picture_is_refused_by_line(project: Project, alice: User, store: Path, picture: Any) -> None:
    entry = find_entry("ai2d")
    assert entry.synthetic is not None
    rows = [dict(row) for row in entry.synthetic(2, 0)]
    rows[1]["image"] = picture
    with pytest.raises(BadInputError, match="line 2: image: wanted"):
        install_benchmark(project=project, name="ai2d", by=alice, rows=rows)
    assert not Taskset.objects.exists()


def test_a_project_brings_rows_of_its_own_with_any_grader(project: Project, alice: User) -> None:
    rows = [
        {"prompt": "Name the capital of France.", "reference": "Paris", "grader": "exact"},
        {"prompt": "How many legs has a spider?", "reference": "8", "grader": "number"},
    ]
    benchmark = install_benchmark(project=project, name="own/mixed", by=alice, rows=rows)
    assert benchmark.grader == "exact@1, number@2"
    with pytest.raises(BadInputError, match="grader"):
        install_benchmark(project=project, name="own/mixed", by=alice, rows=[rows[0] | {"grader": "no-such"}])


def test_other_rows_are_the_next_version_and_hold_nothing_of_the_last(project: Project, alice: User) -> None:
    rows = [{"prompt": f"Say {n}", "reference": str(n), "grader": "exact"} for n in range(1, 10)]
    first = install_benchmark(project=project, name="own/said", by=alice, rows=rows[:6])
    rows[4]["reference"] = "five"
    second = install_benchmark(project=project, name="own/said", by=alice, rows=rows[3:])
    assert (str(first.taskset), str(second.taskset)) == ("own-said@1", "own-said@2")
    assert first.taskset.items.count() == 6
    told = {item.prompt: (item.checks or [{}])[0].get("reference") for item in second.taskset.items.all()}
    assert told == {"Say 5": "five", **{f"Say {n}": str(n) for n in (4, 6, 7, 8, 9)}}


def test_a_taskset_that_somebody_fills_is_not_replaced(project: Project, alice: User) -> None:
    row = ItemRow(1, "Name a sea.", "held_out", reference="Aral")
    add_items(project=project, name="own-said", environment="chat", rows=[row], by=alice)
    rows = [{"prompt": "Say 1", "reference": "1", "grader": "exact"}]
    with pytest.raises(ConflictError, match="own-said@1 is open and holds items"):
        install_benchmark(project=project, name="own/said", by=alice, rows=rows)
    assert Item.objects.get().prompt == "Name a sea."


def test_wrong_answers_make_a_taskset_and_what_was_measured_on_is_kept(
    as_alice: Caller, project: Project, alice: User, worker: Worker
) -> None:
    rows = [{"prompt": f"Say {n}", "reference": str(n), "grader": "exact"} for n in range(1, 7)]
    benchmark = install_benchmark(project=project, name="own/said", by=alice, rows=rows)
    asked = as_alice.send("POST", "evaluations", {"project": "shop", "worker": "helper", "benchmark": benchmark.pk})
    measure_asked(asked.body["id"], by="test")
    evaluation = Evaluation.objects.get(pk=asked.body["id"])
    assert [row.prompt for row in list_tried_rows(evaluation, outcome="wrong")] == ["Say 3", "Say 6"]
    assert len(list_tried_rows(evaluation, outcome="right")) == 4
    benchmark.taskset.items.filter(prompt="Say 3").update(source="task 7")
    sources = [row.source for row in list_tried_rows(evaluation, outcome="wrong")]
    assert sources == ["task 7", "own/said, held_out 6"], "who is forgotten is found by it"

    made = as_alice.send("POST", "tasksets", {"project": "shop", "name": "failed", "environment": "chat"})
    body = {"split": "held_out", "evaluation": evaluation.pk, "outcome": "wrong"}
    added = as_alice.send("POST", f"tasksets/{made.body['id']}/items", body)
    assert (added.status, added.body["added"]) == (201, 2)
    with pytest.raises(ConflictError, match="1 evaluations"):
        remove_taskset(taskset=benchmark.taskset, by=alice)
    assert as_alice.send("DELETE", f"tasksets/{made.body['id']}").status == 204
    assert not Taskset.objects.filter(name="failed").exists()
