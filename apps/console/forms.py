"""What people fill in."""

from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from apps.accounts.hashing import HashingBusyError
from apps.accounts.models import Project
from apps.accounts.tries import TooManySignInsError, forgive_try
from apps.base.errors import TentalisError
from apps.console import services
from apps.tasks.models import Environment
from apps.workers.models import Worker

MAX_PROMPT = 100_000


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
        except TooManySignInsError as error:
            raise ValidationError(str(error), code=error.code) from None
        try:
            cleaned: dict[str, Any] = super().clean()
        except HashingBusyError as error:
            raise ValidationError(str(error), code=error.code) from None
        except ValidationError:
            if username and self.cleaned_data.get("password"):
                services.record_failed_sign_in(username=username, address=address)
            raise
        forgive_try(username=username, address=address)
        return cleaned


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
