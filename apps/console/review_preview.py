"""What a judgement would do, from what is typed and not sent."""

from dataclasses import dataclass

from django.core.cache import cache
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from apps.accounts.models import User
from apps.console.rendering import diff_words
from apps.console.review_forms import FeedbackForm
from apps.feedback.hints import NOTHING, Drawn, needs_model, preview_hint
from apps.feedback.judgement import JudgementInput
from apps.tasks.models import Task
from tentalis.core.canon import content_hash

ASKED_FOR_S = 120
KEPT_S = 3600


@dataclass(frozen=True)
class Preview:
    """What the agent will be taught, and how the edited answer differs from the one it stands for.

    Attributes:
        hint: the words of the hint; "" where nothing is taught, for `reason`.
        diff: the answer with what goes and what comes marked; "" where none is edited.
        base: name of the answer that was edited.
        must_ask: only a model can say, and it was not asked for these words.
    """

    hint: str
    source: str
    reason: str
    diff: SafeString
    base: str
    must_ask: bool = False


def preview_judgement(task: Task, form: FeedbackForm, *, by: User, may_ask: bool) -> Preview:
    """Read what can be read of a form that may be half filled.

    Args:
        may_ask: a model may be asked, at most one for a person at a time; what it said of the same words is kept.
    """
    form.is_valid()
    data = form.cleaned_data
    edited = str(data.get("edited_answer") or "")
    chosen = str(data.get("preferred_attempt") or "")
    shown = {str(one.attempt.index): one for one in form.shown}
    base = shown.get(chosen) or (form.shown[0] if form.shown else None)
    is_readable = form.fields.keys() <= data.keys()
    words = (
        JudgementInput(**form.said)
        if is_readable
        else JudgementInput(text=str(data.get("text") or ""), steps=form.comments, edited_answer=edited)
    )
    drawn = _draw(task, words, by=by, may_ask=may_ask)
    return Preview(
        hint=drawn.text if drawn else "",
        source=drawn.source if drawn else "",
        reason=drawn.reason if drawn else "",
        diff=diff_words(base.attempt.answer, edited) if edited and base else SafeString(""),
        base=base.name if base else "",
        must_ask=drawn is None,
    )


def _draw(task: Task, words: JudgementInput, *, by: User, may_ask: bool) -> Drawn | None:
    """The hint of these words; None where a model would have to be asked and may not be."""
    if not needs_model(task, words):
        return preview_hint(task, words)
    said = [task.pk, words.text, words.edited_answer, [[w.attempt_index, w.step_index, w.comment] for w in words.steps]]
    kept_as = f"hint-preview:{content_hash(said)}"
    asked_as = f"hint-preview-asked:{by.pk}"
    if kept := cache.get(kept_as):
        return Drawn(*kept)
    if not may_ask:
        return None
    if not cache.add(asked_as, 1, ASKED_FOR_S):
        return Drawn("", NOTHING, _("the model is still working on your previous request"))
    try:
        drawn = preview_hint(task, words)
    finally:
        cache.delete(asked_as)
    if drawn.source.startswith("model:"):
        cache.set(kept_as, [drawn.text, drawn.source, drawn.reason], KEPT_S)
    return drawn
