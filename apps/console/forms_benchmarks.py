"""Which benchmark a project is to have, which model is to try it, and which worker is to learn it."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Project
from apps.console.forms import RowsFileField
from apps.console.forms_evaluations import AskedModelForm
from apps.evals.asking import MOST_DRAW, AskedFields
from apps.evals.catalogue import CatalogueEntry
from apps.evals.models import Benchmark
from apps.evals.row_files import FORMS, read_rows
from apps.training.courses import MOST_PATIENCE, MOST_ROUNDS, MOST_SHOWN, MOST_TASKS
from apps.workers.models import Worker
from tentalis.core.task_files import guess_form
from tentalis.limits import LIMITS


class InstallForm(forms.Form):
    """The rows of a benchmark of the catalogue, where they do not come along; its seed, where it makes them up."""

    file = RowsFileField(
        label=_("A file with its rows"),
        most_bytes=LIMITS.import_chars,
        endings=".csv,.json,.jsonl,.ndjson,.parquet,text/csv,application/json",
        help_text=_(
            "CSV with a header, JSON, JSON lines or Parquet. All rows are taken, or none: a fault names its line."
        ),
    )
    seed = forms.IntegerField(
        label=_("Seed"),
        min_value=0,
        max_value=MOST_DRAW,
        initial=0,
        help_text=_("The same seed makes up the same items."),
    )

    def __init__(self, entry: CatalogueEntry, *told: Any, **options: Any) -> None:
        super().__init__(*told, **options)
        self.wants_file = entry.make is None
        del self.fields["seed" if self.wants_file else "file"]
        if self.wants_file:
            self.fields["file"].required = True

    @property
    def asked(self) -> dict[str, Any]:
        """What `install_benchmark` takes. Raises BadInputError naming each line that is no row."""
        if not self.wants_file:
            return {"seed": self.cleaned_data["seed"]}
        name, text = self.cleaned_data["file"]
        return {"rows": read_rows(text, form=_find_form(name, text)), "source": name}

    def clean_file(self) -> tuple[str, str]:
        name, text = self.cleaned_data["file"]
        if _find_form(name, text) not in FORMS:
            raise ValidationError(_("Wanted CSV with a header, JSON, JSON lines or Parquet."))
        return name, text


def _find_form(name: str, text: str) -> str:
    return "json" if name.lower().endswith(".json") else guess_form(name, text)


class BenchmarkRunForm(AskedModelForm):
    """Whose model tries a benchmark, and how often; `asked` is what `flow.ask_evaluation` takes."""

    seed = forms.IntegerField(
        label=_("Seed"), min_value=0, max_value=MOST_DRAW, initial=0, help_text=_("Another one gives other answers.")
    )

    def __init__(self, benchmark: Benchmark, *told: Any, **options: Any) -> None:
        super().__init__(benchmark.project, *told, **options)
        self.benchmark = benchmark

    @property
    def asked(self) -> AskedFields:
        said = self.cleaned_data
        return AskedFields(
            adapter=said["adapter"],
            benchmark=self.benchmark,
            tries=said["tries"],
            is_greedy=said["is_greedy"],
            seed=said["seed"],
        )


class CourseForm(forms.Form):
    """Which worker learns a benchmark and for how long; its cleaned data is what `start_course` takes."""

    worker = forms.ModelChoiceField(
        label=_("Worker"),
        queryset=Worker.objects.none(),
        to_field_name="name",
        help_text=_("Its gate measures on the benchmark’s held-out items from now on."),
    )
    rounds = forms.IntegerField(label=_("Rounds at most"), min_value=1, max_value=MOST_ROUNDS, initial=20)
    tasks = forms.IntegerField(label=_("Tasks of a round"), min_value=1, max_value=MOST_TASKS, initial=24)
    group_size = forms.IntegerField(label=_("Attempts at a task"), min_value=2, max_value=64)
    patience = forms.IntegerField(
        label=_("Rounds without a better adapter"),
        min_value=1,
        max_value=MOST_PATIENCE,
        initial=5,
        help_text=_("After so many in a row it ends."),
    )
    shown = forms.IntegerField(
        label=_("Known answers to imitate first"),
        min_value=0,
        max_value=MOST_SHOWN,
        initial=0,
        help_text=_("Of items to train on. Wanted where the model never does one right by itself."),
    )
    seed = forms.IntegerField(label=_("Seed"), min_value=0, max_value=MOST_DRAW, initial=0)

    def __init__(self, project: Project, *told: Any, **options: Any) -> None:
        super().__init__(*told, **options)
        offered: Any = self.fields["worker"]
        offered.queryset = Worker.objects.filter(project=project, learns_with=None).order_by("name")
