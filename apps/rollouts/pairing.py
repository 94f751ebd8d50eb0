"""Pairs and demonstrations of a judged task: who says that one answer is better, and how far that is trusted.

`find_items` says what they are, for training and for exports. Training writes them where the task's rollouts are, and
anew whenever those are judged anew; what a batch holds stays as it is.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple, TypeVar

from django.db.models import QuerySet

from apps.feedback.models import Feedback
from apps.feedback.set_aside import SUPERVISOR, Trust, name_supervisor
from apps.rollouts.models import Demonstration, LearningItem, PreferencePair, Rollout
from apps.supervision.models import POLICY, Proposal
from apps.supervision.services import SWEEP
from apps.tasks.models import Attempt, Task
from apps.workers.models import Worker
from tentalis.core.canon import content_hash
from tentalis.core.learning.rewards import VERIFIED, EffectiveJudgement
from tentalis.core.steps import Span, parse_steps

CLEAR_MARGIN = 0.25
"""Rewards that differ by at least so much order two attempts."""
GOOD_FROM = 0.9
"""A reward from which an attempt is worth imitating."""
TOLD = frozenset({Feedback.Source.HUMAN.value, VERIFIED})
"""Whose rewards order attempts; models' and scorers' do not."""
SPEAKING = (Feedback.Source.HUMAN, Feedback.Source.OUTSIDE, Feedback.Source.IMPORTED)
"""Whose choices and corrections make pairs and demonstrations."""


Item = TypeVar("Item", PreferencePair, Demonstration)


class AdapterLine(NamedTuple):
    """A line of adapters: the worker it is of (not one who learns with it), and the person; "" for everybody's."""

    worker: Worker
    end_user: str


def drop_items(task: Task) -> None:
    """Take away the task's pairs and demonstrations that no batch holds, to be written anew."""
    for kind in (PreferencePair, Demonstration):
        kind.objects.filter(task=task, batch__isnull=True).delete()


class Judged(NamedTuple):
    """A task as it is judged now, its attempts with their steps."""

    task: Task
    attempts: Sequence[Attempt]
    rollouts: Sequence[Rollout]
    is_held_out: bool


def note_items(judged: Sequence[Judged], lines: Mapping[int, AdapterLine]) -> None:
    """Write the pairs and demonstrations of tasks of one project, in the running transaction, their rows locked.

    Args:
        lines: attempt id -> which adapters it teaches.
    """
    judged = [one for one in judged if one.task.project.learning_enabled and not one.is_held_out]
    spoken = load_spoken([one.task for one in judged])
    pairs: list[PreferencePair] = []
    demonstrations: list[Demonstration] = []
    for task, attempts, rollouts, _ in judged:
        answered = {one.index: one for one in attempts if one.state == Attempt.State.ANSWERED}
        items = find_items(
            task,
            spoken.get(task.pk, ()),
            answered=answered,
            exact={index: one for index, one in answered.items() if _is_exact(one)},
            rewards={one.attempt_id: one for one in rollouts},
            usable={one.attempt_id: one for one in rollouts if one.is_usable},
        )
        pairs += _prepare(task, items.pairs, lines)
        demonstrations += _prepare(task, items.demonstrations, lines)
    PreferencePair.objects.bulk_create(pairs, ignore_conflicts=True)
    Demonstration.objects.bulk_create(demonstrations, ignore_conflicts=True)


class PreferenceItems(NamedTuple):
    """What there is to learn from what was said of a task; the rows are not saved."""

    pairs: Sequence[PreferencePair]
    demonstrations: Sequence[Demonstration]


