"""Read and check a judgement (what a reviewer may say of a task) before anything of it is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypedDict

from apps.base.errors import BadInputError
from apps.feedback.models import Feedback, StepFeedback
from apps.tasks.models import Attempt, Step, Task
from apps.worlds.registry import find_world
from tentalis.core.field_limits import MAX_COMMENT_CHARS, MAX_JUDGEMENT_CHARS
from tentalis.core.hints import MAX_HINT_CHARS

MAX_SPANS, MAX_LABEL_CHARS = 200, 60
MAX_ACTIVE_S = 86_400


@dataclass(frozen=True, kw_only=True)
class StepRating:
    """A word on one step of an attempt, or on the attempt as a whole (`step_index` None). Indices count from 0.

    Args:
        spans: marked stretches of the step's text: [start, end, label], in characters, end behind the last one.
    """

    attempt_index: int
    step_index: int | None = None
    score: float | None = None
    comment: str = ""
    spans: Sequence[Sequence[Any]] = ()


class JudgementFields(TypedDict, total=False):
    """The fields of `JudgementInput`, as services take them."""

    score: float | None
    text: str
    steps: Sequence[StepRating]
    preferred_attempt: int | None
    edited_answer: str
    ranking: Sequence[Sequence[int]]
    none_good: bool
    hint_text: str
    shown_order: Sequence[int]
    active_s: float | None


@dataclass(frozen=True, kw_only=True)
class JudgementInput:
    """One feedback before it is rows.

    Args:
        score: of the whole task, in [0, 1].
        preferred_attempt: index of the best attempt.
        edited_answer: what the answer should have been.
        ranking: every attempt with an answer, by index, from best to worst, equals together; () where none is said.
        none_good: even the best attempt is not good enough.
        hint_text: what the agent is taught, in the reviewer's own words; "" lets it be drawn from what was said.
        shown_order: attempt indices in the order in which they were shown.
        active_s: seconds spent on it.
    """

    score: float | None = None
    text: str = ""
    steps: Sequence[StepRating] = ()
    preferred_attempt: int | None = None
    edited_answer: str = ""
    ranking: Sequence[Sequence[int]] = ()
    none_good: bool = False
    hint_text: str = ""
    shown_order: Sequence[int] = ()
    active_s: float | None = None

    def to_json(self) -> dict[str, Any]:
        """In the REST API's terms; empty ones left out."""
        data = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "steps"}
        data["steps"] = [
            {
                "attempt": word.attempt_index,
                "index": word.step_index,
                "score": word.score,
                "comment": word.comment,
                "spans": [list(span) for span in word.spans],
            }
            for word in self.steps
        ]
        data["ranking"] = [list(group) for group in self.ranking]
        data["shown_order"] = list(self.shown_order)
        return {name: value for name, value in data.items() if value is not False and value not in (None, "", [])}


def read_judgement(feedback: Feedback) -> JudgementInput:
    """What was said, as it was given. Two queries at most."""
    return read_judgements([feedback])[feedback.pk]


def read_judgements(given: Sequence[Feedback]) -> dict[int, JudgementInput]:
    """Feedback id -> its words. Four queries at most, but for preferred attempts that are not loaded.

    Attempts and steps are looked up by id: joined to, Postgres may walk all there ever were.
    """
    rated = StepFeedback.objects.filter(feedback__in=[feedback.pk for feedback in given]).order_by("id")
    told = list(rated.values_list("feedback_id", "attempt_id", "step_id", "score", "comment", "spans"))
    attempts = dict(Attempt.objects.filter(pk__in={row[1] for row in told}).values_list("pk", "index"))
    places = dict(Step.objects.filter(pk__in={row[2] for row in told} - {None}).values_list("pk", "index"))
    steps: dict[int, list[StepRating]] = {feedback.pk: [] for feedback in given}
    for feedback_id, attempt, step, score, comment, spans in told:
        place = places.get(step)
        word = StepRating(attempt_index=attempts[attempt], step_index=place, score=score, comment=comment, spans=spans)
        steps[feedback_id].append(word)
    return {
        feedback.pk: JudgementInput(
            score=feedback.score,
            text=feedback.text,
            steps=steps[feedback.pk],
            preferred_attempt=feedback.preferred_attempt.index if feedback.preferred_attempt else None,
            edited_answer=feedback.edited_answer,
            ranking=feedback.ranking,
            none_good=feedback.none_good,
            hint_text=feedback.hint_text,
            shown_order=feedback.shown_order,
            active_s=feedback.active_s,
        )
        for feedback in given
    }


