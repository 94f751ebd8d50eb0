"""What people fill in."""

from dataclasses import dataclass
from random import Random
from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest
from django.utils.translation import gettext as now_in_words
from django.utils.translation import gettext_lazy as _

from apps.accounts.hashing import HashingBusyError
from apps.accounts.models import Project
from apps.accounts.tries import TooManySignInsError, forgive_try
from apps.base.errors import BadInputError, TentalisError
from apps.base.packed_rows import unpack_rows
from apps.base.unpacking import is_packed
from apps.checks.models import NamedCheck
from apps.console import services
from apps.evals.panels import find_generator
from apps.tasks.references import read_reference, try_reference
from apps.workers.models import Worker
from apps.worlds.registry import WORLDS, name_choices
from tentalis.core.field_limits import MAX_GROUP, MAX_PROMPT_CHARS
from tentalis.core.judged_files import KINDS, TASKS
from tentalis.core.task_files import guess_form
from tentalis.core.worlds import World
from tentalis.limits import LIMITS

MATCHES = (
    ("", _("has this number last, or holds this text (automatic)")),
    ("number", _("has this number as its last one")),
    ("contains", _("holds this text somewhere")),
    ("exact", _("is this text and nothing else, blanks and case aside")),
)
"""How a reference matches. A JSON object such as {"match": "contains", "value": "7"} says it itself."""


@dataclass(frozen=True)
class TriedReference:
    """What a reference says of an example answer: right or wrong, matched how; or why it cannot be tried."""

    is_right: bool
    match: str
    fault: str = ""


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


class PlacedForm(forms.Form):
    """Who does the work of tasks, where, and how often."""

    worker = forms.ModelChoiceField(Worker.objects.none(), empty_label=None)
    environment = forms.ChoiceField(help_text=_("Where the tasks are done."))
    group_size = forms.IntegerField(
        label=_("Attempts"),
        min_value=1,
        max_value=MAX_GROUP,
        required=False,
        help_text=_(
            "How often each is tried; attempts are compared with each other. Empty: the project's usual number."
        ),
    )

    def __init__(self, *args: Any, project: Project, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        workers = Worker.objects.filter(project=project, is_active=True)
        self.fields["worker"].queryset = workers  # type: ignore[attr-defined]
        self.fields["environment"].choices = name_choices()  # type: ignore[attr-defined]
        self.fields["group_size"].widget.attrs["placeholder"] = project.group_size
        self.own_worlds = [world.name if (world := find_generator(worker)) else "" for worker in workers]
        """Names of the worlds that the workers are made for, in their order; "" where they do any work."""
        if self.own_worlds and self.own_worlds[0]:
            self.fields["environment"].initial = self.own_worlds[0]


OFFERED_CHECKS = 200


class CheckField(forms.ChoiceField):
    """One of a project's checks, or none; its cleaned value is the check that uses it, or None."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(label=_("Check"), required=False, choices=[("", _("none"))], **kwargs)

    def offer(self, project: Project) -> None:
        kept = NamedCheck.objects.filter(project=project)[:OFFERED_CHECKS]
        self.choices = [("", _("none")), *((str(one), str(one)) for one in kept)]

    def clean(self, value: Any) -> Any:
        name = super().clean(value)
        return {"use": name} if name else None


class TextFileField(forms.FileField):
    """A file of text in UTF-8; its cleaned value is (its name, its text), None where none was chosen."""

    def __init__(self, *, most_bytes: int, endings: str, **kwargs: Any) -> None:
        super().__init__(required=False, widget=forms.FileInput(attrs={"accept": endings}), **kwargs)
        self.most_bytes = most_bytes

    def clean(self, data: Any, initial: Any = None) -> Any:
        found: UploadedFile[bytes] | None = super().clean(data, initial)
        if found is None:
            return None
        if (found.size or 0) > self.most_bytes:
            wanted = now_in_words("Wanted a file of at most %(most)s bytes, found %(size)s.")
            raise ValidationError(wanted % {"most": f"{self.most_bytes:,}", "size": f"{found.size:,}"})
        return self.read(found.name or "", found.read())

    def read(self, name: str, data: bytes) -> tuple[str, str]:
        """Its name and its text. Raises ValidationError where it is none."""
        try:
            return name, data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            wanted = now_in_words("Wanted text in UTF-8, found a byte that is none at place %(place)s.")
            raise ValidationError(wanted % {"place": f"{error.start:,}"}) from None


class RowsFileField(TextFileField):
    """A file of rows: text in UTF-8, or packed: Parquet, an archive of an export. Its cleaned value is as a text's."""

    def read(self, name: str, data: bytes) -> tuple[str, str]:
        if not is_packed(data):
            return super().read(name, data)
        try:
            return unpack_rows(data)
        except BadInputError as error:
            raise ValidationError(str(error).removeprefix("file: ")) from None


class TaskFileForm(PlacedForm):
    """Many new tasks, or finished work, out of a file or pasted. Its cleaned `said` is what was given, and as what."""

    MOST_SHOWN = 200_000

    file = RowsFileField(
        label=_("A file"),
        most_bytes=LIMITS.import_chars,
        endings=".csv,.jsonl,.ndjson,.txt,.parquet,.zip,text/csv,text/plain",
        help_text=_(
            "CSV, JSON lines, Parquet, an exported archive, or a text with one prompt a line. It takes the place of "
            "the text."
        ),
    )
    text = forms.CharField(
        label=_("Or the text itself"),
        required=False,
        max_length=LIMITS.import_chars,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 10, "spellcheck": "false"}),
    )
    form = forms.ChoiceField(
        label=_("Format"),
        required=False,
        choices=[
            ("", _("detected")),
            ("lines", _("one prompt a line")),
            ("csv", _("CSV with a header")),
            ("jsonl", _("JSON lines")),
        ],
    )

    rows = forms.ChoiceField(
        label=_("What it holds"),
        required=False,
        choices=[
            ("", _("as it looks")),
            (TASKS, _("tasks to be done")),
            *zip(
                KINDS,
                (
                    _("preference pairs (DPO)"),
                    _("answers to imitate (SFT)"),
                    _("answers, good or bad (KTO)"),
                    _("steps, right or wrong (PRM)"),
                ),
                strict=True,
            ),
        ],
    )

    checks = CheckField(
        help_text=_("Of tasks whose row brings none. What stands in braces, {order} say, is a column of the file.")
    )

    field_order = ("worker", "environment", "file", "text", "form", "rows", "checks", "group_size")

    def __init__(self, *args: Any, project: Project, **kwargs: Any) -> None:
        super().__init__(*args, project=project, **kwargs)
        self.fields["checks"].offer(project)  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        name, text = data.get("file") or ("", data.get("text") or "")
        if not self.errors and not text.strip():
            raise ValidationError(_("Choose a file, or paste the tasks."))
        data["said"] = {
            "text": text,
            "form": data.get("form") or guess_form(name, text),
            "rows": data.get("rows") or "",
            "checks": data.get("checks"),
        }
        data["said"]["name"] = getattr(self.files.get("file"), "name", "")
        return data

    def keep_file(self) -> bool:
        """Show a file's text in the form, for a browser chooses no file again; False where it is too long for that."""
        said = self.cleaned_data["said"]
        if len(said["text"]) > self.MOST_SHOWN:
            return not said["name"]
        self.data = {**self.data, "text": said["text"], "form": said["form"]}
        return True


