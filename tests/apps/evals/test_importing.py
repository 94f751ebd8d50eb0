"""Runs of other tools come in whole or not at all, are graded anew and compared, and go out as what they were."""

import csv
import io
import json
from base64 import b64encode
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.audit.models import AuditEntry
from apps.base.counting import forget_callers
from apps.base.errors import BadInputError, ConflictError
from apps.evals.asking import replay_evaluation, resume_evaluation
from apps.evals.comparing import compare_evaluations
from apps.evals.exporting import FORMS, export_run
from apps.evals.importing import import_run
from apps.evals.models import Evaluation, ItemTry, Taskset, TryRecord
from apps.evals.panels import find_own
from apps.pipeline import flow
from apps.regrading.services import regrade
from apps.workers.models import Worker
from tentalis.core.run_logs.reading import read_run
from tentalis.zstd import unpack_zstd
from tests.core.run_log_files import (
    LM_EVAL,
    LM_EVAL_NAME,
    MESSAGES,
    make_eval_file,
    make_inspect_log,
    make_inspect_sample,
    spell_lines,
)
from tests.edges.caller import Caller
from tests.factories import make_worker

pytestmark = pytest.mark.django_db(transaction=True)
SAMPLES = [
    make_inspect_sample(1),
    make_inspect_sample(2, value="I"),
    make_inspect_sample(1, epoch=2, value=0.25),
    make_inspect_sample(2, epoch=2, scores=None, error={"message": "timed out"}),
]


def take_in(project: Project, alice: User, data: bytes | None = None, **told: Any) -> Evaluation:
    row = import_run(project=project, data=data or make_eval_file(SAMPLES), by=alice, name="sums.eval", **told)
    row.refresh_from_db()
    return row


def count_rows() -> list[int]:
    return [model._default_manager.count() for model in (Worker, Taskset, Evaluation, ItemTry, TryRecord, AuditEntry)]


def write(row: Evaluation, form: str, *, knows: bool = True) -> bytes:
    return b"".join(export_run(row, form, knows=knows))


