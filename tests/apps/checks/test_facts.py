"""Facts of a task or item: one check holds for all of them, and says which it lacks."""

from typing import Any

import pytest

from apps.accounts.models import Project, User
from apps.base.errors import BadInputError
from apps.checks.facts import write_facts
from apps.checks.language import read_check
from apps.checks.results import CheckError, CheckVerdict
from apps.checks.services import set_default, write_check
from apps.evals.models import Item
from apps.rollouts.items import add_to_taskset, read_item_rows
from apps.tasks.checking import try_check
from apps.tasks.models import Task
from apps.tasks.services import submit_task, submit_tasks
from apps.tasks.verifying import verify_draft
from tentalis.core.task_files import read_task_rows
from tentalis.core.worlds import AttemptDraft
from tests.apps.feedback.builders import make_chat_task
from tests.factories import make_project, make_user, make_worker

TICKET = {"customer": "Jana", "order": "A-7 (x)", "refund": 12.5, "most": 9, "bad": ["never", "free"], "tongue": "en"}
NAMES_ORDER = {"check": "contains", "value": {"fact": "order"}}
HOUSE = {"all": [NAMES_ORDER, {"check": "contains", "value": {"fact": "Dear {customer},"}}]}
BRIEF = "Sehr geehrte Kundin, vielen Dank für Ihren freundlichen Brief, den wir gern gelesen haben."
RIGHT = "Dear Jana, order A-7 (x) is on its way."


def of(name: str) -> dict[str, str]:
    return {"fact": name}


@pytest.fixture
def project(db: None) -> Project:
    project = make_project()
    make_worker(project)
    return project


@pytest.fixture
def boss(project: Project) -> User:
    return make_user("alice")


@pytest.mark.parametrize(
    ("spec", "right", "wrong"),
    [
        (NAMES_ORDER, "it is a-7 (X)", "it is A-7"),
        ({"check": "exact", "value": of("customer")}, "Jana", "customer"),
        ({"check": "number", "value": of("refund"), "tolerance": 0.01}, "you get 12.50", "you get 12.6"),
        (
            {"check": "regex", "pattern": of(r"^Dear {customer},[^\x{0a}]* {order}\.$")},
            "Dear Jana, A-7 (x).",
            "A-7 (x)",
        ),
        ({"check": "length", "unit": "words", "max": of("most")}, "a b c", "a b c d e f g h i j"),
        ({"check": "length", "min": 2, "max": of("most")}, "a b c", "a"),
        ({"check": "forbidden", "words": of("bad")}, "always", "never"),
        ({"check": "forbidden", "words": [of("customer"), "x"]}, "never", "dear jana"),
        ({"check": "language", "languages": [of("tongue")]}, "This is what we have read today.", BRIEF),
        (
            {"check": "json_schema", "schema": {"properties": {"order": {"const": of("order")}}}},
            '{"order": "A-7 (x)"}',
            '{"order": "A-7"}',
        ),
        ({"weighted": [[1, NAMES_ORDER], [2, {"any": [NAMES_ORDER]}]]}, "A-7 (x)", "A-7"),
    ],
)
def test_every_kind_takes_its_values_from_facts(spec: dict[str, Any], right: str, wrong: str) -> None:
    assert read_check(spec, facts=None).run(right).verdict is CheckVerdict.UNSCORED
    check = read_check(spec, facts=TICKET)
    assert [check.run(answer).share for answer in (right, wrong)] == [1.0, 0.0]
    assert read_check(check.spec).run(right).share == 1.0  # as it is stored it needs nobody


@pytest.mark.parametrize(
    ("spec", "facts", "words"),
    [
        (NAMES_ORDER, {"item": "lamp"}, r"check\.value: wanted the fact 'order' of its task or item, found item"),
        (NAMES_ORDER, {}, "wanted the fact 'order' .*found none"),
        (NAMES_ORDER, {"order": {"id": 7}}, "wanted of the fact 'order' a text, a finite number"),
        (NAMES_ORDER, {"order": ""}, "wanted of the fact 'order' a text"),
        ({"check": "contains", "value": of("to {bad}")}, TICKET, "wanted of the fact 'bad' a text or a number"),
        (
            {"check": "contains", "value": of("The Order")},
            None,
            "wanted the name of a fact such as order, .*'The Order'",
        ),
        ({"check": "number", "value": of("customer")}, TICKET, r"check\.value: wanted a number, .*found 'Jana'"),
        ({"check": "length", "max": of("refund")}, TICKET, "wanted a whole number"),
        (NAMES_ORDER | {"most": 1}, None, "wanted case, value, found most"),
        (
            {"check": "judge", "rubric": of("Is {customer} greeted?")},
            None,
            "wanted no facts, for a judge reads the task",
        ),
        (
            {"use": "h@1", "is": HOUSE},
            {"order": "7"},
            r"check\.with\.customer: wanted the fact 'customer' .*found order",
        ),
        ({"use": "h@1", "with": {"oder": "7"}, "is": HOUSE}, None, "with: wanted customer, order, found oder"),
        ({"use": "h@1", "with": [], "is": HOUSE}, None, "with: wanted an object of at most 50 facts"),
    ],
)
def test_a_fact_that_is_missing_or_does_not_fit_is_named(spec: Any, facts: Any, words: str) -> None:
    with pytest.raises(CheckError, match=words):
        read_check(spec, facts=facts)


