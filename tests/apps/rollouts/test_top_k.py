"""The likeliest tokens and the hints to choose from, from the exchange to the record; and batches that are refilled."""

import pytest

from apps.accounts.models import Project
from apps.feedback.models import Feedback, Hint
from apps.inference.models import Exchange
from apps.rollouts import services
from apps.rollouts.models import Batch, Rollout
from apps.rollouts.selectors import iterate_records
from apps.rollouts.services import count_informative, is_full
from apps.tasks.models import Task
from tentalis.core.learning.recipes import Recipe
from tentalis.core.packing import pack_top
from tests.factories import make_judged_task


def tell_top(task: Task, k: int = 2) -> None:
    """Give the exchanges of a task what a top-K recipe has the engine tell."""
    for exchange in Exchange.objects.filter(attempt__task=task):
        size = len(exchange.unpack_token_ids())
        token_ids, logprobs = pack_top([[(place, -0.25 - rank) for rank in range(k)] for place in range(size)])
        Exchange.objects.filter(pk=exchange.pk).update(top_token_ids=token_ids, top_logprobs=logprobs)


def give_hint(task: Task, text: str, source: str = Feedback.Source.HUMAN) -> None:
    feedback = Feedback.objects.create(project=task.project, task=task, source=source, text=text)
    Hint.objects.create(task=task, feedback=feedback, text=text)


def test_a_record_carries_the_likeliest_tokens_and_the_hints_to_choose_from(project: Project) -> None:
    task = make_judged_task(project)
    tell_top(task)
    give_hint(task, "Be brief. Say why.")
    give_hint(task, "Add a source.", Feedback.Source.AI)
    services.build_rollouts([task.pk], by="ledger")
    for record in iterate_records(Batch.objects.get()):
        assert record.top_token_ids == [[place, place] for place in range(len(record.token_ids))]
        assert record.top_logprobs == [[-0.25, -1.25]] * len(record.token_ids)
        told = [messages[-1]["content"] for messages in record.candidate_hints]
        assert ["Be brief. Say why." in text for text in told] == [True, False, False]
        assert "Add a source." in told[1]
        assert record.candidate_hints[0] == record.hinted_messages


def test_without_likeliest_tokens_there_is_nothing_to_choose_by(project: Project) -> None:
    task = make_judged_task(project)
    give_hint(task, "Be brief. Say why.")
    services.build_rollouts([task.pk], by="ledger")
    for record in iterate_records(Batch.objects.get()):
        assert record.top_token_ids is None
        assert not record.candidate_hints
        assert record.hinted_messages is not None


def test_a_hint_that_finds_no_place_is_lost_with_its_reason_and_its_batch_is_not(project: Project) -> None:
    lost, kept = make_judged_task(project), make_judged_task(project)
    for task in (lost, kept):
        give_hint(task, "Be brief. Say why.")
    asked = {"tools": [{"type": "function", "function": {"name": "look_up"}}], "temperature": 1.0, "stop": ["x"]}
    Exchange.objects.filter(attempt__task=lost).update(messages=[{"role": "user", "content": {"odd": True}}])
    Exchange.objects.filter(attempt__task=kept).update(request=asked)
    for task in (lost, kept):
        services.build_rollouts([task.pk], by="ledger")
    records = list(iterate_records(Batch.objects.get()))
    assert [bool(record.hinted_messages) for record in records] == [False, False, True, True]
    assert [record.hint_fault for record in records[:2]] == [
        "content of the last user message: wanted text or parts, found dict"
    ] * 2
    assert all(set(record.rendering) == {"tools", "served_at"} for record in records[2:])


def judge(task: Task, *rewards: float) -> None:
    for rollout, reward in zip(Rollout.objects.filter(task=task).order_by("pk"), rewards, strict=True):
        Rollout.objects.filter(pk=rollout.pk).update(reward=reward)


@pytest.mark.parametrize(
    ("refill", "rewards", "expected"),
    [
        (2.0, [(1.0, 1.0), (0.0, 0.0)], False),
        (2.0, [(1.0, 0.0), (0.5, 0.0)], True),
        (2.0, [(1.0, 0.0), (0.0, 0.0), (1.0, 1.0)], False),
        (1.5, [(1.0, 0.0), (0.0, 0.0), (1.0, 1.0)], True),
    ],
)
def test_a_dapo_batch_fills_on_until_enough_groups_say_something(
    project: Project, refill: float, rewards: list[tuple[float, float]], expected: bool
) -> None:
    project.batch_tasks = 9
    project.save()
    for pair in rewards:
        task = make_judged_task(project)
        services.build_rollouts([task.pk], by="ledger")
        judge(task, *pair)
    batch = Batch.objects.get()
    batch.target_tasks = 2
    assert count_informative(batch) == sum(min(pair) < max(pair) for pair in rewards)
    assert is_full(batch, Recipe(algorithm="dapo", refill=refill)) == expected
    assert is_full(batch, Recipe())


def test_a_batch_below_its_target_is_never_full(project: Project) -> None:
    project.recipe, project.batch_tasks = {"algorithm": "dapo"}, 2
    project.save()
    services.build_rollouts([make_judged_task(project).pk], by="ledger")
    assert Batch.objects.get().state == "open"
