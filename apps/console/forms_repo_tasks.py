"""Tasks of own repositories that somebody hands in."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import User
from apps.console.forms import TextFileField
from apps.evals.row_files import read_rows
from apps.worlds.repos.admitting import PARSERS, HandedIn
from apps.worlds.repos.uploads import keep_whole
from tentalis.limits import LIMITS

SPLITS = [("train", _("training")), ("held_out", _("measuring only"))]


class _FilesInput(forms.FileInput):
    allow_multiple_selected = True


class _FilesField(forms.FileField):
    """Any number of files."""

    widget = _FilesInput

    def clean(self, data: Any, initial: Any = None) -> list[Any]:
        return [super(_FilesField, self).clean(one, initial) for one in data or ()]


class RepoTasksForm(forms.Form):
    """The rows, and the files that they want. A script sends large files beforehand and says their hashes in `sent`."""

    text = TextFileField(
        label=_("Tasks"),
        most_bytes=LIMITS.import_chars,
        endings=".jsonl,.ndjson,.json",
        help_text=_("JSON lines: rows of SWE-bench, or tasks as task.json has them. All are taken, or none."),
    )
    repository = forms.FileField(
        label=_("Repository"),
        required=False,
        widget=forms.FileInput(attrs={"accept": ".bundle,.zip,.tar,.gz,.tgz,.bz2,.xz", "data-send": ""}),
        help_text=_(
            "A git bundle that has the commits of all rows, or a zip or tar of the files of the one they have."
        ),
    )
    wheels = _FilesField(
        label=_("Wheels"),
        required=False,
        widget=_FilesInput(attrs={"accept": ".whl", "data-send": ""}),
        help_text=_("Packages that their tests want, pytest among them. Nothing is downloaded."),
    )
    python = forms.CharField(
        label="Python",
        max_length=10,
        required=False,
        help_text=_("A version that this machine has, such as 3.11; empty: its own."),
    )
    parser = forms.ChoiceField(
        label=_("Tests by"),
        required=False,
        choices=[("", _("as the repository’s are known to be run")), *((one, one) for one in PARSERS)],
    )
    split = forms.ChoiceField(label=_("For"), choices=SPLITS)
    sent = forms.JSONField(required=False, widget=forms.HiddenInput)

    def __init__(self, *told: Any, **options: Any) -> None:
        super().__init__(*told, **options)
        self.fields["text"].required = True

    def clean_sent(self) -> Mapping[str, Mapping[str, str]]:
        """Name of a field -> name of a file -> its sha256."""
        sent = self.cleaned_data["sent"] or {}
        known = {"repository", "wheels"}
        if not isinstance(sent, dict) or not sent.keys() <= known or not all(map(_is_named, sent.values())):
            raise ValidationError(_("Wanted hashes of the files that were sent, found something else."))
        return sent

    def keep(self, *, by: User) -> tuple[list[Mapping[str, Any]], HandedIn]:
        """The rows, and what they come with, whose files are kept. Raises BadInputError, NotAllowedError."""
        said = self.cleaned_data
        rows = read_rows(said["text"][1], form="jsonl")
        hashes = {name: dict(said["sent"].get(name, {})) for name in ("repository", "wheels")}
        for name, files in (("repository", filter(None, [said["repository"]])), ("wheels", said["wheels"])):
            hashes[name] |= {one.name or "": keep_whole(one.read(), by=by).sha256 for one in files}
        repository = next(iter(hashes["repository"].values()), "")
        asked = HandedIn(repository=repository, wheels=hashes["wheels"], python=said["python"], parser=said["parser"])
        return rows, asked


def _is_named(files: Any) -> bool:
    return isinstance(files, dict) and all(isinstance(one, str) for one in files.values())
