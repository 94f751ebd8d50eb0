"""What is taken home: whole, harmless in a spreadsheet, read back as it was, and on record."""

import csv
import hashlib
import io
import json
import zipfile
from html import unescape
from typing import Any

import pyarrow.parquet
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.models import Member, Project, Role
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.base.writers import guard, unguard, write_csv
from apps.checks.services import write_check
from apps.console.exports.delivery import begin_export
from apps.console.exports.sources import SOURCES
from apps.evals.holding import HELD_OUT
from apps.evals.services import ItemRow, add_items, make_taskset
from apps.feedback.hints import extract_hints
from apps.feedback.models import Feedback, Review, RowImport, StepFeedback
from apps.pipeline.importing import import_all
from apps.rollouts.examples import iterate_pairs
from apps.rollouts.models import Batch, Demonstration, PreferencePair, Rollout
from apps.rollouts.selectors import make_records
from apps.rollouts.services import build_rollouts, close_open_batch
from apps.tasks.models import Step, Task
from apps.workers.models import Worker
from tentalis.core.contracts import RolloutRecord
from tentalis.core.desk import make_tickets
from tentalis.core.judged_files import NO_TOKENS
from tests.apps.console.builders import sign_in
from tests.e2e.scenery import Scene
from tests.factories import add_call, make_judged_task, make_project, make_task, make_user, make_worker

pytestmark = pytest.mark.django_db

FORMULA = '=HYPERLINK("http://127.0.0.1:9","x")'


def take(client: Client, name: str, format: str, **said: str) -> bytes:
    return read_stream(
        client.post(reverse("console:export", args=("desk", name)), {"format": format, "plain": "on", **said})
    )


def read_stream(answer: Any) -> bytes:
    assert answer.status_code == 200
    return b"".join(answer.streaming_content)


def read_lines(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


def read_cells(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline="")))


def read_table(data: bytes) -> list[dict[str, Any]]:
    return pyarrow.parquet.read_table(io.BytesIO(data)).to_pylist()  # type: ignore[no-any-return]


def test_every_source_is_the_same_rows_in_every_format_and_the_same_bytes_again(scene: Scene) -> None:
    client = sign_in(scene.alice)
    for source in SOURCES.values():
        if source.name == "audit":
            continue  # every export adds to it
        counts = set()
        for format in source.formats:
            data = take(client, source.name, format)
            assert take(client, source.name, format) == data, (source.name, format)
            read: Any = {"csv": read_cells, "jsonl": read_lines, "parquet": read_table}[format]
            rows: list[dict[str, Any]] = read(data)
            counts.add(len(rows))
            assert all(list(row) == list(source.columns) for row in rows if format != "jsonl"), source.name
        assert len(counts) == 1, (source.name, counts)
        if source.name not in {"rollouts", "items"}:
            assert counts != {0}, source.name