class TaskForm(PlacedForm):
    """A new task."""

    prompt = forms.CharField(
        max_length=MAX_PROMPT_CHARS,
        widget=forms.Textarea(attrs={"rows": 8}),
        help_text="What the worker is asked, word for word.",
    )
    reference = forms.CharField(
        label=_("The right answer"),
        required=False,
        max_length=MAX_PROMPT_CHARS,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=_("Only where it is known: attempts are then checked against it, and the check becomes the reward."),
    )
    reference_match = forms.ChoiceField(label=_("An attempt is right if its answer"), choices=MATCHES, required=False)
    checks = CheckField(help_text=_("It holds beside the right answer. None: what the environment checks by default."))
    example = forms.CharField(
        label=_("Try it on an example answer"),
        required=False,
        max_length=MAX_PROMPT_CHARS,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=_("Shows at once whether this answer would count as right. It is not kept."),
    )

    field_order = ("worker", "environment", "prompt", "group_size", "reference", "reference_match", "checks", "example")

    def __init__(self, *args: Any, project: Project, **kwargs: Any) -> None:
        super().__init__(*args, project=project, **kwargs)
        self.fields["checks"].offer(project)  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        data["reference"] = read_reference(str(data.get("reference") or ""), str(data.get("reference_match") or ""))
        return data

    @property
    def worlds(self) -> list[tuple[str, World]]:
        """(label, world) of what the project's workers are made for, and of what is chosen."""
        chosen = {*self.own_worlds, str(self["environment"].value() or "")}
        return [(world.label, world) for world in WORLDS.values() if world.name in chosen]

    @property
    def drawable(self) -> list[World]:
        """Those that make tasks up."""
        return [world for _, world in self.worlds if world.draw_prompt(Random(0)) is not None]

    def try_example(self) -> TriedReference | None:
        """What the reference says of the example, out of a form that may be half filled; None while one is missing."""
        self.is_valid()
        said = self.cleaned_data
        reference, example = said.get("reference"), str(said.get("example") or "").strip()
        if reference is None or not example:
            return None
        try:
            tried = try_reference(
                environment=str(said.get("environment") or ""),
                prompt=str(said.get("prompt") or ""),
                reference=reference,
                answer=example,
            )
        except (TentalisError, ValueError) as error:
            return TriedReference(is_right=False, match="", fault=str(error))
        if tried["result"] == "unscored":
            return TriedReference(is_right=False, match="", fault=tried["words"])
        how = dict(MATCHES).get(tried["check"], _("passes the check"))
        return TriedReference(is_right=tried["result"] == "passed", match=str(how))
