"""What is asked on the way from a new project to its first review."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Project, Role
from apps.accounts.rights import ROLE_RIGHTS, Right
from apps.console.forms import PlacedForm
from apps.feedback.judges import LEAST_RATE, MOST_MODEL_CHARS

GATEWAY_SCOPES = (Right.GATEWAY_USE, Right.SESSIONS_READ, Right.FEEDBACK_WRITE)
SCOPES: Mapping[str, Sequence[Right]] = {
    "agent": GATEWAY_SCOPES,
    "tasks": sorted(ROLE_RIGHTS[Role.AGENT]),
}
"""What a token made on the page *Connect* may do, by what it is for."""


class ConnectTokenForm(forms.Form):
    """An agent of the project and a token of its own, in one go."""

    purpose = forms.ChoiceField(choices=[(name, name) for name in SCOPES], widget=forms.HiddenInput)
    username = forms.CharField(
        label=_("Name of the agent"), max_length=100, initial="agent", help_text=_("A new name makes that agent.")
    )

    def __init__(self, data: Mapping[str, Any] | None = None, *, purpose: str = "agent") -> None:
        super().__init__(data, initial={"purpose": purpose}, auto_id=f"id_{purpose}_%s")


class JudgesForm(forms.Form):
    """Who judges the work of a project, and how much of it."""

    WHO = (
        ("human", _("A person")),
        ("ai", _("An AI manager")),
        ("both", _("An AI manager and a person")),
        ("none", _("Nobody: references and scorers alone")),
    )

    who = forms.ChoiceField(label=_("Who judges"), choices=WHO, widget=forms.RadioSelect, initial="human")
    share = forms.IntegerField(
        label=_("Share of the tasks, in per cent"),
        min_value=round(100 * LEAST_RATE),
        max_value=100,
        initial=100,
        help_text=_("The others learn from references and scorers alone. Start with 100, and lower it later."),
    )
    human_share = forms.IntegerField(
        label=_("Of these, for a person as well, in per cent"),
        min_value=0,
        max_value=100,
        required=False,
        help_text=_("What is uncertain, and the project's first task, always wait for a person. Empty: all of them."),
    )
    model = forms.CharField(
        label=_("Model of the AI manager"),
        max_length=MOST_MODEL_CHARS,
        required=False,
        help_text=_("SERVER/MODEL of one of your model servers. Empty: the installation's."),
    )

    @property
    def changes(self) -> dict[str, Any]:
        """What `choose_judges` is told: shares in [0, 1]."""
        said = self.cleaned_data
        changes = {"who": said["who"], "rate": said["share"] / 100, "model": said["model"]}
        if said["who"] == "both":
            changes["human_rate"] = 1.0 if said["human_share"] is None else said["human_share"] / 100
        return changes


class SessionTasksForm(PlacedForm):
    """New tasks out of what people asked in recorded sessions."""

    sessions = forms.MultipleChoiceField(
        label=_("Conversations"),
        error_messages={"required": _("Tick at least one conversation.")},
        widget=forms.CheckboxSelectMultiple,
    )

    def __init__(self, data: Mapping[str, Any] | None = None, *, project: Project, offered: Sequence[int]) -> None:
        super().__init__(data, project=project)
        self.fields["sessions"].choices = [(str(pk), str(pk)) for pk in offered]  # type: ignore[attr-defined]

    def clean_sessions(self) -> list[int]:
        return [int(pk) for pk in self.cleaned_data["sessions"]]
