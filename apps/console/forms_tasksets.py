"""Tasksets: made, filled, split, and taken from a task with its correction."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Project
from apps.console.forms import MATCHES, CheckField, RowsFileField
from apps.evals.models import Item
from apps.evals.services import ItemRow, draw_rows
from apps.rollouts.items import read_item_rows
from apps.tasks.references import read_reference
from apps.worlds.registry import name_choices
from tentalis.core.field_limits import MAX_ABOUT_CHARS, MAX_PROMPT_CHARS
from tentalis.core.task_files import guess_form
from tentalis.limits import LIMITS

MAX_DRAWN_AT_ONCE = 1_000
SPLITS = (
    (Item.Split.HELD_OUT, _("Held out: workers are measured on it and never learn from it")),
    (Item.Split.SKILLS, _("Skills: held out, and none of it may be lost")),
    (Item.Split.TRAIN, _("Train: may be learnt from")),
)


class TasksetForm(forms.Form):
    """A new, empty taskset."""

    name = forms.CharField(
        label=_("Name"), max_length=100, help_text=_("Lower-case letters, digits and inner hyphens; it stays.")
    )
    environment = forms.ChoiceField(label=_("Environment"), choices=name_choices)
    about = forms.CharField(
        label=_("About"), required=False, max_length=MAX_ABOUT_CHARS, widget=forms.Textarea(attrs={"rows": 2})
    )


class ItemsForm(forms.Form):
    """Items from a file, a text, or the environment's own. Its cleaned `rows` are they."""

    split = forms.ChoiceField(label=_("Split"), choices=SPLITS, help_text=_("Of items whose row names none."))
    checks = CheckField(
        help_text=_("Of items whose row brings none. What stands in braces, {order} say, is a column of the file.")
    )
    file = RowsFileField(
        label=_("A file"),
        most_bytes=LIMITS.import_chars,
        endings=".csv,.jsonl,.ndjson,.txt,.parquet,.zip,text/csv,text/plain",
        help_text=_(
            "CSV, JSON lines, Parquet, or a text with one prompt a line. A row has a prompt, and maybe reference, "
            "seed, split, weight, checks and messages. All rows are taken, or none: a fault names its line."
        ),
    )
    text = forms.CharField(
        label=_("Or the text itself"),
        required=False,
        max_length=LIMITS.import_chars,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 6, "spellcheck": "false"}),
    )
    count = forms.IntegerField(
        label=_("Or tasks that the environment makes up"),
        required=False,
        min_value=1,
        max_value=MAX_DRAWN_AT_ONCE,
        help_text=_("So many. The same seed makes up the same."),
    )
    seed = forms.IntegerField(label=_("Seed"), required=False, min_value=0, max_value=2**31 - 1)

    def __init__(self, *told: Any, project: Project, **options: Any) -> None:
        super().__init__(*told, **options)
        self.fields["checks"].offer(project)  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        name, text = data.get("file") or ("", data.get("text") or "")
        if not self.errors and bool(text.strip()) == bool(data.get("count")):
            raise ValidationError(_("Choose a file, paste a text, or say how many tasks are made up: one of these."))
        data["said"] = (getattr(self.files.get("file"), "name", "") or name, text)
        return data

    def read_rows(self, environment: str) -> list[ItemRow]:
        """Raises BadInputError naming each line that is not what is wanted."""
        data = self.cleaned_data
        if data.get("count"):
            return draw_rows(environment, count=data["count"], seed=data.get("seed") or 0, split=data["split"])
        name, text = data["said"]
        form, checks = guess_form(name, text), data.get("checks")
        return read_item_rows(text, form=form, split=data["split"], name=name, checks=checks)


class SplitForm(forms.Form):
    """Which share of the items goes on which side."""

    held_out = forms.IntegerField(label=_("Held out, in percent"), min_value=0, max_value=100, initial=20)
    skills = forms.IntegerField(label=_("Skills, in percent"), min_value=0, max_value=100, initial=0)
    seed = forms.IntegerField(
        label=_("Seed"), min_value=0, max_value=2**31 - 1, initial=0, help_text=_("The same seed gives the same sides.")
    )

    @property
    def shares(self) -> dict[str, int]:
        """What is neither held out nor a skill may be learnt from."""
        held_out, skills = self.cleaned_data["held_out"], self.cleaned_data["skills"]
        return {"held_out": held_out, "skills": skills, "train": 100 - held_out - skills}

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if data.get("held_out", 0) + data.get("skills", 0) > 100:
            raise ValidationError(_("Wanted at most 100 percent together."))
        return data


class RightAnswerForm(forms.Form):
    """What a right answer holds, as a reference."""

    reference = forms.CharField(
        label=_("The right answer"),
        required=False,
        max_length=MAX_PROMPT_CHARS,
        widget=forms.Textarea(attrs={"rows": 3}),
    )
    reference_match = forms.ChoiceField(label=_("An attempt is right if its answer"), choices=MATCHES, required=False)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        data["reference"] = read_reference(str(data.get("reference") or ""), str(data.get("reference_match") or ""))
        return data


class TaskItemForm(RightAnswerForm):
    """A task as an item, with what a right answer holds."""

    name = forms.CharField(
        label=_("Taskset"), max_length=100, help_text=_("One that is there, or the name of a new one.")
    )
    split = forms.ChoiceField(label=_("Split"), choices=SPLITS)
    field_order = ("name", "split", "reference", "reference_match")

    def __init__(self, *told: Any, **options: Any) -> None:
        super().__init__(*told, **options)
        self.fields["reference"].help_text = _("Empty: people or a judge say how good an answer is.")
