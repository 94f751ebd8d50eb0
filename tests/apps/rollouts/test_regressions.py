"""Corrections as cases: what becomes one, that none is learnt, and which an adapter still holds."""

from typing import Any

import pytest

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, ConflictError, NotAllowedError
from apps.erasure.records import forget_person
from apps.evals.asking import open_items
from apps.evals.holding import is_held_out
from apps.evals.human_grades import grade_try
from apps.evals.models import Evaluation, Item, ItemTry, RegressionCase, Taskset
from apps.evals.panels import find_own, key_of, read_item
from apps.evals.regressions import find_inheritance, find_places
from apps.feedback.models import Feedback
from apps.pipeline import flow
from apps.rollouts.items import add_to_taskset, list_task_rows
from apps.rollouts.models import Batch, Demonstration
from apps.rollouts.regressions import keep_feedback, keep_try
from apps.tasks.models import Task
from apps.workers.models import Worker
from tentalis.core.near_duplicates import list_bands
from tests.factories import make_attempt, make_measured, make_task, make_user, make_worker

pytestmark = pytest.mark.django_db
RIGHT = {"match": "contains", "value": "42"}


@pytest.fixture
def talker(project: Project) -> Worker:
    return make_worker(project, "talker", kind="chat")


def make_line(worker: Worker, count: int) -> list[Adapter]:
    """Adapters, each made from the one before."""
    made: list[Adapter] = []
    for version in range(1, count + 1):
        made.append(
            Adapter.objects.create(
                project=worker.project,
                worker=worker,
                name=f"{worker.name}-v{version}",
                version=version,
                line_version=version,
                uri="file:///a",
                manifest={},
                parent=made[-1] if made else None,
            )
        )
    return made


def correct(worker: Worker, adapter: Adapter | None, prompt: str, **said: Any) -> Feedback:
    """What alice says of an answer of the adapter's."""
    told = {name: said.pop(name) for name in ("reference", "checks") if name in said}
    task = make_task(worker.project, worker, prompt=prompt, **told)
    make_attempt(task, tokens=0, adapter=adapter)
    values = {"score": 0.0, "source": "human", "author": "user:alice", **said}
    return Feedback.objects.create(project=worker.project, task=task, **values)


def test_a_correction_becomes_a_held_out_item_linked_to_who_was_corrected_and_is_there_once(
    talker: Worker, alice: User
) -> None:
    first, _ = make_line(talker, 2)
    feedback = correct(talker, first, "What is six times seven?", edited_answer="42")
    case = keep_feedback(feedback=feedback, by=alice, reference=RIGHT)
    assert keep_feedback(feedback=feedback, by=alice, reference=RIGHT).pk == case.pk
    assert (case.adapter, case.worker, case.feedback_id) == (first, talker, feedback.pk)
    assert (case.item.split, case.item.reference, case.item.prompt) == ("held_out", RIGHT, "What is six times seven?")
    assert (case.item.taskset.name, case.item.taskset.origin) == ("regressions-chat", "regressions")
    assert AuditEntry.objects.filter(kind="regression.kept", actor="user:alice").count() == 1
    assert is_held_out(Task.objects.create(
        project=talker.project, worker=talker, environment="chat", prompt="What is six times  seven?", group_size=1,
        submitted_by=alice,
    ))  # fmt: skip


def test_what_the_task_says_is_right_needs_no_more_and_what_nobody_says_is_refused(talker: Worker, alice: User) -> None:
    known = correct(talker, None, "Name a river of Rome.", reference={"match": "contains", "value": "Tiber"})
    assert keep_feedback(feedback=known, by=alice).item.reference == {"match": "contains", "value": "Tiber"}
    open_ended = correct(talker, None, "Write a haiku.")
    with pytest.raises(BadInputError, match="what a right answer is"):
        keep_feedback(feedback=open_ended, by=alice)


def test_praise_machines_words_and_what_was_learnt_make_no_case(talker: Worker, alice: User, bob: User) -> None:
    praised = correct(talker, None, "Name a sea of Italy.", score=1.0)
    machine = correct(talker, None, "Name a lake of Italy.", source="ai", author="agent:judge")
    for feedback in (praised, machine):
        with pytest.raises(ConflictError, match="edited or rejected"):
            keep_feedback(feedback=feedback, by=alice, reference=RIGHT)
    learnt = correct(talker, None, "Name a long river of Italy.")
    Task.objects.filter(pk=learnt.task_id).update(bands=list_bands("Name a long river of Italy."))
    Demonstration.objects.create(
        project=talker.project, worker=talker, task=learnt.task, source="edit", text="Po", digest="0" * 64, messages=[],
        batch=Batch.objects.create(project=talker.project, worker=talker, number=1, target_tasks=1),
    )  # fmt: skip
    with pytest.raises(BadInputError, match="was learnt from"):
        keep_feedback(feedback=learnt, by=alice, reference=RIGHT)
    with pytest.raises(NotAllowedError):
        keep_feedback(feedback=learnt, by=bob, reference=RIGHT)
    assert not RegressionCase.objects.exists()