def find_items(
    task: Task,
    spoken: "Spoken",
    *,
    answered: Mapping[int, Attempt],
    exact: Mapping[int, Attempt],
    rewards: "Rewards",
    usable: "Rewards",
) -> PreferenceItems:
    """The task's pairs, contradictions settled, and its demonstrations; each once, the first of equals.

    Args:
        answered: its attempts by index; exact: those of them whose tokens may be learnt from.
        rewards: attempt id -> how it is judged; usable: those of them that may be learnt from.
    """
    is_ours = task.worker.kind != Worker.Kind.OUTSIDE
    decided = _load_decided(task) if not is_ours else []
    taken = _load_taken_over(task) if is_ours and task.worker.supervision else []
    pairs = [
        *_pair_edits(spoken, exact),
        *_pair_choices(spoken, exact),
        *_pair_decisions(task, decided),
        *_pair_rewards(exact.values(), usable),
        *_pair_imported(task, spoken, answered),
    ]
    shown = [
        *_show_edits(spoken, exact),
        *_show_guided(task, decided, answered.values(), rewards),
        *_show_taken_over(task, taken, answered.values(), rewards),
        *_show_good(exact.values(), usable),
        *_show_imported(task, answered, rewards),
    ]
    return PreferenceItems(_keep_first(settle_contradictions(pairs)), _keep_first(shown))


def _keep_first(items: Iterable[Item]) -> list[Item]:
    first: dict[str, Item] = {}
    for item in items:
        if item.weight > 0:
            first.setdefault(item.digest, item)
    return list(first.values())


def _is_exact(attempt: Attempt) -> bool:
    """Whether its tokens may be learnt from, judged or not: an edited answer judges the one it replaces."""
    return not attempt.unfit and attempt.exchange is not None and attempt.exchange.has_exact_tokens


def _prepare(task: Task, items: Sequence[Item], lines: Mapping[int, AdapterLine]) -> Sequence[Item]:
    """Items as they are kept; what a batch holds already is not told again when they are written."""
    for item in items:
        item.project_id, item.task = task.project_id, task
        item.worker, item.end_user = lines.get(_attempt_of(item) or 0) or AdapterLine(task.worker.line, "")
    return items


def _attempt_of(item: LearningItem) -> int | None:
    if isinstance(item, PreferencePair):
        return item.chosen_id or item.rejected_id
    return item.attempt_id if isinstance(item, Demonstration) else None


def settle_contradictions(pairs: Iterable[PreferencePair]) -> list[PreferencePair]:
    """Of two pairs that say the opposite the heavier one stays, with what it weighs more; neither where they are equal.

    Equal pairs are one, the first of them that weighs anything: a person's word stands before what rewards say.
    """
    first: dict[tuple[str, str], PreferencePair] = {}
    for pair in pairs:
        if pair.weight > 0:
            first.setdefault(_sides(pair), pair)
    said = {sides: pair.weight for sides, pair in first.items()}
    kept = []
    for (chosen, rejected), pair in first.items():
        pair.weight -= said.get((rejected, chosen), 0.0)
        if pair.weight > 0:
            kept.append(pair)
    return kept


def _sides(pair: PreferencePair) -> tuple[str, str]:
    return pair.text or _said(pair.chosen), pair.rejected_text or _said(pair.rejected)


def _said(attempt: Attempt | None) -> str:
    """What its model said: its words, and the calls that came beside them. Two attempts of which this is the same are
    one to learn from."""
    if attempt is None:
        return ""
    calls = [f"{step.tool_name} {step.text}" for step in attempt.ordered_steps if step.tool_name]
    return "\n".join([attempt.text, *calls])


def _pair(source: str, weight: float, **values: Any) -> PreferencePair:
    pair = PreferencePair(source=source, weight=min(1.0, weight), **values)
    pair.digest = content_hash([*_sides(pair), pair.messages])
    return pair


def _compare(source: str, weight: float, chosen: Attempt, rejected: Attempt, **values: Any) -> PreferencePair:
    """A pair of two attempts; where two workers or two adapters made them, their disagreement is what it comes from."""
    is_one = (chosen.worker_id, chosen.adapter_id) == (rejected.worker_id, rejected.adapter_id)
    source = source if is_one else PreferencePair.Source.ENSEMBLE
    return _pair(source, weight, chosen=chosen, rejected=rejected, **values)


def _show(source: str, weight: float, **values: Any) -> Demonstration:
    shown = Demonstration(source=source, weight=min(1.0, weight), **values)
    shown.digest = content_hash([shown.text or _said(shown.attempt), shown.messages])
    return shown


# --- what was said ---------------------------------------------------------------------------------------------------

Spoken = Sequence[tuple[Feedback, float]]
Rewards = Mapping[int, Rollout] | Mapping[int, EffectiveJudgement]


