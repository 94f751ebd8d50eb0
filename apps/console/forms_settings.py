"""A project's settings as fields with words: made from the very dataclasses that read them later."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as now_in_words
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Project
from apps.base.errors import TentalisError
from apps.console.durations import DurationField, say_seconds
from apps.console.forms import TextFileField
from apps.console.words_groups import USED_BY, group_names
from apps.console.words_settings import CHOICE_WORDS, FIELD_WORDS, SECTION_WORDS, Words
from apps.feedback.managers import MANAGERS
from apps.worlds.registry import WORLDS, name_choices
from tentalis.core.checked import Choice, FieldError, Flag, Number, Several
from tentalis.core.field_limits import MAX_BATCH_TASKS, MAX_GROUP, MAX_GUIDELINES_CHARS, MAX_HELD_OUT_PERCENT
from tentalis.core.learning.gate import GatePolicy
from tentalis.core.learning.recipes import Recipe
from tentalis.core.learning.windows import MOST_CALENDAR_CHARS, TrainingPolicy
from tentalis.core.review_policy import ReviewPolicy
from tentalis.core.session_policy import SessionPolicy

READERS: dict[str, type[Any]] = {
    "review_policy": ReviewPolicy,
    "session_policy": SessionPolicy,
    "gate_policy": GatePolicy,
    "recipe": Recipe,
    "training_policy": TrainingPolicy,
}
NOT_ASKED = frozenset({"schema"})
LONG = 2000


@dataclass(frozen=True)
class FieldGroup:
    """Fields that stand together; `title` "" where they need no words."""

    title: Words
    fields: Sequence[forms.BoundField]
    is_folded: bool


class SectionForm(forms.Form):
    """One card of the settings page; `changes` is what the service is told."""

    section = ""

    @property
    def title(self) -> str:
        return str(SECTION_WORDS[self.section][0])

    @property
    def about(self) -> str:
        return str(SECTION_WORDS[self.section][1])

    @property
    def groups(self) -> list["FieldGroup"]:
        """Fields that stand together; those that the choices made so far leave unused are not shown."""
        return [
            FieldGroup(
                title=group.title,
                fields=[self[name] for name in group.names],
                is_folded=group.is_seldom and not any(name in self.errors or name in self.set for name in group.names),
            )
            for group in group_names(self.section, [name for name in self.fields if self.shows(name)])
        ]

    def shows(self, name: str) -> bool:
        """Whether a field is of use. One that is not sent keeps its default; so one that was set is always shown."""
        return True

    @property
    def set(self) -> frozenset[str]:
        """Fields somebody gave another value than the usual one."""
        return frozenset()

    def changes(self) -> dict[str, Any]:
        return dict(self.cleaned_data)

    def place_error(self, error: TentalisError) -> None:
        """Beside the field at fault; above the form where it is none of its own."""
        cause = error.__cause__
        if isinstance(cause, FieldError) and cause.field in self.fields:
            message = str(cause).partition(f"{cause.field}: ")[2] or str(cause)
            self.add_error(cause.field, message[:1].upper() + message[1:])
            return
        for name, texts in (error.errors or {"": [str(error)]}).items():
            for message in texts:
                self.add_error(name if name in self.fields else None, message[:1].upper() + message[1:])


class GeneralForm(SectionForm):
    """What the team calls the project, and how much is tried and gathered."""

    section = "general"
    name = forms.CharField(label=_("Name"), max_length=200)
    rubric = forms.CharField(
        label=_("Guidelines for reviewers (rubric)"),
        required=False,
        max_length=MAX_GUIDELINES_CHARS,
        widget=forms.Textarea(attrs={"rows": 6}),
        help_text=_(
            "What good work is, in your words. Who reviews a task sees it there; judges and AI managers read it too."
        ),
    )
    constitution = forms.CharField(
        label=_("Constitution"),
        required=False,
        max_length=MAX_GUIDELINES_CHARS,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text=_("Principles that hold above the rubric, in every task. Judges and managers read them too."),
    )
    group_size = forms.IntegerField(
        label=_("Attempts at a task"),
        min_value=1,
        max_value=MAX_GROUP,
        help_text=_("They are compared with each other."),
    )
    batch_tasks = forms.IntegerField(
        label=_("Tasks in a training batch"),
        min_value=1,
        max_value=MAX_BATCH_TASKS,
        help_text=_("A full batch starts a run."),
    )
    held_out_percent = forms.IntegerField(
        label=_("Own work put aside, in percent"),
        min_value=0,
        max_value=MAX_HELD_OUT_PERCENT,
        help_text=_(
            "Workers are measured on it and never learn from it. It begins behind a project's first 20 tasks; a world "
            "with held-out tasks of its own, such as the desk, puts nothing aside. 0: nothing is."
        ),
    )
    learning_enabled = forms.BooleanField(
        label=_("Workers learn"), required=False, help_text=_("Off: tasks are done and judged, and nothing is trained.")
    )


class PolicyForm(SectionForm):
    """The fields of one stored dataclass. What stands at its default is not stored, so that defaults can improve."""

    def __init__(self, section: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section
        self.reader = READERS[section]
        for item in dataclasses.fields(self.reader):
            if item.name not in NOT_ASKED:
                field = self.fields[item.name] = make_field(item)
                field.required = field.required and item.name not in USED_BY  # where it is not shown, it is not sent
                if item.name in self.set and item.default not in (None, "", ()):
                    usual = now_in_words("Usually: %(value)s.") % {"value": say_value(item.name, item.default)}
                    field.help_text = f"{field.help_text} {usual}".strip()
        if section == "training_policy":
            self.fields["calendar_file"] = CalendarFileField()

    @property
    def set(self) -> frozenset[str]:
        return frozenset(
            item.name
            for item in dataclasses.fields(self.reader)
            if self.initial.get(item.name, item.default) not in (item.default, as_list(item.default))
        )

    def shows(self, name: str) -> bool:
        if self.section != "recipe" or name not in USED_BY or name in self.set or name in self.errors:
            return True
        choice, values = USED_BY[name]
        return self[choice].value() in values

    def clean(self) -> dict[str, Any]:
        said = super().clean() or self.cleaned_data
        if (text := said.pop("calendar_file", None)) is not None:
            said["calendar"] = text
        return said

    def changes(self) -> dict[str, Any]:
        said = {}
        for item in dataclasses.fields(self.reader):
            if item.name in NOT_ASKED:
                continue
            value = self.cleaned_data.get(item.name)
            if value in (None, ""):
                value = item.default
            if (tuple(value) if isinstance(value, list) else value) != item.default:
                said[item.name] = value
        return {self.section: said}


class WeightsForm(SectionForm):
    """How much each scorer counts, environment by environment. An environment left empty takes the built-in weights."""

    section = "weight_profiles"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        usual = {
            f"{world.name}-{scorer}": f"{weight:g}"
            for world in WORLDS.values()
            for scorer, weight in world.profile.items()
        }
        for name in dict.fromkeys([*usual, *self.initial]):
            environment, _dash, scorer = name.partition("-")
            self.fields[name] = forms.FloatField(
                label=f"{dict(name_choices()).get(environment, environment)}: {scorer.replace('_', ' ')}",
                required=False,
                min_value=0,
                max_value=1,
                widget=forms.NumberInput(attrs={"step": "any", "placeholder": usual.get(name, "")}),
            )

    def changes(self) -> dict[str, Any]:
        profiles: dict[str, dict[str, float]] = {}
        for name, weight in self.cleaned_data.items():
            environment, _dash, scorer = name.partition("-")
            if weight:
                profiles.setdefault(environment, {})[scorer] = weight
        return {self.section: profiles}


def make_sections(
    project: Project, posted: Mapping[str, Any] | None = None, files: Mapping[str, Any] | None = None
) -> list[SectionForm]:
    """Every card of the settings page, filled from the project; the posted one from what was sent."""
    sent = posted.get("section", "") if posted is not None else ""

    def fill(section: str, initial: Mapping[str, Any]) -> dict[str, Any]:
        data, sent_files = (posted, files) if section == sent else (None, None)
        return {"data": data, "files": sent_files, "prefix": section, "initial": dict(initial)}

    general = {name: getattr(project, name) for name in GeneralForm.base_fields}
    sections: list[SectionForm] = [GeneralForm(**fill("general", general))]
    for section, reader in READERS.items():
        defaults = {item.name: item.default for item in dataclasses.fields(reader)}
        sections.append(PolicyForm(section, **fill(section, defaults | getattr(project, section))))
    weights = {
        f"{environment}-{scorer}": weight
        for environment, profile in project.weight_profiles.items()
        for scorer, weight in profile.items()
    }
    sections.append(WeightsForm(**fill("weight_profiles", weights)))
    return sections


def as_list(value: Any) -> Any:
    """As it is stored: JSON has no tuples."""
    return list(value) if isinstance(value, tuple) else value


def say_value(name: str, value: Any) -> str:
    """A default, as the page says it."""
    if is_duration(name):
        return say_seconds(value)
    if isinstance(value, bool):
        return now_in_words("on") if value else now_in_words("off")
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(CHOICE_WORDS.get(value, value)) if isinstance(value, str) else f"{value:g}"


def is_duration(name: str) -> bool:
    """Whether a field holds seconds: its name says so, here as everywhere."""
    return name.endswith("_s") or "_s_per_" in name


def make_field(item: "dataclasses.Field[Any]") -> forms.Field:
    """A form's field for a checked one: choices for choices, numbers for numbers, a box for a truth."""
    label, help_text = FIELD_WORDS.get(item.name, (item.name.replace("_", " ").capitalize(), ""))
    common: dict[str, Any] = {"label": label, "help_text": help_text}
    rule = item.metadata["rule"]
    allowed = ("", *MANAGERS) if item.name == "ai_manager" else rule.allowed if isinstance(rule, Choice) else ()
    if allowed:
        words = [(value, CHOICE_WORDS.get(value, value.replace("_", " ").capitalize())) for value in allowed]
        return forms.ChoiceField(choices=words, required="" not in allowed, **common)
    if isinstance(rule, Several):
        if item.name == "environments":
            boxes = forms.CheckboxSelectMultiple
            return forms.MultipleChoiceField(choices=name_choices, required=False, widget=boxes, **common)
        return CommaSeparatedField(**common)
    if isinstance(rule, Flag):
        if item.default and item.name in USED_BY:
            return forms.NullBooleanField(required=False, widget=AskedCheckbox, **common)
        return forms.BooleanField(required=False, **common)
    if isinstance(rule, Number) and is_duration(item.name):
        return DurationField(required=False, is_whole=rule.is_whole, **common)
    if isinstance(rule, Number):
        limits = {"min": rule.low, "max": rule.high, "step": 1 if rule.is_whole else "any"}
        kind = forms.IntegerField if rule.is_whole else forms.FloatField
        return kind(required=False, widget=forms.NumberInput(attrs=limits), **common)
    if rule.most > LONG:
        rows = forms.Textarea(attrs={"rows": 4})
        return forms.CharField(required=False, max_length=rule.most, strip=False, widget=rows, **common)
    return forms.CharField(required=False, max_length=rule.most, **common)


class AskedCheckbox(forms.CheckboxInput):
    """A box whose value is None where it was not on the page: one that is not ticked is not sent either."""

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        box = super().render(name, value, attrs, renderer)
        return format_html('{}<input type="hidden" name="{}-asked" value="1">', box, name)

    def value_from_datadict(self, data: Mapping[str, Any], files: Any, name: str) -> Any:
        return super().value_from_datadict(data, files, name) if f"{name}-asked" in data else None


class CalendarFileField(TextFileField):
    """An .ics file; its cleaned value is its text, None where none was chosen."""

    def __init__(self) -> None:
        super().__init__(
            most_bytes=4 * MOST_CALENDAR_CHARS,
            endings=".ics,text/calendar",
            label=_("Calendar from a file"),
            help_text=_("An .ics file takes the place of the text."),
        )

    def clean(self, data: Any, initial: Any = None) -> Any:
        found = super().clean(data, initial)
        return found and found[1]


class CommaSeparatedField(forms.CharField):
    """Several words, separated by commas."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, max_length=LONG, **kwargs)

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list | tuple) else value

    def to_python(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return list(value)
        return [word.strip() for word in str(value or "").split(",") if word.strip()]
