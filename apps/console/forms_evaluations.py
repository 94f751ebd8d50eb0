"""Which model is to try which items, and which evaluations are compared together."""

from collections.abc import Sequence
from typing import Any, cast

from django import forms
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Project
from apps.adapters.models import Adapter
from apps.console.selectors.evaluations import list_comparable, name_evaluation
from apps.evals.asking import MOST_TRIES, AskedFields
from apps.evals.experiments import MAX_NAME_CHARS, MOST_SCENARIOS, AskedScenario
from apps.evals.models import Evaluation, Item, Taskset
from apps.workers.models import Worker
from tentalis.core.field_limits import MAX_COMMENT_CHARS


class AskedModelForm(forms.Form):
    """Which model tries items, how often, and how it answers."""

    worker = forms.ModelChoiceField(
        label=_("Worker"),
        queryset=Worker.objects.none(),
        to_field_name="name",
        help_text=_("Its server answers, as in service."),
    )
    adapter = forms.ModelChoiceField(
        label=_("Adapter"),
        queryset=Adapter.objects.none(),
        to_field_name="name",
        required=False,
        empty_label=_("none: the base model"),
    )
    tries = forms.IntegerField(label=_("Tries of each item"), min_value=1, max_value=MOST_TRIES, initial=1)
    is_greedy = forms.BooleanField(
        label=_("The likeliest answer"),
        required=False,
        help_text=_("Else answers are sampled as in service."),
    )

    def __init__(self, project: Project, *told: Any, **options: Any) -> None:
        super().__init__(*told, **options)
        offered: dict[str, Any] = {
            "worker": Worker.objects.filter(project=project).order_by("name"),
            "adapter": Adapter.objects.filter(project=project).order_by("-id"),
        }
        for name, rows in offered.items():
            field: Any = self.fields[name]
            field.queryset = rows


class EvaluationForm(AskedModelForm):
    """`asked` is what `flow.ask_evaluation` takes."""

    taskset = forms.ModelChoiceField(label=_("Taskset"), queryset=Taskset.objects.none())
    split = forms.ChoiceField(label=_("Split"), choices=Item.Split.choices, initial=Item.Split.HELD_OUT)
    field_order = ("worker", "adapter", "taskset", "split")

    def __init__(self, project: Project, *told: Any, **options: Any) -> None:
        super().__init__(project, *told, **options)
        field: Any = self.fields["taskset"]
        field.queryset = Taskset.objects.filter(project=project).order_by("-id")

    @property
    def asked(self) -> AskedFields:
        names = ("adapter", "taskset", "split", "tries", "is_greedy")
        return cast("AskedFields", {name: self.cleaned_data[name] for name in names})


class HumanGradeForm(forms.Form):
    """How right a person finds an answer: one of two buttons, or a number; `value` is what was said."""

    VERDICTS = {"right": 1.0, "wrong": 0.0}

    grade = forms.FloatField(
        label=_("Or a grade between"),
        min_value=0,
        max_value=1,
        required=False,
        widget=forms.NumberInput(attrs={"step": "any"}),
        help_text=_("From 0, wrong, to 1, right."),
    )
    text = forms.CharField(label=_("A word on it"), max_length=MAX_COMMENT_CHARS, required=False)

    @property
    def value(self) -> float:
        said: float = self.VERDICTS.get(self.data.get("verdict", ""), self.cleaned_data["grade"])
        return said

    def clean(self) -> None:
        if self.data.get("verdict") not in self.VERDICTS and self.cleaned_data.get("grade") is None:
            self.add_error("grade", _("Say right, wrong, or a number from 0 to 1."))


class ExperimentForm(forms.Form):
    """Some evaluations against one of the same items; `scenarios` is what `experiments.make_experiment` takes."""

    experiment = forms.CharField(label=_("Name"), max_length=MAX_NAME_CHARS)
    reference = forms.ModelChoiceField(label=_("Compare with"), queryset=Evaluation.objects.none(), empty_label=None)
    candidates = forms.ModelMultipleChoiceField(
        label=_("These"),
        queryset=Evaluation.objects.none(),
        widget=forms.CheckboxSelectMultiple,
        help_text=_("Each is a question of its own, and chance has that many more ways to look like a difference."),
    )

    def __init__(self, project: Project, *told: Any, **options: Any) -> None:
        super().__init__(*told, **options)
        offered = list_comparable(project)
        for name in ("reference", "candidates"):
            field: Any = self.fields[name]
            field.queryset, field.label_from_instance = offered, name_evaluation

    def clean_candidates(self) -> Sequence[Evaluation]:
        found = list(self.cleaned_data["candidates"])
        if len(found) > MOST_SCENARIOS:
            raise forms.ValidationError(
                _now("wanted %(most)s at most, found %(n)s"), params={"most": MOST_SCENARIOS, "n": len(found)}
            )
        return found

    def clean(self) -> dict[str, Any]:
        fields = super().clean() or {}
        reference: Evaluation | None = fields.get("reference")
        for one in fields.get("candidates", ()):
            if reference is not None and one.item_set_hash != reference.item_set_hash:
                params = {"wanted": reference.item_set, "found": one.item_set, "number": one.pk}
                words = _now("wanted evaluations of %(wanted)s, found %(number)s of %(found)s")
                self.add_error("candidates", forms.ValidationError(words, params=params))
            if one == reference:
                words = _now("wanted others than evaluation %(number)s itself")
                self.add_error("candidates", forms.ValidationError(words, params={"number": one.pk}))
        return fields

    @property
    def scenarios(self) -> list[AskedScenario]:
        reference = self.cleaned_data["reference"]
        return [
            AskedScenario(f"{one.pk} against {reference.pk}", one, reference) for one in self.cleaned_data["candidates"]
        ]
