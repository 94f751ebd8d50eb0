"""Tasksets: filled whole or not at all, split without leaks, frozen for good."""

import json
from typing import Any

import pytest

from apps.accounts.models import Project, User
from apps.base.errors import BadInputError, ConflictError, NotAllowedError
from apps.erasure.records import forget_person
from apps.evals.models import Item, Taskset
from apps.evals.panels import find_own
from apps.evals.services import ItemRow, draw_rows, freeze_taskset, keep_own_work
from apps.feedback.models import Feedback
from apps.rollouts.items import add_to_taskset, divide, list_task_rows, read_item_rows
from apps.rollouts.services import build_rollouts
from apps.tasks.models import Task
from tests.factories import make_judged_task, make_project, make_task, make_user, make_worker

pytestmark = pytest.mark.django_db


def add(project: Project, by: User, *rows: ItemRow, name: str = "exam", environment: str = "chat") -> Any:
    return add_to_taskset(project=project, name=name, environment=environment, rows=rows, by=by)


def item(line: int, prompt: str, split: str = "held_out", **values: Any) -> ItemRow:
    return ItemRow(line, prompt, split, **values)


def refuse(project: Project, by: User, *rows: ItemRow, **values: Any) -> list[str]:
    with pytest.raises(BadInputError) as caught:
        add(project, by, *rows, **values)
    assert not Item.objects.filter(taskset__project=project, taskset__name="refused").exists()
    return [words for lines in caught.value.errors.values() for words in lines]


def test_a_file_is_read_with_splits_weights_and_checks_and_a_fault_names_its_line() -> None:
    told = [
        {"prompt": "What is 3 + 4?", "reference": 7, "split": "train", "weight": 2},
        {"prompt": "Name a sea.", "checks": {"check": "contains", "value": "sea"}},
    ]
    rows = read_item_rows("\n".join(map(json.dumps, told)), form="jsonl", split="held_out", name="sums.jsonl")
    assert [(row.split, row.weight, row.source) for row in rows] == [
        ("train", 2, "sums.jsonl, line 1"),
        ("held_out", 1.0, "sums.jsonl, line 2"),
    ]
    csv = 'prompt,reference,split,weight,checks\n2 + 2?,4,skills,0.5,"{""check"": ""number"", ""value"": 4}"\n'
    [row] = read_item_rows(csv, form="csv", split="train")
    assert (row.split, row.weight, row.checks) == ("skills", 0.5, {"check": "number", "value": 4})
    for text, form, words in (
        (
            "prompt,split\na,train\nb,exam\n",
            "csv",
            "line 3: split: wanted one of train, held_out, skills, found",
        ),
        ("prompt,weight\na,heavy\n", "csv", "line 2: weight: wanted a number, found 'heavy'"),
        ('{"prompt": "a", "weight": NaN}', "jsonl", "line 1"),
        ('{"prompt": "a", "split": "train", "split": "skills"}', "jsonl", "line 1"),
        ("", "jsonl", "wanted tasks, found none"),
    ):
        with pytest.raises(BadInputError, match="^" + words.replace("+", r"\+")):
            read_item_rows(text, form=form, split="train")


def test_all_is_added_or_nothing_and_the_same_words_once(project: Project, alice: User) -> None:
    made = add(project, alice, item(1, "What is 3 + 4?", reference=7), item(2, "What is 3+4?"), item(3, "Name a sea."))
    assert (made.added, made.repeated, str(made.taskset)) == (2, 1, "exam@1")
    again = add(project, alice, item(1, "name a sea"), item(2, "Name a lake, please."))
    assert (again.added, again.repeated, again.taskset.items.count()) == (1, 1, 3)
    for row, words in (
        (item(7, ""), "line 7: prompt"),
        (item(7, "a", weight=float("nan")), "line 7: weight: wanted a number above 0, at most 100, found nan"),
        (item(7, "a", seed=-1), "line 7: seed"),
        (item(7, "a", seed="3"), "line 7: seed: wanted a whole number"),
        (item(7, "a", seed=True), "line 7: seed: wanted a whole number"),
        (item(7, "a", reference=[1]), "line 7: reference"),
        (item(7, "a", checks={"check": "smell"}), "line 7: checks"),
        (item(7, "a", messages=[{"role": "assistant", "content": "a"}]), "line 7: messages"),
        (item(7, "a", "exam"), "line 7: split"),
    ):
        [found] = refuse(project, alice, item(1, "Name a river."), row, name="refused")
        assert found.startswith(words), found
    assert refuse(project, alice, name="refused") == ["wanted items, found none"]
    with pytest.raises(BadInputError, match="holds items of chat"):
        add(project, alice, *draw_rows("desk", count=1, seed=3, split="held_out"), environment="desk")