def test_an_archive_holds_the_data_and_a_manifest_that_proves_it(scene: Scene) -> None:
    client = sign_in(scene.alice)
    answer = client.post(reverse("console:export", args=("desk", "tasks")), {"format": "csv", "state": "failed"})
    assert answer["Content-Type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(read_stream(answer))) as archive:
        assert archive.testzip() is None
        data, manifest = archive.read("tasks.csv"), json.loads(archive.read("manifest.json"))
    assert manifest["sha256"] == hashlib.sha256(data).hexdigest()
    assert (manifest["rows"], manifest["size_bytes"]) == (1, len(data))
    assert manifest["filters"] == {"state": "failed"}
    assert manifest["by"] == "user:alice"
    assert manifest["code_version"]
    made, sent = AuditEntry.objects.filter(kind__startswith="export.").order_by("id")
    assert (made.pk, made.kind, made.actor) == (manifest["audit_entry"], Kind.EXPORT_MADE, "user:alice")
    assert sent.payload == {"export": made.pk, "rows": 1, "sha256": manifest["sha256"]}


def test_an_export_that_breaks_off_is_on_record_as_not_finished(scene: Scene) -> None:
    export = begin_export(source=SOURCES["tasks"], format="jsonl", filters={}, project=scene.project, by=scene.alice)
    next(export.write())
    page = sign_in(scene.alice).get(reverse("console:exports", args=("desk",))).content.decode()
    assert "not finished" in page
    assert not AuditEntry.objects.filter(kind=Kind.EXPORT_SENT).exists()


def test_rollouts_read_back_are_the_rollouts(scene: Scene) -> None:
    task = make_judged_task(scene.project, scene.worker, environment="desk")
    for attempt in task.attempts.all():
        Rollout.objects.create(
            project=scene.project, worker=scene.worker, task=task, attempt=attempt, is_usable=True, reward=0.5
        )
    Rollout.objects.filter(attempt__exchange=None).update(is_usable=False, unusable_reason="no tokens")
    records = make_records(list(Rollout.objects.filter(is_usable=True)))
    rollouts = {record.rollout_id: record for record in records}
    client = sign_in(scene.alice)
    again = [RolloutRecord.from_json(row) for row in read_lines(take(client, "rollouts", "jsonl"))]
    assert {record.rollout_id: record for record in again} == rollouts
    assert len(again) == 2
    table = read_table(take(client, "rollouts", "parquet"))
    assert [row["token_ids"] for row in table] == [list(record.token_ids) for record in again]


def test_no_spreadsheet_runs_what_somebody_wrote(scene: Scene) -> None:
    scene.reviewed.prompt = FORMULA
    scene.reviewed.save(update_fields=["prompt"])
    rows = read_cells(take(sign_in(scene.alice), "tasks", "csv"))
    cell = next(row["prompt"] for row in rows if row["id"] == str(scene.reviewed.pk))
    assert cell == f"'{FORMULA}"
    assert unguard(cell) == FORMULA


@pytest.mark.parametrize("separator", [";", "\t", "\n", "\r\n"])
def test_no_formula_begins_where_another_separator_cuts_a_text(separator: str) -> None:
    for before in ("x", "", 'he said "so"'):
        for gap in ("", " ", '"', ' "'):
            text = f"{before}{separator}{gap}=1+1"
            assert unguard(guard(text)) == text
            after = guard(text).split(separator, 1)[1].strip(' "')
            assert after.startswith("'="), text


@given(st.text(alphabet=";\t\n'\"=+-@ x"))
def test_the_guard_of_cuts_comes_off_again(text: str) -> None:
    assert unguard(guard(text)) == text


@given(st.text())
def test_the_guard_comes_off_again_and_leaves_no_formula(text: str) -> None:
    assert unguard(guard(text)) == text
    assert not guard(text).startswith(("=", "+", "-", "@", "\t", "\r", "\n"))


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))))
def test_any_text_survives_csv(texts: list[str]) -> None:
    data = b"".join(write_csv([{"a": text, "b": 1} for text in texts], {"a": "text", "b": "int"}))
    rows = list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")))
    assert [unguard(row[0]) for row in rows[1:]] == texts


def test_pairs_come_from_rankings_preferences_and_corrections_and_not_from_gold_or_what_was_taken_back(
    scene: Scene,
) -> None:
    task = make_judged_task(scene.project, scene.worker, environment="desk", group_size=3)
    Feedback.objects.filter(project=scene.project).delete()
    attempts = list(task.attempts.order_by("index"))
    for attempt in attempts:
        attempt.text = f"answer {attempt.index}"
        attempt.save(update_fields=["text"])
    common = {"project": scene.project, "task": task, "source": "human", "author": "user:bob", "trust": 0.4}
    Feedback.objects.create(**common, ranking=[[2], [0, 1]])
    Feedback.objects.create(**common | {"author": "user:alice", "trust": 1.0}, preferred_attempt=attempts[0])
    Feedback.objects.create(**common, preferred_attempt=attempts[2], edited_answer="better still")
    Feedback.objects.create(**common, preferred_attempt=attempts[1], retracted_at="2026-01-01T00:00:00Z")
    gold = Review.objects.create(project=scene.project, task=task, audience="human", purpose="gold", state="closed")
    Feedback.objects.create(**common, preferred_attempt=attempts[1], review=gold)
    client = sign_in(scene.alice)
    pairs = [(row["chosen"], row["rejected"]) for row in read_lines(take(client, "preferences", "jsonl"))]
    assert pairs == [
        ("better still", "answer 2"), ("answer 2", "answer 1"), ("answer 0", "answer 1"), ("answer 0", "answer 2"),
    ], "each once, and of two who say the opposite who is trusted more"  # fmt: skip
    said = [row["messages"][1]["content"] for row in read_lines(take(client, "sft", "jsonl"))]
    assert said == ["better still"]


