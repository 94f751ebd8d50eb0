"""What of judged work may be taken home to train on, and how it is labelled: as training itself learns from it.

Two differences, on purpose. An export is of words: attempts whose exact tokens nobody knows are in it, and so is work
of a project that does not learn. And it has no place for trust: who is not trusted at all is left out, who is trusted
by half counts whole, and a reward in the middle, which would weigh next to nothing, has no label.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from django.db.models import Prefetch, Q, QuerySet

from apps.base.streaming import iterate_pages
from apps.evals.holding import HELD_OUT, find_held_out
from apps.feedback.selectors import effective_judgements
from apps.rollouts.models import Rollout
from apps.rollouts.pairing import PreferenceItems, Spoken, find_items, load_spoken
from apps.rollouts.selectors import make_records
from apps.tasks.models import Attempt, Step, Task
from tentalis.core.contracts import RolloutRecord
from tentalis.core.judged_files import LABEL_MARGIN, RIGHT_FROM
from tentalis.core.learning.rewards import EffectiveJudgement, judge_step

PAGE = 200


class JudgedTask(NamedTuple):
    """A task with its answered attempts, their steps, and what was said of them.

    Attributes:
        attempts: by index; one that is known by its answer alone reads as that.
    """

    task: Task
    attempts: Mapping[int, Attempt]
    judgements: Mapping[int, EffectiveJudgement]
    spoken: Spoken

    def find_items(self) -> PreferenceItems:
        rewards = {one.pk: self.judgements[one.pk] for one in self.attempts.values()}
        return find_items(
            self.task, self.spoken, answered=self.attempts, exact=self.attempts, rewards=rewards, usable=rewards
        )

    def label_answers(self) -> Iterator[tuple[Attempt, EffectiveJudgement, bool]]:
        """Each attempt whose reward is clearly above or below the middle."""
        for attempt in self.attempts.values():
            judgement = self.judgements[attempt.pk]
            if judgement.reward is not None and abs(judgement.reward - RIGHT_FROM) >= LABEL_MARGIN:
                yield attempt, judgement, judgement.reward >= RIGHT_FROM

    def label_steps(self) -> Iterator[tuple[Attempt, Sequence[tuple[str, bool]]]]:
        """Each attempt's steps up to the first that nobody judged, in words, right or not."""
        for attempt in self.attempts.values():
            labels = []
            for step in attempt.ordered_steps:
                score, said = judge_step(self.judgements[attempt.pk], step.pk)
                value = score if said is None else said
                if value is None:
                    break
                labels.append((step.text, value >= RIGHT_FROM))
            if labels:
                yield attempt, labels


def iterate_judged(tasks: "QuerySet[Task]", held_out: set[int]) -> Iterator[JudgedTask]:
    """Tasks of one project by ascending id, but those that are held out, whose ids are put into `held_out`."""
    steps = Prefetch("steps", Step.objects.order_by("index"))
    answered = Attempt.objects.filter(state=Attempt.State.ANSWERED).order_by("index").prefetch_related(steps)
    rows = tasks.select_related("worker").prefetch_related(Prefetch("attempts", answered))
    for page in iterate_pages(rows, PAGE):
        out = find_held_out(page)
        held_out |= out
        kept = [task for task in page if task.pk not in out]
        judgements, spoken = effective_judgements(kept) if kept else {}, load_spoken(kept)
        for task in kept:
            attempts = {one.index: one for one in task.attempts.all()}
            for attempt in attempts.values():
                attempt.text = attempt.text or attempt.answer
            yield JudgedTask(task, attempts, judgements[task.pk], spoken.get(task.pk, ()))


def iterate_trainable(rollouts: "QuerySet[Rollout]", held_out: set[int]) -> Iterator[tuple[Rollout, RolloutRecord]]:
    """Usable rollouts by ascending id as the trainer reads them; the ids of held-out tasks are put into `held_out`."""
    rows = rollouts.filter(Q(is_usable=True) | Q(unusable_reason=HELD_OUT))
    for page in iterate_pages(rows.select_related("task", "adapter", "hint", "attempt__exchange"), PAGE):
        out = find_held_out({one.task for one in page})
        kept = [one for one in page if one.is_usable and one.task_id not in out]
        held_out |= {one.task_id for one in page} - {one.task_id for one in kept}
        by_id = {one.pk: one for one in kept}
        for record in make_records(kept):
            yield by_id[record.rollout_id], record