def test_nearly_the_same_never_stands_on_both_sides(project: Project, alice: User) -> None:
    add(
        project,
        alice,
        item(1, "What is the capital of France?", "train"),
        item(2, "Name a sea of the north.", "held_out"),
    )
    [words] = refuse(project, alice, item(5, "Please: what is the capital of France?"))
    assert words.startswith("line 5: item ")
    assert "of exam@1 (Train) says nearly the same: wanted it on one side of a split" in words
    [words] = refuse(project, alice, item(5, "Name a sea of the north, please", "train"), name="refused")
    assert "(Held out) says nearly the same" in words
    [words] = refuse(project, alice, item(1, "Add 2 and 3.", "train"), item(2, "add 2 and 3"), name="refused")
    assert words == "line 2: line 1 (Train) says nearly the same: wanted it on one side of a split"
    assert add(project, alice, item(1, "What is the capital of Spain?")).added == 1


def test_what_was_learnt_from_is_not_measured_on(project: Project, alice: User) -> None:
    task = make_judged_task(project, prompt="How long does a parcel take?", group_size=2)
    Feedback.objects.create(project=project, task=task, source="human", author="user:alice", score=0.9)
    from tentalis.core.near_duplicates import list_bands

    Task.objects.update(bands=list_bands(task.prompt))
    rows = list_task_rows(project, [task.pk], split="held_out")
    assert add(project, alice, *rows, name="before").added == 1
    Taskset.objects.all().delete()
    build_rollouts([task.pk], by="ledger")
    [words] = refuse(project, alice, *rows, name="refused")
    assert words == f"line {task.pk}: task {task.pk} says nearly the same, and was learnt from: wanted something new"
    taught = add(project, alice, rows[0]._replace(split="train"), *(item(n, f"Say {n}.", "train") for n in range(9)))
    counts = divide(taskset=taught.taskset, shares={"held_out": 100}, seed=1, by=alice)
    assert counts == {"train": 1, "held_out": 9, "skills": 0}


def test_splitting_keeps_what_says_the_same_together_and_follows_the_seed(project: Project, alice: User) -> None:
    rows = [item(n, f"What is {n} times seven?", "train") for n in range(100)]
    rows += [item(200 + n, f"Please: what is {n} times seven?", "train") for n in range(20)]
    taskset = add(project, alice, *rows).taskset
    counts = divide(taskset=taskset, shares={"train": 70, "held_out": 30}, seed=1, by=alice)
    assert 20 <= counts["held_out"] <= 52
    sides = dict(taskset.items.values_list("prompt", "split"))
    assert all(sides[f"What is {n} times seven?"] == sides[f"Please: what is {n} times seven?"] for n in range(20))
    assert divide(taskset=taskset, shares={"train": 70, "held_out": 30}, seed=1, by=alice) == counts
    for shares in ({}, {"train": 70}, {"train": 150, "held_out": -50}, {"train": 50, "exam": 50}):
        with pytest.raises(BadInputError):
            divide(taskset=taskset, shares=shares, seed=1, by=alice)