TRAINING = ("preferences", "sft", "kto", "stepwise", "rollouts")


def test_what_is_held_out_is_in_no_training_set_and_the_manifest_says_so(scene: Scene) -> None:
    """A team that trains on an export must not train on the gate's exam. The tasks say which those are."""
    client = sign_in(scene.alice)
    [ticket] = make_tickets(7, 1, held_out=True)
    task = make_judged_task(scene.project, scene.worker, environment="desk", prompt=ticket.text, group_size=2)
    first, second = task.attempts.order_by("index")
    type(first).objects.filter(pk=second.pk).update(text="another answer")
    given = Feedback.objects.create(
        project=scene.project, task=task, source="human", author="user:bob", preferred_attempt=first,
        edited_answer="better",
    )  # fmt: skip
    StepFeedback.objects.create(feedback=given, attempt=first, step=first.steps.get(index=0), score=0.2)
    build_rollouts([task.pk], by="test")
    for name in TRAINING:
        whole, told = export(client, "desk", name, "jsonl")
        rows = read_archive(whole, f"{name}.jsonl")
        assert task.pk not in {row["group_id" if name == "rollouts" else "task"] for row in rows}, name
        assert told["left_out"] == {"tasks": 1, "why": HELD_OUT}, name
    said = {row["id"]: row["held_out"] for row in read_lines(take(client, "tasks", "jsonl"))}
    assert {pk for pk, is_held_out in said.items() if is_held_out} == {task.pk}


def test_an_export_holds_the_pairs_and_demonstrations_that_training_learns_from(scene: Scene) -> None:
    """Edits behind the same steps, rewards that are clearly apart, the good attempts; contradictions settled alike."""
    Feedback.objects.filter(project=scene.project).delete()
    task = make_judged_task(scene.project, scene.worker, environment="chat", group_size=3)
    texts = ("<step>look</step><answer>wrong</answer>", "fine", "poor")
    for attempt, text, outcome in zip(task.attempts.order_by("index"), texts, (0.5, 1.0, 0.0), strict=True):
        type(attempt).objects.filter(pk=attempt.pk).update(text=text, outcome=outcome)
    Step.objects.filter(attempt__task=task, attempt__index=0, index=1).update(kind="answer", text="wrong")
    first = task.attempts.get(index=0)
    for number, attempt in enumerate(task.attempts.all()):
        add_call(attempt, [7, number], [20, 21])  # another prompt: a second sequence of tokens
    Feedback.objects.create(
        project=scene.project, task=task, source="human", author="user:bob", ranking=[[1], [0], [2]],
        preferred_attempt=first, edited_answer="right",
    )  # fmt: skip
    build_rollouts([task.pk], by="test")
    client = sign_in(scene.alice)
    pairs = read_lines(take(client, "preferences", "jsonl"))
    shown = read_lines(take(client, "sft", "jsonl"))
    learnt = PreferencePair.objects.filter(task=task).order_by("id")
    assert [row["feedback"] for row in pairs] == [pair.feedback_id for pair in learnt]
    assert pairs[0]["chosen"] == "<step>look</step><answer>right</answer>", "and not the bare answer"
    assert pairs[0]["rejected"] == texts[0]
    imitated = Demonstration.objects.filter(task=task).order_by("id")
    assert [(row["kind"], row["feedback"]) for row in shown] == [(one.source, one.feedback_id) for one in imitated]
    assert shown[0]["messages"][1]["content"] == pairs[0]["chosen"]
    batch = close_open_batch(scene.worker, by="test", kind=Batch.Kind.PAIRS)
    told = [one for one in iterate_pairs(batch) if one.group_id == task.pk]
    assert [one.pair_id for one in told] == [pair.pk for pair in learnt], "what is taken home is what is learnt"
    assert {len(side) for one in told[1:] for side in (one.chosen, one.rejected)} == {2}