def load_spoken(tasks: Sequence[Task]) -> dict[int, Spoken]:
    """Task id -> feedback that orders or corrects answers, with the trust in it; the last word first. Two queries."""
    rows = Feedback.objects.counting().filter(task__in=tasks, source__in=SPEAKING, trust__gt=0)
    said = list(rows.exclude(edited_answer="", preferred_attempt=None, ranking=[]).order_by("-id"))
    weights = Trust(tasks[0].project_id).weigh(said) if said else {}
    spoken: dict[int, list[tuple[Feedback, float]]] = defaultdict(list)
    for one in said:
        spoken[one.task_id].append((one, weights[one.pk]))
    return dict(spoken)


def _pair_edits(spoken: Spoken, exact: Mapping[int, Attempt]) -> Iterator[PreferencePair]:
    """The edited answer over the original, behind the very same steps."""
    for feedback, trust in spoken:
        for attempt in _find_edited(feedback, exact):
            kept, text, original = splice(attempt, feedback.edited_answer)
            if text.strip() != original.strip():
                yield _pair(
                    PreferencePair.Source.EDIT, trust, feedback=feedback, rejected=attempt, text=text, kept_tokens=kept
                )


def _show_edits(spoken: Spoken, exact: Mapping[int, Attempt]) -> Iterator[Demonstration]:
    for feedback, trust in spoken:
        for attempt in _find_edited(feedback, exact):
            kept, text, _ = splice(attempt, feedback.edited_answer)
            yield _show(
                Demonstration.Source.EDIT, trust, feedback=feedback, attempt=attempt, text=text, kept_tokens=kept
            )


def _find_edited(feedback: Feedback, exact: Mapping[int, Attempt]) -> list[Attempt]:
    """The attempt whose answer was edited: the preferred one, else the best ranked, else the only one."""
    if not feedback.edited_answer.strip():
        return []
    if feedback.preferred_attempt_id is not None:
        return [one for one in exact.values() if one.pk == feedback.preferred_attempt_id]
    if feedback.ranking:
        return [exact[index] for index in feedback.ranking[0][:1] if index in exact]
    return list(exact.values()) if len(exact) == 1 else []


def splice(attempt: Attempt, edited: str) -> tuple[int, str, str]:
    """An attempt with another answer: tokens that stay before it, the text from there on, and what stood there.

    Where the answer's tokens are known, the steps and calls before it stay as they were sampled; else the whole text is
    told anew.
    """
    last = _find_last(attempt)
    original = attempt.text[last.start :]
    if last.content is None:
        return last.kept, edited, original
    first, end = last.content
    return last.kept, attempt.text[last.start : first] + edited.strip() + attempt.text[end:], original


def read_whole(text: str, attempt: Attempt | None, *, kept_tokens: int) -> str:
    """An item's text behind what stays of the attempt it replaces; that attempt's own where there is none."""
    if attempt is None or not text:
        return text or (attempt.text if attempt is not None else "")
    return attempt.text[: _find_last(attempt).start] + text if kept_tokens else text


class _LastAnswer(NamedTuple):
    """Where an attempt's last answer is.

    Args:
        start: character at which the tokens behind the kept ones begin; 0 with none kept.
        kept: how many tokens stay before it.
        content: [start, end) in characters of what an edit replaces; None: all there is.
    """

    start: int
    kept: int
    content: Span | None


def _find_last(attempt: Attempt) -> _LastAnswer:
    """The last answer, behind no token where nobody knows which of them spell what stands before it.

    A step says so: it is the answer that the text's markup names, or the whole text of the attempt's last call. Where
    it begins inside a token, that one goes too, and the text begins where that does.
    """
    parsed = parse_steps(attempt.text)
    whole = _LastAnswer(0, 0, parsed.content_span)
    last = next((step for step in reversed(attempt.ordered_steps) if step.kind == "answer"), None)
    if last is None or last.token_start is None or last.token_overlap is None:
        return whole
    kept, said, text = last.token_start - bool(last.token_overlap), last.text.strip(), attempt.text.rstrip()
    if kept <= 0:
        return whole
    if parsed.answer_span is not None and parsed.answer_span[0] and (parsed.answer or "").strip() == said:
        return _LastAnswer(parsed.answer_span[0] - last.token_overlap, kept, parsed.content_span)
    if not said or not text.endswith(said) or last.token_overlap:
        return whole
    start = len(text) - len(said)
    content = parse_steps(attempt.text[start:]).content_span
    return _LastAnswer(start, kept, content and (start + content[0], start + content[1]))


