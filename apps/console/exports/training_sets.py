"""Judgements as training sets, in the formats of TRL: what they hold is what training learns from.

Feedback that was taken back, and what was said of gold items, is in none of them; nor, but for managers, a task of
which somebody's word must not be known yet. They are narrowed by their tasks.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Project, User
from apps.console.exports.narrowing import look_up
from apps.feedback.models import Feedback
from apps.rollouts.pairing import read_whole
from apps.rollouts.training_sets import JudgedTask, iterate_judged
from apps.tasks.models import Task

PAIR_COLUMNS = {"prompt": "text", "chosen": "text", "rejected": "text", "task": "int", "feedback": "int", "by": "text"}
STEPWISE_COLUMNS = {"prompt": "text", "completions": "texts", "labels": "bools", "task": "int", "attempt": "int"}
KTO_COLUMNS = {
    "prompt": "text", "completion": "text", "label": "bool", "reward": "float", "reward_source": "text", "task": "int",
    "attempt": "int",
}  # fmt: skip
SFT_COLUMNS = {"messages": "messages", "task": "int", "feedback": "int", "kind": "text"}

SETS = frozenset({"preferences", "sft", "stepwise", "kto"})

Row = Mapping[str, Any]


def read_pairs(project: Project, filters: Mapping[str, str], user: User, held_out: set[int]) -> Iterator[Row]:
    """A row a pair; where rewards order its answers, `feedback` and `by` are empty. Attempts that differ in their calls
    alone are no pair in words."""
    for judged in _iterate_judged(project, user, filters, held_out):
        for pair in judged.find_items().pairs:
            chosen = read_whole(pair.text, pair.chosen or pair.rejected, kept_tokens=pair.kept_tokens)
            rejected = read_whole(pair.rejected_text, pair.rejected, kept_tokens=0)
            if chosen == rejected:
                continue
            yield {
                "prompt": _prompt_of(judged.task, pair.messages),
                "chosen": chosen,
                "rejected": rejected,
                "task": judged.task.pk,
                "feedback": pair.feedback_id,
                "by": pair.feedback.author if pair.feedback else "",
            }


def read_stepwise(project: Project, filters: Mapping[str, str], user: User, held_out: set[int]) -> Iterator[Row]:
    for judged in _iterate_judged(project, user, filters, held_out):
        for attempt, labels in judged.label_steps():
            texts, said = zip(*labels, strict=True)
            yield {
                "prompt": judged.task.prompt, "completions": list(texts), "labels": list(said),
                "task": judged.task.pk, "attempt": attempt.index,
            }  # fmt: skip


def read_kto(project: Project, filters: Mapping[str, str], user: User, held_out: set[int]) -> Iterator[Row]:
    for judged in _iterate_judged(project, user, filters, held_out):
        for attempt, found, is_good in judged.label_answers():
            yield {
                "prompt": judged.task.prompt, "completion": attempt.text, "label": is_good, "reward": found.reward,
                "reward_source": found.reward_source, "task": judged.task.pk, "attempt": attempt.index,
            }  # fmt: skip


def read_sft(project: Project, filters: Mapping[str, str], user: User, held_out: set[int]) -> Iterator[Row]:
    """A row a demonstration; `kind` is where it comes from, `feedback` empty where a reward says that it is good."""
    for judged in _iterate_judged(project, user, filters, held_out):
        for shown in judged.find_items().demonstrations:
            prompt = _prompt_of(judged.task, shown.messages)
            answer = read_whole(shown.text, shown.attempt, kept_tokens=shown.kept_tokens)
            messages = [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]
            yield {
                "messages": messages, "task": judged.task.pk, "feedback": shown.feedback_id, "kind": str(shown.source)
            }  # fmt: skip


def _prompt_of(task: Task, messages: list[Any]) -> str:
    return str(messages[0]["content"]) if messages else task.prompt


def say_why_empty(project: Project, user: User) -> str | Promise:
    """Why such a set holds nothing; "" where it may hold something."""
    counting = Feedback.objects.counting().readable_by(user).filter(project=project)
    return "" if counting.exists() else _("Empty: no review counts yet.")


def _iterate_judged(
    project: Project, user: User, filters: Mapping[str, str], held_out: set[int]
) -> Iterator[JudgedTask]:
    """Tasks of which a review counts; none of which somebody's word must not be known yet."""
    counting = Feedback.objects.counting().filter(project=project)
    hidden = counting.exclude(pk__in=counting.readable_by(user).values("pk"))
    rows = Task.objects.filter(project=project, pk__in=counting.values("task")).exclude(pk__in=hidden.values("task"))
    return iterate_judged(rows.filter(**look_up(filters)), held_out)
