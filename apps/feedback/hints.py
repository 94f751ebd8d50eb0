"""What feedback teaches: one hint a feedback, by the desk's grammar, by a model, or by the answer a person wrote."""

from dataclasses import dataclass

from django.conf import settings

from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import TentalisError
from apps.feedback.models import Hint
from apps.feedback.opening import answer_waiting_reviews
from apps.feedback.words import Words, read_words
from apps.inference.metering import charge
from apps.inference.services import client_for
from apps.outbox.services import final_write
from apps.tasks.models import Environment, Task
from tentalis.core.desk import parse_hints
from tentalis.core.hints import NoHint, build_hint_messages, parse_hint
from tentalis.core.scoring.quoting import cap_text

GRAMMAR, EDITED, REVIEWER, NOTHING = "grammar", "edited answer", "reviewer", "none"
MAX_TOKENS = 1024
MAX_ANSWER_CHARS = 2_000
MAX_REASON_CHARS = 300


@dataclass(frozen=True)
class Drawn:
    """A hint, or why there is none."""

    text: str
    source: str
    reason: str = ""


def extract_hint(task_id: int, *, by: str = "hints") -> None:
    """Draw one hint out of every feedback on a task that has none yet; what teaches nothing is kept with its reason."""
    task = Task.objects.select_related("project").get(pk=task_id)
    if task.state != Task.State.LEARNING:
        return
    answer_waiting_reviews(task)
    pending = list(task.feedback.counting().filter(hints__isnull=True).order_by("id"))
    if not pending:
        return
    drawn = [draw_hint(task, read_words(feedback)) for feedback in pending]
    with final_write():
        Hint.objects.bulk_create(
            [
                Hint(
                    task=task, feedback=feedback, text=one.text, source=one.source, reason=one.reason[:MAX_REASON_CHARS]
                )
                for feedback, one in zip(pending, drawn, strict=True)
            ],
            ignore_conflicts=True,
        )
        payload = {
            "hints": [
                {"feedback": feedback.pk, "source": one.source, "reason": one.reason[:MAX_REASON_CHARS]}
                for feedback, one in zip(pending, drawn, strict=True)
            ]
        }
        record(Kind.HINT_EXTRACTED, subject=task, by=by, payload=payload)


def preview_hint(task: Task, words: Words) -> Drawn:
    """What the agent would be taught by these words. Writes nothing; off the desk a model may be asked."""
    return draw_hint(task, words)


def needs_model(task: Task, words: Words) -> bool:
    """Whether drawing a hint from these words asks a model: a call that takes time and costs money."""
    if words.hint_text.strip() or task.environment == Environment.DESK or not settings.TENTALIS["LLM_MODEL"]:
        return False
    return bool(words.text.strip()) or any(word.comment for word in words.steps)


def draw_hint(task: Task, words: Words) -> Drawn:
    """The reviewer's own hint, where there is one; else the desk understands its grammar and nothing else, and
    elsewhere a model reads the words, where one is configured."""
    if own := words.hint_text.strip():
        if task.environment == Environment.DESK:
            own = ", ".join(parse_hints(own))
        return Drawn(own, REVIEWER) if own else Drawn("", NOTHING, "the reviewer's hint is not in the desk's grammar")
    if task.environment == Environment.DESK:
        return _read_grammar(words)
    edited = words.edited_answer.strip()
    drawn = _ask_model(task, words)
    if drawn.text or not edited:
        return drawn
    return Drawn(f"A right answer is: {cap_text(edited, MAX_ANSWER_CHARS)}", EDITED)


def _read_grammar(words: Words) -> Drawn:
    hints = parse_hints(words.text)
    if not hints:
        hints = parse_hints("\n".join(word.comment for word in words.steps if word.comment))
    if not hints:
        return Drawn(
            "", NOTHING, 'the words hold no hint in the desk\'s grammar, such as "use fee" or "write the unit"'
        )
    return Drawn(", ".join(hints), GRAMMAR)


def _ask_model(task: Task, words: Words) -> Drawn:
    model: str = settings.TENTALIS["LLM_MODEL"]
    comments = [word for word in words.steps if word.comment]
    if not words.text.strip() and not comments:
        return Drawn("", NOTHING, "the feedback has no words")
    if not model:
        return Drawn("", NOTHING, "no model is configured to draw hints from words")
    comments.sort(key=lambda word: (word.attempt_index, -1 if word.step_index is None else word.step_index))
    on_steps = {word.step_index: word.comment for word in comments if word.step_index is not None}
    on_attempts = [word.comment for word in comments if word.step_index is None]
    messages = build_hint_messages(
        prompt=task.prompt,
        answer=task.answer or None,
        feedback="\n".join([words.text, *on_attempts]),
        step_comments=on_steps,
    )
    try:
        with charge(project=task.project, turn="hint", task_id=task.pk):
            answers = client_for(None, task.project_id).chat(
                messages, model=model, max_tokens=MAX_TOKENS, temperature=0.0
            )
    except TentalisError as error:
        return Drawn("", NOTHING, f"the model could not be asked: {error}")
    found = parse_hint(answers[0].text)
    if isinstance(found, NoHint):
        return Drawn("", f"model:{model}"[:64], found.reason)
    return Drawn(found.text, f"model:{model}"[:64])