def test_steps_are_right_or_wrong_as_persons_said_and_end_where_nobody_judged(scene: Scene) -> None:
    Feedback.objects.filter(project=scene.project).delete()
    task = make_judged_task(scene.project, scene.worker, environment="desk", group_size=1)
    attempt = task.attempts.get()
    one, _two = attempt.steps.order_by("index")
    feedback = Feedback.objects.create(project=scene.project, task=task, source="human", author="user:bob", score=0.1)
    StepFeedback.objects.create(feedback=feedback, attempt=attempt, step=one, score=0.2)
    client = sign_in(scene.alice)
    [row] = read_lines(take(client, "stepwise", "jsonl"))
    assert (row["completions"], row["labels"]) == ([one.text], [False])
    [kto] = read_lines(take(client, "kto", "jsonl"))
    assert (kto["label"], kto["reward_source"]) == (False, "human")


def test_nobody_takes_home_what_a_blind_reviewer_must_not_know(scene: Scene) -> None:
    """Bob is asked for a second opinion on what alice judged: her words are in nothing that he exports, but in hers."""
    Feedback.objects.filter(project=scene.project).delete()
    task = make_judged_task(scene.project, scene.worker, environment="desk", group_size=2)
    attempt, other = task.attempts.order_by("index")
    type(other).objects.filter(pk=other.pk).update(text="another answer")
    said = {"project": scene.project, "task": task, "source": "human"}
    feedback = Feedback.objects.create(**said, author="user:alice", score=0.9, preferred_attempt=attempt)
    StepFeedback.objects.create(feedback=feedback, attempt=attempt, step=attempt.steps.earliest("index"), score=1.0)
    Review.objects.create(project=scene.project, task=task, audience="human", purpose="second")
    alice, bob = sign_in(scene.alice), sign_in(make_user("bob"))
    for name in ("feedback", "preferences", "stepwise", "kto", "sft"):
        assert read_lines(take(alice, name, "jsonl")), name
        assert read_lines(take(bob, name, "jsonl")) == [], name
    Feedback.objects.create(**said, author="user:bob", score=0.2)
    assert [row["author"] for row in read_lines(take(bob, "feedback", "jsonl"))] == ["user:bob"]


def test_a_known_answer_passes_for_work_but_for_managers(scene: Scene) -> None:
    Feedback.objects.filter(project=scene.project).delete()
    task = make_judged_task(scene.project, scene.worker, environment="desk", group_size=1)
    gold = Review.objects.create(project=scene.project, task=task, audience="human", purpose="gold", state="closed")
    Feedback.objects.create(project=scene.project, task=task, source="human", author="user:bob", score=1.0, review=gold)
    shown = {name: read_lines(take(sign_in(make_user(name)), "feedback", "jsonl")) for name in ("alice", "bob")}
    assert [row["purpose"] for row in shown["alice"]] == ["gold"]
    assert [row["purpose"] for row in shown["bob"]] == ["work"]


def test_who_may_not_read_may_not_export(scene: Scene) -> None:
    viewer, bob = make_user("vera"), make_user("bob")
    Member.objects.create(project=scene.project, user=viewer, role=Role.VIEWER)
    path = reverse("console:export", args=("desk", "audit"))
    for user in (viewer, bob):
        assert sign_in(user).post(path, {"format": "csv"}).status_code == 403
        assert (
            "Everything that happened"
            not in sign_in(user).get(reverse("console:exports", args=("desk",))).content.decode()
        )
    assert sign_in(make_user("charlie")).post(path, {"format": "csv"}).status_code == 404
    assert not AuditEntry.objects.filter(kind=Kind.EXPORT_MADE).exists()