def _pair_choices(spoken: Spoken, exact: Mapping[int, Attempt]) -> Iterator[PreferencePair]:
    """Each attempt a person ranked above another, or preferred to the others."""
    for feedback, trust in spoken:
        if feedback.ranking:
            ordered = [
                (good, bad)
                for better, worse in combinations(feedback.ranking, 2)
                for good in better
                for bad in worse
                if good in exact and bad in exact
            ]
        else:
            best = [index for index, one in exact.items() if one.pk == feedback.preferred_attempt_id]
            ordered = [(good, bad) for good in best for bad in exact if bad != good]
        for good, bad in ordered:
            if _said(exact[good]) != _said(exact[bad]):
                yield _compare(PreferencePair.Source.CHOICE, trust, exact[good], exact[bad], feedback=feedback)


# --- what the rewards say --------------------------------------------------------------------------------------------


def _pair_rewards(attempts: Iterable[Attempt], usable: Rewards) -> Iterator[PreferencePair]:
    """Two attempts whose rewards, by a person or the world, are clearly apart; the less trusted one weighs."""
    told = [one for one in attempts if one.pk in usable and usable[one.pk].reward_source in TOLD]
    for first, second in combinations(told, 2):
        good, bad = usable[first.pk], usable[second.pk]
        if good.reward is None or bad.reward is None or _said(first) == _said(second):
            continue
        if abs(good.reward - bad.reward) >= CLEAR_MARGIN:
            chosen, rejected = (first, second) if good.reward > bad.reward else (second, first)
            yield _compare(PreferencePair.Source.ATTEMPTS, min(good.weight, bad.weight), chosen, rejected)


def _show_good(attempts: Iterable[Attempt], usable: Rewards) -> Iterator[Demonstration]:
    for attempt in attempts:
        rollout = usable.get(attempt.pk)
        if rollout is None or rollout.reward is None or rollout.reward_source not in TOLD:
            continue
        if rollout.reward >= GOOD_FROM:
            yield _show(Demonstration.Source.ATTEMPT, rollout.weight, attempt=attempt)


# --- what was decided while the work was done ------------------------------------------------------------------------


Decided = Sequence[tuple[Proposal, Feedback, float]]


def _load_decided(task: Task) -> Decided:
    """What was decided on steps that an outside agent proposed, with the feedback it is kept as and the trust in it,
    where that stands. The platform's own agent goes on in a conversation, which teaches by the words on its steps
    alone. Three queries."""
    rows = Proposal.objects.filter(task=task, turn__isnull=True, decided_at__isnull=False)
    return _with_feedback(task, rows.exclude(decided_by__in=(POLICY, SWEEP)))


def _load_taken_over(task: Task) -> Decided:
    """Where somebody took an attempt of the platform's own over, with the feedback it is kept as and the trust in it.
    Three queries."""
    return _with_feedback(task, Proposal.objects.filter(task=task, turn__isnull=False, state=Proposal.State.TAKEN_OVER))


def _with_feedback(task: Task, rows: QuerySet[Proposal]) -> Decided:
    kept = list(task.feedback.counting().filter(author__startswith=f"{SUPERVISOR}:").order_by("id"))
    weights = Trust(task.project_id).weigh(kept)
    by_author = {one.author: one for one in kept}
    found = ((one, by_author.get(name_supervisor(one.decided_by))) for one in rows.order_by("id"))
    return [(proposal, feedback, weights[feedback.pk]) for proposal, feedback in found if feedback is not None]


