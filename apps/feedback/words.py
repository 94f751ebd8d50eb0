"""What a reviewer may say, checked against the task before anything is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.base.errors import BadInputError
from apps.feedback.models import Feedback, StepFeedback
from apps.tasks.models import Attempt, Task

MAX_TEXT_CHARS = 20_000
MAX_COMMENT_CHARS = 4_000


@dataclass(frozen=True, kw_only=True)
class StepWord:
    """A word on one step of an attempt, or on the attempt as a whole (`step_index` None). Indices count from 0."""

    attempt_index: int
    step_index: int | None = None
    score: float | None = None
    comment: str = ""


@dataclass(frozen=True, kw_only=True)
class Words:
    """One feedback before it is rows.

    Args:
        score: of the whole task, in [0, 1].
        preferred_attempt: index of the best attempt.
        edited_answer: what the answer should have been.
    """

    score: float | None = None
    text: str = ""
    steps: Sequence[StepWord] = ()
    preferred_attempt: int | None = None
    edited_answer: str = ""


def store_feedback(task: Task, words: Words, **values: Any) -> Feedback:
    """Write the feedback with its words on steps.

    Args:
        values: the feedback's other columns.
    Raises:
        BadInputError: every fault, by field; nothing is written then.
    """
    attempts = {attempt.index: attempt for attempt in task.attempts.only("index", "state").prefetch_related("steps")}
    if errors := find_faults(words, attempts):
        raise BadInputError("; ".join(f"{name}: {found[0]}" for name, found in errors.items()), errors=errors)
    feedback = Feedback.objects.create(
        project_id=task.project_id,
        task=task,
        score=words.score,
        text=words.text,
        preferred_attempt=None if words.preferred_attempt is None else attempts[words.preferred_attempt],
        edited_answer=words.edited_answer,
        **values,
    )
    StepFeedback.objects.bulk_create(
        StepFeedback(
            feedback=feedback,
            attempt=attempts[word.attempt_index],
            step=None if word.step_index is None else attempts[word.attempt_index].steps.all()[word.step_index],
            score=word.score,
            comment=word.comment,
        )
        for word in words.steps
    )
    return feedback


def find_faults(words: Words, attempts: Mapping[int, Attempt]) -> dict[str, list[str]]:
    """Field -> what is wrong with it; a word on a step is the field `steps.<place>`."""
    errors: dict[str, list[str]] = {}
    says_nothing = words.score is None and words.preferred_attempt is None and not words.steps
    if says_nothing and not words.text.strip() and not words.edited_answer.strip():
        errors["feedback"] = [
            "wanted a score, words, a word on a step, a preferred attempt or an edited answer, found none"
        ]
    _check_score(errors, "score", words.score)
    _check_text(errors, "text", words.text, MAX_TEXT_CHARS)
    _check_text(errors, "edited_answer", words.edited_answer, MAX_TEXT_CHARS)
    if words.preferred_attempt is not None:
        preferred = attempts.get(words.preferred_attempt)
        if preferred is None or preferred.state != Attempt.State.ANSWERED:
            wanted = _name_indices(
                index for index, attempt in attempts.items() if attempt.state == Attempt.State.ANSWERED
            )
            errors["preferred_attempt"] = [
                f"wanted an attempt with an answer ({wanted}), found {words.preferred_attempt!r}"
            ]
    seen: set[tuple[int, int | None]] = set()
    for place, word in enumerate(words.steps):
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
        if (word.attempt_index, word.step_index) in seen:
            errors[name] = [f"a second word on step {word.step_index} of attempt {word.attempt_index}"]
        if word.score is None and not word.comment.strip():
            errors.setdefault(name, ["wanted a score or a comment, found neither"])
        seen.add((word.attempt_index, word.step_index))
    return errors


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
