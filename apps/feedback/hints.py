"""What feedback teaches: one hint a feedback, by its world's grammar, by a model, or in the person's own words."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby

from django.conf import settings

from apps.accounts.models import Project
from apps.audit.kinds import Kind
from apps.audit.services import record_many, write_entry
from apps.base.errors import TentalisError
from apps.evals.holding import HELD_OUT, find_held_out
from apps.feedback.create_reviews import answer_waiting_reviews
from apps.feedback.judgement import JudgementInput, StepRating, read_judgements
from apps.feedback.models import Feedback, Hint
from apps.feedback.rules import validate_review_policy
from apps.feedback.set_aside import Trust
from apps.inference.errors import raise_if_paced
from apps.inference.metering import charge
from apps.inference.services import client_for, find_server
from apps.outbox.services import final_write
from apps.tasks.models import Task
from apps.worlds.registry import find_world
from tentalis.core.field_limits import MAX_REASON_CHARS
from tentalis.core.hints import MAX_HINT_CHARS, NoHint, build_hint_messages, parse_hint
from tentalis.core.praise import is_praise_alone
from tentalis.core.scoring.quoting import cap_text
from tentalis.core.worlds import HintGrammar

GRAMMAR, EDITED, REVIEWER, NOTHING = "grammar", "edited answer", "reviewer", "none"
MAX_TOKENS = 1024
MAX_EDITED_CHARS = 2_000
FULL_MARKS = 1.0
ONLY_AUDITED = "who said it is only audited yet"
PRAISE = "the words praise and name no rule; the judgement counts all the same"
PRAISE_AT_FULL_MARKS = (
    "everything judged got full marks, so the words are taken for praise; a lower score, or a mark on what was wrong, "
    "lets them teach"
)


@dataclass(frozen=True)
class Drawn:
    """A hint, or why there is none."""

    text: str
    source: str
    reason: str = ""


def extract_hints(task_ids: Sequence[int], *, by: str = "hints") -> None:
    """Draw one hint out of every feedback on tasks that has none yet; what teaches nothing is kept with its reason.

    Args:
        task_ids: of one project.
    """
    learning = Task.objects.filter(pk__in=task_ids, state=Task.State.LEARNING).select_related("project")
    tasks = {task.pk: task for task in learning.order_by("pk")}
    answer_waiting_reviews(tasks.values())
    counting = Feedback.objects.counting().filter(task__in=list(tasks), hints__isnull=True)
    pending = list(counting.select_related("preferred_attempt").order_by("task_id", "id"))
    if not pending:
        return
    words, held_out = read_judgements(pending), find_held_out(tasks[one.task_id] for one in pending)
    trust = Trust(pending[0].project_id)
    drawn = [
        Drawn("", NOTHING, reason)
        if (reason := _find_objection(one, held_out, trust))
        else draw_hint(tasks[one.task_id], words[one.pk], by_person=one.source == Feedback.Source.HUMAN)
        for one in pending
    ]
    with final_write(task_ids) as kept:
        hints = [
            Hint(
                task_id=feedback.task_id,
                feedback=feedback,
                text=one.text,
                source=one.source,
                reason=one.reason[:MAX_REASON_CHARS],
            )
            for feedback, one in zip(pending, drawn, strict=True)
            if feedback.task_id in kept
        ]
        Hint.objects.bulk_create(hints, ignore_conflicts=True)
        record_many(
            write_entry(
                Kind.HINT_EXTRACTED,
                subject=tasks[task_id],
                by=by,
                payload={
                    "hints": [
                        {"feedback": one.feedback_id, "source": one.source, "reason": one.reason} for one in found
                    ]
                },
            )
            for task_id, found in groupby(hints, key=lambda hint: hint.task_id)
        )


def _find_objection(feedback: Feedback, held_out: Collection[int], trust: Trust) -> str:
    """Why nothing is drawn out of it, and no model asked; "" where it may teach.

    Of who is quarantined hints are drawn: not taught (`find_last_hints`) unless they are let back.
    """
    if feedback.task_id in held_out:
        return HELD_OUT
    return trust.silence(feedback, of_hint=True) or ("" if feedback.trust else ONLY_AUDITED)


def hints_ask_models(project: Project, environment: str) -> bool:
    """Whether drawing the hints of one task may wait for a model."""
    return find_world(environment).grammar is None and bool(find_hint_model(project))


def preview_hint(task: Task, judgement: JudgementInput) -> Drawn:
    """What the agent would be taught by a person's words. Writes nothing; a model may be asked."""
    return draw_hint(task, judgement, by_person=True)