def test_a_frozen_version_never_changes_and_a_change_makes_the_next(project: Project, alice: User) -> None:
    first = add(project, alice, item(1, "Name a sea.")).taskset
    freeze_taskset(taskset=first, by=alice)
    for change in (
        lambda: freeze_taskset(taskset=first, by=alice),
        lambda: divide(taskset=first, shares={"train": 100}, seed=0, by=alice),
    ):
        with pytest.raises(ConflictError, match="frozen"):
            change()
    second = add(project, alice, item(1, "Name a lake.")).taskset
    assert (str(second), second.items.count(), first.items.count()) == ("exam@2", 2, 1)
    empty = Taskset.objects.create(project=project, name="empty", environment="chat")
    with pytest.raises(ConflictError, match="is empty"):
        freeze_taskset(taskset=empty, by=alice)


def test_a_worlds_tasks_are_items_with_their_seed(project: Project, alice: User) -> None:
    held = draw_rows("desk", count=3, seed=5, split="held_out")
    assert held == draw_rows("desk", count=3, seed=5, split="held_out")
    assert add(project, alice, *held, name="tickets", environment="desk").added == 3
    assert add(project, alice, *draw_rows("desk", count=3, seed=5, split="train"), name="t", environment="desk").added
    with pytest.raises(BadInputError, match="wanted one that makes up held_out tasks, found 'chat'"):
        draw_rows("chat", count=3, seed=5, split="held_out")
    [words] = refuse(project, alice, held[0]._replace(split="train"), name="refused", environment="desk")
    assert "the environment desk holds it out" in words


def test_a_worker_is_measured_on_the_newest_version_of_its_environment(project: Project, alice: User) -> None:
    worker = make_worker(project, kind="chat")
    hill = item(2, "Name a hill.", "train", reference="Ben")
    first = add(project, alice, item(1, "Name a sea.", reference="Aral"), hill, item(3, "Sing.")).taskset
    freeze_taskset(taskset=first, by=alice)
    assert [one.prompt for one in find_own(worker)["chat"]] == ["Name a sea."], "what nothing checks is not asked"
    add(project, alice, item(1, "Name a lake.", reference="Como"))
    same = {"prompt": "Name a sea", "content_hash": first.items.first().content_hash, "bands": [1], "reference": "Aral"}
    keep_own_work(project, "chat", [Item(**same)])
    assert {one.prompt for one in find_own(worker)["chat"]} == {"Name a sea.", "Name a lake."}, "the same words once"
    assert find_own(make_worker(project, "desk", kind="desk")) == {}
    assert find_own(make_worker(make_project("other"))) == {}


def test_a_reviewer_and_other_projects_change_nothing(project: Project, alice: User, bob: User) -> None:
    with pytest.raises(NotAllowedError):
        add(project, bob, item(1, "Name a sea."))
    theirs = make_task(make_project("other"))
    with pytest.raises(BadInputError, match=f"wanted tasks of shop, found {theirs.pk}"):
        list_task_rows(project, [theirs.pk], split="train")


def test_who_is_forgotten_is_in_no_item(project: Project) -> None:
    olivia = make_user("olivia", is_superuser=True)
    task = make_task(project, prompt="Write to Grace Hopper-Smith.")
    add(project, olivia, *list_task_rows(project, [task.pk], split="train"), item(9, "Who is grace hopper-smith?"))
    add(project, olivia, item(1, "Name a sea.", reference={"match": "exact", "value": "Grace Hopper-Smith's"}))
    add(project, olivia, item(1, "Name a hill."))
    forgotten = forget_person(project=project, by=olivia, text="Grace Hopper-Smith")
    assert forgotten.counts["items"] == 3
    assert [one.prompt for one in Item.objects.all()] == ["Name a hill."]


def test_who_is_forgotten_is_in_no_known_answer(project: Project) -> None:
    olivia = make_user("olivia", is_superuser=True)
    add(project, olivia, item(1, "Who wrote it?", "train", answer="Grace Hopper-Smith."), item(2, "Name a hill."))
    forget_person(project=project, by=olivia, text="grace hopper-smith")
    assert [one.prompt for one in Item.objects.all()] == ["Name a hill."]
