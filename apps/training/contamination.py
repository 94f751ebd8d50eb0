"""Find test contamination (train/test overlap): the words a training reads, and which it would be measured on."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from django.db.models import Prefetch, QuerySet, prefetch_related_objects

from apps.evals.asking import reopen_items
from apps.evals.holding import READS, find_held_out, is_kept_by_world, list_held_out_prompts
from apps.evals.models import Evaluation
from apps.inference.models import Exchange
from apps.inference.selectors import read_conversations
from apps.rollouts.models import Batch, Demonstration, PreferencePair, Rollout
from apps.rollouts.tokens import list_exchanges
from apps.tasks.models import FurtherExchange, Task
from tentalis.core.conversations.turns import find_last_said
from tentalis.core.near_duplicates import KeptPrompts, list_texts
from tentalis.core.worlds import World

PAGE = 200
SAME = 256
"""Texts that are remembered: the attempts at a task and the sides of a pair come together and say much the same."""


class Learnt(NamedTuple):
    """An attempt, a side of a pair or a demonstration.

    Args:
        texts: its task, what it answers (the last words of a conversation; those before are read and not learnt), the
            answer, its hint; in no order.
    """

    task: Task
    texts: Sequence[str]


class Leaks(NamedTuple):
    """What batches teach of tasks that are measured on.

    Args:
        answers: how many attempts, sides of pairs or demonstrations there are.
        held_out: of them on tasks that are held out, or that hold the words of one.
        measured: of them in whose words a task that is measured on occurs.
        tasks: ids of the tasks of either, in order.
    """

    answers: int
    held_out: int
    measured: int
    tasks: Sequence[int]


def find_leaks(batches: Iterable[Batch], measured: Iterable[str], *, world: World | None) -> Leaks:
    """Look through everything that batches teach.

    Args:
        measured: prompts. world: theirs; None where nothing is measured.
    """
    occurs_in = lru_cache(SAME)(KeptPrompts(measured).occurs_in)
    answers = held_out = found = 0
    tasks = set()
    for batch in batches:
        quotes_own = lru_cache(SAME)(KeptPrompts(list_held_out_prompts(batch.project)).occurs_in)

        @lru_cache(SAME)
        def is_kept(text: str, quotes: Callable[[str], bool] = quotes_own) -> bool:
            return quotes(text) or (world is not None and is_kept_by_world(world.name, text))

        learnt = iterate_learnt(batch)
        while page := list(islice(learnt, PAGE)):
            out = find_held_out({task for task, _ in page})
            for task, texts in page:
                is_held_out = task.pk in out or any(map(is_kept, texts))
                is_measured = any(map(occurs_in, texts))
                answers, held_out, found = answers + 1, held_out + is_held_out, found + is_measured
                if is_held_out or is_measured:
                    tasks.add(task.pk)
    return Leaks(answers, held_out, found, sorted(tasks))


def iterate_learnt(batch: Batch) -> Iterator[Learnt]:
    """Everything a batch teaches and what it answers: edited answers and guided work, hints, what a gateway heard and
    what was imported alike. Both sides of a pair read the words of either. Six queries a page.
    """
    rows, names = _list_rows(batch)
    found = rows.order_by("task_id", "pk").iterator(chunk_size=PAGE)
    while page := list(islice(found, PAGE)):
        attempts = {one.pk: one for row in page for name in names if (one := getattr(row, name)) is not None}
        prefetch_related_objects(list(attempts.values()), *_EXCHANGES)
        told = read_conversations(
            (one for attempt in attempts.values() for one in list_exchanges(attempt)), tokens=False
        )
        for row in page:
            texts = [row.task.prompt, *_read_words(row)]
            for name in names:
                attempt = attempts.get(getattr(row, f"{name}_id") or 0)
                calls = list_exchanges(attempt) if attempt is not None else []
                for conversation in (told[one.pk] for one in calls if one.pk in told):
                    learnt = conversation.messages[find_last_said(conversation.messages) or 0 :]
                    texts += list_texts([learnt, conversation.answer])
            yield from [Learnt(row.task, texts)] * len(names)


_TOLD = ("parent_id", "shared_messages", "shared_tokens", "messages", "text", "tool_calls", "request")
_EXCHANGES = (
    Prefetch("exchange", Exchange.objects.only(*_TOLD)),
    Prefetch(
        "further",
        FurtherExchange.objects.prefetch_related(Prefetch("exchange", Exchange.objects.only(*_TOLD))),
        to_attr="further_calls",
    ),
)


def _list_rows(batch: Batch) -> tuple[QuerySet[Any], Sequence[str]]:
    """What the batch holds, and which of its fields are attempts."""
    names = batch.attempt_fields
    if batch.kind == Batch.Kind.ROLLOUTS:
        told = (*(f"task__{name}" for name in READS), "hint__text", "attempt__exchange")
        rollouts = Rollout.objects.filter(training_use__batch=batch).select_related("task", "hint", *names)
        return rollouts.only("task", "hint", "attempt", *told), names
    return batch.items().select_related("task", *names), names


def _read_words(row: Rollout | PreferencePair | Demonstration) -> Iterable[str]:
    """What is said on the row itself."""
    if isinstance(row, Rollout):
        return [row.hint.text] if row.hint is not None else []
    return list_texts([row.text, row.messages, getattr(row, "rejected_text", "")])


def find_contamination(evaluation: Evaluation) -> Leaks | None:
    """What its adapter, and those that this continues, learnt of the very items that it is measured on; None for the
    base model, of which nobody knows.

    Raises:
        ConflictError: the items are not what they were.
    """
    if evaluation.adapter is None:
        return None
    runs = [one.run_id for one in evaluation.adapter.lineage]
    batches = Batch.objects.filter(run__in=runs).select_related("project").order_by("pk")
    return find_leaks(batches, [item.prompt for item in reopen_items(evaluation).items], world=None)