def test_a_case_of_a_try_takes_a_persons_word_against_the_grader(talker: Worker, project: Project, alice: User) -> None:
    first, second = make_line(talker, 2)
    taskset = Taskset.objects.create(project=project, name="exam", environment="chat")
    item = taskset.items.create(
        split="held_out",
        prompt="Six times seven?",
        content_hash="1",
        bands=[1],
        reference={"match": "exact", "value": "43"},
    )
    run = make_measured(
        talker, first, [0.0], keys=[key_of(read_item(item))], purpose="report", asked_by="user:alice", taskset=taskset,
        split="held_out",
    )  # fmt: skip
    Evaluation.objects.filter(pk=run.pk).update(item_set_hash=open_items(taskset, "held_out", count=1).hash)
    run.item_tries.update(answer="It is 42.")
    row = ItemTry.objects.get(evaluation=run)
    with pytest.raises(ConflictError, match="contradicts"):
        keep_try(item_try=row, by=alice, reference=RIGHT)
    grade_try(item_try=row, value=1, by=alice)
    case = keep_try(item_try=row, by=alice, reference=RIGHT)
    assert (case.adapter, case.grade.author if case.grade else None) == (first, "user:alice")
    assert (case.item.prompt, case.item.reference) == ("Six times seven?", RIGHT)
    assert [one.case.pk for one in find_inheritance(second).cases] == [case.pk]
    assert not find_inheritance(first).cases


def test_an_adapter_inherits_the_corrections_before_it_and_says_which_hold(
    talker: Worker, alice: User, project: Project
) -> None:
    first, second, third = make_line(talker, 3)
    for adapter, prompt in ((None, "One?"), (first, "Two of these?"), (second, "Three of those things?")):
        keep_feedback(feedback=correct(talker, adapter, prompt), by=alice, reference=RIGHT)
    assert [len(find_inheritance(adapter).cases) for adapter in (first, second, third)] == [1, 2, 3]
    assert find_inheritance(third).share is None
    [(taskset, places)] = find_places(second)
    assert (taskset.name, list(places)) == ("regressions-chat", [0, 1])
    [asked] = flow.ask_regressions(adapter=second, by=alice)
    assert (asked.planned, asked.indices, asked.is_greedy, asked.adapter) == (2, [0, 1], True, second)
    keys = [key_of(read_item(item)) for item in taskset.items.order_by("id")]

    def answer(adapter: Adapter, *outcomes: float, **said: Any) -> None:
        make_measured(
            talker, adapter, outcomes, keys=keys, taskset=taskset, purpose="report", asked_by="user:alice", **said
        )

    answer(third, 1, 1, 1)
    answer(third, 1, 0, seed=1)  # the newest counts, item by item
    found = find_inheritance(third)
    assert [one.holds for one in found.cases] == [True, False, True]
    assert (found.held, found.measured) == (2, 3)
    assert found.share is not None
    assert found.share.value == pytest.approx(2 / 3)
    assert 0 < found.share.low < 2 / 3 < found.share.high < 1
    assert [one.case.item.prompt for one in found.lost] == ["Two of these?"]
    assert find_inheritance(second).measured == 0


def test_the_gates_own_items_are_not_those_of_regressions(talker: Worker, alice: User, project: Project) -> None:
    keep_feedback(feedback=correct(talker, None, "Six times seven?"), by=alice, reference=RIGHT)
    project.refresh_from_db()
    assert project.has_held_out
    assert find_own(Worker.objects.select_related("project").get(pk=talker.pk)) == {}


def test_no_case_is_left_of_a_task_of_somebody_who_is_forgotten(talker: Worker, alice: User, project: Project) -> None:
    root = make_user("root", is_superuser=True)
    feedback = correct(talker, None, "Six times seven?", text="Maria Rossi asked it.")
    keep_feedback(feedback=feedback, by=alice, reference=RIGHT)
    tried = correct(talker, None, "Three times seven?", text="Maria Rossi asked this too.").task
    rows = list_task_rows(project, [tried.pk], split="held_out")
    taskset = add_to_taskset(project=project, name="exam", environment="chat", rows=rows, by=alice).taskset
    run = make_measured(
        talker, None, [0.0], keys=open_items(taskset, "held_out", count=1).keys, purpose="report",
        asked_by="user:alice", taskset=taskset, split="held_out",
    )  # fmt: skip
    Evaluation.objects.filter(pk=run.pk).update(item_set_hash=open_items(taskset, "held_out", count=1).hash)
    run.item_tries.update(answer="21")
    row = ItemTry.objects.get(evaluation=run)
    grade_try(item_try=row, value=1, by=alice)
    keep_try(item_try=row, by=alice, reference=RIGHT)
    keep_feedback(feedback=correct(talker, None, "Who discovered radium?"), by=alice, reference=RIGHT)
    forget_person(project=project, by=root, text="Maria Rossi")
    assert [case.item.prompt for case in RegressionCase.objects.all()] == ["Who discovered radium?"]
    assert [one.prompt for one in Item.objects.all()] == ["Who discovered radium?"]


def test_a_taskset_of_that_name_that_holds_other_items_takes_no_case(
    talker: Worker, alice: User, project: Project
) -> None:
    taskset = Taskset.objects.create(project=project, name="regressions-chat", environment="chat")
    with pytest.raises(ConflictError, match="holds other items"):
        keep_feedback(feedback=correct(talker, None, "Six times seven?"), by=alice, reference=RIGHT)
    assert not taskset.items.exists()
