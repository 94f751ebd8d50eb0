"""What people fill in."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError
from django.forms.boundfield import BoundField
from django.http import HttpRequest

from apps.accounts.models import Project
from apps.base.errors import TentalisError
from apps.console import services
from apps.feedback.services import StepWord
from apps.feedback.words import MAX_COMMENT_CHARS, MAX_TEXT_CHARS
from apps.tasks.models import Attempt, Environment, Step
from apps.workers.models import Worker

MAX_PROMPT = 100_000
NO_PREFERENCE = ""


def show_error(form: forms.Form, error: TentalisError) -> None:
    """Put an error beside the field it names, else above the form."""
    placed = False
    for name, messages in error.errors.items():
        if name in form.fields:
            placed = True
            for message in messages:
                form.add_error(name, message)
    if not placed:
        form.add_error(None, str(error))


class SignInForm(AuthenticationForm):
    """Django's own, with the throttle before it and the audit behind it."""

    def clean(self) -> dict[str, Any]:
        username = self.cleaned_data.get("username") or ""
        address = find_address(self.request)
        try:
            services.require_sign_in_allowed(username=username, address=address)
        except services.TooManySignInsError as error:
            raise ValidationError(str(error), code=error.code) from None
        try:
            return super().clean()
        except ValidationError:
            if username and self.cleaned_data.get("password"):
                services.record_failed_sign_in(username=username, address=address)
            raise


def find_address(request: HttpRequest | None) -> str:
    return str(request.META.get("REMOTE_ADDR", "")) if request is not None else ""


class TaskForm(forms.Form):
    """A new task."""

    worker = forms.ModelChoiceField(Worker.objects.none(), empty_label=None)
    environment = forms.ChoiceField(choices=Environment.choices, help_text="The world the task is worked in.")
    prompt = forms.CharField(
        max_length=MAX_PROMPT,
        widget=forms.Textarea(attrs={"rows": 8}),
        help_text="What the worker is asked, word for word.",
    )
    group_size = forms.IntegerField(
        label="Attempts",
        min_value=1,
        max_value=64,
        required=False,
        help_text="How often it is tried; attempts are compared with each other. Empty: the project's usual number.",
    )
    reference = forms.CharField(
        label="What a right answer holds",
        required=False,
        max_length=MAX_PROMPT,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="Only where it is known.",
    )

    def __init__(self, *args: Any, project: Project, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        workers = Worker.objects.filter(project=project, is_active=True)
        self.fields["worker"].queryset = workers  # type: ignore[attr-defined]
        self.fields["group_size"].widget.attrs["placeholder"] = project.group_size
        kinds = {kind for (kind,) in workers.values_list("kind")}
        if kinds == {Worker.Kind.DESK}:
            self.fields["environment"].initial = Environment.DESK


@dataclass(frozen=True)
class StepFields:
    """Where a manager judges one step; `step` None: the attempt as a whole."""

    step: Step | None
    score: BoundField
    comment: BoundField


@dataclass(frozen=True)
class AttemptFields:
    """Where a manager judges one attempt."""

    attempt: Attempt
    whole: StepFields
    steps: Sequence[StepFields]

    @property
    def is_filled(self) -> bool:
        """Whether something is written here, so that it must not be folded away."""
        places = (self.whole, *self.steps)
        return any(place.score.value() or place.comment.value() or place.score.errors for place in places)


class FeedbackForm(forms.Form):
    """A manager's judgement of a task: as a whole, attempt by attempt, step by step. Every part is optional."""

    score = forms.FloatField(
        label="Overall score",
        required=False,
        min_value=0,
        max_value=1,
        widget=forms.NumberInput(attrs={"step": "0.05", "inputmode": "decimal"}),
        help_text="From 0, useless, to 1, just right.",
    )
    text = forms.CharField(
        label="What should the worker learn?",
        required=False,
        max_length=MAX_TEXT_CHARS,
        widget=forms.Textarea(attrs={"rows": 5}),
        help_text="The rule behind your judgement teaches more than the verdict.",
    )
    preferred_attempt = forms.ChoiceField(label="Best attempt", required=False, widget=forms.RadioSelect)
    edited_answer = forms.CharField(
        label="The answer as it should have been",
        required=False,
        max_length=MAX_TEXT_CHARS,
        widget=forms.Textarea(attrs={"rows": 4}),
    )

    def __init__(self, *args: Any, attempts: Iterable[Attempt], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.attempts = list(attempts)
        preferred = [(str(attempt.index), f"Attempt {attempt.index + 1}") for attempt in self.attempts]
        self.fields["preferred_attempt"].choices = [  # type: ignore[attr-defined]
            (NO_PREFERENCE, "No preference"),
            *preferred,
        ]
        for attempt in self.attempts:
            for step in (None, *attempt.steps.all()):
                self._add_place(attempt, step)

    def _add_place(self, attempt: Attempt, step: Step | None) -> None:
        where = f"attempt {attempt.index + 1}" + ("" if step is None else f", step {step.index + 1}")
        name = _place_name(attempt, step)
        self.fields[f"{name}-score"] = forms.FloatField(
            label=where,
            required=False,
            min_value=0,
            max_value=1,
            widget=forms.NumberInput(attrs={"step": "0.05", "inputmode": "decimal"}),
        )
        self.fields[f"{name}-comment"] = forms.CharField(
            label=where, required=False, max_length=MAX_COMMENT_CHARS, widget=forms.TextInput
        )

    def attempt_fields(self) -> Iterator[AttemptFields]:
        """The form's places in the order in which the page shows the attempts."""
        for attempt in self.attempts:
            places = [self._fields_of(attempt, step) for step in (None, *attempt.steps.all())]
            yield AttemptFields(attempt, places[0], places[1:])

    def _fields_of(self, attempt: Attempt, step: Step | None) -> StepFields:
        name = _place_name(attempt, step)
        return StepFields(step, self[f"{name}-score"], self[f"{name}-comment"])

    @property
    def words(self) -> list[StepWord]:
        """What was said of steps and attempts; empty places say nothing."""
        found = []
        for attempt in self.attempts:
            for step in (None, *attempt.steps.all()):
                name = _place_name(attempt, step)
                score, comment = self.cleaned_data[f"{name}-score"], self.cleaned_data[f"{name}-comment"]
                if score is not None or comment:
                    place = None if step is None else step.index
                    found.append(StepWord(attempt_index=attempt.index, step_index=place, score=score, comment=comment))
        return found

    @property
    def preferred(self) -> int | None:
        chosen = self.cleaned_data["preferred_attempt"]
        return int(chosen) if chosen else None

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if not self.errors and not any(value not in (None, "") for value in data.values()):
            raise ValidationError("Say something: a score, a sentence, a preferred attempt or a better answer.")
        return data


class SkipForm(forms.Form):
    """Why a review is passed over."""

    reason = forms.CharField(label="Why skip it?", max_length=300)


def _place_name(attempt: Attempt, step: Step | None) -> str:
    return f"a{attempt.index}" if step is None else f"a{attempt.index}-s{step.index}"