def store_feedback(task: Task, judgement: JudgementInput, **values: Any) -> Feedback:
    """Write the feedback with its words on steps.

    Args:
        values: the feedback's other columns.
    Raises:
        BadInputError: every fault, by field; nothing is written then.
    """
    attempts = {attempt.index: attempt for attempt in task.attempts.only("index", "state").prefetch_related("steps")}
    errors = find_faults(judgement, attempts)
    grammar = find_world(task.environment).grammar
    if grammar and judgement.hint_text.strip() and not grammar.read(judgement.hint_text):
        errors["hint_text"] = [f"wanted a hint that is read here, such as {grammar.example}, found none"]
    if errors:
        raise BadInputError.at_each(errors)
    feedback = Feedback.objects.create(
        project_id=task.project_id,
        task=task,
        score=judgement.score,
        text=judgement.text,
        preferred_attempt=None if judgement.preferred_attempt is None else attempts[judgement.preferred_attempt],
        edited_answer=judgement.edited_answer,
        ranking=[list(group) for group in judgement.ranking],
        none_good=judgement.none_good,
        hint_text=judgement.hint_text,
        shown_order=list(judgement.shown_order),
        active_s=judgement.active_s,
        **values,
    )
    StepFeedback.objects.bulk_create(
        StepFeedback(
            feedback=feedback,
            attempt=attempts[word.attempt_index],
            step=None if word.step_index is None else attempts[word.attempt_index].steps.all()[word.step_index],
            score=word.score,
            comment=word.comment,
            spans=[list(span) for span in word.spans],
        )
        for word in judgement.steps
    )
    return feedback


def find_faults(judgement: JudgementInput, attempts: Mapping[int, Attempt]) -> dict[str, list[str]]:
    """Field -> what is wrong with it; a word on a step is the field `steps.<place>`."""
    errors: dict[str, list[str]] = {}
    written = (judgement.text, judgement.edited_answer, judgement.hint_text)
    says_something = judgement.score is not None or judgement.preferred_attempt is not None or judgement.steps
    if not says_something and not judgement.ranking and not judgement.none_good and not any(map(str.strip, written)):
        errors["feedback"] = [
            "wanted a score, words, a word on a step, a preferred attempt, a ranking, an edited answer or a hint, "
            "found none"
        ]
    _check_score(errors, "score", judgement.score)
    _check_text(errors, "text", judgement.text, MAX_JUDGEMENT_CHARS)
    _check_text(errors, "edited_answer", judgement.edited_answer, MAX_JUDGEMENT_CHARS)
    _check_text(errors, "hint_text", judgement.hint_text, MAX_HINT_CHARS)
    if judgement.active_s is not None and not 0 <= judgement.active_s <= MAX_ACTIVE_S:  # NaN fails this too
        errors["active_s"] = [f"wanted 0 to {MAX_ACTIVE_S:,} seconds, or none, found {judgement.active_s!r:.80}"]
    if len(set(judgement.shown_order)) != len(judgement.shown_order) or not set(judgement.shown_order) <= set(attempts):
        errors["shown_order"] = [f"wanted attempts of {_name_indices(attempts)}, each once, found others"]
    _check_ranking(errors, judgement, attempts)
    if judgement.preferred_attempt is not None:
        preferred = attempts.get(judgement.preferred_attempt)
        if preferred is None or preferred.state != Attempt.State.ANSWERED:
            wanted = _name_indices(
                index for index, attempt in attempts.items() if attempt.state == Attempt.State.ANSWERED
            )
            errors["preferred_attempt"] = [
                f"wanted an attempt with an answer ({wanted}), found {judgement.preferred_attempt!r}"
            ]
    seen: set[tuple[int, int | None]] = set()
    for place, word in enumerate(judgement.steps):
        name = f"steps.{place}"
        _check_score(errors, name, word.score)
        _check_text(errors, name, word.comment, MAX_COMMENT_CHARS)
        if word.attempt_index not in attempts:
            errors[name] = [f"wanted an attempt of {_name_indices(attempts)}, found {word.attempt_index!r}"]
        elif word.step_index is not None:
            count = len(attempts[word.attempt_index].steps.all())
            if not 0 <= word.step_index < count:
                wanted = f"0 to {count - 1}" if count else "none, it has no steps"
                errors[name] = [f"wanted a step of attempt {word.attempt_index} ({wanted}), found {word.step_index!r}"]
            else:
                _check_spans(errors, name, word, attempts[word.attempt_index].steps.all()[word.step_index])
        elif word.spans:
            errors[name] = ["wanted marked stretches on a step only, found them on an attempt"]
        if (word.attempt_index, word.step_index) in seen:
            errors[name] = [f"a second word on step {word.step_index} of attempt {word.attempt_index}"]
        if word.score is None and not word.comment.strip() and not word.spans:
            errors.setdefault(name, ["wanted a score or a comment or a marked stretch, found none"])
        seen.add((word.attempt_index, word.step_index))
    return errors


