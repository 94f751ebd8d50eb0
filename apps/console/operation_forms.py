"""What managers fill in to run things: a canary's share, a worker."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as now_in_words
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Project
from apps.console.forms_limits import make_number
from apps.inference.grants import usable
from apps.inference.models import Provider
from apps.inference.provider_kinds import find_kind
from apps.training.naming import MOST_COMMENT, MOST_NAME, MOST_TAG, MOST_TAGS
from apps.workers.kept import list_kept
from apps.workers.kinds import find_kind as find_worker_kind
from apps.workers.kinds import kind_choices
from apps.workers.models import Worker
from apps.workers.rules import MOST_BATCH_TASKS
from tentalis.core.field_limits import MAX_END_USER_CHARS, MAX_SYSTEM_PROMPT_CHARS, MAX_TRIED_PERCENT
from tentalis.core.worlds import AgentKind


class CanaryForm(forms.Form):
    """How much of the work an adapter is tried on."""

    percent = forms.IntegerField(
        label=_("Share of the new tasks, in per cent"),
        min_value=1,
        max_value=MAX_TRIED_PERCENT,
        initial=10,
        help_text=_("From 1 to 50. A task that has begun stays where it is."),
    )


class RecipeForm(forms.Form):
    """What of a recipe is changed for one run."""

    recipe = forms.JSONField(
        label=_("Recipe fields to change, for this run only"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "class": "mono"}),
        help_text=_('As JSON, by the names that REST uses: {"learning_rate": 0.001, "kl_coef": 0.02}.'),
    )

    def clean_recipe(self) -> dict[str, Any]:
        found = self.cleaned_data["recipe"]
        if found is not None and not isinstance(found, dict):
            raise forms.ValidationError(_('Wanted a JSON object, such as {"learning_rate": 0.001}.'))
        return found or {}


class RetryForm(RecipeForm):
    """With which recipe a run is tried again."""

    recipe_from = forms.ChoiceField(
        label=_("Recipe"),
        choices=[("run", _("As it was")), ("worker", _("As the settings say now"))],
        initial="run",
        required=False,
    )
    field_order = ("recipe_from", "recipe")

    def clean_recipe_from(self) -> str:
        return self.cleaned_data["recipe_from"] or "run"


class TrainForm(RecipeForm):
    """A training that is started by hand: what it is called, how it learns, whose batch it takes."""

    name = forms.CharField(
        label=_("Name of the run"),
        max_length=MOST_NAME,
        required=False,
        help_text=_("Shown beside its number in lists and charts. Optional."),
    )
    end_user = forms.CharField(max_length=MAX_END_USER_CHARS, required=False, widget=forms.HiddenInput)
    field_order = ("name", "recipe")


class RunForm(forms.Form):
    """What people call a run, and say of it."""

    name = forms.CharField(label=_("Name"), max_length=MOST_NAME, required=False)
    tags = forms.CharField(
        label=_("Tags"), max_length=MOST_TAGS * (MOST_TAG + 2), required=False, help_text=_("Separated by commas.")
    )
    comment = forms.CharField(
        label=_("Notes"), max_length=MOST_COMMENT, required=False, widget=forms.Textarea(attrs={"rows": 4})
    )

    def clean_tags(self) -> list[str]:
        return [tag for part in self.cleaned_data["tags"].split(",") if (tag := part.strip())]


_MODEL = ("provider", "base_model", "base_directory", "fallbacks")
_LINE = ("adapters_per", "user_batch_tasks", "learns_with")
NEEDED: Mapping[str, str] = {Worker.Kind.CHAT: "provider", Worker.Kind.OPENCLAW: "agent_server"}


def list_fields(kind: AgentKind) -> tuple[str, ...]:
    """What is asked of a worker of a kind, beside its name."""
    if not kind.asks_model:
        return ()
    on_openclaw = ("agent_server", "agent_id") if kind.name == Worker.Kind.OPENCLAW else ()
    told = () if kind.name == Worker.Kind.OUTSIDE else ("system_prompt",)
    return (*on_openclaw, *_MODEL, *told, *kind.sampling, *_LINE)


SAMPLING_WORDS = {
    "temperature": (
        _("Temperature"),
        _("0 always takes the likeliest token; 1 samples as the model was trained. Learning needs some variety."),
    ),
    "max_tokens": (_("Longest answer, in tokens"), _("Empty: the default.")),
    "top_p": (
        _("Top-p"),
        _("Samples from the likeliest tokens that make up this share of the probability; 1: from all."),
    ),
}


class Suggesting(forms.TextInput):
    """A line of text with some values to choose from. Args: values: each -> what is said beside it; "" for nothing."""

    def __init__(self, values: Mapping[str, str]) -> None:
        super().__init__({"list": "suggested", "autocomplete": "off"} if values else {})
        self.values = values

    def render(self, *told: Any, **options: Any) -> SafeString:
        line = super().render(*told, **options)
        if not self.values:
            return line
        choices = format_html_join("", '<option value="{}">{}</option>', self.values.items())
        return format_html('{}<datalist id="suggested">{}</datalist>', line, choices)


class ServerField(forms.ModelChoiceField):  # type: ignore[type-arg]  # no generic at run time
    """A choice of model servers that says which of them can be learned from."""

    def label_from_instance(self, obj: Any) -> str:
        if find_kind(obj.kind).tells_tokens:
            return str(obj.name)
        return now_in_words("%(name)s (tells no tokens: cannot be trained)") % {"name": obj.name}


class WorkerForm(forms.Form):
    """A worker of one kind; the same fields make it and change it, but for its name."""

    name = forms.CharField(
        label=_("Name"),
        max_length=64,
        help_text=_("Lower-case letters, digits, - and _. Its adapters are named after it."),
    )
    kind = forms.ChoiceField(choices=kind_choices, widget=forms.HiddenInput)
    provider = ServerField(
        Provider.objects.none(),
        label=_("Model server"),
        required=False,
        empty_label=_("The installation's own"),
        help_text=_("Who answers for it."),
    )
    agent_server = forms.ModelChoiceField(
        Provider.objects.none(),
        label=_("OpenClaw"),
        required=False,
        empty_label=_("None"),
        help_text=_("The model server that stands for the OpenClaw's own gateway."),
    )
    agent_id = forms.CharField(
        label=_("Agent on that OpenClaw"),
        max_length=64,
        required=False,
        help_text=_("Empty: its default."),
    )
    base_model = forms.CharField(
        label=_("Base model"),
        max_length=500,
        required=False,
        help_text=_(
            "Name the model server knows it by; with the installation's own, a model that is kept on this machine. "
            "Empty: the kind's or the server's default."
        ),
    )
    base_directory = forms.CharField(
        label=_("Directory of the base model"),
        max_length=500,
        required=False,
        help_text=_(
            "Where the training machine and this server find the files of the model that answers: config.json, the "
            "tokenizer, *.safetensors. Without it a worker on a model server of your own works, and nothing of it "
            "trains. Empty with the installation's own engine: its built-in model."
        ),
    )
    fallbacks = forms.CharField(
        label=_("Fallbacks"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false", "class": "mono"}),
        help_text=_(
            "Who answers callers of the gateway while its own model cannot be had (no connection, 429, 5xx, silence), "
            "one a line, first choice first: server/model, or another worker's name. Their answers never train this "
            "worker."
        ),
    )
    system_prompt = forms.CharField(
        label=_("System prompt"),
        max_length=MAX_SYSTEM_PROMPT_CHARS,
        required=False,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text=_("What it is told before every task."),
    )
    adapters_per = forms.ChoiceField(
        label=_("Adapters"),
        choices=Worker.AdaptersPer.choices,
        initial=Worker.AdaptersPer.WORKER,
        required=False,
        help_text=_("With one for each person, what somebody says teaches an adapter that serves them alone."),
    )
    user_batch_tasks = forms.IntegerField(
        label=_("Tasks that fill a person's batch"),
        required=False,
        min_value=1,
        max_value=MOST_BATCH_TASKS,
        help_text=_("Empty: as many as the project's batches hold."),
    )
    learns_with = forms.ModelChoiceField(
        Worker.objects.none(),
        label=_("Learns with"),
        required=False,
        empty_label=_("Nobody: its adapters are its own"),
        help_text=_(
            "Whose adapters it teaches and is served by. Both need the same model of the same server; a worker that "
            "has learnt by itself cannot join another."
        ),
    )
    is_active = forms.BooleanField(label=_("Takes tasks"), required=False, initial=True)

    def __init__(
        self, *args: Any, project: Project, kind: str = "", worker: Worker | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        kind = worker.kind if worker is not None else kind
        self.fields["kind"].initial = kind
        self.sampling = find_worker_kind(kind).sampling
        for name, rule in self.sampling.items():
            label, help_text = SAMPLING_WORDS.get(name, (name.replace("_", " ").capitalize(), ""))
            self.fields[name] = make_number(rule, step="0.05", label=label, help_text=help_text)
        kept: dict[str, str] = {}
        names = list(self.base_fields)
        at = names.index("system_prompt") + 1
        self.order_fields([*names[:at], *self.sampling, *names[at:]])
        for name in set(self.fields) - {"name", "kind", "is_active", *list_fields(find_worker_kind(kind))}:
            del self.fields[name]
        if "base_model" in self.fields:
            self.fields["base_model"].widget = Suggesting(kept := {model.name: model.summary for model in list_kept()})
            if kept:
                named = ", ".join(f"{name} ({summary})" if summary else name for name, summary in kept.items())
                told = now_in_words("Kept here: %(names)s.") % {"names": named}
                self.fields["base_model"].help_text = f"{self.fields['base_model'].help_text} {told}"
        offered = Provider.objects.filter(usable([project]), is_active=True)
        for name in {"provider", "agent_server"} & set(self.fields):
            self.fields[name].queryset = offered.order_by("name")  # type: ignore[attr-defined]
        if (needed := NEEDED.get(kind)) and not (needed == "provider" and kept):
            self.fields[needed].required = True
            self.fields[needed].empty_label = _("Choose one")  # type: ignore[attr-defined]
        if "learns_with" in self.fields:
            self._offer_lines(project, worker)
        if worker is None:
            del self.fields["is_active"]
            return
        for name in ("name", "kind"):
            del self.fields[name]

    def _offer_lines(self, project: Project, worker: Worker | None) -> None:
        others = Worker.objects.filter(project=project, learns_with=None).exclude(kind=Worker.Kind.ECHO)
        others = others.exclude(pk=worker.pk) if worker is not None else others
        self.fields["learns_with"].queryset = others  # type: ignore[attr-defined]
        if not others.exists() or (worker is not None and worker.learners.exists()):
            del self.fields["learns_with"]

    @property
    def values(self) -> dict[str, Any]:
        """What the services take: sampling settings gathered, the rest by name."""
        data: Mapping[str, Any] = self.cleaned_data
        sampling = {name: data[name] for name in self.sampling if data.get(name) is not None}
        rest = {name: value for name, value in data.items() if name not in self.sampling}
        if "fallbacks" in rest:
            rest["fallbacks"] = rest["fallbacks"].split()
        if not rest.get("adapters_per", "-"):
            del rest["adapters_per"]
        return {**rest, "sampling": sampling}


def read_worker(worker: Worker) -> dict[str, Any]:
    """The form's initial values."""
    return {
        "provider": worker.provider_id,
        "agent_server": worker.agent_server_id,
        "agent_id": worker.agent_id,
        "base_model": worker.base_model,
        "base_directory": worker.base_directory,
        "fallbacks": "\n".join(worker.fallbacks),
        "system_prompt": worker.system_prompt,
        "adapters_per": worker.adapters_per,
        "user_batch_tasks": worker.user_batch_tasks,
        "learns_with": worker.learns_with_id,
        "is_active": worker.is_active,
        **worker.sampling,
    }
