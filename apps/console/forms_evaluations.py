"""Which model is to try which items."""

from typing import Any, cast

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Project
from apps.adapters.models import Adapter
from apps.evals.asking import MOST_TRIES, AskedFields
from apps.evals.models import Item, Taskset
from apps.workers.models import Worker


class EvaluationForm(forms.Form):
    """`asked` is what `flow.ask_evaluation` takes."""

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
    taskset = forms.ModelChoiceField(label=_("Taskset"), queryset=Taskset.objects.none())
    split = forms.ChoiceField(label=_("Split"), choices=Item.Split.choices, initial=Item.Split.HELD_OUT)
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
            "taskset": Taskset.objects.filter(project=project).order_by("-id"),
        }
        for name, rows in offered.items():
            field: Any = self.fields[name]
            field.queryset = rows

    @property
    def asked(self) -> AskedFields:
        names = ("adapter", "taskset", "split", "tries", "is_greedy")
        return cast("AskedFields", {name: self.cleaned_data[name] for name in names})
