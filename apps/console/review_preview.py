"""What a judgement would do, from what is typed and not sent."""

from dataclasses import dataclass

from django.utils.safestring import SafeString

from apps.console.rendering import diff_words
from apps.console.review_forms import FeedbackForm
from apps.feedback.services import Words, preview_hint
from apps.tasks.models import Task


@dataclass(frozen=True)
class Preview:
    """What the agent will be taught, and how the edited answer differs from the one it stands for.

    Attributes:
        hint: the words of the hint; "" where nothing is taught, for `reason`.
        diff: the answer with what goes and what comes marked; "" where none is edited.
        base: name of the answer that was edited.
    """

    hint: str
    source: str
    reason: str
    diff: SafeString
    base: str


def preview_judgement(task: Task, form: FeedbackForm) -> Preview:
    """Read what can be read of a form that may be half filled; asks no model."""
    form.is_valid()
    data = form.cleaned_data
    edited = str(data.get("edited_answer") or "")
    chosen = str(data.get("preferred_attempt") or "")
    shown = {str(one.attempt.index): one for one in form.shown}
    base = shown.get(chosen) or (form.shown[0] if form.shown else None)
    words = Words(
        text=str(data.get("text") or ""),
        steps=form.comments,
        edited_answer=edited,
        hint_text=str(data.get("hint_text") or ""),
    )
    drawn = preview_hint(task, words)
    return Preview(
        hint=drawn.text,
        source=drawn.source,
        reason=drawn.reason,
        diff=diff_words(base.attempt.answer, edited) if edited and base else SafeString(""),
        base=base.name if base else "",
    )
