"""What a reviewer fills in. Every part is optional, and works by plain form fields where no script runs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from django import forms
from django.core.exceptions import ValidationError
from django.forms.boundfield import BoundField
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.base.web_json import read_web_json
from apps.console.selectors.review import Shown
from apps.feedback.judgement import MAX_ACTIVE_S, MAX_LABEL_CHARS, MAX_SPANS, JudgementFields, StepRating
from apps.scoring.models import StepScore
from apps.tasks.models import Attempt, Step
from tentalis.core.field_limits import MAX_APPEAL_CHARS, MAX_COMMENT_CHARS, MAX_JUDGEMENT_CHARS, MAX_REASON_CHARS
from tentalis.core.hints import MAX_HINT_CHARS

NO_PREFERENCE, TIE, NONE_GOOD = "", "tie", "none"
Scores = Mapping[tuple[int, int | None], Sequence[StepScore]]
NO_SCORES: Scores = MappingProxyType({})
MAX_SPANS_CHARS = 20_000
CONFIRM_ABOVE = 100
THEN = (
    ("later", gettext_lazy("Return it to the queue; I may get it again")),
    ("others", gettext_lazy("Leave it to other reviewers")),
    ("expert", gettext_lazy("Pass it to a manager: it needs an expert")),
    ("nobody", gettext_lazy("Close it without a judgement")),
)


class Radio(NamedTuple):
    """One of the buttons of which one is chosen."""

    name: str
    value: str
    id: str
    checked: str = ""
    """The attribute, where it is the chosen one."""


@dataclass(frozen=True)
class PlaceFields:
    """The fields of one place that is judged; `spans` and `wrong` only where that is a step."""

    score: BoundField
    comment: BoundField
    spans: BoundField | None = None
    wrong: Radio | None = None


@dataclass(frozen=True)
class StepPlace:
    """Where a manager judges one step, as plain values: a page shows hundreds.

    Attributes:
        name: how the names of its fields begin.
        label: what the page calls it.
        typed: what the fields hold, by their kind.
        wrong: the radio button that says "this is the first wrong step".
        scores: what the scorers said, where the reviewer may see it first.
        refused: its fields where they say what is wrong with them.
    """

    step: Step
    name: str
    label: str
    typed: Mapping[str, object]
    wrong: Radio
    scores: Sequence[StepScore] = ()
    refused: PlaceFields | None = None


@dataclass(frozen=True)
class AttemptFields:
    """Where a manager judges one attempt, which the page calls by `name`.

    Attributes:
        whole: where the attempt as a whole is judged; scores: what the scorers said of it.
        count: how many attempts read so; one judgement is of all of them.
        none_wrong: the radio button that takes a "first wrong step" back.
        prefer: the radio button that prefers this attempt.
    """

    attempt: Attempt
    name: str
    letter: str
    whole: PlaceFields
    scores: Sequence[StepScore]
    steps: Sequence[StepPlace]
    rank: BoundField | None
    none_wrong: Radio | None
    prefer: Any
    count: int = 1


class PlaceForm(forms.Form):
    """What can be said of one place, an attempt as a whole or one of its steps; only a step's text has marks."""

    score = forms.FloatField(
        required=False,
        min_value=0,
        max_value=1,
        widget=forms.NumberInput(attrs={"step": "0.05", "inputmode": "decimal", "data-score": ""}),
    )
    comment = forms.CharField(
        required=False,
        max_length=MAX_COMMENT_CHARS,
        widget=forms.Textarea(attrs={"rows": 1, "data-comment": ""}),
    )
    spans = forms.CharField(
        required=False, max_length=MAX_SPANS_CHARS, widget=forms.HiddenInput(attrs={"data-spans": ""})
    )