def needs_model(task: Task, judgement: JudgementInput) -> bool:
    """Whether drawing a hint from these words asks a model: a call that takes time and costs money."""
    if judgement.hint_text.strip() or not hints_ask_models(task.project, task.environment):
        return False
    return has_words(judgement)


def find_hint_model(project: Project) -> str:
    """Which model draws hints: the project's, else the installation's; "" where a person's words are the hint."""
    own = validate_review_policy(project.review_policy).hint_model
    return own or str(settings.TENTALIS["LLM_MODEL"])


def draw_hint(task: Task, judgement: JudgementInput, *, by_person: bool) -> Drawn:
    """The reviewer's own hint, where there is one; else a world with a grammar of hints understands that and nothing
    else, and elsewhere a model reads the words. Where none does, a person's words are the hint themselves."""
    grammar = find_world(task.environment).grammar
    if own := judgement.hint_text.strip():
        own = grammar.read(own) if grammar else own
        return Drawn(own, REVIEWER) if own else Drawn("", NOTHING, "the reviewer's hint is not one its world reads")
    if grammar:
        return _read_grammar(grammar, judgement)
    edited = judgement.edited_answer.strip()
    drawn = _ask_model(task, judgement)
    if drawn.source == NOTHING and by_person and has_words(judgement):
        if own := _write_own(judgement):
            return Drawn(own, REVIEWER, drawn.reason)
        drawn = Drawn("", NOTHING, PRAISE_AT_FULL_MARKS if _gives_full_marks(judgement) else PRAISE)
    if drawn.text or not edited:
        return drawn
    return Drawn(f"A right answer is: {cap_text(edited, MAX_EDITED_CHARS)}", EDITED)


def has_words(judgement: JudgementInput) -> bool:
    return bool(judgement.text.strip()) or any(word.comment.strip() for word in judgement.steps)


def _write_own(words: JudgementInput) -> str:
    """The words as a hint: what was said of the task, else the comments on its attempts and steps.

    Praise is left out: it is a judgement and names no rule. That is what praises and says nothing else, and what was
    said of something that got full marks.
    """
    said = "" if _gives_full_marks(words) or is_praise_alone(words.text) else words.text.strip()
    faulted = (word.comment for word in _sort_comments(words) if word.score != FULL_MARKS)
    comments = dict.fromkeys(comment.strip() for comment in faulted if not is_praise_alone(comment))
    own = said or "\n".join(comments)
    return own if len(own) <= MAX_HINT_CHARS else f"{own[: MAX_HINT_CHARS - 1]}…"


def _gives_full_marks(words: JudgementInput) -> bool:
    """Whether something was scored, all of it with full marks, and nothing else says that something was wrong."""
    scores = [score for score in (words.score, *(word.score for word in words.steps)) if score is not None]
    finds_fault = words.none_good or words.edited_answer.strip() or words.preferred_attempt is not None
    return bool(scores) and min(scores) == FULL_MARKS and not finds_fault and len(words.ranking) < 2


def _sort_comments(words: JudgementInput) -> list[StepRating]:
    said = [word for word in words.steps if word.comment]
    return sorted(said, key=lambda word: (word.attempt_index, -1 if word.step_index is None else word.step_index))


def _read_grammar(grammar: HintGrammar, words: JudgementInput) -> Drawn:
    comments = "\n".join(word.comment for word in words.steps if word.comment)
    if found := grammar.read(words.text) or grammar.read(comments):
        return Drawn(found, GRAMMAR)
    return Drawn("", NOTHING, f"the words hold no hint that is read here, such as {grammar.example}")


def _ask_model(task: Task, words: JudgementInput) -> Drawn:
    name = find_hint_model(task.project)
    comments = _sort_comments(words)
    if not has_words(words):
        return Drawn("", NOTHING, "the feedback has no words")
    if not name:
        return Drawn("", NOTHING, "no model is configured to draw hints from words")
    on_steps = {word.step_index: word.comment for word in comments if word.step_index is not None}
    on_attempts = [word.comment for word in comments if word.step_index is None]
    messages = build_hint_messages(
        prompt=task.prompt,
        answer=task.answer or None,
        feedback="\n".join([words.text, *on_attempts]),
        step_comments=on_steps,
    )
    provider, model = find_server(task.project_id, name)
    try:
        with charge(project=task.project, turn="hint", task_id=task.pk):
            answers = client_for(provider, task.project_id).chat(
                messages, model=model, max_tokens=MAX_TOKENS, temperature=0.0
            )
    except TentalisError as error:
        raise_if_paced(error)
        return Drawn("", NOTHING, f"the model could not be asked: {error}")
    found = parse_hint(answers[0].text)
    if isinstance(found, NoHint):
        return Drawn("", f"model:{name}"[:64], found.reason)
    return Drawn(found.text, f"model:{name}"[:64])
