"""Own work holds itself out: which, from when on, and what a small project notices of it."""

import pytest

from apps.accounts.models import Project, User
from apps.evals.holding import find_held_out
from apps.evals.models import Item
from apps.evals.services import ItemRow, add_items
from apps.tasks.models import Task
from apps.tasks.own_work import FIRST_TASKS, is_drawn
from apps.tasks.services import submit_task, submit_tasks
from tentalis.core.task_files import TaskRow
from tests.factories import make_worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def asked(project: Project) -> Project:
    make_worker(project)
    project.held_out_percent = 50
    project.save()
    return project


def submit(project: Project, by: User, prompts: list[str]) -> list[Task]:
    rows = [TaskRow(line=place, prompt=prompt) for place, prompt in enumerate(prompts, start=1)]
    return submit_tasks(project=project, rows=rows, environment="chat", by=by)


def draw(project: Project, *, aside: bool) -> str:
    prompts = (f"Which number is behind {n} in the big book of numbers?" for n in range(10_000))
    return next(prompt for prompt in prompts if is_drawn(project, prompt) == aside)


def test_the_first_tasks_all_teach_and_then_a_share_is_put_aside(asked: Project, alice: User) -> None:
    tasks = submit(asked, alice, [f"Question {n}: what is {n} times seven?" for n in range(120)])
    kept = find_held_out(tasks)
    assert kept
    assert not kept & {task.pk for task in tasks[:FIRST_TASKS]}
    assert kept == {task.pk for task in tasks[FIRST_TASKS:] if is_drawn(asked, task.prompt)}
    items = Item.objects.filter(taskset__name="own-work-chat", taskset__origin="own_work", split="held_out")
    assert {item.source for item in items} == {f"task {pk}" for pk in kept}


def test_the_same_words_again_stay_on_their_side(asked: Project, alice: User) -> None:
    aside, early = draw(asked, aside=True), "What is the capital of France, where the Seine flows?"
    submit(asked, alice, [early, *(f"Question {n}?" for n in range(FIRST_TASKS - 1))])
    first = submit_task(project=asked, prompt=aside, environment="chat", by=alice)
    again = submit_task(project=asked, prompt=f"Please: {aside.upper()}", environment="chat", by=alice)
    same = [
        submit_task(project=asked, prompt=f"{early} {word}", environment="chat", by=alice)
        for word in ("", "Please", "Thanks", "Thank you", "Kindly", "Quick")
    ]
    assert find_held_out([first, again, *same]) == {first.pk, again.pk}
    assert Item.objects.count() == 1


def test_what_nobody_and_nothing_can_judge_is_not_put_aside_and_the_desk_has_its_own_rule(
    asked: Project, alice: User
) -> None:
    asked.review_policy = {"who": "none"}
    asked.save()
    submit(asked, alice, [f"Question {n}: what is {n} times seven?" for n in range(60)])
    assert not Item.objects.exists()
    rows = [TaskRow(line=n, prompt=f"What is {n} times nine?", reference=str(9 * n)) for n in range(40)]
    submit_tasks(project=asked, rows=rows, environment="chat", by=alice)
    assert Item.objects.exists()


def test_what_a_taskset_holds_to_train_on_is_not_put_aside(asked: Project, alice: User) -> None:
    """Somebody said so: a loop over its items waits for each of them to teach."""
    prompts = [f"Question {n}: what is {n} times seven?" for n in range(60)]
    rows = [ItemRow(place, prompt, "train") for place, prompt in enumerate(prompts, start=1)]
    add_items(project=asked, name="own", environment="chat", rows=rows, by=alice)
    assert any(is_drawn(asked, prompt) for prompt in prompts[FIRST_TASKS:])
    assert not find_held_out(submit(asked, alice, prompts))
    assert not Item.objects.exclude(split="train").exists()


def test_a_project_may_put_nothing_aside(asked: Project, alice: User) -> None:
    asked.held_out_percent = 0
    asked.save()
    submit(asked, alice, [f"Question {n}: what is {n} times seven?" for n in range(60)])
    assert not Item.objects.exists()
