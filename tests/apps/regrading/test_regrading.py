"""What was answered before is graded anew, beside the old grades, which stay byte for byte."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pytest
from django.core import serializers

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.base.errors import BadInputError
from apps.checks.graders import open_grader
from apps.evals.asking import ask_evaluation, measure_asked
from apps.evals.models import Evaluation, Item, ItemTry, Taskset, TryRecord
from apps.inference.models import Provider
from apps.outbox.kinds import FATES, SegmentKind
from apps.outbox.models import Segment
from apps.pipeline import flow
from apps.regrading.models import Regrade, Regrading
from apps.regrading.rules import GradingRule
from apps.regrading.services import count_changes, fail_regrading, list_changed, regrade
from apps.tasks.models import Attempt
from apps.workers.models import Worker
from tests.apps.evals.conftest import number_of
from tests.edges.caller import Caller
from tests.factories import make_attempt, make_task, make_worker
from tests.fakes import FakeModelServer

pytestmark = pytest.mark.django_db(transaction=True)
CHOICE = open_grader("choice")
SAID = {1: "A", 2: "B", 3: "the answer is C", 4: "none of these"}
WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({"grader": "choice@0"}, f"choice@{CHOICE.version}"),
    ({"grader": "nobody"}, "nobody"),
    ({}, "one of"),
    ({"grader": "choice", "rubric": "r"}, "one of"),
    ({"checks": [{"check": "so"}]}, "so"),
)


def choose(letter: str) -> Mapping[str, Any]:
    return {"check": "grader", "name": "choice", "reference": letter}


@pytest.fixture
def run(project: Project, alice: User) -> Evaluation:
    """Four answers by letters: as the first grades go, A is right of the first and the third."""
    taskset = Taskset.objects.create(project=project, name="letters", environment="chat")
    for number in SAID:
        Item.objects.create(
            taskset=taskset, split="held_out", prompt=f"Say {number}", seed=number, bands=[],
            content_hash=f"{number:064x}", checks=[{"check": "contains", "value": "A" if number == 1 else "C"}],
            reference=None,
        )  # fmt: skip
    with FakeModelServer(reply=lambda prompt, _: SAID[number_of(prompt)]) as fake:
        provider = Provider.objects.create(
            project=project, name="box", kind="vllm", base_url=fake.url, allow_private=True, default_model="desk"
        )
        worker = make_worker(project, "helper", Worker.Kind.CHAT, provider=provider, base_model="desk")
        row = ask_evaluation(worker=worker, taskset=taskset, by=alice)
        measure_asked(row.pk, by="evals")
    row.refresh_from_db()
    assert row.state == "done"
    return row


def spell(*models: Any) -> str:
    """All that is stored of them, as a hash."""
    rows = [row for model in models for row in model._default_manager.order_by("pk")]
    return hashlib.sha256(serializers.serialize("json", rows).encode()).hexdigest()


def do(row: Regrading) -> Regrading:
    regrade(row.pk, by="test")
    row.refresh_from_db()
    return row


def test_a_run_is_graded_anew_beside_the_old_grades_and_who_changed_sides_is_told(
    run: Evaluation, project: Project, alice: User
) -> None:
    before = spell(ItemTry, TryRecord, Evaluation)
    rule = GradingRule(checks=[choose("B")])
    row = flow.ask_regrading(project=project, rule=rule, by=alice, source="run", evaluation=run)
    assert Segment.objects.filter(kind="regrade", subject_id=row.pk, state="open").exists()
    do(row)
    assert spell(ItemTry, TryRecord, Evaluation) == before, "old grades are what they were, byte for byte"
    assert (row.state, row.planned, row.graded, row.graders) == ("done", 4, 4, [f"grader choice@{CHOICE.version}"])
    grades = {one.subject_id: (one.old, one.new) for one in row.grades.all()}
    of_place = {one.place: grades[one.pk] for one in ItemTry.objects.filter(evaluation=run)}
    assert of_place == {0: (1.0, 0.0), 1: (0.0, 1.0), 2: (1.0, 0.0), 3: (0.0, 0.0)}
    told = {"higher": 1, "lower": 2, "same": 1, "gained": 1, "lost": 2, "newly_scored": 0, "unscored": 0}
    assert row.counts == count_changes(row) == told
    assert {one.subject_id for one in list_changed(row, "side")} == {
        pk for pk, (old, new) in grades.items() if old != new
    }
    again = do(flow.ask_regrading(project=project, rule=rule, by=alice, source="run", evaluation=run))
    assert (again.pk != row.pk, Regrade.objects.count()) == (True, 8), "each set of grades is its own"


def test_a_grader_by_name_takes_the_items_own_reference_and_only_the_version_that_is_there(
    run: Evaluation, project: Project, alice: User
) -> None:
    Item.objects.update(checks=[choose("C")])
    Evaluation.objects.update(item_set_hash=_hash_anew(run))
    row = do(
        flow.ask_regrading(
            project=project, rule=GradingRule(grader=f"choice@{CHOICE.version}"), by=alice, source="run", evaluation=run
        )
    )
    assert sorted(one.new for one in row.grades.all() if one.new is not None) == [0.0, 0.0, 0.0, 1.0]
    for wrong, words in WRONG:
        with pytest.raises(BadInputError) as caught:
            GradingRule(**wrong)
        assert words in str(caught.value)


def _hash_anew(run: Evaluation) -> str:
    from apps.evals.asking import open_items

    assert run.taskset is not None
    return open_items(run.taskset, run.split, count=4).hash


def test_a_judge_that_is_not_there_gives_no_grade_and_changes_no_side(
    run: Evaluation, project: Project, alice: User
) -> None:
    row = do(
        flow.ask_regrading(
            project=project, rule=GradingRule(rubric="Be brief."), by=alice, source="run", evaluation=run
        )
    )
    assert (row.state, row.graded, row.unscored) == ("done", 4, 4)
    assert row.counts == {**dict.fromkeys(row.counts, 0), "unscored": 4}
    assert all(one.cause for one in row.grades.all())


def test_a_projects_attempts_are_graded_anew_and_what_was_trained_with_them_stays(
    project: Project, alice: User
) -> None:
    worker = make_worker(project, "desk", Worker.Kind.ECHO)
    for number in range(3):
        task = make_task(project, worker, group_size=1, submitted_by=alice)
        make_attempt(task, answer="two" if number else "three", outcome=1.0)
    before = spell(Attempt)
    rule = GradingRule(checks={"check": "contains", "value": "two"})
    row = do(flow.ask_regrading(project=project, rule=rule, by=alice))
    assert (row.planned, row.counts["lost"], row.counts["same"]) == (3, 1, 2)
    assert spell(Attempt) == before
    make_attempt(make_task(project, worker, group_size=1, submitted_by=alice), answer="later")
    assert do(row).graded == 3, "what came later is not of it"
    with pytest.raises(BadInputError, match="found none"):
        flow.ask_regrading(project=project, rule=rule, by=alice, source="rollouts")


def test_the_same_grade_of_many_digits_is_the_same(project: Project, alice: User) -> None:
    worker = make_worker(project, "desk", Worker.Kind.ECHO)
    for outcome in (1 / 3, None):
        task = make_task(project, worker, group_size=1, submitted_by=alice)
        make_attempt(task, answer="two", outcome=outcome, score=outcome)
    parts = [[1, {"check": "contains", "value": "two"}], [2, {"check": "contains", "value": "three"}]]
    row = do(flow.ask_regrading(project=project, rule=GradingRule(checks={"weighted": parts}), by=alice))
    assert (row.counts["same"], row.counts["lower"], row.counts["newly_scored"]) == (1, 0, 1)
    assert [one.old for one in list_changed(row, "grade")] == [None]


def test_one_that_failed_goes_on_behind_its_last_grade_when_it_is_replayed(run: Evaluation, alice: User) -> None:
    row = flow.ask_regrading(
        project=run.project, rule=GradingRule(checks=choose("A")), by=alice, source="run", evaluation=run
    )
    fail_regrading(row.pk, link="regrading.regrade", reason="gone", by="evals")
    regrade(row.pk, by="evals")
    assert not row.grades.exists(), "it failed"
    on_replay = FATES[SegmentKind.REGRADE].on_replay
    assert on_replay is not None
    on_replay(row.pk, link="regrading.regrade", by="user:alice")
    regrade(row.pk, by="evals")
    row.refresh_from_db()
    assert (row.state, row.graded, row.failure) == ("done", len(SAID), "")


def test_new_grades_are_asked_for_and_told_over_rest(run: Evaluation, alice: User) -> None:
    _, text = create_token(user=alice, name="test", scopes=Right.values, project=None, by=alice)
    caller = Caller(text)
    body = {"project": "shop", "evaluation": run.pk, "checks": [choose("B")]}
    made = caller.send("POST", "regradings", body)
    assert (made.status, made.body["state"], made.body["planned"]) == (201, "queued", 4)
    regrade(made.body["id"], by="test")
    path = f"regradings/{made.body['id']}"
    assert caller.get(path).body["counts"]["lost"] == 2
    changed = caller.get(f"{path}/grades?changed=side").body["results"]
    assert sorted((one["old"], one["new"]) for one in changed) == [(0.0, 1.0), (1.0, 0.0), (1.0, 0.0)]
    assert "B" not in json.dumps([one["details"] for one in changed if one["new"] == 0.0]), "never what is right"
    assert caller.get(f"{path}/grades?changed=all").status == 400
    assert caller.send("POST", "regradings", {**body, "evaluation": 10**9}).status == 404
    del body["evaluation"], body["project"]
    again = caller.send("POST", f"evaluations/{run.pk}/rescore", body | {"side": 1})
    assert (again.status, again.body["evaluation"], again.body["side"]) == (201, run.pk, 1.0)
    assert again.body["id"] != made.body["id"]
    assert again.body["rule"] == made.body["rule"]
    two = caller.send("POST", f"evaluations/{run.pk}/rescore", body | {"rubric": "Be brief."})
    assert (two.status, "found checks, rubric" in str(two.body)) == (400, True), two
    assert caller.send("POST", f"evaluations/{10**9}/rescore", body).status == 404
    assert caller.send("POST", "regradings", {"project": "shop", "history": "attempts", "grader": "x"}).status == 400