def _check_ranking(errors: dict[str, list[str]], words: JudgementInput, attempts: Mapping[int, Attempt]) -> None:
    if not words.ranking:
        return
    answered = [index for index, attempt in attempts.items() if attempt.state == Attempt.State.ANSWERED]
    ranked = [index for group in words.ranking for index in group]
    if sorted(ranked) != sorted(answered) or not all(words.ranking):
        wanted = _name_indices(answered)
        errors["ranking"] = [f"wanted each attempt with an answer once ({wanted}), found {_name_indices(ranked)}"]
    elif words.preferred_attempt is not None and words.preferred_attempt not in words.ranking[0]:
        found = f"attempt {words.preferred_attempt} preferred and {_name_indices(words.ranking[0])} ranked first"
        errors["ranking"] = [f"wanted the preferred attempt ranked first, found {found}"]


def _check_spans(errors: dict[str, list[str]], name: str, word: StepRating, step: Step) -> None:
    if len(word.spans) > MAX_SPANS:
        errors[name] = [f"wanted at most {MAX_SPANS} marked stretches, found {len(word.spans)}"]
    for span in word.spans:
        if len(span) != 3 or not isinstance(span[2], str) or not all(type(place) is int for place in span[:2]):
            errors[name] = [f"wanted marked stretches [start, end, label], found {span!r:.80}"]
        elif not 0 <= span[0] < span[1] <= len(step.text):
            errors[name] = [
                f"wanted a stretch within the step's {len(step.text)} characters, found {span[0]}-{span[1]}"
            ]
        else:
            _check_text(errors, name, span[2], MAX_LABEL_CHARS)


def _check_score(errors: dict[str, list[str]], name: str, score: object) -> None:
    if score is None:
        return
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:  # NaN fails this too
        errors[name] = [f"wanted a score from 0 to 1, or none, found {score!r:.80}"]


def _check_text(errors: dict[str, list[str]], name: str, text: str, limit: int) -> None:
    if len(text) > limit:
        errors[name] = [f"wanted at most {limit:,} characters, found {len(text):,}"]
    elif "\x00" in text:
        errors[name] = ["wanted text without NUL characters, found one"]


def _name_indices(indices: Any) -> str:
    return ", ".join(str(index) for index in indices) or "none"