def test_a_check_is_used_with_facts_of_its_own_or_passes_them_on(project: Project, boss: User) -> None:
    names = write_check(project=project, name="names", spec=NAMES_ORDER, by=boss)
    both = {
        "all": [{"use": "names", "with": {"order": {"fact": "first"}}}, {"use": "names@1", "with": {"order": "Y2"}}]
    }
    both_orders = write_check(project=project, name="both", spec=both, by=boss)
    assert names.spec == NAMES_ORDER
    task = submit_task(
        project=project, prompt="Hi", environment="chat", by=boss, checks={"use": "both", "with": {"first": "X1"}}
    )
    assert task.checks == [{"use": "both@1", "with": {"first": "X1"}, "is": both_orders.spec}]
    told = [verify_draft(task, AttemptDraft(answer=answer)) for answer in ("X1 and Y2", "Y2 only", "X1 only")]
    assert [one.outcome for one in told if one] == [1.0, 0.0, 0.0]
    # brought to another project, whose check of that name says something else: the text stays, with the facts in it
    other = make_project(slug="other")
    make_worker(other)
    brought = submit_task(project=other, prompt="Hi", environment="chat", by=boss, checks=task.checks)
    asked = [{"check": "contains", "value": one} for one in ("X1", "Y2")]
    assert brought.checks == [{"all": asked}]


def test_a_managers_rules_take_the_facts_of_every_task(project: Project, boss: User) -> None:
    set_default(check=write_check(project=project, name="house", spec=HOUSE, by=boss), environment="chat", by=boss)
    text = "prompt,customer,order,channel\nWhere is it?,Jana,A-7,mail\nAnd mine?,Tom,B-1,phone\n"
    made = submit_tasks(project=project, rows=read_task_rows(text, form="csv"), environment="chat", by=boss)
    assert [(task.checks or [{}])[0]["with"] for task in made] == [
        {"customer": "Jana", "order": "A-7"},
        {"customer": "Tom", "order": "B-1"},
    ]
    with pytest.raises(BadInputError, match=r"checks\[0\]\.with\.order: wanted the fact 'order' .*found customer"):
        submit_task(project=project, prompt="Hi", environment="chat", by=boss, metadata={"customer": "Jana"})
    write_check(project=project, name="house", spec=NAMES_ORDER, by=boss)
    assert Task.objects.get(pk=made[0].pk).checks == [
        {"use": "house@1", "with": {"customer": "Jana", "order": "A-7"}, "is": HOUSE}
    ]
    assert submit_task(project=project, prompt="Hi", environment="chat", by=boss, checks=[]).checks is None


def test_items_of_a_file_take_facts_from_its_columns(project: Project, boss: User) -> None:
    write_check(project=project, name="house", spec=HOUSE, by=boss)
    told = 'prompt,split,checks,customer,order\nWhere is it?,held_out,"{""use"": ""house""}",Jana,A-7\n'
    rows = read_item_rows(told, form="csv", split="train")
    add_to_taskset(project=project, name="exam", environment="chat", rows=rows, by=boss)
    (checks,) = Item.objects.values_list("checks", flat=True)
    assert checks == [{"use": "house@1", "with": {"customer": "Jana", "order": "A-7"}, "is": HOUSE}]
    bare = read_item_rows('{"prompt": "When?", "checks": {"use": "house"}}', form="jsonl", split="train")
    with pytest.raises(BadInputError, match=r"line 1: .*wanted the fact 'customer'"):
        add_to_taskset(project=project, name="exam", environment="chat", rows=bare, by=boss)


def test_a_check_is_tried_with_the_facts_of_each_answers_task(project: Project, boss: User) -> None:
    task = make_chat_task(project, [RIGHT, "Dear Jana, it comes."])
    Task.objects.filter(pk=task.pk).update(metadata={"customer": "Jana", "order": "A-7 (x)"})
    make_chat_task(project, [RIGHT])
    found = try_check(project=project, spec=HOUSE, by=boss)
    assert found.counts == {"passed": 1, "failed": 1, "unscored": 1}
    (lacking,) = [one for one in found.examples if one.result.share is None]
    assert "wanted the fact 'order'" in lacking.result.words
    assert try_check(project=project, spec=HOUSE, by=boss, answers=[RIGHT]).counts["unscored"] == 1


def test_braces_in_a_form_name_facts() -> None:
    assert write_facts("{order}") == {"fact": "order"}
    assert write_facts(["Dear {customer},", "{3}", r"\x{ff}"]) == [{"fact": "Dear {customer},"}, "{3}", r"\x{ff}"]