def _pair_decisions(task: Task, decided: Decided) -> Iterator[PreferencePair]:
    """What a person did instead of the proposed step, over the proposed one, behind the same words."""
    for proposal, feedback, trust in decided:
        match proposal.state:
            case Proposal.State.EDITED:
                better = write_action(proposal.decision["action"])
            case Proposal.State.TAKEN_OVER:
                better = str(proposal.decision["answer"])
            case _:
                continue
        worse = write_action(proposal.action)
        if better.strip() and better != worse:
            words = f"{task.prompt}\n\n{proposal.context}" if proposal.context else task.prompt
            yield _pair(
                PreferencePair.Source.SUPERVISION,
                trust,
                feedback=feedback,
                text=better,
                rejected_text=worse,
                messages=[{"role": "user", "content": words}],
            )


def _show_guided(
    task: Task, decided: Decided, attempts: Iterable[Attempt], rewards: Rewards
) -> Iterator[Demonstration]:
    """Work that persons guided, unless it was judged less than good."""
    guided = {proposal.attempt_id: (feedback, trust) for proposal, feedback, trust in decided}
    for attempt in attempts:
        judged, text = rewards.get(attempt.pk), attempt.text or attempt.answer
        reward = judged.reward if judged is not None else None
        if attempt.pk in guided and text and (reward is None or reward >= GOOD_FROM):
            feedback, trust = guided[attempt.pk]
            yield _show(
                Demonstration.Source.GUIDED,
                trust,
                feedback=feedback,
                attempt=attempt,
                text=text,
                messages=[{"role": "user", "content": task.prompt}],
            )


def _show_taken_over(
    task: Task, taken: Decided, attempts: Iterable[Attempt], rewards: Rewards
) -> Iterator[Demonstration]:
    """What somebody answered in place of a turn, behind all that led there, token for token, unless it was judged less
    than good. Where its tokens are not known, only an answer to the prompt itself says what it answers."""
    by_id = {one.pk: one for one in attempts}
    for proposal, feedback, trust in taken:
        attempt = by_id.get(proposal.attempt_id or 0)
        judged = rewards.get(attempt.pk) if attempt is not None else None
        if attempt is None or (judged is not None and judged.reward is not None and judged.reward < GOOD_FROM):
            continue
        first = (proposal.step_index or 0) - (proposal.call or 0)  # of its turn
        kept = attempt.ordered_steps[first].token_start if 0 <= first < len(attempt.ordered_steps) else None
        if kept is None and proposal.turn:
            continue
        yield _show(
            Demonstration.Source.GUIDED,
            trust,
            feedback=feedback,
            attempt=attempt,
            text=str(proposal.decision["answer"]),
            kept_tokens=kept or 0,
            messages=[] if kept is not None else [{"role": "user", "content": task.prompt}],
        )


def write_action(action: Mapping[str, Any]) -> str:
    """An action in the words a worker writes it in: `<call>refund {"order": 17}</call>`, or its text."""
    if action["kind"] != "tool":
        return str(action["text"])
    return f"<call>{action['tool']} {json.dumps(action['arguments'], ensure_ascii=False, sort_keys=True)}</call>"


# --- what was imported -----------------------------------------------------------------------------------------------


def _pair_imported(task: Task, spoken: Spoken, answered: Mapping[int, Attempt]) -> Iterator[PreferencePair]:
    """The imported answer that was chosen over the other one, in words."""
    by_id = {one.pk: one for one in answered.values()}
    for feedback, trust in spoken:
        best = by_id.get(feedback.preferred_attempt_id or 0)
        if feedback.source != Feedback.Source.IMPORTED or best is None:
            continue
        for other in answered.values():
            if other is not best and other.text.strip():
                yield _pair(
                    PreferencePair.Source.IMPORTED,
                    trust,
                    feedback=feedback,
                    text=best.text,
                    rejected_text=other.text,
                    messages=[{"role": "user", "content": task.prompt}],
                )


def _show_imported(task: Task, answered: Mapping[int, Attempt], rewards: Rewards) -> Iterator[Demonstration]:
    """An imported answer that stands alone and is good."""
    for attempt in answered.values() if len(answered) == 1 else ():
        judged = rewards.get(attempt.pk)
        if judged is None or judged.reward is None or judged.reward_source != Feedback.Source.IMPORTED:
            continue
        if judged.reward >= GOOD_FROM and attempt.text.strip():
            yield _show(
                Demonstration.Source.IMPORTED,
                judged.weight,
                attempt=attempt,
                text=attempt.text,
                messages=[{"role": "user", "content": task.prompt}],
            )