@pytest.mark.parametrize("said", [{"format": "xlsx"}, {"format": "csv", "state": "gone"}], ids=["format", "filter"])
def test_what_cannot_be_exported_is_said_and_nothing_is_sent(scene: Scene, said: dict[str, str]) -> None:
    answer = sign_in(scene.alice).post(reverse("console:export", args=("desk", "tasks")), said, follow=True)
    assert (
        "found &#x27;xlsx&#x27;" in answer.content.decode() or "narrowed to &#x27;gone&#x27;" in answer.content.decode()
    )
    assert not AuditEntry.objects.filter(kind=Kind.EXPORT_MADE).exists()


# --- and back again --------------------------------------------------------------------------------------------------


def ask_tasks(project: Project, worker: Worker) -> None:
    """Tasks with everything that an export takes over."""
    make_task(project, worker, prompt="What is 3 + 4?", reference={"match": "number", "value": 7}, group_size=2, seed=5)
    make_task(
        project, worker, prompt="Größe: \u2028 «é»", metadata={"topic": {"of": ["a", 1, 2.5, None]}}, group_size=4
    )
    checks = [{"use": "short@1", "is": {"check": "length", "max": 3}}]
    make_task(project, worker, prompt="Say 007", reference="007", group_size=1, state="done", answer="7", checks=checks)


def upload(client: Client, slug: str, data: bytes, name: str, **said: str) -> Any:
    file, worker = SimpleUploadedFile(name, data), Worker.objects.get(project__slug=slug, name="echo")
    return client.post(
        reverse("console:task-import", args=[slug]), {"worker": worker.pk, "environment": "chat", "file": file, **said}
    )


def export(client: Client, slug: str, name: str, format: str, **said: str) -> tuple[bytes, dict[str, Any]]:
    """The archive, and its manifest."""
    whole = read_stream(client.post(reverse("console:export", args=(slug, name)), {"format": format, **said}))
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        return whole, json.loads(archive.read("manifest.json"))


def read_archive(whole: bytes, name: str) -> list[dict[str, Any]]:
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        return read_lines(archive.read(name))


@pytest.mark.parametrize("format", ["jsonl", "parquet", "hf"])
def test_exported_tasks_are_the_same_content_in_another_project(db: None, format: str) -> None:
    alice, here, there = make_user("alice"), make_project("here"), make_project("there")
    ask_tasks(here, make_worker(here, name="echo"))
    make_worker(there, name="echo")
    client = sign_in(alice)
    whole, told = export(client, "here", "tasks", format)
    assert upload(client, "there", whole, "export.zip").status_code == 302
    _, again = export(client, "there", "tasks", format)
    assert (again["content_sha256"], again["rows"]) == (told["content_sha256"], 3)
    assert again["sha256"] != told["sha256"], "ids and times are another project's own"
    read = [(one.prompt, one.reference, one.metadata) for one in Task.objects.filter(project=there).order_by("pk")]
    assert read == [
        (one.prompt, one.reference, one.metadata) for one in Task.objects.filter(project=here).order_by("pk")
    ]
    assert [task.checks for task in Task.objects.filter(project=there).exclude(checks=None)] == [
        [{"check": "length", "max": 3}]
    ]