class FeedbackForm(forms.Form):
    """A manager's judgement of a task: as a whole, attempt by attempt, step by step.

    Args:
        shown: the attempts in the order in which the page shows them, and their names there.
        scores: what stands beside them; none in a blind review.
    """

    score = forms.FloatField(
        label=gettext_lazy("Overall score"),
        required=False,
        min_value=0,
        max_value=1,
        widget=forms.NumberInput(attrs={"step": "0.05", "inputmode": "decimal", "data-score": "whole"}),
        help_text=gettext_lazy("From 0 (useless) to 1 (right)."),
    )
    text = forms.CharField(
        label=gettext_lazy("What should the worker learn?"),
        required=False,
        max_length=MAX_JUDGEMENT_CHARS,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text=gettext_lazy("The rule behind your judgement teaches more than the verdict; praise teaches nothing."),
    )
    teaches = forms.BooleanField(
        label=gettext_lazy("Teach these words as they stand, also beside full marks"), required=False
    )
    preferred_attempt = forms.ChoiceField(label=gettext_lazy("Best answer"), required=False, widget=forms.RadioSelect)
    none_good = forms.BooleanField(
        label=gettext_lazy("Even the best is not good enough"), required=False, widget=forms.CheckboxInput
    )
    edited_answer = forms.CharField(
        label=gettext_lazy("The answer as it should have been"),
        required=False,
        max_length=MAX_JUDGEMENT_CHARS,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text=gettext_lazy("Trained on by imitation and preference runs; in other runs it is a hint at most."),
    )
    active_s = forms.FloatField(required=False, min_value=0, max_value=MAX_ACTIVE_S, widget=forms.HiddenInput)
    draft_version = forms.IntegerField(required=False, min_value=0, widget=forms.HiddenInput)

    def __init__(self, *args: Any, shown: Sequence[Shown], scores: Scores = NO_SCORES, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.shown = list(shown)
        self.scores = scores
        self.answered = [one for one in self.shown if one.attempt.state == Attempt.State.ANSWERED]
        choices = [(NO_PREFERENCE, _("No preference")), *((str(one.attempt.index), one.name) for one in self.answered)]
        if self.is_pairwise:
            choices += [(TIE, _("Both are equally good")), (NONE_GOOD, _("Both are bad"))]
        self.fields["preferred_attempt"].choices = choices  # type: ignore[attr-defined]
        for one in self.shown:
            self._add_attempt(one)

    @property
    def is_pairwise(self) -> bool:
        """Two different answers: one is better, both are equal, or both are bad."""
        return len(self.answered) == 2

    def _add_attempt(self, one: Shown) -> None:
        name = f"a{one.attempt.index}"
        steps = one.steps
        if len(self.answered) > 2 and one in self.answered:
            self.fields[f"{name}-rank"] = forms.IntegerField(
                label=_("Rank of %(name)s") % {"name": one.name},
                required=False,
                min_value=1,
                max_value=len(self.answered),
                widget=forms.NumberInput(attrs={"inputmode": "numeric", "data-rank": ""}),
            )
        if steps:
            wrong = [(NO_PREFERENCE, _("No wrong step")), *((str(step.index), str(step.index + 1)) for step in steps)]
            self.fields[f"{name}-wrong"] = forms.ChoiceField(choices=wrong, required=False, widget=forms.RadioSelect)
        for step in (None, *steps):
            place, label = place_name(one.attempt, step), _label_place(one, step)
            for kind, said in PlaceForm.base_fields.items():
                if step is not None or kind != "spans":
                    field = copy(said)  # to make it anew takes ten times as long
                    field.label = label
                    self.fields[f"{place}-{kind}"] = field

    def attempt_fields(self) -> Iterator[AttemptFields]:
        """The form's places in the order in which the page shows the attempts."""
        prefer = {radio.data["value"]: radio for radio in self["preferred_attempt"]}
        for one in self.shown:
            name = f"a{one.attempt.index}"
            wrong = self._find_wrong(one)
            yield AttemptFields(
                attempt=one.attempt,
                name=one.name,
                letter=one.letter,
                whole=PlaceFields(self[f"{name}-score"], self[f"{name}-comment"]),
                scores=self.scores.get((one.attempt.pk, None), ()),
                steps=[self._place_of(one, step, radio) for step, radio in zip(one.steps, wrong[1:], strict=True)],
                rank=self[f"{name}-rank"] if f"{name}-rank" in self.fields else None,
                none_wrong=wrong[0] if one.steps else None,
                prefer=prefer.get(str(one.attempt.index)),
                count=one.count,
            )

    def other_choices(self) -> list[Any]:
        """The preferences that are no attempt: none, a tie, both bad."""
        return [radio for radio in self["preferred_attempt"] if not radio.data["value"].isdigit()]

    def _find_wrong(self, one: Shown) -> list[Radio]:
        """The buttons that say which step is the first wrong one: none, then each of the steps."""
        name = f"a{one.attempt.index}-wrong"
        typed = self._typed(name)
        chosen = NO_PREFERENCE if typed is None else str(typed)
        values = [NO_PREFERENCE, *(str(step.index) for step in one.steps)]
        return [
            Radio(name, value, f"id_{name}_{place}", "checked" if value == chosen else "")
            for place, value in enumerate(values)
        ]

    def _place_of(self, one: Shown, step: Step, wrong: Radio) -> StepPlace:
        name = place_name(one.attempt, step)
        names = {kind: f"{name}-{kind}" for kind in PlaceForm.base_fields}
        is_refused = not self.errors.keys().isdisjoint(names.values())
        return StepPlace(
            step=step,
            name=name,
            label=_label_place(one, step),
            typed={kind: self._typed(each) for kind, each in names.items()},
            wrong=wrong,
            scores=self.scores.get((one.attempt.pk, step.pk), ()),
            refused=PlaceFields(**{kind: self[each] for kind, each in names.items()}, wrong=wrong)
            if is_refused
            else None,
        )

    def _typed(self, name: str) -> object:
        return self.data.get(name) if self.is_bound else self.initial.get(name)

    @property
    def words(self) -> list[StepRating]:
        """What was said of steps and attempts; empty places say nothing.

        A first wrong step is a word on every step up to it: those before it are right, it is wrong. A number somebody
        gave stands.
        """
        found = []
        for one in self.shown:
            first_wrong = self._first_wrong(one.attempt)
            for step in (None, *one.steps):
                name = place_name(one.attempt, step)
                score, comment = self.cleaned_data[f"{name}-score"], self.cleaned_data[f"{name}-comment"]
                spans = self.cleaned_data[f"{name}-spans"] if step is not None else []
                if score is None and step is not None and first_wrong is not None and step.index <= first_wrong:
                    score = 0.0 if step.index == first_wrong else 1.0
                if score is not None or comment or spans:
                    found.append(
                        StepRating(
                            attempt_index=one.attempt.index,
                            step_index=None if step is None else step.index,
                            score=score,
                            comment=comment,
                            spans=spans,
                        )
                    )
        return found

    @property
    def comments(self) -> list[StepRating]:
        """The comments of a form that may be half filled."""
        return [
            StepRating(
                attempt_index=one.attempt.index, step_index=None if step is None else step.index, comment=comment
            )
            for one in self.shown
            for step in (None, *one.steps)
            if (comment := self.cleaned_data.get(f"{place_name(one.attempt, step)}-comment"))
        ]

    def _first_wrong(self, attempt: Attempt) -> int | None:
        chosen = self.cleaned_data.get(f"a{attempt.index}-wrong") or ""
        return int(chosen) if chosen else None

    @property
    def preferred(self) -> int | None:
        """Index of the best attempt; of a ranking, whatever alone stands first."""
        chosen = self.cleaned_data["preferred_attempt"]
        if chosen.isdigit():
            return int(chosen)
        ranking = self.ranking
        return ranking[0][0] if ranking and len(ranking[0]) == 1 else None

    @property
    def ranking(self) -> list[list[int]]:
        """Attempt indices from best to worst, equals together; those without a rank behind all that have one."""
        if self.is_pairwise:
            first, second = self.answered
            chosen = self.cleaned_data["preferred_attempt"]
            if chosen == TIE:
                return [[*first.indices, *second.indices]]
            pair = (first, second) if chosen == str(first.attempt.index) else (second, first)
            return [one.indices for one in pair] if chosen.isdigit() else []
        ranks = [(self.cleaned_data.get(f"a{one.attempt.index}-rank"), one.indices) for one in self.answered]
        if all(rank is None for rank, _indices in ranks):
            return []
        places: dict[int, list[int]] = {}
        for rank, indices in ranks:
            places.setdefault(len(ranks) + 1 if rank is None else rank, []).extend(indices)
        return [sorted(places[rank]) for rank in sorted(places)]

    @property
    def says_none_good(self) -> bool:
        return bool(self.cleaned_data["none_good"]) or self.cleaned_data["preferred_attempt"] == NONE_GOOD

    @property
    def hint_text(self) -> str:
        """The words as the hint itself, where their writer says so."""
        return str(self.cleaned_data.get("text") or "") if self.cleaned_data.get("teaches") else ""

    @property
    def said(self) -> JudgementFields:
        """The judgement as the services take it."""
        return {
            "score": self.cleaned_data["score"],
            "text": self.cleaned_data["text"],
            "hint_text": self.hint_text,
            "steps": self.words,
            "preferred_attempt": self.preferred,
            "edited_answer": self.cleaned_data["edited_answer"],
            "ranking": self.ranking,
            "none_good": self.says_none_good,
            "shown_order": [index for one in self.shown for index in one.indices],
            "active_s": self.cleaned_data["active_s"],
        }

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        for one in self.shown:
            for step in one.steps:
                name = f"{place_name(one.attempt, step)}-spans"
                data[name] = self._clean_spans(name, step)
        if data.get("teaches") and not 0 < len(str(data.get("text") or "").strip()) <= MAX_HINT_CHARS:
            wanted = _("Write what should be learned in at most %(most)s characters.") % {"most": MAX_HINT_CHARS}
            self.add_error("text", wanted)
        apart = {"active_s", "draft_version", "teaches"}
        if not self.errors and not any(_is_said(value) for name, value in data.items() if name not in apart):
            raise ValidationError(_("Enter a score, a comment, a best answer or a corrected answer."))
        return data

    def _clean_spans(self, name: str, step: Step) -> list[list[Any]]:
        """[[start, end, label]] within the step's text; what a script of ours would not have written is refused."""
        text = self.cleaned_data.get(name) or ""
        if not text:
            return []
        try:
            spans = read_web_json(text)
            wanted = isinstance(spans, list) and len(spans) <= MAX_SPANS and all(_is_span(one, step) for one in spans)
        except ValueError:
            wanted = False
        if not wanted:
            self.add_error(name, _("These marks are outside the step's text; mark it again."))
            return []
        return sorted(spans)


class SkipForm(forms.Form):
    """Why a review is passed over, and what becomes of it."""

    reason = forms.CharField(
        label=gettext_lazy("Why skip it?"),
        max_length=MAX_REASON_CHARS,
        widget=forms.TextInput(attrs={"autofocus": True}),
    )
    then = forms.ChoiceField(
        label=gettext_lazy("And then?"), choices=THEN, initial="later", widget=forms.RadioSelect, required=False
    )

    def clean_then(self) -> str:
        return self.cleaned_data["then"] or "nobody"


class AppealForm(forms.Form):
    """Why a judgement is wrong."""

    reason = forms.CharField(
        label=gettext_lazy("Why is this judgement wrong?"),
        max_length=MAX_APPEAL_CHARS,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy("Another reviewer judges the task again without seeing this judgement."),
    )


class BulkForm(forms.Form):
    """What is said of every review that a rule chose.

    Args:
        count: how many the rule chooses now; above `CONFIRM_ABOVE` the person types it.
    """

    SCORE_HELP = gettext_lazy("1 accepts the work as it is, 0 rejects it.")

    score = forms.FloatField(
        label=gettext_lazy("Score for each"),
        min_value=0,
        max_value=1,
        initial=1,
        widget=forms.NumberInput(attrs={"step": "0.05", "inputmode": "decimal"}),
        help_text=SCORE_HELP,
    )
    text = forms.CharField(
        label=gettext_lazy("Comment for each"),
        required=False,
        max_length=MAX_JUDGEMENT_CHARS,
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    expected = forms.IntegerField(widget=forms.HiddenInput)
    typed = forms.CharField(label=gettext_lazy("Type the number of reviews to confirm"), required=False, max_length=12)

    def __init__(self, data: Mapping[str, Any] | None = None, *, count: int) -> None:
        super().__init__(data, initial={"expected": count})
        self.count = count
        if count <= CONFIRM_ABOVE:
            del self.fields["typed"]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        expected = data.get("expected")
        if self.count == 0:
            raise ValidationError(_("No review matches the filter."))
        if expected is not None and expected != self.count:
            raise ValidationError(
                _("The queue has changed: %(now)s reviews match now, %(before)s did. Look again.")
                % {"now": self.count, "before": expected}
            )
        if "typed" in self.fields and data.get("typed", "").replace(",", "").strip() != str(self.count):
            self.add_error("typed", _("Type %(count)s to confirm.") % {"count": self.count})
        return data


class ActionForm(forms.Form):
    """How the same is done to many rows.

    Args:
        count: how many there are; above `CONFIRM_ABOVE` the person types it.
        people: names a review can be given to.
    """

    to = forms.ChoiceField(label=gettext_lazy("Give them to"), required=False)
    reason = forms.CharField(label=gettext_lazy("Reason"), max_length=MAX_REASON_CHARS)
    score = forms.FloatField(
        label=gettext_lazy("Score for each"), min_value=0, max_value=1, initial=1, help_text=BulkForm.SCORE_HELP
    )
    text = forms.CharField(
        label=gettext_lazy("Comment for each"),
        required=False,
        max_length=MAX_JUDGEMENT_CHARS,
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    typed = forms.CharField(label=gettext_lazy("Type the number to confirm"), required=False, max_length=12)
    FIELDS: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "assign": ("to",),
        "close": ("reason",),
        "judge": ("score", "text"),
    }

    def __init__(
        self, data: Mapping[str, Any] | None = None, *, action: str, count: int, people: Sequence[str] = ()
    ) -> None:
        super().__init__(data)
        self.count = count
        shown = (*self.FIELDS.get(action, ()), *(("typed",) if count > CONFIRM_ABOVE else ()))
        for name in set(self.fields) - set(shown):
            del self.fields[name]
        if "to" in self.fields:
            self.fields["to"].choices = [("", _("Anyone")), *((name, name) for name in people)]  # type: ignore[attr-defined]

    @property
    def words(self) -> dict[str, Any]:
        """What is said of each."""
        return {name: value for name, value in self.cleaned_data.items() if name != "typed" and value not in (None, "")}

    def clean_typed(self) -> str:
        typed: str = self.cleaned_data["typed"]
        if typed.replace(",", "").strip() != str(self.count):
            raise ValidationError(_("Type %(count)s to confirm.") % {"count": self.count})
        return typed


def read_draft(data: Mapping[str, Any]) -> dict[str, Any]:
    """The form's fields out of a draft; that of a judgement given elsewhere and undone is in the API's terms."""
    words = data.get("words")
    if not isinstance(words, dict):
        return dict(data)
    fields = {name: words[name] for name in ("score", "text", "edited_answer", "none_good") if name in words}
    if "hint_text" in words:  # said beside the words elsewhere; here there is one box for both
        fields["text"] = "\n".join(dict.fromkeys(filter(None, (fields.get("text", ""), words["hint_text"]))))
        fields["teaches"] = True
    if "preferred_attempt" in words:
        fields["preferred_attempt"] = str(words["preferred_attempt"])
    for rank, group in enumerate(words.get("ranking", ()), start=1):
        fields |= {f"a{index}-rank": rank for index in group}
    for word in words.get("steps", ()):
        place = f"a{word['attempt']}" + ("" if word["index"] is None else f"-s{word['index']}")
        fields |= {f"{place}-score": word["score"], f"{place}-comment": word["comment"]}
        if word["spans"]:
            fields[f"{place}-spans"] = json.dumps(word["spans"])
    return fields


def place_name(attempt: Attempt, step: Step | None) -> str:
    """How the fields about a step, or about an attempt as a whole, begin."""
    return f"a{attempt.index}" if step is None else f"a{attempt.index}-s{step.index}"


def _label_place(one: Shown, step: Step | None) -> str:
    return one.name if step is None else f"{one.name}, {_('step')} {step.index + 1}"


def _is_said(value: object) -> bool:
    """Whether a field says anything; the number 0 does."""
    return value is not None and value is not False and value not in ("", [])


def _is_span(span: object, step: Step) -> bool:
    if not isinstance(span, list) or len(span) != 3:
        return False
    start, end, label = span
    whole = all(isinstance(place, int) and not isinstance(place, bool) for place in (start, end))
    return whole and 0 <= start < end <= len(step.text) and isinstance(label, str) and len(label) <= MAX_LABEL_CHARS
