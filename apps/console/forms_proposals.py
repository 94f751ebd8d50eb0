"""What people fill in about an agent's proposal, and about what an agent must ask."""

import copy
from collections.abc import Mapping
from typing import Any, cast

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.console.durations import DurationField
from apps.console.selectors.proposals import Leaf, read_action
from apps.supervision.models import Proposal
from apps.supervision.services import MAX_REJECTION_CHARS
from apps.supervision.supervisors import SUPERVISORS
from apps.workers.models import Worker
from tentalis.core.checked import FieldError, rule_of
from tentalis.core.field_limits import MAX_COMMENT_CHARS, MAX_JUDGEMENT_CHARS
from tentalis.core.supervision import SupervisionPolicy, read_supervision

YES_NO = [("yes", _("Yes")), ("no", _("No"))]
SHORT = 60
DEADLINE = rule_of(SupervisionPolicy, "deadline_s")


class DecisionForm(forms.Form):
    """One decision with its words.

    Attributes:
        decision: the service's word for it.
    """

    decision = ""

    def __init__(self, data: Any = None, *, proposal: Proposal) -> None:
        self.proposal = proposal
        super().__init__(data, auto_id=f"p{proposal.pk}-{self.decision}-%s")

    @property
    def said(self) -> Mapping[str, Any]:
        """The service's further arguments."""
        return self.cleaned_data


class ApproveForm(DecisionForm):
    decision = "approve"


class RejectForm(DecisionForm):
    decision = "reject"
    reason = forms.CharField(
        label=_("Why not?"),
        max_length=MAX_REJECTION_CHARS,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=_("The agent reads this, and learns from it later."),
    )


class HintForm(DecisionForm):
    decision = "hint"
    hint = forms.CharField(
        label=_("What should it think of?"),
        max_length=MAX_COMMENT_CHARS,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=_("The agent thinks again with this, then proposes anew."),
    )


class TakeOverForm(DecisionForm):
    decision = "take_over"
    answer = forms.CharField(
        label=_("Your answer to the task"),
        max_length=MAX_JUDGEMENT_CHARS,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=_("The agent's work ends here, and this is its answer."),
    )


class EditForm(DecisionForm):
    """The proposed action, field by field. Names stay as they are: what has other fields is another action."""

    decision = "edit"

    def __init__(self, data: Any = None, *, proposal: Proposal) -> None:
        super().__init__(data, proposal=proposal)
        self.view = read_action(proposal.action)
        self.leaves: dict[str, Leaf] = {}
        if self.view.kind != "tool":
            rows = forms.Textarea(attrs={"rows": 4})
            label = _("The message instead") if self.view.kind == "message" else _("The answer instead")
            self.fields["text"] = forms.CharField(
                label=label, max_length=MAX_JUDGEMENT_CHARS, widget=rows, initial=self.view.text, strip=False
            )
        for number, leaf in enumerate(self.view.leaves):
            if leaf.value not in ({}, []):
                self.leaves[f"arg-{number}"] = leaf
                self.fields[f"arg-{number}"] = make_field(leaf)

    @property
    def is_possible(self) -> bool:
        """Whether the page shows everything there is, so that nothing is changed unseen."""
        return self.view.more == 0 and bool(self.fields)

    @property
    def said(self) -> Mapping[str, Any]:
        action = copy.deepcopy(self.proposal.action)
        if self.view.kind != "tool":
            return {"action": action | {"text": self.cleaned_data["text"]}}
        for name, leaf in self.leaves.items():
            place = action["arguments"]
            for part in leaf.path[:-1]:
                place = place[part]
            place[leaf.path[-1]] = read_value(leaf, self.cleaned_data[name])
        return {"action": action}


def make_field(leaf: Leaf) -> forms.Field:
    """A field for a value of the same type."""
    label, value = leaf.name, leaf.value
    if isinstance(value, bool):
        return forms.ChoiceField(label=label, choices=YES_NO, initial="yes" if value else "no")
    if isinstance(value, int):
        return forms.IntegerField(label=label, initial=value, localize=False)
    if isinstance(value, float):
        number = forms.NumberInput(attrs={"step": "any"})
        return forms.FloatField(label=label, initial=repr(value), widget=number)
    text = "" if value is None else str(value)
    is_long = len(text) > SHORT or "\n" in text
    widget = forms.Textarea(attrs={"rows": min(8, 2 + len(text) // 80)}) if is_long else forms.TextInput()
    return forms.CharField(label=label, initial=text, widget=widget, required=False, strip=False)


def read_value(leaf: Leaf, value: Any) -> Any:
    """What was filled in, in the type of what was there; nothing stays nothing."""
    if isinstance(leaf.value, bool):
        return value == "yes"
    if leaf.value is None and value == "":
        return None
    if isinstance(leaf.value, str):
        return value.replace("\r\n", "\n")
    return value


FORMS: Mapping[str, type[DecisionForm]] = {
    form.decision: form for form in (ApproveForm, RejectForm, EditForm, HintForm, TakeOverForm)
}


class RulesForm(forms.Form):
    """What a worker may not do alone."""

    tools = forms.CharField(
        label=_("Tools that wait"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=_("One a line: a name, or a pattern such as mail.* or * for all."),
    )
    except_tools = forms.CharField(
        label=_("Tools that never wait"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=_("One a line; these win over the ones above."),
    )
    messages = forms.BooleanField(label=_("Messages to others wait"), required=False)
    answers = forms.BooleanField(label=_("Answers wait"), required=False)
    agents_decide = forms.BooleanField(
        label=_("Other agents may decide"),
        required=False,
        help_text=_("Other agents of this project; else people alone."),
    )
    model_decides = forms.BooleanField(
        label=_("A model decides first"),
        required=False,
        help_text=_("The one that judges the project's work, by the rubric; what it is not sure of waits for people."),
    )
    supervisor = forms.ChoiceField(
        label=_("A program decides first"),
        required=False,
        help_text=_("What it is not sure of goes to the others."),
    )
    deadline_s = DurationField(
        label=_("Time to decide"), is_whole=True, min_s=DEADLINE.low, max_s=DEADLINE.high, initial=300
    )
    on_timeout = forms.ChoiceField(
        label=_("If the time runs out"), choices=Proposal.OnTimeout.choices, initial="reject"
    )

    def __init__(self, data: Any = None, *, worker: Worker) -> None:
        try:
            policy = read_supervision(worker.supervision)
        except FieldError:
            policy = None
        initial: dict[str, Any] = {}
        if policy is not None:
            initial = policy.to_json()
            initial |= {name: "\n".join(initial[name]) for name in ("tools", "except_tools")}
        super().__init__(data, initial=initial, auto_id=f"w{worker.pk}-%s")
        named = dict.fromkeys(filter(None, [initial.get("supervisor", ""), *SUPERVISORS]))
        chosen = cast("forms.ChoiceField", self.fields["supervisor"])
        chosen.choices = [("", _("None")), *((name, name) for name in named)]
        if not named:
            del self.fields["supervisor"]
        if worker.kind != Worker.Kind.OUTSIDE:  # of the platform's own only calls can wait
            del self.fields["messages"], self.fields["answers"]

    @property
    def rules(self) -> dict[str, Any]:
        """The worker's `supervision`; {} where nothing waits."""
        said = self.cleaned_data
        tools, never = (said[name].split("\n") for name in ("tools", "except_tools"))
        rules = said | {
            "tools": [line.strip() for line in tools if line.strip()],
            "except_tools": [line.strip() for line in never if line.strip()],
        }
        return rules if rules["tools"] or rules.get("messages") or rules.get("answers") else {}