@pytest.mark.parametrize("format", ["jsonl", "parquet", "hf"])
def test_exported_items_are_the_same_content_in_another_project(db: None, format: str) -> None:
    alice, here, there = make_user("alice"), make_project("here"), make_project("there")
    write_check(project=here, name="short", spec={"check": "length", "max": 9}, by=alice)
    said = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello!"}]
    rows = [
        ItemRow(1, "Name a sea.", "held_out", checks={"use": "short"}, weight=2.5),
        ItemRow(2, "And a lake?", "train", messages=[*said, {"role": "user", "content": "And a lake?"}]),
        ItemRow(3, "What is 3 + 4?", "skills", {"match": "number", "value": 7}, seed=5),
    ]
    add_items(project=here, name="exam", environment="chat", rows=rows, by=alice)
    client, target = sign_in(alice), make_taskset(project=there, name="exam", environment="chat", by=alice)
    assert "items" in client.get(reverse("console:taskset", args=("here", here.tasksets.get().pk))).content.decode()
    whole, told = export(client, "here", "items", format)
    file = SimpleUploadedFile("items.zip", whole)
    path = reverse("console:taskset-add", args=("there", target.pk))
    assert client.post(path, {"split": "held_out", "file": file}).status_code == 302
    _, again = export(client, "there", "items", format)
    assert (again["content_sha256"], again["rows"]) == (told["content_sha256"], 3)
    assert target.items.get(prompt="Name a sea.").checks == [{"check": "length", "max": 9}]
    assert export(client, "here", "items", "csv", taskset="exam@2")[1]["rows"] == 0
    seen = read_archive(export(sign_in(make_user("bob")), "here", "items", "jsonl")[0], "items.jsonl")
    assert len(seen) == 3
    assert not {"reference", "checks"} & seen[0].keys()


def judge_work(scene: Scene) -> None:
    """Judgements of every kind that a set is made of."""
    task = make_judged_task(scene.project, scene.worker, environment="chat", prompt="Größe: \u2028 «é»\n?")
    first, second = task.attempts.order_by("index")[:2]
    given = Feedback.objects.create(
        project=scene.project, task=task, source="human", author="user:alice", score=0.7, preferred_attempt=second
    )
    StepFeedback.objects.create(feedback=given, attempt=first, step=first.steps.get(index=0), score=0.2)


def learn_all(project: Project) -> None:
    for found in RowImport.objects.filter(project=project, state="running"):
        import_all(found.pk)
    for task in Task.objects.filter(project=project, state="learning").order_by("pk"):
        extract_hints([task.pk])
        build_rollouts([task.pk], by="test")


def test_exported_judgements_are_the_same_content_in_another_project(scene: Scene) -> None:
    judge_work(scene)
    client = sign_in(scene.alice)
    for name, formats in {
        "preferences": ("jsonl", "hf"),
        "sft": ("parquet",),
        "kto": ("hf",),
        "stepwise": ("hf",),
    }.items():
        for format in formats:
            there = make_project(f"{name}-{format}")
            make_worker(there, name="echo")
            whole, told = export(client, "desk", name, format)
            assert told["rows"] > 1
            assert upload(client, there.slug, whole, f"{name}.zip").status_code == 302
            learn_all(there)
            _, again = export(client, there.slug, name, "jsonl")
            assert (again["content_sha256"], again["rows"]) == (told["content_sha256"], told["rows"]), (name, format)
            found = RowImport.objects.get(project=there)
            assert (found.kind, found.file, found.state, found.done) == (name, f"{name}.zip", "done", told["rows"])
            given = Feedback.objects.filter(project=there)
            assert set(given.values_list("source", "author")) == {("imported", "import:alice")}
            rows = [task.metadata["imported"] for task in Task.objects.filter(project=there).order_by("pk")]
            assert [row["row"] for row in rows] == list(range(1, told["rows"] + 1))
            assert {(row["import"], row["file"]) for row in rows} == {(found.pk, f"{name}.zip")}
            assert not Task.objects.filter(project=there).exclude(state="done").exists()
            reasons = set(Rollout.objects.filter(project=there).values_list("unusable_reason", flat=True))
            assert reasons == {NO_TOKENS}


def test_a_layout_of_hugging_face_says_where_its_rows_are(scene: Scene) -> None:
    whole = read_stream(
        sign_in(scene.alice).post(reverse("console:export", args=("desk", "sft")), {"format": "hf", "worker": "desk"})
    )
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        card, rows = archive.read("README.md").decode(), read_table(archive.read("data/train-00000-of-00001.parquet"))
    assert "path: data/train-00000-of-00001.parquet" in card
    assert "- worker: desk" in card
    assert rows[0]["messages"][0].keys() == {"role", "content"}