def test_a_log_of_inspect_is_a_run_that_is_done_and_the_very_same_is_there_once(
    project: Project, alice: User, worker: Worker
) -> None:
    many = [*SAMPLES, *(make_inspect_sample(n) for n in range(3, 12))]
    data = make_eval_file(many)
    row = take_in(project, alice, data)
    assert (row.state, row.purpose) == ("done", "report")
    assert (row.planned, row.played, row.unscored, row.items) == (13, 13, 1, 11)
    assert row.mean_outcome == pytest.approx((0.625 + 0.0 + 9) / 11)
    assert row.worker.name.startswith("imported-openai-m-")
    assert (row.worker.is_active, row.worker.kind) == (False, "outside")
    assert "no tokens" in row.made_with["learning"]
    assert row.made_with["imported"]["task"] == "addition"
    first, lost = (ItemTry.objects.get(evaluation=row, place=p, number=n) for p, n in ((0, 0), (1, 1)))
    assert (first.outcome, first.grader, first.prompt_tokens, first.turns) == (1, "includes", 12, 2)
    assert first.cost_usd is None, "nobody said what it cost"
    assert (lost.outcome, lost.cause, lost.reason) == (None, "infrastructure", "timed out")
    kept = first.record
    assert (kept.answer, bytes(kept.token_ids), kept.served_by) == ("It is 2.", b"", "openai/m")
    assert [one["role"] for one in kept.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert [(one["kind"], one.get("tool_result", "")) for one in kept.steps] == [("call", "2"), ("answer", "")]
    before = count_rows()
    assert take_in(project, alice, data) == row
    assert count_rows() == before
    with pytest.raises(ConflictError, match="another tool made"):
        replay_evaluation(evaluation=row, by=alice)
    with pytest.raises(ConflictError, match="another tool made"):
        resume_evaluation(evaluation=row, by=alice)
    project.refresh_from_db()
    assert find_own(worker) == {}, "what a gate measures is not changed by it"
    Taskset.objects.update(origin="made")
    assert len(find_own(worker)["chat"]) == 11


def test_two_runs_of_the_same_items_are_compared_and_graded_anew(project: Project, alice: User) -> None:
    rows = [
        take_in(project, alice, json.dumps(make_inspect_log(samples, model=name)).encode())
        for name, samples in (
            ("openai/m", [make_inspect_sample(n) for n in range(12)]),
            ("openai/n", [make_inspect_sample(n, value="I") for n in reversed(range(12))]),
        )
    ]
    assert rows[0].taskset == rows[1].taskset, "the same items are there once"
    found = compare_evaluations(*rows).outcomes
    assert (found.items, found.difference) == (12, 1.0)
    asked = {"role": "user", "content": "Which is a sea: A (Como) or B (Baltic)?"}
    chosen = [{"messages": [asked, {"role": "assistant", "content": letter}], "ideal": "B"} for letter in "BA"]
    told: dict[str, Any] = {"worker": make_worker(project), "grader": "choice"}
    made = flow.import_run(project=project, by=alice, data=spell_lines(chosen), name="seas.jsonl", **told)
    assert made.regrading is not None
    regrade(made.regrading.pk, by="test")
    new = {one.subject_id: one.new for one in made.regrading.grades.all()}
    tries = ItemTry.objects.filter(evaluation=made.evaluation).order_by("place", "number")
    assert [(row.outcome, new[row.pk]) for row in tries] == [(None, 1.0), (None, 0.0)]


def test_what_is_wrong_is_named_and_nothing_of_it_is_kept(project: Project, alice: User) -> None:
    before = count_rows()
    said = {"role": "assistant", "content": "x"}
    many = [{"messages": [{"role": "user", "content": f"{n}"}, said]} for n in range(5001)]
    same = [MESSAGES[0]] * 101
    cases: tuple[tuple[bytes, dict[str, Any], str, str], ...] = (
        (b"{", {}, "file", "wanted JSON"),
        (spell_lines(MESSAGES), {}, "worker", "names no model"),
        (json.dumps(make_inspect_log([*SAMPLES, make_inspect_sample(9, value=9)])).encode(), {}, "file", "sample 9"),
        (spell_lines(many), {"worker": make_worker(project, "w")}, "file", "5,000 items"),
        (spell_lines(same), {"worker": Worker.objects.get(name="w")}, "file", "100 tries"),
    )
    for data, told, field, words in cases:
        with pytest.raises(BadInputError, match=words) as refused:
            import_run(project=project, data=data, by=alice, **told)
        assert field in refused.value.errors
    with pytest.raises(BadInputError, match="nobody"):
        flow.import_run(project=project, by=alice, data=make_eval_file(SAMPLES), grader="nobody")
    after = count_rows()
    assert after[1:] == before[1:], "the worker is the test's own"
    assert after[0] == before[0] + 1


def test_a_run_goes_out_as_each_form_and_comes_back_from_inspects(project: Project, alice: User) -> None:
    attack = "<script>alert(1)</script> | =1+1 \x00"
    asked = [{"role": "user", "content": "Hello?"}, {"role": "assistant", "content": attack}]
    hostile = make_inspect_sample(3, messages=asked, output={"completion": attack})
    row = take_in(project, alice, json.dumps(make_inspect_log([*SAMPLES, hostile])).encode())
    log = write(row, "inspect")
    back = read_run(log, most_bytes=10**6, unzstd=unpack_zstd)
    whole = read_run(make_eval_file(SAMPLES), most_bytes=10**6, unzstd=unpack_zstd)
    mine = {(one.opening[-1]["content"], one.score, one.is_lost) for one in back.tries}
    assert mine >= {(one.opening[-1]["content"], one.score, one.is_lost) for one in whole.tries}
    assert back.tries[0].said == whole.tries[0].said
    assert (back.model, back.tries[0].reference) == ("openai/m", "2")
    assert json.loads(write(row, "inspect", knows=False))["samples"][0]["target"] == ""
    table = list(csv.DictReader(io.StringIO(write(row, "csv").decode("utf-8-sig"))))
    assert [(one["place"], one["outcome"]) for one in table[:2]] == [("0", "1.0"), ("1", "0.0")]
    assert "reference" not in next(csv.reader(io.StringIO(write(row, "csv", knows=False).decode("utf-8-sig"))))
    packed = pyarrow.parquet.read_table(pyarrow.BufferReader(write(row, "parquet")))
    assert packed.num_rows == 5
    assert json.loads(packed["messages"][0].as_py())[1]["content"] == "What is 1 + 1?"
    text = write(row, "markdown").decode()
    assert "| 1 | 1 | 1 | It is 2. |" in text
    assert "\\<script\\>" in text
    page = write(row, "html").decode()
    assert "&lt;script&gt;" in page
    assert not any(word in page for word in ("<script", "http://", "https://", "src=", "@import", "url("))
    assert page.count("<details>") == 5
    assert page.rstrip().endswith("</html>")


def test_by_rest_a_run_comes_in_and_goes_out_as_each_form(project: Project, alice: User) -> None:
    forget_callers()
    _, text = create_token(user=alice, name="test", scopes=Right.values, project=None, by=alice)
    caller = Caller(text)
    written = b64encode(spell_lines(LM_EVAL)).decode()
    told = {"project": project.slug, "file": written, "name": LM_EVAL_NAME, "results": '{"model_name": "org/small"}'}
    made = caller.post("evaluations/import", told)
    assert made.status == 201, made.body
    assert (made.body["evaluation"]["mean_outcome"], made.body["regrading"]) == (0.5, None)
    assert "no tokens" in made.body["words"]
    pk = made.body["evaluation"]["id"]
    for form, (_, media_type, _) in FORMS.items():
        answer = caller.get(f"evaluations/{pk}/export?form={form}")
        assert (answer.status, answer.headers["Content-Type"]) == (200, media_type)
    assert caller.get(f"evaluations/{pk}/export?form=pdf").status == 400
    assert caller.post("evaluations/import", told | {"file": "?"}).status == 400
    assert AuditEntry.objects.filter(kind="export.made").count() == len(FORMS)