def test_an_archive_that_was_changed_is_refused(scene: Scene) -> None:
    client = sign_in(scene.alice)
    make_worker(scene.project, name="echo")
    whole = read_stream(client.post(reverse("console:export", args=("desk", "tasks")), {"format": "jsonl"}))
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as archive, zipfile.ZipFile(changed, "w") as other:
        other.writestr("tasks.jsonl", archive.read("tasks.jsonl").replace(b"lamp", b"tank"))
        other.writestr("manifest.json", archive.read("manifest.json"))
    count = Task.objects.count()
    assert "it was changed or cut" in upload(client, "desk", changed.getvalue(), "t.zip").content.decode()
    assert Task.objects.count() == count


def write_parquet_file(table: Any, **said: Any) -> bytes:
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(table), sink, **said)
    return sink.getvalue()


def pack(**members: bytes) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "."), content)
    return sink.getvalue()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: write_parquet_file({"prompt": ["a" * 150_000_000]}, compression="zstd"), "too much memory"),
        (lambda: write_parquet_file({f"c{n}": ["x"] for n in range(101)}), "at most 100 columns"),
        (lambda: write_parquet_file({"prompt": ["x"] * 20_001}), "at most 20,000 rows"),
        (lambda: b"PAR1" + b"\0" * 60 + b"PAR1", "wanted a Parquet file"),
        (lambda: pack(a__jsonl=b" " * 90_000_000), "bytes unpacked, found more"),
        (lambda: pack(a__jsonl=pack(b__jsonl=b"{}")), "found another archive"),
        (lambda: pack(a__jsonl=b"{}", b__jsonl=b"{}"), "wanted one file of rows"),
        (lambda: pack(a__jsonl=b"[" * 5_000 + b"]" * 5_000), "wanted at most 32 levels"),
        (lambda: pack(**{f"f{number}__txt": b"" for number in range(21)}), "at most 20 files"),
        (lambda: b"PK\x03\x04 and no more", "wanted a zip"),
    ],
)
def test_a_hostile_file_of_tasks_is_refused_in_words(scene: Scene, make: Any, words: str) -> None:
    make_worker(scene.project, name="echo")
    count = Task.objects.count()
    answer = upload(sign_in(scene.alice), "desk", make(), "tasks.bin")
    assert answer.status_code == 400
    assert words in unescape(answer.content.decode())
    assert Task.objects.count() == count


def test_parquet_of_others_is_read_as_tasks(scene: Scene) -> None:
    make_worker(scene.project, name="echo")
    data = write_parquet_file({"prompt": ["What is 1 + 1?"], "reference": ["2"], "seed": [9]})
    assert upload(sign_in(scene.alice), "desk", data, "tasks.parquet").status_code == 302
    task = Task.objects.latest("pk")
    assert (task.prompt, task.reference, task.seed) == ("What is 1 + 1?", "2", 9)


def test_an_export_is_narrowed_to_days_and_a_worker(scene: Scene) -> None:
    client = sign_in(scene.alice)
    today = timezone.now().date()
    every = len(read_lines(take(client, "tasks", "jsonl")))
    assert len(read_lines(take(client, "tasks", "jsonl", since=str(today), until=str(today), worker="desk"))) == every
    assert read_lines(take(client, "tasks", "jsonl", until="2020-01-01")) == []
    assert read_lines(take(client, "kto", "jsonl", worker="nobody")) == []
    answer = client.post(
        reverse("console:export", args=("desk", "tasks")), {"format": "jsonl", "since": "soon"}, follow=True
    )
    assert "since: wanted a date" in answer.content.decode()
    for filters, fault in (
        ({"until": "9999-12-31"}, "until: wanted a date"),
        ({"worker": "a\0"}, "worker: holds a NUL"),
    ):
        answer = client.post(
            reverse("console:export", args=("desk", "feedback")), {"format": "jsonl", **filters}, follow=True
        )
        assert fault in answer.content.decode()


def test_sets_that_are_empty_say_why(scene: Scene) -> None:
    client, page = sign_in(scene.alice), reverse("console:exports", args=("desk",))
    assert "Empty:" not in client.get(page).content.decode()
    Feedback.objects.all().delete()
    assert client.get(page).content.decode().count("no review counts yet") == 4
